// Multi-head latent attention to the byte, as recorded with torch.cuda.memory_stats() of PyTorch
// 2.11.0 running transformers 5.17.0 on models of the dimensions below.

#include <string>

#include <doctest/doctest.h>

#include "tests/support/first_step.h"

namespace headroom::ir {
namespace {

using test::first_step;
using test::FirstStep;
using test::plan_with;

/// One dense and one sparse layer. Heads have 32 + 16 elements in queries and keys, 32 in values.
std::string deepseek(const std::string& rest) {
  return R"({"hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 8,
             "vocab_size": 1000, "intermediate_size": 512, "moe_intermediate_size": 128,
             "num_key_value_heads": 8, "n_routed_experts": 16, "num_experts_per_tok": 4,
             "first_k_dense_replace": 1, "kv_lora_rank": 64, "qk_nope_head_dim": 32,
             "qk_rope_head_dim": 16, "v_head_dim": 32, "n_group": 4, "topk_group": 2, )" +
         rest + "}";
}

const std::string kV2 = deepseek(R"("model_type": "deepseek_v2", "n_shared_experts": 2,
    "q_lora_rank": null, "topk_method": "group_limited_greedy")");
const std::string kV3 = deepseek(R"("model_type": "deepseek_v3", "n_shared_experts": 1,
    "q_lora_rank": 96)");

ParallelPlan checkpointed() {
  ParallelPlan plan = plan_with(Precision::kBf16);
  plan.recompute = Recompute::kFull;
  return plan;
}

}  // namespace

TEST_CASE("latent attention: DeepSeek-V2 rotates pairs as complex numbers, in fp32") {
  CHECK(first_step(kV2, plan_with(Precision::kBf16)) == FirstStep{55855048, 94344192, 73338368});
}

TEST_CASE("latent attention: DeepSeek-V3 compresses queries too and routes by sigmoid") {
  CHECK(first_step(kV3, plan_with(Precision::kBf16)) == FirstStep{56169448, 95076864, 72995328});
}

TEST_CASE("latent attention: eager attention copies the values of several sequences") {
  const ParallelPlan eager = plan_with(Precision::kBf16, AttentionKind::kEager);
  CHECK(first_step(kV2, eager) == FirstStep{72479688, 113631744, 74121216});
  CHECK(first_step(kV3, eager) == FirstStep{72794088, 114361856, 73778176});
}

TEST_CASE("latent attention: autocast joins an fp32 rotary part with a 16-bit rest in fp32") {
  const ParallelPlan autocast = plan_with(Precision::kAutocastBf16);
  CHECK(first_step(kV2, autocast) == FirstStep{65779656, 103050240, 80582656});
  CHECK(first_step(kV3, autocast) == FirstStep{65740392, 103430144, 79895552});
}

TEST_CASE("latent attention: LoRA adapts the five projections, routers and experts") {
  ParallelPlan plan = plan_with(Precision::kBf16);
  plan.lora =
      LoraPlan{.rank = 4, .dropout = 0, .dora = false, .rank_stabilised = false, .targets = {}};
  CHECK(first_step(kV3, plan) == FirstStep{58821000, 98095616, 67546624});
}

TEST_CASE("latent attention: a checkpointed layer keeps its input alone") {
  CHECK(first_step(kV2, checkpointed()) == FirstStep{37831240, 86638592, 73338368});
  CHECK(first_step(kV3, checkpointed()) == FirstStep{37831240, 86907904, 72995328});
}

}  // namespace headroom::ir
