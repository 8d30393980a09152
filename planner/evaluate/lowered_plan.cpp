#include "planner/evaluate/lowered_plan.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "costmodel/binding_rank.h"
#include "costmodel/estimate.h"
#include "costmodel/layer_stretch.h"
#include "costmodel/memory_floor.h"
#include "costmodel/time/step_time.h"
#include "model_ir/spec/param_count.h"
#include "planner/evaluate/live_bytes.h"
#include "planner/evaluate/rounding.h"
#include "planner/space/axis_value.h"
#include "planner/space/titan_space.h"
#include "runtimes/plan_json.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

/// Whole parameters beside the shards at the end of a forward that does not reshard them.
Bytes gathered_by_forward(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  const bool stay = plan.fsdp && !plan.fsdp->reshard_after_forward &&
                    plan.fsdp->reshard_ranks == 0 && plan.world > plan.fsdp->replicas;
  return stay && !plan.quant
             ? Bytes{ir::count_parameters(model).total() * ir::bits_of(plan.fsdp->param_dtype) / 8}
             : Bytes{0};
}

bool computes(const ir::WorkShape& shape) {
  return std::holds_alternative<ir::GemmShape>(shape) ||
         std::holds_alternative<ir::AttentionShape>(shape) ||
         std::holds_alternative<ir::TrafficShape>(shape);
}

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

}  // namespace

std::optional<LoweredPlan> LoweredRecords::plan(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(text);
  return found == plans_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Bytes> LoweredRecords::peak(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const auto found = peaks_.find(text);
  return found == peaks_.end() ? std::nullopt : std::optional(found->second);
}

void LoweredRecords::add(const std::string& text, const LoweredPlan& plan) {
  const std::lock_guard lock(mutex_);
  plans_.try_emplace(text, plan);
}

void LoweredRecords::add(const std::string& text, Bytes peak) {
  const std::lock_guard lock(mutex_);
  peaks_.try_emplace(text, peak);
}

LoweredPlans::LoweredPlans(const ir::ModelSpec& model, const cost::DeviceSpec& device,
                           const cost::Machine& machine, LoweredRecords* records)
    : model_(model),
      device_(device),
      machine_(machine),
      records_(records != nullptr ? *records : own_),
      titan_(model, device, machine) {}

Result<LoweredPlan> LoweredPlans::of(const ir::ParallelPlan& plan, std::uint64_t number) {
  if (const std::optional<LoweredPlan> found = known(number)) {
    return *found;
  }
  // What DeepSpeed does depends on the room that there is.
  const std::string room = plan.zero ? std::to_string(device_.total.value()) : "";
  const std::string text = room + ir::to_json(ir::plan_to_json(plan));
  std::optional<LoweredPlan> found = records_.plan(text);
  if (!found) {
    const Result<LoweredPlan> lowered = lower(plan);
    if (!lowered) {
      return lowered.error();
    }
    found = *lowered;
    records_.add(text, *found);
  }
  const std::lock_guard lock(mutex_);
  return known_.try_emplace(number, *found).first->second;
}

std::optional<LoweredPlan> LoweredPlans::known(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(number);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

Result<LoweredPlan> LoweredPlans::lower(const ir::ParallelPlan& plan) {
  lowered_.fetch_add(1, std::memory_order_relaxed);
  const cost::PriceList prices = cost::prices_on(machine_, plan);
  const std::int64_t stage_ranks = plan.world / ir::runtime_of(plan).pipeline(plan).stages;
  LoweredPlan lowered;
  std::vector<cost::StagePrice> stages;
  for (const ir::Rank rank : cost::binding_ranks(model_, plan)) {
    const Result<ir::RankProgram> program = cost::lower_replayed(model_, plan, device_, rank);
    if (!program) {
      return program.error();
    }
    lowered.peak = std::max(lowered.peak, Bytes{live_peak(*program, plan.allocator)});
    stages.push_back({.stage = static_cast<std::int64_t>(rank) / stage_ranks,
                      .time = cost::price_program(*program, plan, prices)});
    stages.back().time.timeline = {};  // As long as the program, and nobody asks for it.
  }
  lowered.time = parts_of(cost::compose_step(model_, plan, device_, stages).parts);
  return lowered;
}

Seconds LoweredPlans::least_of_cell(const ir::ParallelPlan& plan) {
  return is_titan(plan) ? titan_.least_of_degrees(plan) : least_step(plan);
}

Seconds LoweredPlans::least_step(const ir::ParallelPlan& plan) {
  if (is_titan(plan)) {
    return titan_.least_step(plan);
  }
  return kFloorRounding * static_cast<double>(plan.accumulation) * alone(plan).computing;
}

Bytes LoweredPlans::floor(const ir::ParallelPlan& plan) {
  if (is_titan(plan)) {
    return titan_.floor(plan);
  }
  const Bytes kept = Bytes{alone(plan).kept} + gathered_by_forward(model_, plan);
  if (plan.steps < 2) {
    return kept;
  }
  return cost::memory_floor(model_, plan, cost::HeldAt::kForward) + kept;
}

Result<Bytes> LoweredPlans::sampled_floor(const ir::ParallelPlan& plan) {
  if (!is_titan(plan)) {
    return floor(plan);
  }
  if (plan.titan->pipeline == 1) {
    return line_of_layers(plan);
  }
  const ir::TitanPlan& titan = *plan.titan;
  ir::ParallelPlan few = plan;
  few.accumulation = 1;
  const std::int64_t passes = plan.micro_batch / titan.pipeline_batch;
  if (passes % titan.pipeline == 0) {  // Rounds are as long then.
    few.micro_batch = std::min(passes, 2 * titan.pipeline) * titan.pipeline_batch;
  }
  return short_peak(model_, few);
}

/// Gradients exist from the second micro-batch on, states from the second step on.
Result<Bytes> LoweredPlans::line_of_layers(const ir::ParallelPlan& plan) {
  constexpr std::size_t kShort = 3;
  ir::ParallelPlan few = plan;
  few.accumulation = std::min<std::int64_t>(plan.accumulation, 2);
  if (model_.layers.size() <= kShort + 1) {
    return short_peak(model_, few);
  }
  const bool some = plan.recompute != ir::Recompute::kNone && plan.recompute_every > 1;
  if (some) {
    few.recompute = ir::Recompute::kNone;
    few.recompute_every = 1;
  }
  ir::ModelSpec model = model_;
  model.layers.resize(kShort);
  const Result<Bytes> three = short_peak(model, few);
  model.layers.push_back(model.layers.back());
  const Result<Bytes> four = short_peak(model, few);
  if (!three || !four) {
    return three ? four : three;
  }
  const auto more = static_cast<std::int64_t>(model_.layers.size() - kShort);
  const Bytes line = *three + more * (*four - *three);
  return some ? line - titan_.let_go(plan) : line;
}

Result<Bytes> LoweredPlans::short_peak(const ir::ModelSpec& model, const ir::ParallelPlan& few) {
  const std::string text = std::to_string(model.layers.size()) + ir::to_json(ir::plan_to_json(few));
  if (const std::optional<Bytes> found = records_.peak(text)) {
    return *found;
  }
  const Result<ir::RankProgram> program =
      cost::lower_replayed(model, few, device_, titan_.heaviest(few));
  if (!program) {
    return program.error();
  }
  const Bytes peak{live_peak(*program, few.allocator)};
  records_.add(text, peak);
  return peak;
}

LoweredPlans::Alone LoweredPlans::alone(const ir::ParallelPlan& plan) {
  const std::optional<ir::ParallelPlan> one = ir::runtime_of(plan).one_rank_alone(plan);
  if (!one) {
    return {};
  }
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(alone_, *one, &decltype(alone_)::value_type::first);
    if (found != alone_.end()) {
      return found->second;
    }
  }
  const Alone made = extrapolated(*one);
  const std::lock_guard lock(mutex_);
  return alone_.emplace_back(*one, made).second;
}

LoweredPlans::Alone LoweredPlans::extrapolated(const ir::ParallelPlan& one) const {
  const cost::LayerStretch stretch =
      cost::best_stretch(model_.layers, static_cast<std::size_t>(one.recompute_every));
  // Three periods: one is neither the first nor the last.
  const std::size_t removed = stretch.removable(3);
  if (removed == 0) {
    return lowered_alone(model_, one);
  }
  const Alone three = lowered_alone(cost::without_layers(model_, stretch, removed), one);
  const Alone four =
      lowered_alone(cost::without_layers(model_, stretch, removed - stretch.period), one);
  if (three.kept == 0 || four.kept < three.kept) {
    return {};  // One of the two could not be lowered: nothing is known.
  }
  const auto periods = static_cast<std::int64_t>(removed / stretch.period);
  return {.computing =
              three.computing + static_cast<double>(periods) * (four.computing - three.computing),
          .kept = three.kept + periods * (four.kept - three.kept)};
}

LoweredPlans::Alone LoweredPlans::lowered_alone(const ir::ModelSpec& model,
                                                const ir::ParallelPlan& one) const {
  const Result<ir::RankProgram> program = cost::lower_replayed(model, one, device_);
  Alone result;
  if (!program) {
    return result;
  }
  const ir::DeviceWork& work = program->work;
  const cost::PriceList prices = cost::prices_on(machine_, one);
  std::vector<Seconds> durations;
  for (const ir::WorkShape& shape : work.shapes) {
    durations.push_back(computes(shape) ? prices.time_of(shape) : Seconds{});
  }
  const std::vector<std::int64_t> live = live_curve(*program, one.allocator);
  for (const ir::Phase& phase : program->phases) {
    const bool forward = phase.name.kind == ir::PhaseKind::kForward;
    if (!forward && phase.name.kind != ir::PhaseKind::kBackward) {
      continue;
    }
    for (std::size_t i = phase.first_item; i < phase.end_item; ++i) {
      const ir::WorkItem& item = work.items[i];
      if (item.kind == ir::WorkItem::Kind::kRun && item.stream == 0) {
        result.computing += durations[item.index];
      }
    }
    if (forward && phase.end > phase.begin && phase.begin > 0) {
      result.kept = live[phase.end - 1] - live[phase.begin - 1];
    }
  }
  return result;
}

}  // namespace headroom::plan
