// LoRA on recorded models with experts: PEFT adapts the experts of types whose experts used to be
// linear layers, and only their linear layers elsewhere. Source: huggingface/peft 0.21.2,
// utils/transformers_weight_conversion.py.

#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "model_ir/spec/hf_config.h"
#include "runtimes/plan_check.h"
#include "tests/support/refusal.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

constexpr std::int64_t kRank = 16;

/// Two layers, H 512, 8 heads of 64, 4 of keys, 8 experts of 384.
ModelSpec small_minimax() {
  const std::string config =
      R"({"model_type": "minimax_m2", "hidden_size": 512, "intermediate_size": 384,
      "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
      "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 1000})";
  return parse_hf_config(config, "config.json",
                         {.as = std::nullopt,
                          .name = "recorded",
                          .families = HEADROOM_SOURCE_DIR "/configs/families"})
      .value();
}

std::int64_t trained_by(const ModelSpec& model, const ParallelPlan& asked) {
  const auto program = lower(model, test::on_accounting_device(asked), Rank{0}, DeviceTraits{});
  REQUIRE(program);
  return program->trainable_parameters;
}

ParallelPlan adapted_plan() {
  ParallelPlan plan;
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 256;
  plan.lora.emplace().rank = kRank;
  return plan;
}

}  // namespace

TEST_CASE("recorded experts: their weights and their router have adapters of their own") {
  constexpr std::int64_t kHidden = 512;
  constexpr std::int64_t kKeys = 4 * 64;
  constexpr std::int64_t kExperts = 8;
  constexpr std::int64_t kWidth = 384;
  const std::int64_t attention =
      kRank * (2 * (kHidden + kHidden) + 2 * (kHidden + kKeys));  // q, o; k, v.
  const std::int64_t router = kRank * (kHidden + kExperts);
  // Gate and up are one parameter with twice the rank.
  const std::int64_t gate_up = 2 * kRank * kExperts * (kHidden + 2 * kWidth);
  const std::int64_t down = kRank * kExperts * (kWidth + kHidden);
  CHECK(trained_by(small_minimax(), adapted_plan()) == 2 * (attention + router + gate_up + down));
  ParallelPlan attention_only = adapted_plan();
  attention_only.lora->targets = {"q_proj", "k_proj", "v_proj", "o_proj"};
  CHECK(trained_by(small_minimax(), attention_only) == 2 * attention);
}

TEST_CASE("recorded experts: dropout on their adapters is refused, as PEFT refuses it") {
  ParallelPlan plan = adapted_plan();
  plan.lora->dropout = 0.1;
  CHECK(test::refused_by_lowering(small_minimax(), plan) == "lora");
}

}  // namespace headroom::ir
