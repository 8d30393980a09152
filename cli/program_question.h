#pragma once

#include <vector>

#include "cli/arguments.h"
#include "model_ir/base/result.h"
#include "validators/dryrun/program_question.h"

namespace headroom::cli {

using check::ProgramQuestion;

/// The option `--program FILE`.
[[nodiscard]] OptionSpec program_option();
/// The option `--program` and the options of the question: --gpu, --budget and --alloc-conf.
[[nodiscard]] std::vector<OptionSpec> program_question_options();

/// Reads the whole question. Without --gpu, --budget and --alloc-conf it is about the recording's.
///
/// Errors:  those of `check::read_recorded_program`, `check::recorded_settings`, `find_gpu`,
///          `read_budget` and `parse_allocator_settings`; kInvalidArgument for positionals and for
///          a GPU that is not NVIDIA's.
[[nodiscard]] Result<ProgramQuestion> read_program_question(const Arguments& arguments);

}  // namespace headroom::cli
