#include "planner/evaluate/lowered_plan.h"

#include <algorithm>
#include <cstddef>
#include <variant>
#include <vector>

#include "costmodel/binding_rank.h"
#include "costmodel/estimate.h"
#include "costmodel/host_memory.h"
#include "costmodel/time/step_time.h"
#include "planner/evaluate/live_bytes.h"
#include "runtimes/plan_json.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

StepParts parts_of(const cost::PartTimes& times) {
  using cost::StepPart;
  StepParts parts{};
  for (const StepPart part :
       {StepPart::kMatrix, StepPart::kExperts, StepPart::kAttention, StepPart::kMemoryBound,
        StepPart::kTensor, StepPart::kContext, StepPart::kExpert, StepPart::kPipeline}) {
    parts.forward_backward += times.of(part);
  }
  parts.recomputation = times.of(StepPart::kRecompute);
  parts.bubble = times.of(StepPart::kBubble);
  parts.exchange = times.of(StepPart::kData);
  parts.optimizer = times.of(StepPart::kOptimizer);
  parts.offload = times.of(StepPart::kOffload);
  parts.launches = times.of(StepPart::kHost);
  return parts;
}

/// The bytes by which the last forward of `program` raises its live bytes.
Bytes kept_by_forward(const ir::RankProgram& program, const std::vector<std::int64_t>& live) {
  Bytes kept;
  for (const ir::Phase& phase : program.phases) {
    if (phase.name.kind == ir::PhaseKind::kForward && phase.end > phase.begin && phase.begin > 0) {
      kept = Bytes{live[phase.end - 1] - live[phase.begin - 1]};
    }
  }
  return kept;
}

/// The work on the host that the last step issues to the compute stream, one piece after the other.
Seconds host_step_of(const ir::RankProgram& program, const cost::PriceList& prices) {
  int last = 0;
  for (const ir::Phase& phase : program.phases) {
    last = std::max(last, phase.name.at.step);
  }
  Seconds worked;
  for (const ir::Phase& phase : program.phases) {
    for (std::size_t i = phase.first_item; phase.name.at.step == last && i < phase.end_item; ++i) {
      const ir::WorkItem& item = program.work.items[i];
      const bool runs = item.kind == ir::WorkItem::Kind::kRun && item.stream == 0;
      const auto* const copy =
          runs ? std::get_if<ir::CopyShape>(&program.work.shapes[item.index]) : nullptr;
      if (copy != nullptr && copy->kind == ir::CopyKind::kHostWork) {
        worked += prices.time_of(*copy);
      }
    }
  }
  return worked;
}

}  // namespace

template <typename Value>
Result<Value> LoweredRecords::of(Slots<Value>& slots, const std::string& text,
                                 const std::function<Result<Value>()>& lower) {
  std::shared_ptr<Slot<Value>> slot;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Slot<Value>>& own = slots[text];
    own = own == nullptr ? std::make_shared<Slot<Value>>() : own;
    slot = own;
  }
  const std::lock_guard lock(slot->mutex);
  if (!slot->result) {
    slot->result = lower();
    events_ += *slot->result ? slot->result->value().events : 0;
  }
  return *slot->result;
}

Result<LoweredPlan> LoweredRecords::plan(const std::string& text,
                                         const std::function<Result<LoweredPlan>()>& lower) {
  return of(plans_, text, lower);
}

Result<ShortPeak> LoweredRecords::peak(const std::string& text,
                                       const std::function<Result<ShortPeak>()>& lower) {
  return of(peaks_, text, lower);
}

LoweredPlans::LoweredPlans(const ir::ModelSpec& model, const cost::DeviceSpec& device,
                           const cost::Machine& machine, LoweredRecords& records)
    : model_(model), device_(device), machine_(machine), records_(records) {}

Result<LoweredPlan> LoweredPlans::of(const ir::ParallelPlan& plan, std::uint64_t number) {
  if (const std::optional<LoweredPlan> found = known(number)) {
    return *found;
  }
  const std::string room =
      ir::runtime_of(plan).depends_on_room(plan) ? std::to_string(device_.total.value()) : "";
  const std::string text = room + ir::to_json(ir::plan_to_json(plan));
  const Result<LoweredPlan> found = records_.plan(text, [&] {
    lowered_.fetch_add(1, std::memory_order_relaxed);
    return lower(model_, plan);
  });
  if (!found) {
    return found.error();
  }
  const std::lock_guard lock(mutex_);
  return known_.try_emplace(number, *found).first->second;
}

std::optional<LoweredPlan> LoweredPlans::known(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(number);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

Result<LoweredPlan> LoweredPlans::of_fewer_layers(const ir::ModelSpec& fewer,
                                                  const ir::ParallelPlan& plan) {
  const std::string text =
      std::to_string(fewer.layers.size()) + " layers" + ir::to_json(ir::plan_to_json(plan));
  return records_.plan(text, [&] { return lower(fewer, plan); });
}

Result<LoweredPlan> LoweredPlans::lower(const ir::ModelSpec& model,
                                        const ir::ParallelPlan& plan) const {
  const cost::PriceList prices = cost::prices_on(machine_, plan);
  const std::int64_t stage_ranks = plan.world / ir::runtime_of(plan).pipeline(plan).stages;
  LoweredPlan lowered;
  std::vector<cost::StagePrice> stages;
  for (const ir::Rank rank : cost::binding_ranks(model, plan)) {
    const Result<ir::RankProgram> program = cost::lower_replayed(model, plan, device_, rank);
    if (!program) {
      return program.error();
    }
    lowered.events += program->events.size();
    const std::vector<std::int64_t> live = live_curve(*program, plan.allocator);
    for (const std::int64_t bytes : live) {
      lowered.peak = std::max(lowered.peak, Bytes{bytes});
    }
    lowered.kept = std::max(lowered.kept, kept_by_forward(*program, live));
    lowered.host_step = std::max(lowered.host_step, host_step_of(*program, prices));
    const cost::HostMemory host = cost::host_memory(model, plan, device_.host, *program);
    lowered.host = std::max(lowered.host, host.bytes);
    lowered.host_capacity = host.capacity.value_or(Bytes{0});
    lowered.host_fits = lowered.host_fits && host.fits();
    stages.push_back({.stage = static_cast<std::int64_t>(rank) / stage_ranks,
                      .time = cost::price_program(*program, plan, prices)});
    stages.back().time.timeline = {};  // It is as long as the program, and nobody reads it.
  }
  lowered.time = parts_of(cost::compose_step(model, plan, device_, stages).parts);
  return lowered;
}

}  // namespace headroom::plan
