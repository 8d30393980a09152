#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/runtime.h"
#include "runtimes/typed/option_text.h"

/// The options of the parts of a plan, from their tables (`PlanPart`).
namespace headroom::ir {

/// The place of a part's options among the options of a plan.
enum class PartPlace : std::uint8_t {
  kFirst,            ///< Next to --runtime: the part has an option with one value.
  kBeforePrecision,  ///< They determine the default precision.
  kLast,
};
[[nodiscard]] PartPlace place_of(const PlanPart& part);

/// Whether the value of `option` is a list of keys of the part.
[[nodiscard]] bool is_keyed(const PlanPart& part, std::string_view option);
/// The options of a part in the order of the help: first those with one value, then those with a
/// list of keys.
[[nodiscard]] std::vector<std::string_view> option_names(const PlanPart& part);

/// A configuration file format that a framework reads, and the framework.
struct ReadableFile {
  const Runtime* runtime = nullptr;
  ConfigurationFormat format;
};
[[nodiscard]] std::vector<ReadableFile> readable_files();

/// The options that request a part of `plan`; none if the plan has the part by default.
[[nodiscard]] std::vector<OptionValue> options_of_part(const PlanPart& part,
                                                       const ParallelPlan& plan);

}  // namespace headroom::ir
