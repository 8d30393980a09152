#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/megatron/expert_rows.h"
#include "runtimes/megatron/grouped_linear.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "tests/support/alive_at_loss.h"
#include "tests/support/refusal.h"
#include "tests/support/small_llama.h"

namespace headroom::ir::megatron {
namespace {

using test::kLlamaFfn;
using test::kLlamaHidden;
using test::kLlamaLayers;
using test::kLlamaWeights;
using test::refused_by_check;

constexpr std::int64_t kFp8Tokens = 1024;

ParallelPlan fp8_plan(MegatronFp8 recipe) {
  ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = Precision::kBf16Master;
  edit_megatron(plan) = MegatronPlan{};
  edit_megatron(plan).fp8 = recipe;
  plan.workload.sequence = kFp8Tokens;
  return plan;
}

/// Bytes alive when the loss begins.
std::int64_t kept(MegatronFp8 recipe, int compute_major) {
  return test::alive_at_loss(test::small_llama_on(fp8_plan(recipe), compute_major));
}

std::int64_t beyond_bf16(MegatronFp8 recipe, int compute_major) {
  const std::int64_t more = kept(recipe, compute_major) - kept(MegatronFp8::kNone, compute_major);
  REQUIRE(more % kLlamaLayers == 0);
  return more / kLlamaLayers;
}

}  // namespace

// bf16 keeps both norms' outputs and the activation, 2 bytes an element: 2 (2 H + F) a token. In 8
// bits they take half; attention's output is kept for attention anyway.
constexpr std::int64_t kSaved = (2 * kLlamaHidden + kLlamaFfn) * kFp8Tokens;

TEST_CASE("megatron fp8: one scale a tensor halves inputs and keeps weights both ways") {
  // Scales of 4 weights and 3 inputs; 10 scalars of each linear layer, 30 of attention.
  const std::int64_t scalars = 4 * (4 + 3 + 4 * 10 + 30);
  CHECK(beyond_bf16(MegatronFp8::kTensorwise, 9) == 2 * kLlamaWeights - kSaved + scalars);
  // Delayed scaling cannot cast again: attention's output is kept in 8 bits, too.
  const std::int64_t output = kLlamaHidden * kFp8Tokens + 4;
  CHECK(beyond_bf16(MegatronFp8::kDelayed, 9) == 2 * kLlamaWeights - kSaved + scalars + output);
}

TEST_CASE("megatron fp8: a GPU that multiplies either layout keeps no transposed weights") {
  const std::int64_t scalars = 4 * (4 + 3 + 4 * 10 + 30);
  CHECK(beyond_bf16(MegatronFp8::kTensorwise, 10) == kLlamaWeights - kSaved + scalars);
}

TEST_CASE("megatron fp8: mxfp8 keeps a scale of one byte for 32 elements") {
  CHECK(beyond_bf16(MegatronFp8::kMxfp8, 10) ==
        2 * (kLlamaWeights + kLlamaWeights / 32) - kSaved + kSaved / 32);
}

TEST_CASE("megatron fp8: blockwise scales are fp32, one for 128 elements or 128 x 128 weights") {
  // Weights in blocks, the second count padded to fours: 12 x 8, 8 x 8, 44 x 8, 8 x 24 (rows);
  // 8 x 12, 8 x 8, 8 x 44, 22 x 8 (columns).
  const std::int64_t rows = 12 * 8 + 8 * 8 + 44 * 8 + 8 * 24;
  const std::int64_t columns = 8 * 12 + 8 * 8 + 8 * 44 + 22 * 8;
  const std::int64_t inputs = (kFp8Tokens / 128) * (2 * kLlamaHidden + kLlamaFfn);
  CHECK(beyond_bf16(MegatronFp8::kBlockwise, 9) ==
        2 * kLlamaWeights - kSaved + 4 * (rows + columns + inputs));
}

TEST_CASE("megatron fp8: layers multiply 8 bits, the output layer does not") {
  const RankProgram program = test::small_llama_on(fp8_plan(MegatronFp8::kTensorwise), 9);
  std::int64_t narrow = 0;
  std::int64_t wide = 0;
  for (const WorkItem& item : program.work.items) {
    const GemmShape* const gemm = item.kind == WorkItem::Kind::kRun
                                      ? std::get_if<GemmShape>(&program.work.shapes[item.index])
                                      : nullptr;
    if (gemm != nullptr) {
      (gemm->dtype == DType::kFp8 ? narrow : wide) += 1;
    }
  }
  CHECK(narrow == 2 * kLlamaLayers * 4 * 3);  // Two steps; four products, each with two gradients.
  CHECK(wide == 2 * 3);
}

// Of each layer four linear layers with three values forward and two backward, and an attention
// with nine and six; one reduction a pass and direction.
TEST_CASE("megatron fp8: delayed scales are reduced over the ranks once a pass and direction") {
  ParallelPlan plan = fp8_plan(MegatronFp8::kDelayed);
  plan.world = 2;
  plan.workload.accumulation = 3;
  plan.workload.steps = 1;
  const RankProgram program = test::small_llama_on(plan, 9);
  std::vector<std::int64_t> reduced;
  for (const WorkItem& item : program.work.items) {
    const auto* const shape = item.kind == WorkItem::Kind::kRun
                                  ? std::get_if<CollectiveShape>(&program.work.shapes[item.index])
                                  : nullptr;
    if (shape != nullptr && shape->kind == CollectiveKind::kAllReduce && shape->bytes < 1024 &&
        shape->bytes > 4) {
      CHECK(shape->group.ranks() == 2);
      reduced.push_back(shape->bytes);
    }
  }
  constexpr std::int64_t kForward = 4 * kLlamaLayers * (4 * 3 + 9);
  constexpr std::int64_t kBackward = 4 * kLlamaLayers * (4 * 2 + 6);
  CHECK(reduced ==
        std::vector<std::int64_t>{kForward, kBackward, kForward, kBackward, kForward, kBackward});
}

TEST_CASE("megatron fp8: what a device or a plan has no products for is refused by name") {
  ParallelPlan plan = fp8_plan(MegatronFp8::kMxfp8);
  DeviceTraits hopper;
  CHECK(lower(test::small_llama(), plan, Rank{0}, hopper).error().got == "fp8-recipe=mxfp8");
  CHECK(refused_by_check(test::small_llama(), plan).empty());
  plan.workload.sequence = 1000;
  CHECK(refused_by_check(test::small_llama(), plan) == "fp8-recipe=mxfp8 on 1000 tokens per rank");
  edit_megatron(plan).fp8 = MegatronFp8::kTensorwise;
  CHECK(refused_by_check(test::small_llama(), plan).empty());
  plan.precision = Precision::kFp16Master;
  CHECK(refused_by_check(test::small_llama(), plan) ==
        "fp8-recipe=tensorwise with precision=fp16-master");
  plan = fp8_plan(MegatronFp8::kDelayed);
  edit_megatron(plan).recompute = MegatronRecompute::kFullUniform;
  CHECK(refused_by_check(test::small_llama(), plan) == "fp8-recipe=delayed with recompute");
}

TEST_CASE("megatron fp8: every matrix that is multiplied in 8 bits is whole blocks") {
  const auto experts = [](std::int64_t width) {
    return parse_hf_config(R"({"hidden_size": 1024, "intermediate_size": 1000,
      "moe_intermediate_size": )" +
                               std::to_string(width) + R"(, "num_hidden_layers": 2,
      "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 64, "num_experts": 4,
      "num_experts_per_tok": 2, "vocab_size": 1024, "max_position_embeddings": 4096,
      "model_type": "qwen3_moe"})",
                           "experts")
        .value();
  };
  const ParallelPlan plan = fp8_plan(MegatronFp8::kTensorwise);
  CHECK(refused_by_check(experts(512), plan)
            .empty());  // No layer is dense: 1000 is multiplied nowhere.
  CHECK(refused_by_check(experts(520), plan) == "fp8-recipe=tensorwise on matrices of 520 columns");
}

TEST_CASE("megatron fp8: layers that run again cast weights for backward then or at once") {
  const ModelSpec model = test::small_llama();
  struct Casts {
    int forward = 0;
    int backward = 0;
    bool operator==(const Casts&) const = default;
  };
  const auto casts = [&model](const MegatronModules& modules, MegatronRecompute recompute,
                              std::int64_t elements) {
    ParallelPlan plan = fp8_plan(MegatronFp8::kBlockwise);
    plan.workload.steps = 1;
    edit_megatron(plan).recompute = recompute;
    edit_megatron(plan).recompute_modules = modules;
    const RankProgram program = test::small_llama_on(plan, 9);
    Casts result;
    for (const Event& event : program.events) {
      const bool cast = event.kind == EventKind::kAllocate && event.bytes == elements &&
                        event.role == TensorRole::kBuffer;
      (program.sites[event.site].backward ? result.backward : result.forward) += cast ? 1 : 0;
    }
    return result;
  };
  const std::int64_t up = 2 * model.ffn * model.hidden;
  const std::int64_t down = model.ffn * model.hidden;
  // Rows and columns, in each of two layers.
  CHECK(casts({}, MegatronRecompute::kNone, up) == Casts{.forward = 4, .backward = 0});
  CHECK(casts({.mlp = true}, MegatronRecompute::kSelective, up) ==
        Casts{.forward = 2, .backward = 2});
  CHECK(casts({.mlp = true}, MegatronRecompute::kSelective, down) ==
        Casts{.forward = 4, .backward = 0});
  CHECK(casts({}, MegatronRecompute::kFullUniform, down) == Casts{.forward = 2, .backward = 2});
}

TEST_CASE("megatron fp8: experts' padded rows are shared out in whole blocks") {
  using Rows = std::vector<std::int64_t>;
  CHECK(expert_rows(1056, 4, 32) == Rows{256, 256, 256, 288});
  CHECK(expert_rows(1056, 4) == Rows{264, 264, 264, 264});
}

}  // namespace headroom::ir::megatron
