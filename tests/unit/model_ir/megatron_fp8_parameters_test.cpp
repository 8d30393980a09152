#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "tests/support/alive_at_loss.h"
#include "tests/support/small_llama.h"

namespace headroom::ir::megatron {
namespace {

constexpr std::int64_t kHidden = 1024;
constexpr std::int64_t kLayers = 2;
/// Queries, keys and values; output; gate and up; down.
constexpr std::int64_t kWeights = (1536 + 1024 + 5632 + 2816) * kHidden;

ParallelPlan plan_of(MegatronFp8 recipe, bool held) {
  ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = Precision::kBf16Master;
  plan.megatron = MegatronPlan{};
  plan.megatron->fp8 = recipe;
  plan.megatron->fp8_parameters = held;
  plan.megatron->distributed_optimizer = true;
  plan.sequence = 1024;
  return plan;
}

/// Bytes alive when the loss begins, beyond those of weights in 16 bits with casts beside them.
std::int64_t beyond_casts(MegatronFp8 recipe, int compute_major) {
  return test::alive_at_loss(test::small_llama_on(plan_of(recipe, true), compute_major)) -
         test::alive_at_loss(test::small_llama_on(plan_of(recipe, false), compute_major));
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

std::string refused(const ParallelPlan& plan) {
  const Status status = check_plan(test::small_llama(), plan);
  return status ? "" : status.error().got;
}

/// Elements that stay in 16 bits: tables of tokens, head and norms.
std::int64_t others() {
  const ModelSpec model = test::small_llama();
  const std::int64_t rows = (model.vocabulary + 127) / 128 * 128;
  const std::int64_t tables = model.tied_embeddings ? 1 : 2;
  return tables * rows * kHidden + (2 * kLayers + 1) * kHidden;
}

}  // namespace

TEST_CASE("megatron fp8 parameters: no 16 bits beside what both products read") {
  constexpr std::int64_t kSixteenBits = 2 * kLayers * kWeights;
  CHECK(beyond_casts(MegatronFp8::kTensorwise, 9) == -kSixteenBits);
  CHECK(beyond_casts(MegatronFp8::kDelayed, 9) == -kSixteenBits);
  CHECK(beyond_casts(MegatronFp8::kBlockwise, 9) == -kSixteenBits);
  CHECK(beyond_casts(MegatronFp8::kTensorwise, 10) == -kSixteenBits);
}

// What is gathered lies in the gradients of what is held in 8 bits, and beside the rest.
TEST_CASE("megatron fp8 parameters: under mxfp8 the others lie in a module and in a buffer") {
  CHECK(beyond_casts(MegatronFp8::kMxfp8, 10) == -2 * kLayers * kWeights + 2 * others());
}

TEST_CASE("megatron fp8 parameters: a byte an element is gathered, under mxfp8 two") {
  const auto gathered = [](MegatronFp8 recipe, int compute_major) {
    ParallelPlan plan = plan_of(recipe, true);
    plan.world = 2;
    plan.steps = 1;
    return collectives(test::small_llama_on(plan, compute_major), CollectiveKind::kAllGather);
  };
  using Bytes = std::vector<std::int64_t>;
  CHECK(gathered(MegatronFp8::kTensorwise, 9) == Bytes{kLayers * kWeights, 2 * others()});
  CHECK(gathered(MegatronFp8::kMxfp8, 10) == Bytes{2 * kLayers * kWeights, 2 * others()});
}

TEST_CASE("megatron fp8 parameters: ranks share the largest value of each weight or block") {
  // Behind the norm of gradients: what the step reduces of the weights.
  const auto largest = [](MegatronFp8 recipe) {
    ParallelPlan plan = plan_of(recipe, true);
    plan.world = 2;
    plan.steps = 1;
    return collectives(test::small_llama_on(plan, 9), CollectiveKind::kAllReduce).back();
  };
  CHECK(largest(MegatronFp8::kTensorwise) == 4 * kLayers * 4);
  CHECK(largest(MegatronFp8::kDelayed) == 4 * kLayers * 4);
  // Blocks of 128 x 128, the second count padded to fours.
  CHECK(largest(MegatronFp8::kBlockwise) == 4 * kLayers * (12 * 8 + 8 * 8 + 44 * 8 + 8 * 24));
}

TEST_CASE("megatron fp8 parameters: the step rounds to 16 bits and casts stretch by stretch") {
  ParallelPlan plan = plan_of(MegatronFp8::kTensorwise, true);
  plan.steps = 1;
  const RankProgram program = test::small_llama_on(plan, 9);
  std::int64_t rounded = 0;
  std::int64_t turned = 0;
  for (const Event& event : program.events) {
    if (event.kind != EventKind::kAllocate ||
        program.operations[program.sites[event.site].operation] != "copy_parameters") {
      continue;
    }
    (event.bytes % kHidden == 0 && event.bytes >= 2 * kHidden * kHidden ? rounded : turned) +=
        event.bytes;
  }
  CHECK(rounded + turned > 3 * kLayers * kWeights);  // And a scalar or two.
  CHECK(rounded + turned < 3 * kLayers * kWeights + 1024);
}

TEST_CASE("megatron fp8 parameters: what is not modelled is refused by name") {
  CHECK(refused(plan_of(MegatronFp8::kBlockwise, true)).empty());
  const auto with = [](auto change) {
    ParallelPlan plan = plan_of(MegatronFp8::kTensorwise, true);
    change(*plan.megatron);
    return refused(plan);
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
