// Reads published rows of Qwen's finetune.py, which uses Trainer with PEFT or DeepSpeed.
#include <array>
#include <optional>

#include "runtimes/deepspeed/measured_runs.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/interface/runs/published_keys.h"
#include "runtimes/interface/runs/published_words.h"

namespace headroom::ir::deepspeed {
namespace {

constexpr double kQwenLoraDropout = 0.05;  ///< lora_dropout of LoraArguments.

struct QwenAdapters {
  bool some = false;
  bool tables = false;  ///< Embedding and output layer are trained, too.
};
constexpr std::array<RowWord<QwenAdapters>, 3> kQwenAdapters = {
    {{"", {false, false}},
     {"LoRA r=64 on c_attn, c_proj, w1, w2 (script defaults)", {true, false}},
     {"LoRA r=64 on c_attn, c_proj, w1, w2 (script defaults); embedding and output layers "
      "trainable",
      {true, true}}}};

/// Before transformers 4.35, Trainer always requested reentrant checkpointing.
constexpr std::array<RowWord<Recompute>, 1> kQwenCheckpointing = {
    {{"full (gradient_checkpointing in the scripts)", Recompute::kFullReentrant}}};

void read_qwen_adapters(RunReader& row, ParallelPlan& plan) {
  const auto adapters = row.word<QwenAdapters>("lora", "", kQwenAdapters);
  if (!adapters.some) {
    return;
  }
  plan.lora = LoraPlan{.rank = 64, .dropout = kQwenLoraDropout, .targets = {}};
  if (adapters.tables) {
    plan.lora->modules_to_save = {"embed_tokens", "lm_head"};
  }
}

/// LoRA on one GPU needs no DeepSpeed. Everything else uses one of the DeepSpeed scripts, whose
/// stage must be stated.
void read_qwen_spread(RunReader& row, ParallelPlan& plan) {
  plan.world = row.stated("num_gpus", kWorldRange);
  const std::int64_t stage = row.integer("zero_stage", -1, {0, 3});
  if (stage >= 0) {
    plan.runtime = "deepspeed";
    plan.precision = Precision::kBf16Master;
    edit_zero(plan).stage = static_cast<int>(stage);
    if (stage == 3 && plan.lora) {  // Newer releases keep what a nested backward gathers.
      row.fail("zero_stage", "3 with adapters under reentrant checkpointing, by DeepSpeed of 2023");
    }
  } else if (plan.world > 1 || !plan.lora) {
    row.fail("zero_stage", "not stated");
  }
  row.expect_one({"tp", "pp", "cp", "ep"});
}

}  // namespace

void read_qwen_run(RunReader& row, const std::optional<DeviceTraits>& /*gpu*/, PublishedRun& run) {
  ParallelPlan& plan = run.plan;
  plan.runtime = "transformers";
  plan.workload.micro_batch = row.stated("micro_batch", kBatchRange);
  plan.workload.sequence = row.stated("seq_len", kSequenceRange);
  // Weights are loaded in bf16 and trained under Trainer's autocast. DeepSpeed keeps fp32 masters
  // instead.
  row.expect_one_of("precision", {"bf16"});
  plan.precision = Precision::kBf16AutocastBf16;
  row.expect_one_of("optimizer", {"AdamW (Trainer)"});
  plan.recompute = row.word<Recompute>("checkpointing", "", kQwenCheckpointing);
  plan.attention = row.lookup<AttentionKind>("attention", published_attention);
  if (plan.attention == AttentionKind::kSdpa) {
    plan.attention = AttentionKind::kSdpaNoCudnn;  // PyTorch is older than 2.10.
  }
  plan.workload.keep_batch = true;
  row.expect_none({"quant", "offload", "compile", "fsdp"});
  read_qwen_adapters(row, plan);
  read_qwen_spread(row, plan);
  plan.workload.accumulation = published_accumulation(row, plan);
  run.model = read_published_model(row);
}

}  // namespace headroom::ir::deepspeed
