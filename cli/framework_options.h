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

/// Where the options of a part stand among those of a plan.
enum class PartPlace : std::uint8_t {
  kFirst,            ///< Beside --runtime: the part has an option with one value.
  kBeforePrecision,  ///< They decide which precision is usual.
  kLast,
};
[[nodiscard]] PartPlace place_of(const ir::PlanPart& part);

/// Whether the value of `option` is a list of keys of the part.
[[nodiscard]] bool is_keyed(const ir::PlanPart& part, std::string_view option);
/// The options of a part in the order in which they are typed: those with one value, then those
/// with a list of keys.
[[nodiscard]] std::vector<std::string_view> option_names(const ir::PlanPart& part);

/// A configuration file that a framework reads, and the framework.
struct ReadableFile {
  const ir::Runtime* runtime = nullptr;
  ir::ConfigurationFormat format;
};
[[nodiscard]] std::vector<ReadableFile> readable_files();

/// Refuses options that no single framework reads.
///
/// Errors:  kInvalidArgument naming both options.
[[nodiscard]] Status check_one_framework(const Arguments& arguments);

/// Reads which framework is meant, and the options of its parts. `--runtime` names it; otherwise it
/// is the one whose options are given, and without any that of the plan. Parts that it does not
/// read are removed unless they were asked for: the check of the whole plan refuses those.
void read_framework(OptionReader& reader, ir::ParallelPlan& plan);

/// Whether an option is given that can change what the framework's default optimizer is.
[[nodiscard]] bool decides_optimizer(const OptionReader& reader, const ir::ParallelPlan& plan);

/// The options that ask for a part of `plan`; none if the plan has the part without being asked.
[[nodiscard]] std::vector<OptionValue> options_of_part(const ir::PlanPart& part,
                                                       const ir::ParallelPlan& plan);

}  // namespace headroom::cli
