#include <cstdint>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/megatron/plan.h"
#include "tests/support/alive_at_loss.h"
#include "tests/support/refusal.h"
#include "tests/support/small_llama.h"

namespace headroom::ir::megatron {
namespace {

using test::kLlamaHidden;
using test::kLlamaLayers;
using test::kLlamaWeights;
using test::refused_by_check;

ParallelPlan sharded_fp8_plan(MegatronFp8 recipe, bool held) {
  ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = Precision::kBf16Master;
  edit_megatron(plan) = MegatronPlan{};
  edit_megatron(plan).fp8 = recipe;
  edit_megatron(plan).fp8_parameters = held;
  edit_megatron(plan).distributed_optimizer = true;
  plan.workload.sequence = 1024;
  return plan;
}

/// Bytes alive when the loss begins, beyond those of weights in 16 bits with casts beside them.
std::int64_t beyond_casts(MegatronFp8 recipe, int compute_major) {
  return test::alive_at_loss(test::small_llama_on(sharded_fp8_plan(recipe, true), compute_major)) -
         test::alive_at_loss(test::small_llama_on(sharded_fp8_plan(recipe, false), compute_major));
}

/// Bytes of each collective of a kind, in their order.
std::vector<std::int64_t> collectives(const RankProgram& program, CollectiveKind kind) {
  std::vector<std::int64_t> bytes;
  for (const WorkItem& item : program.work.items) {
    const auto* const shape = item.kind == WorkItem::Kind::kRun
                                  ? std::get_if<CollectiveShape>(&program.work.shapes[item.index])
                                  : nullptr;
    if (shape != nullptr && shape->kind == kind) {
      bytes.push_back(shape->bytes);
    }
  }
  return bytes;
}

/// Elements that stay in 16 bits: tables of tokens, head and norms.
std::int64_t others() {
  const ModelSpec model = test::small_llama();
  const std::int64_t rows = (model.vocabulary + 127) / 128 * 128;
  const std::int64_t tables = model.tied_embeddings ? 1 : 2;
  return tables * rows * kLlamaHidden + (2 * kLlamaLayers + 1) * kLlamaHidden;
}

}  // namespace

TEST_CASE("megatron fp8 parameters: no 16 bits beside what both products read") {
  constexpr std::int64_t kSixteenBits = 2 * kLlamaLayers * kLlamaWeights;
  CHECK(beyond_casts(MegatronFp8::kTensorwise, 9) == -kSixteenBits);
  CHECK(beyond_casts(MegatronFp8::kDelayed, 9) == -kSixteenBits);
  CHECK(beyond_casts(MegatronFp8::kBlockwise, 9) == -kSixteenBits);
  CHECK(beyond_casts(MegatronFp8::kTensorwise, 10) == -kSixteenBits);
}

// What is gathered lies in the gradients of what is held in 8 bits, and beside the rest.
TEST_CASE("megatron fp8 parameters: under mxfp8 the others lie in a module and in a buffer") {
  CHECK(beyond_casts(MegatronFp8::kMxfp8, 10) == -2 * kLlamaLayers * kLlamaWeights + 2 * others());
}

TEST_CASE("megatron fp8 parameters: a byte an element is gathered, under mxfp8 two") {
  const auto gathered = [](MegatronFp8 recipe, int compute_major) {
    ParallelPlan plan = sharded_fp8_plan(recipe, true);
    plan.world = 2;
    plan.workload.steps = 1;
    return collectives(test::small_llama_on(plan, compute_major), CollectiveKind::kAllGather);
  };
  using Bytes = std::vector<std::int64_t>;
  CHECK(gathered(MegatronFp8::kTensorwise, 9) == Bytes{kLlamaLayers * kLlamaWeights, 2 * others()});
  CHECK(gathered(MegatronFp8::kMxfp8, 10) == Bytes{2 * kLlamaLayers * kLlamaWeights, 2 * others()});
}

TEST_CASE("megatron fp8 parameters: ranks share the largest value of each weight or block") {
  // Behind the norm of gradients: what the step reduces of the weights.
  const auto largest = [](MegatronFp8 recipe) {
    ParallelPlan plan = sharded_fp8_plan(recipe, true);
    plan.world = 2;
    plan.workload.steps = 1;
    return collectives(test::small_llama_on(plan, 9), CollectiveKind::kAllReduce).back();
  };
  CHECK(largest(MegatronFp8::kTensorwise) == 4 * kLlamaLayers * 4);
  CHECK(largest(MegatronFp8::kDelayed) == 4 * kLlamaLayers * 4);
  // Blocks of 128 x 128, the second count padded to fours.
  CHECK(largest(MegatronFp8::kBlockwise) == 4 * kLlamaLayers * (12 * 8 + 8 * 8 + 44 * 8 + 8 * 24));
}

TEST_CASE("megatron fp8 parameters: the step rounds to 16 bits and casts stretch by stretch") {
  ParallelPlan plan = sharded_fp8_plan(MegatronFp8::kTensorwise, true);
  plan.workload.steps = 1;
  const RankProgram program = test::small_llama_on(plan, 9);
  std::int64_t rounded = 0;
  std::int64_t turned = 0;
  for (const Event& event : program.events) {
    if (event.kind != EventKind::kAllocate ||
        program.operations[program.sites[event.site].operation] != "copy_parameters") {
      continue;
    }
    (event.bytes % kLlamaHidden == 0 && event.bytes >= 2 * kLlamaHidden * kLlamaHidden ? rounded
                                                                                       : turned) +=
        event.bytes;
  }
  CHECK(rounded + turned > 3 * kLlamaLayers * kLlamaWeights);  // And a scalar or two.
  CHECK(rounded + turned < 3 * kLlamaLayers * kLlamaWeights + 1024);
}

TEST_CASE("megatron fp8 parameters: what is not modelled is refused by name") {
  CHECK(refused_by_check(test::small_llama(), sharded_fp8_plan(MegatronFp8::kBlockwise, true))
            .empty());
  const auto with = [](auto change) {
    ParallelPlan plan = sharded_fp8_plan(MegatronFp8::kTensorwise, true);
    change(edit_megatron(plan));
    return refused_by_check(test::small_llama(), plan);
  };
  CHECK(with([](MegatronPlan& plan) { plan.fp8 = MegatronFp8::kNone; }) ==
        "fp8-param-gather without fp8-recipe");
  CHECK(with([](MegatronPlan& plan) { plan.distributed_optimizer = false; }) ==
        "fp8-param-gather without distributed-optimizer");
  CHECK(with([](MegatronPlan& plan) { plan.precision_aware = true; }) ==
        "fp8-param-gather with precision-aware");
  CHECK(with([](MegatronPlan& plan) { plan.mtp_layers = 1; }) ==
        "fp8-param-gather with mtp-layers");
  CHECK(with([](MegatronPlan& plan) { plan.offload_modules.core_attention = true; }) ==
        "fp8-param-gather with offload-modules");
}

}  // namespace headroom::ir::megatron
