// What Megatron-Core runs beside something else: tensor-parallel communication beside products,
// shared experts beside the dispatcher, exchanges of heads inside a ring.
#include <algorithm>
#include <string>
#include <variant>

#include <doctest/doctest.h>

#include "costmodel/outside_memory.h"
#include "model_ir/spec/hf_config.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "tests/support/refusal.h"

namespace headroom::ir::megatron {
namespace {

using test::refused_by_check;

constexpr std::int64_t kNarrowHidden = 256;
constexpr std::int64_t kNarrowTokens = 1024;

ModelSpec two_narrow_layers() {
  return parse_hf_config(
             R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8,
    "vocab_size": 1000, "tie_word_embeddings": false, "max_position_embeddings": 4096})",
             "llama")
      .value();
}

ModelSpec with_shared_experts() {
  ModelSpec model = parse_hf_config(R"({"model_type": "mixtral", "hidden_size": 256,
    "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 8, "vocab_size": 1000, "num_local_experts": 4,
    "num_experts_per_tok": 2, "max_position_embeddings": 4096, "sliding_window": null})",
                                    "shared")
                        .value();
  model.moe->shared_ffn = 512;
  return model;
}

ParallelPlan one_step_plan(const Mesh& mesh, std::int64_t world,
                           const MegatronPlan& megatron = {}) {
  ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = Precision::kBf16Master;
  plan.world = world;
  plan.workload.sequence = kNarrowTokens;
  plan.workload.steps = 1;
  edit_megatron(plan) = megatron;
  plan.mesh = mesh;
  return plan;
}

RankProgram lowered(const ModelSpec& model, const ParallelPlan& plan) {
  return lower(model, plan, Rank{0}, DeviceTraits{}).value();
}

/// Of everything that is allocated at any time.
std::int64_t allocated_bytes(const RankProgram& program) {
  std::int64_t bytes = 0;
  for (const Event& event : program.events) {
    bytes += event.kind == EventKind::kAllocate ? event.bytes : 0;
  }
  return bytes;
}

std::int64_t calls_of(const RankProgram& program, CollectiveKind kind) {
  return std::ranges::count_if(program.work.items, [&](const WorkItem& item) {
    const auto* const shape = item.kind == WorkItem::Kind::kRun
                                  ? std::get_if<CollectiveShape>(&program.work.shapes[item.index])
                                  : nullptr;
    return shape != nullptr && shape->kind == kind;
  });
}

}  // namespace

// Each of two layers has two gathers forward and two of gradients backward that go round in
// tp - 1 parts; inputs gathered once more for weight gradients stay one collective.
TEST_CASE("megatron: gathers beside products go round in parts and lie outside the allocator") {
  ParallelPlan plan = one_step_plan({.tensor = 4}, 4, {.sequence_parallel = true});
  const RankProgram apart = lowered(two_narrow_layers(), plan);
  edit_megatron(plan).tp_comm_overlap = true;
  const RankProgram beside = lowered(two_narrow_layers(), plan);
  constexpr std::int64_t kGathersInParts = 2 * 4;
  CHECK(calls_of(beside, CollectiveKind::kSend) - calls_of(apart, CollectiveKind::kSend) ==
        3 * kGathersInParts);
  CHECK(calls_of(apart, CollectiveKind::kAllGather) -
            calls_of(beside, CollectiveKind::kAllGather) ==
        kGathersInParts);
  // So do those that stay one collective and the gradients of inputs that are summed up: each layer
  // has two.
  constexpr std::int64_t kShared = kGathersInParts + 2 * 2 + 2 * 2;
  CHECK(allocated_bytes(apart) - allocated_bytes(beside) ==
        kShared * kNarrowTokens * kNarrowHidden * 2);
  const std::vector<cost::OutsideTerm> terms = cost::outside_terms(two_narrow_layers(), plan, {});
  const auto buffers = std::ranges::find_if(terms, [](const cost::OutsideTerm& term) {
    return term.name.find("userbuffers") != std::string::npos;
  });
  REQUIRE(buffers != terms.end());
  CHECK(buffers->bytes == Bytes{10 * kNarrowTokens * kNarrowHidden * 2});
}

TEST_CASE("megatron: overlaps are refused without what they overlap with") {
  CHECK(refused_by_check(two_narrow_layers(),
                         one_step_plan({.tensor = 4}, 4, {.tp_comm_overlap = true})) ==
        "has tp-comm-overlap, which needs sequence-parallel and Transformer Engine's layers");
  CHECK(refused_by_check(two_narrow_layers(),
                         one_step_plan({}, 1, {.shared_expert_overlap = true})) ==
        "has shared-expert-overlap, which needs a model with shared experts, and "
        "dispatcher=alltoall");
  CHECK(
      refused_by_check(with_shared_experts(), one_step_plan({}, 1, {.shared_expert_overlap = true}))
          .empty());
  CHECK(refused_by_check(two_narrow_layers(),
                         one_step_plan({.context = 4}, 4, {.context_exchange_ranks = 2}))
            .empty());
  CHECK(refused_by_check(two_narrow_layers(),
                         one_step_plan({.context = 4}, 4, {.context_exchange_ranks = 4})) ==
        "cp-exchange-ranks=4");
  CHECK(refused_by_check(two_narrow_layers(),
                         one_step_plan({.context = 8}, 8, {.context_exchange_ranks = 3})) ==
        "cp-exchange-ranks=3");
}

// Of four ranks two exchange heads, and two groups form a ring: each rank hands on half as often
// what half as many heads take.
TEST_CASE("megatron: a ring of groups that exchange heads hands keys on less often") {
  ParallelPlan plan = one_step_plan({.context = 4}, 4);
  const RankProgram ring = lowered(two_narrow_layers(), plan);
  edit_megatron(plan).context_exchange_ranks = 2;
  const RankProgram levels = lowered(two_narrow_layers(), plan);
  CHECK(calls_of(ring, CollectiveKind::kAllToAll) == 0);
  CHECK(calls_of(levels, CollectiveKind::kAllToAll) > 0);
  // Forward hands on in all steps but the last, backward in all.
  CHECK(calls_of(ring, CollectiveKind::kSend) == 2 * (3 + 4));
  CHECK(calls_of(levels, CollectiveKind::kSend) == 2 * (1 + 2));
}

TEST_CASE("megatron: shared experts beside the dispatcher run on a stream of their own") {
  ParallelPlan plan = one_step_plan({}, 1);
  const RankProgram after = lowered(with_shared_experts(), plan);
  edit_megatron(plan).shared_expert_overlap = true;
  const RankProgram beside = lowered(with_shared_experts(), plan);
  const auto has_stream = [](const RankProgram& program) {
    return std::ranges::count(program.work.streams, "shared_experts") > 0;
  };
  CHECK_FALSE(has_stream(after));
  CHECK(has_stream(beside));
}

}  // namespace headroom::ir::megatron
