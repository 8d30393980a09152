#include "planner/space/framework_search.h"

#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

std::int64_t whole_recompute_of(const ir::ParallelPlan& plan) {
  return static_cast<std::int64_t>(plan.recompute == ir::Recompute::kNone ? RecomputeChoice::kNone
                                                                          : RecomputeChoice::kFull);
}

std::string micro_batch_rule(const SpaceQuestion& question) {
  return "a divisor of the sequences of a data-parallel rank (a batch of " +
         std::to_string(question.global_batch) + " over ranks that divide " + gpus_text(question) +
         " GPUs)";
}

}  // namespace

const FrameworkSearch& search_of_runtime(std::int64_t runtime) {
  return *framework_searches()[static_cast<std::size_t>(runtime)];
}

SearchAxis micro_batch_axis() {
  const auto candidates = [](SpaceWalk& walk) {
    const std::int64_t data =
        walk.plan.world / ir::runtime_of(walk.plan).ranks_per_replica(walk.plan);
    const std::int64_t batch = walk.question.global_batch;
    return batch % data == 0 ? divisors(batch / data) : AxisValues{};
  };
  const auto set = [](SpaceWalk& walk, std::int64_t value) {
    const std::int64_t data =
        walk.plan.world / ir::runtime_of(walk.plan).ranks_per_replica(walk.plan);
    walk.plan.workload.micro_batch = value;
    walk.plan.workload.accumulation = walk.question.global_batch / data / value;
  };
  return {.axis = Axis::kMicroBatch,
          .get = [](const ir::ParallelPlan& plan) { return plan.workload.micro_batch; },
          .rule = micro_batch_rule,
          .candidates = candidates,
          .set = set};
}

SearchAxis whole_recompute_axis() {
  return {.axis = Axis::kRecompute,
          .get = whole_recompute_of,
          .help = "none, full",
          .rule = [](const SpaceQuestion& /*question*/) -> std::string { return "none or full"; }};
}

std::string gpus_text(const SpaceQuestion& question) {
  const AxisValues& given = question.constraints.of(Axis::kGpus);
  return std::to_string(given.empty() ? question.base.world : given.back());
}

std::string sequence_text(const SpaceQuestion& question) {
  const AxisValues& given = question.constraints.of(Axis::kSequence);
  return std::to_string(given.empty() ? question.base.workload.sequence : given.front());
}

std::string layers_text(const SpaceQuestion& question) {
  return std::to_string(question.model.layers.size());
}

AxisValues among(const Constraints& allowed, Axis axis, AxisValues candidates) {
  if (!allowed.of(axis).empty()) {
    std::erase_if(candidates, [&](std::int64_t value) { return !allowed.allows(axis, value); });
  }
  return candidates;
}

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> found;
  std::vector<std::int64_t> above;
  for (std::int64_t i = 1; i * i <= number; ++i) {
    if (number % i == 0) {
      found.push_back(i);
      if (i * i != number) {
        above.push_back(number / i);
      }
    }
  }
  found.insert(found.end(), above.rbegin(), above.rend());
  return found;
}

}  // namespace headroom::plan
