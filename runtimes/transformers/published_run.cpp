#include "runtimes/transformers/published_run.h"

#include <string>
#include <string_view>

#include "runtimes/interface/runs/published_keys.h"
#include "runtimes/interface/runs/published_words.h"
#include "runtimes/transformers/recorded_keys.h"

namespace headroom::ir::transformers {
namespace {

/// Until PyTorch 2.0, zero_grad left gradients of zeros, which were alive together with the
/// activations of the next step. Source: pytorch/pytorch release notes of 2.0.0, backwards
/// incompatible changes: gradients are set to None by default.
constexpr std::string_view kGradientsFreedSince = "2023-03";

void read_published_lora(RunReader& row, ParallelPlan& plan) {
  const JsonValue* value = row.take("lora");
  if (value == nullptr ||
      (value->as_string() != nullptr && *value->as_string() == "full fine-tuning")) {
    return;
  }
  if (value->as_object() == nullptr) {
    row.fail("lora", to_json(*value));
    return;
  }
  RunReader lora(value, "lora");
  plan.lora = read_peft_config(lora);
  row.absorb(lora.trouble());
}

/// `framework_version` is a date if no release is named.
void refuse_old_release(RunReader& row) {
  const std::string version = row.text("framework_version", "");
  if (version.starts_with("20") && version < kGradientsFreedSince) {
    row.fail("framework_version", "'" + version + "', before PyTorch 2.0, which keeps gradients");
  }
}

}  // namespace

void read_published_training(RunReader& row, ParallelPlan& plan) {
  plan.workload.micro_batch = row.stated("micro_batch", kBatchRange);
  plan.workload.sequence = row.stated("seq_len", kSequenceRange);
  plan.precision = row.lookup<Precision>("precision", published_precision);
  plan.optimizer = row.lookup<OptimizerPlan>("optimizer", published_optimizer);
  plan.recompute = row.lookup<Recompute>("checkpointing", published_checkpointing);
  plan.attention = row.lookup<AttentionKind>("attention", published_attention);
  if (plan.attention == AttentionKind::kSdpa) {
    plan.attention = AttentionKind::kSdpaNoCudnn;  // PyTorch before 2.10.
  }
  read_published_lora(row, plan);
  row.expect_none({"quant", "offload", "compile", "fsdp"});
  plan.world = row.stated("num_gpus", kWorldRange);
  row.expect_one({"tp", "pp", "cp", "ep"});
  plan.workload.accumulation = published_accumulation(row, plan);
}

void read_published_run(RunReader& row, const std::optional<DeviceTraits>& /*gpu*/,
                        PublishedRun& run) {
  run.plan.runtime = "transformers";
  read_published_training(row, run.plan);
  refuse_several_gpus(row, run.plan);
  refuse_old_release(row);
  run.model = read_published_model(row);
}

}  // namespace headroom::ir::transformers
