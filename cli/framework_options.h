#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "cli/option_reader.h"
#include "cli/option_text.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/runtime.h"

/// The options of frameworks, from the tables of their parts (`ir::PlanPart`).
namespace headroom::cli {

/// The place of a part's options among the options of a plan.
enum class PartPlace : std::uint8_t {
  kFirst,            ///< Next to --runtime: the part has an option with one value.
  kBeforePrecision,  ///< They determine the default precision.
  kLast,
};
[[nodiscard]] PartPlace place_of(const ir::PlanPart& part);

/// Whether the value of `option` is a list of keys of the part.
[[nodiscard]] bool is_keyed(const ir::PlanPart& part, std::string_view option);
/// The options of a part in the order of the help: first those with one value, then those with a
/// list of keys.
[[nodiscard]] std::vector<std::string_view> option_names(const ir::PlanPart& part);

/// A configuration file format that a framework reads, and the framework.
struct ReadableFile {
  const ir::Runtime* runtime = nullptr;
  ir::ConfigurationFormat format;
};
[[nodiscard]] std::vector<ReadableFile> readable_files();

/// Refuses a combination of options that no single framework reads.
///
/// Errors:  kInvalidArgument, which names both options.
[[nodiscard]] Status check_one_framework(const Arguments& arguments);

/// Determines the framework and reads the options of its parts. `--runtime` names the framework.
/// Without it, the framework is that of the given options, and without such options that of the
/// plan. Parts that the framework does not read are removed, unless the user asked for them: the
/// check of the whole plan refuses those.
void read_framework(OptionReader& reader, ir::ParallelPlan& plan);

/// Whether a given option can change the framework's default optimizer.
[[nodiscard]] bool decides_optimizer(const OptionReader& reader, const ir::ParallelPlan& plan);

/// The options that request a part of `plan`; none if the plan has the part by default.
[[nodiscard]] std::vector<OptionValue> options_of_part(const ir::PlanPart& part,
                                                       const ir::ParallelPlan& plan);

}  // namespace headroom::cli
