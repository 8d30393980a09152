#include "costmodel/estimate.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "costmodel/binding_rank.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

/// More than any device has, so that no replay runs out of memory.
constexpr Bytes kNoLimit{std::int64_t{1} << 60};

/// "step 2, micro-step 3, backward"; names outside the steps stay as they are.
std::string phase_words(const ir::PhaseName& phase) {
  if (phase.at.step == 0) {
    return to_text(phase);
  }
  std::string words = "step " + std::to_string(phase.at.step);
  if (phase.at.micro_batch > 0) {
    words += ", micro-step " + std::to_string(phase.at.micro_batch);
  }
  if (const std::string_view what = words_of(phase); !what.empty()) {
    words += ", ";
    words += what;
  }
  return words;
}

Bytes greatest(const MemoryTimeline& timeline, Bytes PhaseMemory::*figure) {
  Bytes peak;
  for (const PhaseMemory& phase : timeline.phases) {
    peak = std::max(peak, phase.*figure);
  }
  return peak;
}

void name_peak(StepEstimate& estimate) {
  if (estimate.timeline.phases.empty()) {
    return;
  }
  const PhaseMemory& phase = estimate.timeline.phases[estimate.timeline.peak_phase];
  estimate.peak_phase = phase.name;
  estimate.peak_by_role = phase.at_peak;
  estimate.peak_site = site_of(estimate.program, phase.peak_event);
  estimate.peak_moment = moment_text(phase.name, estimate.peak_site);
}

Verdict verdict_of(const StepEstimate& estimate) {
  if (estimate.out_of_memory) {
    return Verdict::kDoesNotFit;
  }
  const auto spare = static_cast<double>(estimate.margin.value());
  const double wanted = kTightShare * static_cast<double>(estimate.device_total.value());
  return spare < wanted || estimate.retries > 0 ? Verdict::kTight : Verdict::kFits;
}

/// An estimate that knows its program and the device, and nothing of the replay.
StepEstimate unjudged(ir::RankProgram program, Bytes total, std::vector<OutsideTerm> outside) {
  StepEstimate estimate;
  estimate.device_total = total;
  estimate.outside = std::move(outside);
  estimate.program = std::move(program);
  estimate.outside_bytes = total_of(estimate.outside);
  estimate.capacity = std::max(total - estimate.outside_bytes, Bytes{0});
  return estimate;
}

/// Replays the program of `estimate`, which others may read meanwhile, and forms the verdict.
void judge_in_place(StepEstimate& estimate, const ir::AllocatorSettings& settings) {
  estimate.timeline = replay(estimate.program, settings, estimate.capacity);
  estimate.out_of_memory = estimate.timeline.out_of_memory.has_value();
  if (!estimate.timeline.phases.empty()) {
    estimate.retries = estimate.timeline.phases.back().retries;
  }
  if (estimate.out_of_memory) {
    estimate.failure = estimate.timeline.out_of_memory;
    estimate.timeline = replay(estimate.program, settings, kNoLimit);
  }
  estimate.peak_allocated = greatest(estimate.timeline, &PhaseMemory::peak_allocated);
  estimate.peak_reserved = greatest(estimate.timeline, &PhaseMemory::peak_reserved);
  estimate.margin = estimate.capacity - estimate.peak_reserved;
  name_peak(estimate);
  estimate.device_verdict = verdict_of(estimate);
  estimate.verdict = estimate.device_verdict;
}

/// One rank's program, judged and priced.
struct RankEstimate {
  StepEstimate estimate;
  HostMemory host;
  std::optional<StagePrice> price;
};

/// The pipeline stage whose time is computed on `rank`: the first of its ranks; nothing for its
/// other ranks.
std::optional<std::int64_t> priced_stage(const ir::ParallelPlan& plan, ir::Rank rank) {
  const ir::PipelineRuns pipeline = ir::runtime_of(plan).pipeline(plan);
  const auto number = static_cast<std::int64_t>(rank);
  // If the plan asks for one rank, its time is the step's only without a pipeline.
  if (plan.rank ? pipeline.stages > 1 : number % pipeline.stage_stride != 0) {
    return std::nullopt;
  }
  return plan.rank ? 0 : number / pipeline.stage_stride;
}

StagePrice price_stage(const ir::RankProgram& program, std::int64_t stage,
                       const ir::ParallelPlan& plan, const Machine& machine) {
  StagePrice price{.stage = stage, .time = price_program(program, plan, prices_on(machine, plan))};
  price.time.timeline = {};  // The timeline is as long as the program and is not needed.
  return price;
}

/// `device` with `budget` in the place of its memory; 0: its own memory.
DeviceSpec with_budget(const DeviceSpec& device, Bytes budget) {
  DeviceSpec sized = device;
  sized.total = budget > Bytes{0} ? budget : device.total;
  return sized;
}

}  // namespace

bool is_yes(Verdict verdict, const std::optional<double>& chance) {
  constexpr double kEven = 0.5;
  return verdict != Verdict::kDoesNotFit && chance.value_or(1) >= kEven;
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFits:
      return "fits";
    case Verdict::kTight:
      return "tight";
    case Verdict::kDoesNotFit:
      return "does not fit";
  }
  return "?";
}

std::string_view verdict_words(Verdict verdict, const std::optional<double>& chance) {
  return verdict == Verdict::kTight && !is_yes(verdict, chance) ? "probably does not fit"
                                                                : name_of(verdict);
}

PeakSite site_of(const ir::RankProgram& program, std::size_t event) {
  PeakSite found;
  found.event = event;
  if (event >= program.events.size() || program.events[event].site >= program.sites.size()) {
    return found;
  }
  const ir::Site& site = program.sites[program.events[event].site];
  found.layer = site.layer;
  found.backward = site.backward;
  if (site.operation < program.operations.size()) {
    found.operation = program.operations[site.operation];
  }
  return found;
}

std::string moment_text(const ir::PhaseName& phase, const PeakSite& site) {
  std::string text = phase_words(phase);
  if (site.layer >= 0) {
    text += ", layer " + std::to_string(site.layer);
  }
  if (!site.operation.empty()) {
    text += ": " + site.operation;
  }
  return text;
}

std::int64_t replayed_micro_batches(const ir::ParallelPlan& plan) {
  return std::min(plan.workload.accumulation, ir::runtime_of(plan).steady_micro_batches(plan));
}

StepEstimate judge(ir::RankProgram program, const ir::AllocatorSettings& settings, Bytes total,
                   std::vector<OutsideTerm> outside) {
  StepEstimate estimate = unjudged(std::move(program), total, std::move(outside));
  judge_in_place(estimate, settings);
  return estimate;
}

void judge_host(StepEstimate& estimate, HostMemory host) {
  estimate.host = std::move(host);
  const HostMemory& memory = estimate.host;
  estimate.host_verdict = Verdict::kFits;
  if (!memory.fits()) {
    estimate.host_verdict = Verdict::kDoesNotFit;
  } else if (memory.capacity) {
    const double wanted = kTightShare * static_cast<double>(memory.capacity->value());
    if (static_cast<double>(memory.margin().value()) < wanted) {
      estimate.host_verdict = Verdict::kTight;
    }
  }
  estimate.verdict = std::max(estimate.device_verdict, estimate.host_verdict);
}

Result<ir::RankProgram> lower_replayed(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                       const DeviceSpec& device, ir::Rank rank) {
  if (Status status = ir::check_plan(model, plan); !status) {
    return std::move(status).error();
  }
  if (Status status = ir::runtime_of(plan).check_device(plan, device.traits); !status) {
    return std::move(status).error();
  }
  ir::ParallelPlan replayed = plan;
  replayed.workload.accumulation = replayed_micro_batches(plan);
  DeviceTraits traits = device.traits;
  const Bytes left = device.total - total_of(outside_terms(model, plan, device));
  traits.memory_bytes = std::max(left.value(), std::int64_t{1});
  return ir::lower(model, replayed, rank, traits);
}

Result<StepEstimate> estimate(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                              const DeviceSpec& device, Bytes budget, const Machine* machine) {
  const DeviceSpec sized = with_budget(device, budget);
  if (Status status = ir::check_plan(model, plan); !status) {
    return std::move(status).error();  // Ranks are searched in a grid whose degrees must divide.
  }
  const std::vector<ir::Rank> ranks = binding_ranks(model, plan);
  const auto of_rank = [&](ir::Rank rank) -> Result<RankEstimate> {
    Result<ir::RankProgram> program = lower_replayed(model, plan, sized, rank);
    if (!program) {
      return std::move(program).error();
    }
    RankEstimate one;
    one.estimate =
        unjudged(std::move(program).value(), sized.total, outside_terms(model, plan, device));
    std::future<StagePrice>
        price;  // On another thread than the replay, if there is one rank alone.
    if (const auto stage = machine != nullptr ? priced_stage(plan, rank) : std::nullopt) {
      price =
          std::async(ranks.size() == 1 ? std::launch::async : std::launch::deferred, price_stage,
                     std::cref(one.estimate.program), *stage, std::cref(plan), std::cref(*machine));
    }
    judge_in_place(one.estimate, plan.allocator);
    one.estimate.rank = rank;
    one.host = host_memory(model, plan, device.host, one.estimate.program);
    if (price.valid()) {
      one.price = price.get();
    }
    return one;
  };
  std::vector<std::future<Result<RankEstimate>>> others;
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    others.push_back(std::async(std::launch::async, of_rank, ranks[i]));
  }
  Result<RankEstimate> worst = of_rank(ranks.front());
  std::vector<StagePrice> prices;
  HostMemory host;
  const auto keep = [&](const Result<RankEstimate>& one) {
    if (one && one->price) {
      prices.push_back(*one->price);
    }
    if (one && one->host.bytes + one->host.nvme >= host.bytes + host.nvme) {
      host = one->host;
    }
  };
  keep(worst);
  for (std::future<Result<RankEstimate>>& other : others) {
    Result<RankEstimate> one = other.get();
    keep(one);
    if (worst && (!one || one->estimate.peak_reserved > worst->estimate.peak_reserved)) {
      worst = std::move(one);
    }
  }
  if (!worst) {
    return std::move(worst).error();
  }
  if (!prices.empty()) {
    worst->estimate.time = compose_step(model, plan, device, prices);
  }
  judge_host(worst->estimate, std::move(host));
  return std::move(worst->estimate);
}

Result<StepTime> step_time(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                           const DeviceSpec& device, Bytes budget, const Machine& machine) {
  const DeviceSpec sized = with_budget(device, budget);
  if (Status status = ir::check_plan(model, plan); !status) {
    return std::move(status).error();
  }
  const auto of_stage = [&](ir::Rank rank, std::int64_t stage) -> Result<StagePrice> {
    const Result<ir::RankProgram> program = lower_replayed(model, plan, sized, rank);
    return program ? Result<StagePrice>(price_stage(*program, stage, plan, machine))
                   : Result<StagePrice>(program.error());
  };
  std::vector<std::future<Result<StagePrice>>> priced;
  for (const ir::Rank rank : binding_ranks(model, plan)) {
    if (const std::optional<std::int64_t> stage = priced_stage(plan, rank)) {
      // The first runs on this thread, once its result is asked for.
      const auto where = priced.empty() ? std::launch::deferred : std::launch::async;
      priced.push_back(std::async(where, of_stage, rank, *stage));
    }
  }
  std::vector<StagePrice> prices;
  for (std::future<Result<StagePrice>>& one : priced) {
    Result<StagePrice> price = one.get();
    if (!price) {
      return std::move(price).error();
    }
    prices.push_back(std::move(price).value());
  }
  return compose_step(model, plan, device, prices);
}

}  // namespace headroom::cost
