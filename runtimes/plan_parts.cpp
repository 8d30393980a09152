#include "runtimes/plan_parts.h"

#include <algorithm>
#include <string>

#include "model_ir/plan/plan_words.h"
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

namespace {

/// Whether the options of `runtime` have rows for all degrees of the plan's mesh that are not 1.
bool has_degrees(const Runtime& runtime, const ParallelPlan& plan) {
  ParallelPlan rest = plan;
  for (const PlanPart* const part : runtime.parts()) {
    part->add(rest);
    part->drop(rest);
  }
  return rest.mesh == Mesh{};
}

}  // namespace

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
  if (!(plan.mesh == Mesh{}) && !has_degrees(runtime_of(plan), plan)) {
    std::vector<std::string> able;
    for (const Runtime* const runtime : runtimes()) {
      if (has_degrees(*runtime, plan)) {
        able.emplace_back(runtime->name());
      }
    }
    return Error::invalid_argument(
        "mesh", "has a degree of parallelism that --runtime " + plan.runtime + " does not have",
        able.empty() ? "degrees of one framework" : "a runtime out of " + join(able));
  }
  return ok();
}

}  // namespace headroom::ir
