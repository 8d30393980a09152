// Mixtures of experts with torchtitan's model code. Step totals were recorded with torchtitan 0.2.2
// and PyTorch 2.11.0 on rank 0 (compute capability 9.0, 132 multiprocessors), tokens dealt out
// evenly: fused AdamW, 1024 tokens, Qwen3.

#include <algorithm>
#include <cstdint>

#include <doctest/doctest.h>

#include "model_ir/spec/hf_config.h"
#include "runtimes/registry.h"
#include "runtimes/torchtitan/plan.h"
#include "tests/support/event_text.h"
#include "tests/support/refusal.h"
#include "tests/support/small_llama.h"
#include "tests/support/titan_plan.h"

namespace headroom::ir {
namespace {

using test::refused_by_lowering;
using test::titan_plan;

/// Three layers, H 512, eight heads of 64, four of keys, V 8192, 16 experts of F 384, four a token.
ModelSpec sixteen_experts() {
  return parse_hf_config(R"({"model_type": "qwen3_moe", "hidden_size": 512,
    "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
    "intermediate_size": 3072, "vocab_size": 8192, "moe_intermediate_size": 384, "num_experts": 16,
    "num_experts_per_tok": 4, "norm_topk_prob": true, "tie_word_embeddings": false})",
                         "sixteen experts")
      .value();
}

/// torchtitan's debugmodel_moe with two layers: H 256, 64 experts of F 768, eight a token, V 2048.
ModelSpec many_experts() {
  return parse_hf_config(R"({"model_type": "qwen3_moe", "hidden_size": 256,
    "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 3072, "vocab_size": 2048, "moe_intermediate_size": 768, "num_experts": 64,
    "num_experts_per_tok": 8, "norm_topk_prob": true, "tie_word_embeddings": false})",
                         "many experts")
      .value();
}

Mesh degrees(std::int64_t tensor, std::int64_t expert, std::int64_t expert_tensor) {
  return {.tensor = tensor, .expert = expert, .expert_tensor = expert_tensor};
}

}  // namespace

TEST_CASE("torchtitan: experts lie in their block's group, their rows are padded to eights") {
  test::check_phases(many_experts(), titan_plan(2),
                     {{"step1", 705'995'264, 711'179'264}, {"step2", 705'995'776, 1'030'100'992}});
  test::check_phases(sixteen_experts(), titan_plan(4),
                     {{"step1", 224'025'600, 289'868'288}, {"step2", 224'026'112, 401'624'576}});
}

TEST_CASE("torchtitan: a mixture's block is run again, but for every second plain product") {
  ParallelPlan plan = titan_plan(4);
  plan.recompute = Recompute::kFull;
  test::check_phases(sixteen_experts(), plan,
                     {{"step1", 224'025'600, 258'415'616}, {"step2", 224'026'112, 336'617'472}});
  plan.recompute = Recompute::kNone;
  edit_titan(plan).selective_operators = true;
  test::check_phases(sixteen_experts(), plan,
                     {{"step1", 224'025'600, 261'070'848}, {"step2", 224'026'112, 339'272'704}});
}

TEST_CASE("torchtitan: spread experts are groups of their own, which blocks fetch ahead") {
  test::check_phases(many_experts(), titan_plan(4, {}, degrees(1, 2, 1)),
                     {{"step1", 387'163'648, 444'319'232}, {"step2", 387'164'160, 603'791'872}});
  // No ranks are left that share an expert: its weights are cast one by one.
  test::check_phases(many_experts(), titan_plan(4, {}, degrees(1, 4, 1)),
                     {{"step1", 387'162'624, 387'174'400}, {"step2", 387'163'136, 540'392'448}});
}

TEST_CASE("torchtitan: tensor-parallel ranks share experts' widths, tokens, or both") {
  test::check_phases(many_experts(), titan_plan(4, {}, degrees(2, 1, 1)),
                     {{"step1", 387'228'160, 397'301'760}, {"step2", 387'228'672, 556'839'936}});
  test::check_phases(many_experts(), titan_plan(4, {}, degrees(2, 2, 1)),
                     {{"step1", 387'262'976, 387'274'752}, {"step2", 387'263'488, 538'681'344}});
  test::check_phases(many_experts(), titan_plan(4, {}, degrees(2, 2, 2)),
                     {{"step1", 387'295'744, 387'307'520}, {"step2", 387'296'256, 491'888'640}});
}

TEST_CASE("torchtitan: rows of all tokens go to their experts and back, twice a layer and pass") {
  const auto program =
      lower(many_experts(), titan_plan(4, {}, degrees(1, 2, 1)), Rank{0}, DeviceTraits{});
  REQUIRE(program);
  const Phase* const step = test::find_phase(program.value(), "step2");
  REQUIRE(step != nullptr);
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
  for (const Work::Collective& each : step->work.collectives) {
    if (each.kind == CollectiveKind::kAllToAll) {
      calls += each.calls;
      bytes += each.bytes;
    }
  }
  // Two layers: counts [64] of int64 once, 8192 rows of 256 in bf16 there and back, both passes.
  CHECK(calls == 2 * (1 + 4));
  CHECK(bytes == 2 * (64 * 8 + 4 * 8192 * 256 * 2));
}

TEST_CASE("torchtitan: experts that its code spreads or computes otherwise are refused") {
  const ModelSpec model = sixteen_experts();
  CHECK(refused_by_lowering(model, titan_plan(4), {.compute_major = 8}) ==
        "model");  // A loop over experts.
  CHECK(refused_by_lowering(model, titan_plan(1)) == "gpus");
  CHECK(refused_by_lowering(model, titan_plan(8, {}, degrees(1, 3, 1))) == "titan");
  CHECK(refused_by_lowering(model, titan_plan(8, {}, degrees(2, 2, 4))) == "titan");
  CHECK(refused_by_lowering(model, titan_plan(8, {}, degrees(2, 1, 2))) == "titan");
  CHECK(refused_by_lowering(model, titan_plan(80, {}, degrees(1, 16, 1))) ==
        "titan");  // Five to an expert.
  ParallelPlan plan = titan_plan(4);
  edit_titan(plan).compiled = true;
  CHECK(refused_by_lowering(model, plan) == "titan");
  plan = titan_plan(4);
  plan.loss = LossKind::kChunked;
  CHECK(refused_by_lowering(model, plan) == "model");
  const ModelSpec dense = parse_hf_config(R"({"model_type": "qwen3", "hidden_size": 512,
    "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
    "intermediate_size": 1024, "vocab_size": 8192, "tie_word_embeddings": false})",
                                          "dense")
                              .value();
  CHECK(refused_by_lowering(dense, titan_plan(4, {}, degrees(1, 2, 1))) == "titan");
}

}  // namespace headroom::ir
