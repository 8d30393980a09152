#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/space/all_axes.h"
#include "runtimes/interface/option.h"
#include "runtimes/registry.h"

/// A framework that exists only in the tests. It proves that nothing outside a framework's folder
/// has to know the framework.
namespace headroom::test {

/// The toy's options: tensors are sharded among `wheels` ranks, and `compact` halves what is kept.
struct ToyOptions {
  std::int64_t wheels = 1;
  bool compact = false;
  friend bool operator==(const ToyOptions&, const ToyOptions&) = default;
};

inline constexpr std::array kToyFields = {
    ir::field<&ToyOptions::wheels>("wheels")
        .key_of("toy")
        .between(1, 64)
        .spelled({.name = "--number-of-wheels"})
        .means("Ranks among which every tensor is cut."),
    ir::field<&ToyOptions::compact>("compact").key_of("toy").means("Halves what is kept.")};

inline constexpr ir::PlanPart kToyPart = [] {
  ir::PlanPart part = ir::own_part<ToyOptions>("toy", kToyFields);
  part.title = "The toy's options.";
  part.runtime = "toy";
  return part;
}();

inline ToyOptions toy_of(const ir::ParallelPlan& plan) {
  const ToyOptions* const own = plan.own.find<ToyOptions>();
  return own == nullptr ? ToyOptions{} : *own;
}

inline std::optional<ir::ParallelPlan> made_compact(const ir::ParallelPlan& plan,
                                                    const ir::DeviceTypes& /*device*/) {
  ir::ParallelPlan changed = plan;
  changed.own.edit<ToyOptions>().compact = true;
  return changed;
}

inline constexpr std::array<ir::OwnChange, 1> kToyChanges = {
    {{ir::Change{155, "keep half of it", "next to nothing", "tests/support/toy_framework.h"},
      &made_compact}}};

/// A pass keeps 8 GiB for each sequence and consists of one product; the wheels share both.
class ToyFramework final : public ir::Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "toy"; }
  [[nodiscard]] std::string_view title() const override { return "A toy framework"; }
  [[nodiscard]] std::span<const ir::PlanPart* const> parts() const override {
    static constexpr std::array<const ir::PlanPart*, 1> kParts = {&kToyPart};
    return kParts;
  }

  [[nodiscard]] Status check(const ir::ModelSpec& /*model*/,
                             const ir::ParallelPlan& plan) const override {
    if (plan.recompute != ir::Recompute::kNone) {
      return Error::invalid_argument("checkpointing", "full", "none: a toy keeps everything");
    }
    return plan.world % toy_of(plan).wheels == 0
               ? ok()
               : Error::invalid_argument("toy", "wheels=" + std::to_string(toy_of(plan).wheels),
                                         "a divisor of --gpus " + std::to_string(plan.world));
  }

  [[nodiscard]] Result<ir::RankProgram> lower(const ir::ModelSpec& model,
                                              const ir::ParallelPlan& plan, ir::Rank /*rank*/,
                                              const DeviceTraits& /*device*/) const override {
    const ToyOptions own = toy_of(plan);
    const std::int64_t kept =
        plan.workload.micro_batch * 8 * kGiB / own.wheels / (own.compact ? 2 : 1);
    ir::RankProgram program;
    program.operations = {"roll"};
    program.sites.resize(1);
    program.work.streams = {"compute"};
    program.work.shapes = {ir::GemmShape{.m = plan.workload.micro_batch * plan.workload.sequence,
                                         .n = model.hidden,
                                         .k = 65536 / own.wheels}};
    for (std::int32_t pass = 1; pass <= plan.workload.accumulation; ++pass) {
      const std::size_t event = program.events.size();
      const auto block = program.blocks++;
      program.events.push_back(
          {.kind = ir::EventKind::kAllocate, .block = block, .bytes = Bytes{kept}.value()});
      program.events.push_back({.kind = ir::EventKind::kFree, .block = block});
      program.work.items.push_back({.index = 0, .event = static_cast<std::uint32_t>(event + 1)});
      program.phases.push_back(
          {.name = {.kind = ir::PhaseKind::kForward, .at = {.step = 1, .micro_batch = pass}},
           .begin = event,
           .end = event + 2,
           .work = {},
           .first_item = program.work.items.size() - 1,
           .end_item = program.work.items.size()});
    }
    return program;
  }

  [[nodiscard]] std::int64_t ranks_per_replica(const ir::ParallelPlan& plan) const override {
    return toy_of(plan).wheels;
  }
  [[nodiscard]] std::string layout(const ir::ParallelPlan& plan,
                                   const ir::TypedOption& /*typed*/) const override {
    return std::to_string(toy_of(plan).wheels) + " wheels";
  }
  void settle(ir::ParallelPlan& plan) const override {
    plan.own.keep<ToyOptions>();
    plan.own.edit<ToyOptions>();
  }
  [[nodiscard]] std::vector<ir::ConfigurationFormat> configuration_formats() const override {
    return {{.name = "toy", .options = "--toy wheels=2", .option = {}, .help = {}}};
  }
  [[nodiscard]] Result<std::string> emit(const ir::ModelSpec& /*model*/,
                                         const ir::ParallelPlan& plan,
                                         std::string_view /*format*/) const override {
    return "wheels: " + std::to_string(toy_of(plan).wheels) + "\n";
  }
  [[nodiscard]] std::span<const ir::OwnChange> changes(
      const ir::ParallelPlan& /*plan*/) const override {
    return kToyChanges;
  }
};

/// The axis that the toy alone has.
inline constexpr plan::AxisTraits kWheelsTraits{.order = 1000,
                                                .option = "wheels",
                                                .values = "N,..",
                                                .help = "ranks among which every tensor is cut",
                                                .absent = 1};
inline constexpr plan::Axis kWheels{kWheelsTraits};

inline plan::SearchAxis wheels_axis() {
  return {.axis = kWheels,
          .get = [](const ir::ParallelPlan& plan) { return toy_of(plan).wheels; },
          .rule =
              [](const plan::SpaceQuestion& question) {
                return "a divisor of the GPUs (" + plan::gpus_text(question) + ")";
              },
          .candidates = [](plan::SpaceWalk& walk) { return plan::divisors(walk.plan.world); },
          .set = [](plan::SpaceWalk& walk,
                    std::int64_t value) { walk.plan.own.edit<ToyOptions>().wheels = value; }};
}

/// How the toy is searched: wheels, then micro-batches.
class ToySearch final : public plan::FrameworkSearch {
 public:
  ToySearch() : FrameworkSearch("toy") {}

  [[nodiscard]] std::span<const plan::SearchAxis> axes() const override {
    static const std::array rows = {wheels_axis(), plan::micro_batch_axis()};
    return rows;
  }
  [[nodiscard]] std::vector<plan::Alternative> alternatives(
      const ir::ParallelPlan& plan) const override {
    return plan::halves_and_doubles(plan, std::array{kWheels, plan::Axis::kMicroBatch});
  }
};

}  // namespace headroom::test
