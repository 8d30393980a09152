#include "planner/search/search_question.h"

#include <array>

namespace headroom::plan {
namespace {

constexpr std::array<ir::Word<Objective>, 6> kObjectives = {
    {{"throughput", Objective::kThroughput},
     {"gpus", Objective::kGpus},
     {"memory", Objective::kMemory},
     {"cost", Objective::kCost},
     {"micro-batch", Objective::kMicroBatch},
     {"sequence", Objective::kSequence}}};

}  // namespace

std::span<const ir::Word<Objective>> objective_words() {
  return kObjectives;
}

std::string_view name_of(PlanStatus status) {
  switch (status) {
    case PlanStatus::kOptimal:
      return "optimal";
    case PlanStatus::kFeasible:
      return "feasible";
    case PlanStatus::kInfeasible:
      return "infeasible";
    case PlanStatus::kUnknown:
      return "unknown";
  }
  return "?";
}

}  // namespace headroom::plan
