#include "planner/evaluate/plan_bounds.h"

#include <algorithm>
#include <variant>

#include "costmodel/binding_rank.h"
#include "costmodel/estimate.h"
#include "costmodel/layer_bound.h"
#include "costmodel/memory_floor.h"
#include "planner/evaluate/live_bytes.h"
#include "planner/evaluate/plan_figures.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

bool computes(const ir::WorkShape& shape) {
  return std::holds_alternative<ir::GemmShape>(shape) ||
         std::holds_alternative<ir::AttentionShape>(shape) ||
         std::holds_alternative<ir::TrafficShape>(shape);
}

/// Whether it is a matrix product of 16-bit operands.
bool is_product(const ir::WorkShape& shape) {
  const auto* const product = std::get_if<ir::GemmShape>(&shape);
  return product != nullptr && bits_of(product->dtype) == 16;
}

}  // namespace

Seconds AloneBounds::least_step(const ir::ParallelPlan& plan) {
  return kFloorRounding * static_cast<double>(plan.workload.accumulation) * alone(plan).computing;
}

Bytes AloneBounds::floor(const ir::ParallelPlan& plan) {
  const Bytes kept =
      Bytes{alone(plan).kept} + ir::runtime_of(plan).gathered_after_forward(model_, plan);
  const Bytes before = plan.quant ? prepared(plan) : Bytes{};
  if (plan.workload.steps < 2) {
    return std::max(kept, before);
  }
  const bool accumulates = cost::replayed_micro_batches(plan) > 1;
  const Bytes held = cost::memory_floor(
      model_, plan, accumulates ? cost::HeldAt::kOptimizerStep : cost::HeldAt::kForward);
  return std::max(held + kept, before);
}

Bytes AloneBounds::prepared(const ir::ParallelPlan& plan) {
  constexpr std::int64_t kShortSequence = 64;
  ir::ParallelPlan brief = plan;
  brief.recompute = ir::Recompute::kNone;
  brief.recompute_every = 1;
  brief.recompute_first = 0;
  brief.loss = ir::LossKind::kHf;
  brief.workload.accumulation = 1;
  brief.workload.steps = 1;
  if (!model_.recording) {  // Another batch may have been recorded apart.
    brief.workload.micro_batch = 1;
    brief.workload.sequence = std::min(plan.workload.sequence, kShortSequence);
  }
  if (plan.attention == ir::AttentionKind::kEager) {
    brief.attention = ir::AttentionKind::kSdpa;
  }
  const Bytes room = ir::runtime_of(plan).depends_on_room(plan) ? device_.total : Bytes{};
  {
    const std::lock_guard lock(samples_.mutex);
    for (const Samples::Prepared& known : samples_.prepared) {
      if (known.room == room && known.plan == brief) {
        return known.peak;
      }
    }
  }
  Bytes peak = peak_before_steps(brief);
  if (peak == Bytes{0} && plan.attention != brief.attention) {  // The model has no other attention.
    ir::ParallelPlan own = brief;
    own.attention = plan.attention;
    peak = peak_before_steps(own);
  }
  const std::lock_guard lock(samples_.mutex);
  samples_.prepared.push_back({.plan = brief, .room = room, .peak = peak});
  return peak;
}

Bytes AloneBounds::peak_before_steps(const ir::ParallelPlan& plan) const {
  std::int64_t peak = 0;
  for (const ir::Rank rank : cost::binding_ranks(model_, plan)) {
    const Result<ir::RankProgram> program = cost::lower_replayed(model_, plan, device_, rank);
    if (!program) {
      return Bytes{0};
    }
    const std::vector<std::int64_t> live = live_curve(*program, plan.allocator);
    for (const ir::Phase& phase : program->phases) {
      if (phase.name.at.step > 0) {
        break;
      }
      for (std::size_t i = phase.begin; i < phase.end; ++i) {
        peak = std::max(peak, live[i]);
      }
    }
  }
  return Bytes{peak};
}

std::vector<std::vector<std::uint64_t>> AloneBounds::lighter(const SpaceQuestion& question,
                                                             const Cell& cell) {
  const std::unique_ptr<const Choices> choices = choices_of(question, cell);
  std::vector<ir::ParallelPlan> plans;
  for (std::uint64_t index = 0; index < choices->size(); ++index) {
    plans.push_back(choices->plan_at(index));
  }
  // Every k-th layer from the first on: the layers of a multiple of k are among them.
  const auto has_fewer = [](const ir::ParallelPlan& one, const ir::ParallelPlan& other) {
    if (other.recompute == ir::Recompute::kNone || one.recompute_first != 0 ||
        other.recompute_first != 0) {
      return false;
    }
    return one.recompute == ir::Recompute::kNone ||
           (one.recompute_every > other.recompute_every &&
            one.recompute_every % other.recompute_every == 0);
  };
  std::vector<std::vector<std::uint64_t>> all(plans.size());
  for (std::uint64_t i = 0; i < plans.size(); ++i) {
    for (std::uint64_t j = 0; j < plans.size(); ++j) {
      if (!has_fewer(plans[j], plans[i])) {
        continue;
      }
      ir::ParallelPlan same = plans[j];
      same.recompute = plans[i].recompute;
      same.recompute_every = plans[i].recompute_every;
      if (same == plans[i]) {
        all[i].push_back(j);
      }
    }
  }
  return all;
}

namespace {

/// The share of a step by which its time may be below the line through short programs, on one GPU
/// and on several.
/// Source: tests/bench/results/search_epyc-2vcpu_2026-11-27.md.
constexpr double kLineErrorAlone = 0.02;
constexpr double kLineError = 0.05;

/// The number of layers that `plan` recomputes.
std::int64_t layers_again(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  std::int64_t again = 0;
  for (std::int64_t layer = 0; layer < static_cast<std::int64_t>(model.layers.size()); ++layer) {
    again += ir::recomputes_layer(plan, layer) ? 1 : 0;
  }
  return again;
}

}  // namespace

Result<std::optional<AloneBounds::Line>> AloneBounds::line(const ir::ParallelPlan& plan,
                                                           LoweredPlans& plans) {
  constexpr std::size_t kPeriods = 3;  // One of them is neither the first nor the last.
  const ir::Runtime& runtime = ir::runtime_of(plan);
  const cost::LayerStretch stretch = cost::best_stretch(model_.layers, 1);
  const std::size_t removed = stretch.removable(kPeriods);
  const bool buckets = runtime.has_buckets(plan) && plan.world > 1;
  if (2 * removed < model_.layers.size() || model_.encoder || buckets) {
    return std::optional<Line>();
  }
  const Result<LoweredPlan> three =
      plans.of_fewer_layers(cost::without_layers(model_, stretch, removed), plan);
  const Result<LoweredPlan> four =
      plans.of_fewer_layers(cost::without_layers(model_, stretch, removed - stretch.period), plan);
  if (!three || !four) {
    return three ? four.error() : three.error();
  }
  const auto periods = static_cast<std::int64_t>(removed / stretch.period);
  const Seconds shorter = three->time.total();
  const bool grows = convex_ == Convex::kAlways || runtime.grows_by_layers(plan);
  const Bytes peak = three->peak + periods * (four->peak - three->peak);
  // Beside adapters, buckets are small: a twentieth is more than they are.
  const Bytes beside = plan.lora ? peak - Bytes{peak.value() / 20} : Bytes{};
  return std::optional(
      Line{.peak = grows ? peak : beside,
           .step = shorter + static_cast<double>(periods) * (four->time.total() - shorter),
           .kept = three->kept + periods * (four->kept - three->kept)});
}

Result<std::optional<SampledBound>> AloneBounds::sampled(const ir::ParallelPlan& plan,
                                                         LoweredPlans& plans) {
  const auto lowest = [&plan](Bytes peak, Seconds step) {
    const double error = plan.world > 1 ? kLineError : kLineErrorAlone;
    return std::optional(SampledBound{.peak = std::max(peak, Bytes{}), .step = (1 - error) * step});
  };
  const bool some = plan.recompute != ir::Recompute::kNone &&
                    (plan.recompute_every > 1 || plan.recompute_first > 0);
  if (!some) {
    const Result<std::optional<Line>> own = line(plan, plans);
    if (!own) {
      return own.error();
    }
    return *own ? lowest((*own)->peak, (*own)->step) : std::nullopt;
  }
  ir::ParallelPlan end = plan;
  end.recompute_every = 1;
  end.recompute_first = 0;
  const Result<std::optional<Line>> every = line(end, plans);
  end.recompute = ir::Recompute::kNone;
  const Result<std::optional<Line>> none = line(end, plans);
  if (!every || !none) {
    return every ? none.error() : every.error();
  }
  const cost::LayerStretch stretch = cost::best_stretch(model_.layers, 1);
  const bool equal = stretch.period == 1 && stretch.length == model_.layers.size();
  if (!*every || !*none || !equal) {
    return std::optional<SampledBound>();
  }
  const auto layers = static_cast<std::int64_t>(model_.layers.size());
  const std::int64_t again = layers_again(model_, plan);
  const Bytes freed = std::max((*none)->kept - (*every)->kept, Bytes{});
  const Bytes most{ceil_div(freed.value() * (again + 1), layers)};
  const Seconds added = std::max((*every)->step - (*none)->step, Seconds{});
  const double share = static_cast<double>(again) / static_cast<double>(layers);
  const Bytes peak = (*none)->peak - std::min(freed, most);
  return lowest((*none)->peak > Bytes{} ? peak : Bytes{}, (*none)->step + share * added);
}

AloneBounds::Alone AloneBounds::alone(const ir::ParallelPlan& plan) {
  const std::optional<ir::ParallelPlan> one = ir::runtime_of(plan).one_rank_alone(plan);
  if (!one) {
    return {};
  }
  const bool some = one->recompute != ir::Recompute::kNone &&
                    (one->recompute_every > 1 || one->recompute_first > 0);
  Alone alone = some ? between(*one) : measured(*one);
  if (plan.lora && one->runtime != plan.runtime) {
    alone = {.computing = alone.products, .products = alone.products, .kept = 0};
  }
  return alone;
}

/// The bounds of a plan that recomputes some layers, from those of no and of every layer.
AloneBounds::Alone AloneBounds::between(const ir::ParallelPlan& one) {
  ir::ParallelPlan end = one;
  end.recompute_every = 1;
  end.recompute_first = 0;
  const Alone every = measured(end);
  end.recompute = ir::Recompute::kNone;
  const Alone none = measured(end);
  const auto layers = static_cast<std::int64_t>(model_.layers.size());
  const std::int64_t again = layers_again(model_, one);
  const cost::LayerStretch stretch = cost::best_stretch(model_.layers, 1);
  const bool equal = stretch.period == 1 && stretch.length == model_.layers.size() &&
                     model_.architecture == ir::Architecture::kCausalLm;
  if (!equal || every.computing < none.computing || every.kept > none.kept) {
    return {.computing = none.computing,
            .products = none.products,
            .kept = std::min(none.kept, every.kept)};
  }
  const std::int64_t freed = none.kept - every.kept;
  return {.computing = none.computing + static_cast<double>(again) / static_cast<double>(layers) *
                                            (every.computing - none.computing),
          .products = none.products,
          .kept = none.kept - std::min(freed, ceil_div(freed * (again + 1), layers))};
}

AloneBounds::Alone AloneBounds::measured(const ir::ParallelPlan& one) {
  {
    const std::lock_guard lock(samples_.mutex);
    const auto found =
        std::ranges::find(samples_.alone, one, &decltype(samples_.alone)::value_type::first);
    if (found != samples_.alone.end()) {
      return found->second;
    }
  }
  const Alone made = extrapolated(one);
  const std::lock_guard lock(samples_.mutex);
  return samples_.alone.emplace_back(one, made).second;
}

AloneBounds::Alone AloneBounds::extrapolated(const ir::ParallelPlan& one) const {
  const cost::LayerStretch stretch =
      cost::best_stretch(model_.layers, static_cast<std::size_t>(one.recompute_every));
  // Three periods are kept, so that one of them is neither the first nor the last.
  const std::size_t removed = stretch.removable(3);
  if (removed == 0 || one.recompute_first > 0) {
    return lowered_alone(model_, one);
  }
  const Alone three = lowered_alone(cost::without_layers(model_, stretch, removed), one);
  const Alone four =
      lowered_alone(cost::without_layers(model_, stretch, removed - stretch.period), one);
  if (three.kept == 0 || four.kept < three.kept) {
    return {};  // One of the two could not be lowered.
  }
  const auto periods = static_cast<std::int64_t>(removed / stretch.period);
  return {
      .computing =
          three.computing + static_cast<double>(periods) * (four.computing - three.computing),
      .products = three.products + static_cast<double>(periods) * (four.products - three.products),
      .kept = three.kept + periods * (four.kept - three.kept)};
}

AloneBounds::Alone AloneBounds::lowered_alone(const ir::ModelSpec& model,
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
        result.products += is_product(work.shapes[item.index]) ? durations[item.index] : Seconds{};
      }
    }
    if (forward && phase.end > phase.begin && phase.begin > 0) {
      result.kept = live[phase.end - 1] - live[phase.begin - 1];
    }
  }
  return result;
}

}  // namespace headroom::plan
