#include <array>

#include "validators/measured/case_plan.h"

namespace headroom::check {
namespace {

using ir::JsonValue;
using ir::OptimizerForm;
using ir::OptimizerKind;
using ir::OptimizerPlan;

constexpr std::array<Word<OptimizerPlan>, 8> kQuantisedOptimizers = {
    {{"torch", {OptimizerKind::kAdamW, OptimizerForm::kForeach, 0}},
     {"torch_fused", {OptimizerKind::kAdamW, OptimizerForm::kFused, 0}},
     {"adamw8bit", {OptimizerKind::kAdamW, OptimizerForm::kEightBit, 0}},
     {"adam8bit", {OptimizerKind::kAdamW, OptimizerForm::kEightBit, 0}},
     {"paged_adamw8bit", {OptimizerKind::kAdamW, OptimizerForm::kPagedEightBit, 0}},
     {"paged_adamw32bit", {OptimizerKind::kAdamW, OptimizerForm::kPaged, 0}},
     {"lion8bit", {OptimizerKind::kLion, OptimizerForm::kEightBit, 0}},
     {"sgd", {OptimizerKind::kSgd, OptimizerForm::kForeach, 0}}}};

void expect(CaseReader& reader, std::string_view key, std::string_view modelled) {
  if (const std::string got = reader.text(key, modelled); got != modelled) {
    reader.fail(key, "'" + got + "'");
  }
}

void read_peft(CaseReader& reader, ir::ParallelPlan& plan) {
  const JsonValue* value = reader.take("peft");
  if (value == nullptr) {
    return;
  }
  CaseReader peft(value, "case.peft");
  constexpr std::array<std::string_view, 1> kAside = {"lora_alpha"};
  peft.ignore(kAside);
  expect(peft, "peft_type", "LORA");
  expect(peft, "bias", "none");
  plan.lora = ir::LoraPlan{.rank = peft.integer("r", 8, {1, 1 << 14}),
                           .dropout = peft.number("lora_dropout", 0),
                           .dora = peft.flag("use_dora", false),
                           .rank_stabilised = peft.flag("use_rslora", false),
                           .targets = read_targets(peft, "target_modules")};
  reader.absorb(peft.trouble());
}

}  // namespace

void read_quant(CaseReader& reader, ir::ParallelPlan& plan) {
  const bool prepare = reader.flag("prepare_kbit", false);
  const JsonValue* value = reader.take("quant");
  if (value == nullptr) {
    if (prepare) {
      reader.fail("prepare_kbit", "true without case.quant");
    }
    return;
  }
  CaseReader quant(value, "case.quant");
  plan.quant = ir::QuantPlan{.bits = static_cast<int>(quant.integer("bits", 4, {4, 8})),
                             .double_quant = quant.flag("double", false),
                             .prepare_kbit = prepare};
  if (plan.quant->bits != 4 && plan.quant->bits != 8) {
    quant.fail("bits", std::to_string(plan.quant->bits));
  }
  // 4-bit weights are quantised on the GPU, 8-bit ones and FullyShardedDataParallel's before they
  // get there. FSDP's codes have the type of the other weights.
  const bool wrapped = plan.fsdp && plan.fsdp->version == 1;
  if (const std::string load = quant.text("load", "gpu");
      load != (plan.quant->bits == 8 || wrapped ? "cpu" : "gpu")) {
    quant.fail("load", "'" + load + "'");
  }
  expect(quant, "storage", plan.fsdp ? "bf16" : "uint8");
  if (const std::string type = quant.text("type", "nf4"); type != "nf4" && type != "fp4") {
    quant.fail("type", "'" + type + "'");
  }
  expect(quant, "compute", "bf16");
  reader.absorb(quant.trouble());
}

void read_quantised_case(CaseReader& reader, RunSetting& setting) {
  ir::ParallelPlan& plan = setting.plan;
  plan.runtime = "transformers";
  read_common_keys(reader, plan);
  plan.precision = read_precision(reader, {"dtype", "bf16"});
  plan.optimizer = reader.word<OptimizerPlan>("optimizer", "torch", kQuantisedOptimizers);
  if (const double clip = reader.number("clip", 0); clip != 0) {
    plan.clip_norm = clip;
  }
  plan.keep_logits = false;
  plan.keep_batch = true;
  if (!reader.flag("autocast_adapter", true)) {
    reader.fail("autocast_adapter", "false");
  }
  read_quant(reader, plan);
  read_peft(reader, plan);
  read_liger(reader, plan);
}

}  // namespace headroom::check
