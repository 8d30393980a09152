#pragma once

#include <cstdint>

#include "planner/search/search_question.h"
#include "planner/space/axis.h"
#include "runtimes/megatron/search/axes.h"
#include "tests/support/random.h"
#include "tests/support/rated_plans.h"
#include "tests/support/search_models.h"

namespace headroom::test {

/// A space of some hundred plans on a device with little memory.
inline plan::SearchQuestion random_megatron_question(Random& random, const ir::ModelSpec& model) {
  using plan::Axis;
  namespace megatron_axes = plan::megatron_axes;
  plan::SearchQuestion question = search_question(model, a100(), dgx(), 16);
  question.space.base.workload.sequence = 256 * random.between(1, 8);
  plan::Constraints& constraints = question.space.constraints;
  constraints.of(Axis::kRuntime) = {3};
  constraints.of(Axis::kGpus) = {random.pick<std::int64_t>({2, 4, 8})};
  constraints.of(Axis::kAttention) = {0};
  constraints.of(Axis::kMicroBatch) = {1, 2, 4};
  constraints.of(Axis::kContext) = {1};
  constraints.of(megatron_axes::kOverlapGradReduce) = {random.between(0, 1)};
  constraints.of(megatron_axes::kOverlapParamGather) = {0};
  // The memory that the device loses outside the allocator, and room for some of the plans only.
  question.budget = Bytes{1400 * kMiB + random.between(0, 700) * kMiB};
  return question;
}

}  // namespace headroom::test
