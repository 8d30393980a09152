#include "runtimes/plan_parts.h"

#include <algorithm>
#include <string>

#include "runtimes/interface/common_options.h"
#include "runtimes/registry.h"

namespace headroom::ir {

std::vector<const PlanPart*> framework_parts() {
  std::vector<const PlanPart*> parts;
  for (const Runtime* const runtime : runtimes()) {
    for (const PlanPart* const part : runtime->parts()) {
      if (std::ranges::find(parts, part) == parts.end()) {
        parts.push_back(part);
      }
    }
  }
  return parts;
}

std::vector<const PlanPart*> plan_parts() {
  std::vector<const PlanPart*> parts = framework_parts();
  parts.insert(parts.end(),
               {&lora_options(), &quant_options(), &generation_options(), &allocator_options()});
  return parts;
}

Status refuse_foreign_parts(const ParallelPlan& plan) {
  const std::span<const PlanPart* const> own = runtime_of(plan).parts();
  for (const Runtime* const runtime : runtimes()) {
    for (const PlanPart* const part : runtime->parts()) {
      if (part->has(plan) && std::ranges::find(own, part) == own.end()) {
        return Error::invalid_argument(part->option,
                                       "is not supported with --runtime " + plan.runtime, {},
                                       "use --runtime " + std::string(part->runtime) +
                                           ", or leave out --" + std::string(part->option));
      }
    }
  }
  return ok();
}

}  // namespace headroom::ir
