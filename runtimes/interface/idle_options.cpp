#include "runtimes/interface/idle_options.h"

#include <array>
#include <string>

#include "model_ir/base/check.h"
#include "runtimes/interface/common_options.h"

namespace headroom::ir {
namespace {

/// Whether the option changes a field of the plan itself or adds a part that a plan may lack.
bool is_given(const ParallelPlan& plan, std::string_view option) {
  const PlanPart& own = plan_options();
  for (const OptionField& field : own.fields) {
    if (field.option == option) {
      return !field.same(plan, own.usual());
    }
  }
  for (const PlanPart* const part : {&lora_options(), &quant_options(), &generation_options()}) {
    if (part->option == option) {
      return part->has(plan);
    }
  }
  HEADROOM_ASSERT(false);
  return false;
}

}  // namespace

std::optional<Error> idle_option(const ParallelPlan& plan, std::span<const IdleOption> idle,
                                 std::string_view framework) {
  for (const IdleOption& option : idle) {
    if (is_given(plan, option.name)) {
      const std::string fix = option.instead.empty() ? "leave out --" + std::string(option.name)
                                                     : std::string(option.instead);
      return Error::invalid_argument(option.name, "is not supported with " + std::string(framework),
                                     {}, fix);
    }
  }
  return std::nullopt;
}

}  // namespace headroom::ir
