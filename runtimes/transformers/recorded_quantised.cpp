// Runs with bitsandbytes: quantised weights, 8-bit and paged optimizers.
#include <array>
#include <string>

#include "runtimes/transformers/quantised.h"
#include "runtimes/transformers/recorded_keys.h"

namespace headroom::ir::transformers {
namespace {

constexpr std::array<RowWord<OptimizerPlan>, 8> kQuantisedOptimizers = {
    {{"torch", {OptimizerKind::kAdamW, OptimizerForm::kForeach, 0}},
     {"torch_fused", {OptimizerKind::kAdamW, OptimizerForm::kFused, 0}},
     {"adamw8bit", {OptimizerKind::kAdamW, OptimizerForm::kEightBit, 0}},
     {"adam8bit", {OptimizerKind::kAdamW, OptimizerForm::kEightBit, 0}},
     {"paged_adamw8bit", {OptimizerKind::kAdamW, OptimizerForm::kPagedEightBit, 0}},
     {"paged_adamw32bit", {OptimizerKind::kAdamW, OptimizerForm::kPaged, 0}},
     {"lion8bit", {OptimizerKind::kLion, OptimizerForm::kEightBit, 0}},
     {"sgd", {OptimizerKind::kSgd, OptimizerForm::kForeach, 0}}}};

void read_quantised_keys(RunReader& row, RunSetting& run) {
  ParallelPlan& plan = run.plan;
  plan.runtime = "transformers";
  read_common_keys(row, plan);
  plan.precision = read_precision(row, {"dtype", "bf16"});
  plan.optimizer = row.word<OptimizerPlan>("optimizer", "torch", kQuantisedOptimizers);
  if (const double clip = row.number("clip", 0); clip != 0) {
    plan.clip_norm = clip;
  }
  plan.workload.keep_logits = false;
  plan.workload.keep_batch = true;
  if (!row.flag("autocast_adapter", true)) {
    row.fail("autocast_adapter", "false");
  }
  read_quant(row, plan);
  read_replicas(row, run);
  if (const JsonValue* value = row.take("peft")) {
    RunReader peft(value, "case.peft");
    plan.lora = read_peft_config(peft);
    row.absorb(peft.trouble());
  }
  read_liger(row, plan);
}

}  // namespace

void read_quant(RunReader& row, ParallelPlan& plan, const QuantLoading& loading) {
  const bool prepare = row.flag("prepare_kbit", false);
  const JsonValue* value = row.take("quant");
  if (value == nullptr) {
    if (prepare) {
      row.fail("prepare_kbit", "true without case.quant");
    }
    return;
  }
  RunReader quant(value, "case.quant");
  plan.quant = QuantPlan{.bits = static_cast<int>(quant.integer("bits", 4, {4, 8})),
                         .double_quant = quant.flag("double", false),
                         .prepare_kbit = prepare};
  if (plan.quant->bits != 4 && plan.quant->bits != 8) {
    quant.fail("bits", std::to_string(plan.quant->bits));
  }
  // 4-bit weights are quantised on the GPU unless the framework loads them on the host; 8-bit
  // weights are quantised before they are copied.
  if (const std::string load = quant.text("load", "gpu");
      load != (plan.quant->bits == 8 || loading.on_host ? "cpu" : "gpu")) {
    quant.fail("load", "'" + load + "'");
  }
  quant.expect("storage", loading.wide_codes ? "bf16" : "uint8");
  if (const std::string type = quant.text("type", "nf4"); type != "nf4" && type != "fp4") {
    quant.fail("type", "'" + type + "'");
  }
  if (const std::string computed = quant.text("compute", "bf16");
      plan.quant->bits == 4 && computed != name_of(four_bit_arithmetic(plan))) {
    quant.fail("compute", "'" + computed + "'");
  }
  row.absorb(quant.trouble());
}

void read_quantised_run(RunReader& row, Recorder recorder, RunSetting& run) {
  read_run_of_model(row, recorder, run, read_quantised_keys);
}

}  // namespace headroom::ir::transformers
