#pragma once

#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "cli/option_reader.h"
#include "cli/option_text.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/runtime.h"
#include "runtimes/typed/part_options.h"

/// The options of frameworks, from the tables of their parts (`ir::PlanPart`).
namespace headroom::cli {

using ir::is_keyed;
using ir::option_names;
using ir::options_of_part;
using ir::PartPlace;
using ir::place_of;
using ir::readable_files;
using ir::ReadableFile;

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

}  // namespace headroom::cli
