#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "costmodel/estimate.h"
#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "validators/dryrun/recorded_program.h"

namespace headroom::cli {

/// A recorded program, and the GPU and allocator for which it is judged.
struct ProgramQuestion {
  std::string file;
  check::RecordedProgram recorded;
  cost::DeviceSpec device;
  Bytes total;          ///< Memory of the device, or the budget.
  bool budget = false;  ///< Whether `total` is a budget, given now or in the dry run.
  ir::AllocatorSettings settings;
  bool as_recorded = false;  ///< Device, memory and settings are those of the recording.
};

/// The option `--program FILE`.
[[nodiscard]] OptionSpec program_option();
/// The option `--program` and the options of the question: --gpu, --budget and --alloc-conf.
[[nodiscard]] std::vector<OptionSpec> program_question_options();

/// Reads the whole question. Without --gpu, --budget and --alloc-conf it is about the recording's.
///
/// Errors:  those of `check::read_recorded_program`, `find_gpu`, `read_budget` and
///          `parse_allocator_settings`; kInvalidArgument for positionals and for a GPU that is not
///          NVIDIA's.
[[nodiscard]] Result<ProgramQuestion> read_program_question(const Arguments& arguments);

/// The bytes outside the allocator on `device`, and those that the recording's libraries took.
[[nodiscard]] std::vector<cost::OutsideTerm> outside_of(const check::RecordedProgram& recorded,
                                                        const cost::DeviceSpec& device);

/// The question's answer for other settings on the same device.
[[nodiscard]] cost::StepEstimate judge_program(const ProgramQuestion& question,
                                               const ir::AllocatorSettings& settings);
/// The question's answer on another device.
[[nodiscard]] cost::StepEstimate judge_program(const ProgramQuestion& question,
                                               const cost::DeviceSpec& device, Bytes total);

/// Remarks about the recording that a reader of the answer should know.
[[nodiscard]] std::vector<std::string> recording_remarks(const ProgramQuestion& question);

}  // namespace headroom::cli
