// A framework that nobody knows by name: what the cost model asks of it has defaults, and what it
// can change about a plan is its own.

#include <array>
#include <optional>
#include <span>

#include <doctest/doctest.h>

#include "costmodel/layer_bound.h"
#include "costmodel/remedies.h"
#include "costmodel/residuals.h"
#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

std::optional<ir::ParallelPlan> in_chunks(const ir::ParallelPlan& plan,
                                          const ir::DeviceTypes& /*device*/) {
  ir::ParallelPlan changed = plan;
  changed.loss = ir::LossKind::kChunked;
  return changed;
}

constexpr Change kChunks{150, "compute the loss in chunks", "next to nothing", "this test"};
constexpr std::array<ir::OwnChange, 2> kToyChanges = {
    {{kChunks, &in_chunks}, {Change::kSmallerMicroBatch, &ir::changes::smaller_micro_batch}}};

/// Holds 64 MiB for each sequence, half of them if the loss is computed in chunks.
class Toy final : public ir::Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "toy"; }
  [[nodiscard]] std::string_view title() const override { return "a toy"; }
  [[nodiscard]] Status check(const ir::ModelSpec& /*model*/,
                             const ir::ParallelPlan& /*plan*/) const override {
    return ok();
  }
  [[nodiscard]] Result<ir::RankProgram> lower(const ir::ModelSpec& /*model*/,
                                              const ir::ParallelPlan& plan, ir::Rank /*rank*/,
                                              const DeviceTraits& /*device*/) const override {
    const std::int64_t share = plan.loss == ir::LossKind::kChunked ? 2 : 1;
    ir::RankProgram program;
    program.events = {
        {.kind = ir::EventKind::kAllocate, .bytes = plan.workload.micro_batch * 64 * kMiB / share},
        {.kind = ir::EventKind::kFree}};
    program.blocks = 1;
    program.phases.push_back({.name = {.kind = ir::PhaseKind::kForward, .at = {.step = 1}},
                              .begin = 0,
                              .end = 2,
                              .work = {}});
    return program;
  }
  [[nodiscard]] std::span<const ir::OwnChange> changes(
      const ir::ParallelPlan& /*plan*/) const override {
    return kToyChanges;
  }
};

ir::ParallelPlan toy_plan() {
  ir::ParallelPlan plan;
  plan.runtime = "toy";
  plan.optimizer.kind = ir::OptimizerKind::kNone;
  plan.workload.micro_batch = 4;
  return plan;
}

ir::ModelSpec tiny_model() {
  ir::ModelSpec model;
  model.hidden = model.embedding_dim = 4;
  model.heads = model.kv_heads = 1;
  model.head_dim = 4;
  model.ffn = 8;
  model.vocabulary = 16;
  model.layers.resize(1);
  return model;
}

}  // namespace

TEST_CASE("own runtime: it is estimated with defaults, on its first rank") {
  const Toy toy;
  const ir::RegisteredRuntime registered(toy);
  DeviceSpec device;
  device.total = Bytes{8 * kGiB};
  const StepEstimate found = estimate(tiny_model(), toy_plan(), device).value();
  CHECK(found.peak_allocated == Bytes{256 * kMiB});
  CHECK(found.rank == ir::Rank{0});
  CHECK(residual_runtime(toy_plan()) == "toy");
  CHECK_FALSE(layer_bound(tiny_model(), toy_plan(), device));
  CHECK(replayed_micro_batches(toy_plan()) == 1);
}

TEST_CASE("own runtime: a change that only it has is a remedy, in the order of its price") {
  const Toy toy;
  const ir::RegisteredRuntime registered(toy);
  DeviceSpec device;
  device.total = Bytes{8 * kGiB};
  const ir::ModelSpec model = tiny_model();
  const ir::ParallelPlan plan = toy_plan();
  const StepEstimate whole = estimate(model, plan, device).value();
  device.total = whole.outside_bytes + Bytes{200 * kMiB};
  const StepEstimate found = estimate(model, plan, device).value();
  REQUIRE(found.verdict == Verdict::kDoesNotFit);
  const Remedies remedies =
      find_remedies({.model = model, .plan = plan, .device = device, .budget = Bytes{0}}, found);
  REQUIRE(remedies.cheapest.size() == 2);
  CHECK(remedies.cheapest[0].changes == std::vector{kChunks});
  CHECK(remedies.cheapest[1].changes == std::vector{Change::kSmallerMicroBatch});
  CHECK_FALSE(with_change(plan, Change::kZero3, device));
}

}  // namespace headroom::cost
