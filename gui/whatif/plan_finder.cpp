#include "gui/whatif/plan_finder.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "costmodel/confidence.h"
#include "costmodel/hardware/catalogue.h"
#include "costmodel/hardware/host.h"
#include "costmodel/outside_memory.h"
#include "gui/whatif/estimator.h"
#include "planner/space/all_axes.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"

namespace headroom::gui {
namespace {

constexpr double kChance = 0.9;  // The chance that `headroom plan` asks for without --confidence.

/// The plan of a scenario without what the search chooses.
ir::ParallelPlan search_base(const ir::ParallelPlan& plan, const cost::DeviceSpec& device) {
  ir::ParallelPlan base = plan;
  base.precision = device.bf16 ? ir::Precision::kBf16Master : ir::Precision::kFp16Master;
  base.recompute = ir::Recompute::kNone;
  base.recompute_every = 1;
  base.recompute_first = 0;
  base.mesh = {};
  for (const ir::PlanPart* const part : ir::framework_parts()) {
    part->drop(base);
  }
  return base;
}

std::int64_t global_batch_of(const ir::ParallelPlan& plan) {
  const std::int64_t replica =
      std::max<std::int64_t>(1, ir::runtime_of(plan).ranks_per_replica(plan));
  return plan.workload.micro_batch * plan.workload.accumulation *
         std::max<std::int64_t>(1, plan.world / replica);
}

}  // namespace

Result<std::shared_ptr<PlanFinder>> PlanFinder::make(const std::string& config_dir,
                                                     const Scenario& scenario,
                                                     SearchedFrameworks frameworks) {
  Result<ir::ModelSpec> model = load_source(config_dir, scenario.model);
  if (!model) {
    return std::move(model).error();
  }
  Result<cost::DeviceSpec> device = cost::load_device(config_dir, scenario.gpu);
  if (!device) {
    return std::move(device).error();
  }
  device = cost::in_host(config_dir, std::move(device).value(), scenario.host);
  if (!device) {
    return std::move(device).error();
  }
  std::optional<std::string> node = scenario.host.node;
  if (node) {
    node = cost::node_named(config_dir, *node);
  }
  Result<cost::Machine> machine = cost::load_machine(config_dir, *device, node);
  if (!machine) {
    return std::move(machine).error();
  }
  Result<std::vector<cost::ResidualSet>> residuals =
      cost::read_residuals(config_dir + "/accuracy/residuals.json");
  Parts parts{
      .model = std::move(model).value(),
      .device = std::move(device).value(),
      .machine = std::move(machine).value(),
      .residuals = residuals ? std::move(residuals).value() : std::vector<cost::ResidualSet>()};
  return std::shared_ptr<PlanFinder>(new PlanFinder(std::move(parts), scenario, frameworks));
}

PlanFinder::PlanFinder(Parts parts, const Scenario& scenario, SearchedFrameworks frameworks)
    : parts_(std::move(parts)),
      question_{.space = {.model = parts_.model,
                          .base = search_base(scenario.plan, parts_.device),
                          .global_batch = global_batch_of(scenario.plan),
                          .constraints = {},
                          .device = parts_.device.traits},
                .machine = parts_.machine,
                .device = parts_.device,
                .budget = scenario.budget,
                .pruning = {},
                .threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency())),
                .front = true,
                .judge = cost::judge_by(parts_.residuals),
                .confidence = kChance,
                .room = cost::room_by(parts_.residuals, kChance),
                .progress = {}} {
  plan::Constraints& constraints = question_.space.constraints;
  constraints.of(plan::Axis::kGpus) = {scenario.plan.world};
  constraints.of(plan::Axis::kSequence) = {scenario.plan.workload.sequence};
  if (frameworks == SearchedFrameworks::kOwn) {
    constraints.of(plan::Axis::kRuntime) = {plan::value_of(scenario.plan, plan::Axis::kRuntime)};
  }
  const Bytes total = scenario.budget > Bytes{0} ? scenario.budget : parts_.device.total;
  Bytes outside;
  for (const cost::OutsideTerm& term :
       cost::outside_terms(parts_.model, scenario.plan, parts_.device)) {
    outside += term.bytes;
  }
  capacity_ = std::max(total - outside, Bytes{0});
}

void PlanFinder::holdAllBut(const std::set<std::string>& free, const ir::ParallelPlan& plan) {
  if (free.empty()) {
    return;
  }
  for (const plan::Axis axis : plan::all_axes()) {
    const std::int64_t value = plan::value_of(plan, axis);
    if (!free.contains(std::string(plan::option_of(axis))) && value >= 0) {
      question_.space.constraints.of(axis) = {value};
    }
  }
}

void PlanFinder::holdAllButRecomputation(const ir::ParallelPlan& plan) {
  question_.space.base = plan;
  for (const ir::PlanPart* const part : ir::framework_parts()) {
    part->drop(question_.space.base);
  }
  for (const plan::Axis axis : plan::all_axes()) {
    const bool free = axis->option.starts_with("recompute");
    const std::int64_t value = plan::value_of(plan, axis);
    if (!free && value >= 0) {
      question_.space.constraints.of(axis) = {value};
    }
  }
  question_.front = false;
}

double PlanFinder::tokensPerSecond(const plan::RatedPlan& rated) const {
  const double seconds = rated.time.total().value();
  return seconds > 0 ? static_cast<double>(question_.space.global_batch) *
                           static_cast<double>(rated.plan.workload.sequence) / seconds
                     : 0;
}

std::vector<AxisDifference> differences(const ir::ParallelPlan& one,
                                        const ir::ParallelPlan& other) {
  std::vector<AxisDifference> found;
  for (const plan::Axis axis : plan::all_axes()) {
    const std::int64_t left = plan::value_of(one, axis);
    const std::int64_t right = plan::value_of(other, axis);
    if (left >= 0 && right >= 0 && plan::canonical(axis, left) != plan::canonical(axis, right)) {
      found.push_back({.axis = axis,
                       .one = plan::value_text(axis, left),
                       .other = plan::value_text(axis, right)});
    }
  }
  return found;
}

}  // namespace headroom::gui
