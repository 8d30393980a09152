#include "runtimes/typed/filed_plan.h"

#include <algorithm>
#include <span>
#include <vector>

#include "runtimes/interface/settle.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"

namespace headroom::ir {

void settle_filed(ParallelPlan& plan) {
  const Runtime* const runtime = find_runtime(plan.runtime);
  if (runtime == nullptr) {
    return;
  }
  const std::vector<const PlanPart*> parts = framework_parts();
  std::vector<const PlanPart*> added;
  for (const PlanPart* const part : parts) {
    if (std::ranges::find(runtime->parts(), part) == runtime->parts().end()) {
      part->drop(plan);
    } else if (!part->has(plan)) {
      added.push_back(part);
    }
  }
  runtime->complete(plan);
  for (const PlanPart* const part : added) {
    if (part->has(plan) && part->precision != nullptr) {
      plan.precision = part->precision(plan.precision);
    }
  }
  settle_precision(plan);
}

void settle_precision(ParallelPlan& plan) {
  const std::span<const Precision> offered = runtime_of(plan).precisions();
  const auto offers = [offered](Precision precision) {
    return std::ranges::find(offered, precision) != offered.end();
  };
  const Precision masters = with_masters(plan.precision);
  if (!offers(plan.precision) && offers(masters)) {
    plan.precision = masters;
  }
}

}  // namespace headroom::ir
