#include "validators/executor/confirmation.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "costmodel/time/program_time.h"

namespace headroom::exec {
namespace {

Bytes highest_reserved(const cost::MemoryTimeline& timeline) {
  Bytes highest;
  for (const cost::PhaseMemory& phase : timeline.phases) {
    highest = std::max(highest, phase.peak_reserved);
  }
  return highest;
}

Result<Bytes> capacity_of(const Execution& execution, const DeviceChoice& choice) {
  const Result<std::unique_ptr<Device>> device =
      Device::open(*choice.backend, choice.ordinal, execution.workspace);
  if (!device) {
    return device.error();
  }
  const Bytes free{device.value()->info().free_bytes};
  return choice.budget ? std::min(*choice.budget, free) : free;
}

/// Sequences by which micro-batches grow: tensor-parallel ranks that share the tokens have as many
/// each.
std::int64_t smallest_batch(const Execution& execution) {
  const std::int64_t ranks = execution.division.tensor;
  return execution.sequence_parallel ? ranks / std::gcd(ranks, execution.sequence) : 1;
}

/// The largest number up to `most` that fits, if all below it fit.
Result<std::int64_t> largest(std::int64_t most,
                             const std::function<Result<bool>(std::int64_t)>& fits) {
  std::int64_t enough = 0;
  std::int64_t beyond = 1;
  while (beyond <= most) {
    const Result<bool> fit = fits(beyond);
    if (!fit) {
      return fit.error();
    }
    if (!*fit) {
      break;
    }
    enough = beyond;
    beyond *= 2;
  }
  beyond = std::min(beyond, most + 1);
  while (beyond - enough > 1) {
    const std::int64_t middle = enough + (beyond - enough) / 2;
    const Result<bool> fit = fits(middle);
    if (!fit) {
      return fit.error();
    }
    (*fit ? enough : beyond) = middle;
  }
  return enough;
}

}  // namespace

int binding_rank(Execution execution) {
  Division& division = execution.division;
  int binding = 0;
  Bytes most{-1};
  for (int stage = 0; stage < division.pipeline; ++stage) {
    division.rank = stage * division.data * division.tensor;
    const Bytes reserved = highest_reserved(predict_rank(execution, kUnlimitedMemory));
    if (reserved > most) {
      most = reserved;
      binding = division.rank;
    }
  }
  return binding;
}

Result<Confirmation> confirm(const Execution& execution, const DeviceChoice& choice) {
  const Result<Bytes> capacity = capacity_of(execution, choice);
  if (!capacity) {
    return capacity.error();
  }
  Confirmation confirmation{.capacity = *capacity,
                            .predicted = predict_rank(execution, *capacity),
                            .needed = {},
                            .measured = {}};
  confirmation.needed = highest_reserved(confirmation.predicted.out_of_memory
                                             ? predict_rank(execution, kUnlimitedMemory)
                                             : confirmation.predicted);
  Result<RankRun> run = run_rank(execution, *choice.backend, choice.ordinal, *capacity);
  if (!run) {
    return std::move(run).error();
  }
  confirmation.measured = std::move(run).value();
  return confirmation;
}

Seconds predicted_step(const Execution& execution, const ir::ParallelPlan& plan,
                       const cost::Machine& machine) {
  cost::Machine own = machine;
  own.performance.attention.flash2 = machine.performance.attention.executor;
  cost::PriceList prices = cost::prices_on(own, plan);
  prices.launch = machine.performance.launch.driver;
  prices.looped = prices.launch;
  const ir::RankProgram program = record_rank(execution, Memory::Backing::kWork);
  return cost::price_program(program, plan, prices).step.time();
}

Result<LargestBatch> largest_batch(Execution execution, const DeviceChoice& choice) {
  const Result<Bytes> capacity = capacity_of(execution, choice);
  if (!capacity) {
    return capacity.error();
  }
  const std::int64_t unit = smallest_batch(execution);
  const std::int64_t most = kMostSequences / unit;
  const auto search = [&](const std::function<Result<bool>()>& fits) {
    return largest(most, [&](std::int64_t units) -> Result<bool> {
      execution.micro_batch = units * unit;
      if (Status runs = check_execution(execution); !runs) {
        return std::move(runs).error();
      }
      return fits();
    });
  };
  const Result<std::int64_t> predicted =
      search([&]() -> Result<bool> { return !predict_rank(execution, *capacity).out_of_memory; });
  if (!predicted) {
    return predicted.error();
  }
  const Result<std::int64_t> measured = search([&]() -> Result<bool> {
    const Result<RankRun> run = run_rank(execution, *choice.backend, choice.ordinal, *capacity);
    if (!run) {
      return run.error();
    }
    return !run->out_of_memory;
  });
  if (!measured) {
    return measured.error();
  }
  return LargestBatch{
      .predicted = *predicted * unit, .measured = *measured * unit, .limit = most * unit};
}

}  // namespace headroom::exec
