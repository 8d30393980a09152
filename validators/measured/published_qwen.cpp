// Published rows of Qwen's finetune.py: Trainer, with PEFT or DeepSpeed.
#include <array>

#include "validators/measured/case_plan.h"
#include "validators/measured/published_reader.h"
#include "validators/measured/published_words.h"

namespace headroom::check {
namespace {

constexpr double kQwenLoraDropout = 0.05;  ///< lora_dropout of LoraArguments.

struct QwenAdapters {
  bool some = false;
  bool tables = false;  ///< Embedding and output layer are trained, too.
};
constexpr std::array<Word<QwenAdapters>, 3> kQwenAdapters = {
    {{"", {false, false}},
     {"LoRA r=64 on c_attn, c_proj, w1, w2 (script defaults)", {true, false}},
     {"LoRA r=64 on c_attn, c_proj, w1, w2 (script defaults); embedding and output layers "
      "trainable",
      {true, true}}}};

/// Weights are loaded in bf16 and run under Trainer's autocast; DeepSpeed keeps masters instead.
constexpr std::array<Word<bool>, 1> kQwenPrecisions = {{{"bf16", true}}};
constexpr std::array<Word<bool>, 1> kQwenOptimizers = {{{"AdamW (Trainer)", true}}};
/// Until transformers 4.35 Trainer asked for no other than reentrant checkpointing.
constexpr std::array<Word<ir::Recompute>, 1> kQwenCheckpointing = {
    {{"full (gradient_checkpointing in the scripts)", ir::Recompute::kFullReentrant}}};

void read_qwen_adapters(CaseReader& row, ir::ParallelPlan& plan) {
  const auto adapters = row.word<QwenAdapters>("lora", "", kQwenAdapters);
  if (!adapters.some) {
    return;
  }
  plan.lora = ir::LoraPlan{.rank = 64, .dropout = kQwenLoraDropout, .targets = {}};
  if (adapters.tables) {
    plan.lora->modules_to_save = {"embed_tokens", "lm_head"};
  }
}

/// Adapters alone need no DeepSpeed on one GPU; everything else is one of its scripts, whose stage
/// has to be stated.
void read_qwen_spread(CaseReader& row, ir::ParallelPlan& plan) {
  plan.world = stated(row, "num_gpus", kWorldRange);
  const std::int64_t stage = row.integer("zero_stage", -1, {0, 3});
  if (stage >= 0) {
    plan.runtime = "deepspeed";
    plan.precision = ir::Precision::kBf16Master;
    plan.zero.emplace().stage = static_cast<int>(stage);
    if (stage == 3 && plan.lora) {  // Newer releases keep what a nested backward gathers.
      row.fail("zero_stage", "3 with adapters under reentrant checkpointing, by DeepSpeed of 2023");
    }
  } else if (plan.world > 1 || !plan.lora) {
    row.fail("zero_stage", "not stated");
  }
  for (const std::string_view axis : {"tp", "pp", "cp", "ep"}) {
    if (row.integer(axis, 1, kWorldRange) != 1) {
      row.fail(axis, "more than 1");
    }
  }
}

}  // namespace

std::string read_qwen_row(CaseReader& row, ir::ParallelPlan& plan) {
  plan.micro_batch = stated(row, "micro_batch", kBatchRange);
  plan.sequence = stated(row, "seq_len", kSequenceRange);
  static_cast<void>(row.word<bool>("precision", "", kQwenPrecisions));
  plan.precision = ir::Precision::kBf16AutocastBf16;
  static_cast<void>(row.word<bool>("optimizer", "", kQwenOptimizers));
  plan.recompute = row.word<ir::Recompute>("checkpointing", "", kQwenCheckpointing);
  plan.attention = lookup<ir::AttentionKind>(row, "attention", published_attention);
  if (plan.attention == ir::AttentionKind::kSdpa) {
    plan.attention = ir::AttentionKind::kSdpaNoCudnn;  // PyTorch before 2.10.
  }
  plan.keep_batch = true;
  for (const std::string_view key : {"quant", "offload", "compile", "fsdp"}) {
    expect_none(row, key);
  }
  read_qwen_adapters(row, plan);
  read_qwen_spread(row, plan);
  plan.accumulation = published_accumulation(row, plan);
  return published_config(row);
}

}  // namespace headroom::check
