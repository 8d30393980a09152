#pragma once

#include <string>
#include <vector>

#include "costmodel/estimate.h"
#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "validators/dryrun/recorded_program.h"

namespace headroom::check {

/// A recorded program, and the GPU and allocator for which it is judged.
struct ProgramQuestion {
  std::string file;
  RecordedProgram recorded;
  cost::DeviceSpec device;
  Bytes total;          ///< Memory of the device, or the budget.
  bool budget = false;  ///< Whether `total` is a budget, given now or in the dry run.
  ir::AllocatorSettings settings;
  bool as_recorded = false;  ///< Device, memory and settings are those of the recording.
};

/// The allocator settings of the recording. `file` names it in an error.
///
/// Errors:  kInvalidInput for a value of PYTORCH_ALLOC_CONF that PyTorch does not accept.
[[nodiscard]] Result<ir::AllocatorSettings> recorded_settings(const RecordedProgram& recorded,
                                                              const std::string& file);

/// Whether a recorded program can be judged for `device`.
///
/// Errors:  kInvalidArgument for a GPU that is not NVIDIA's.
[[nodiscard]] Status check_program_device(const cost::DeviceSpec& device);

/// The bytes outside the allocator on `device`, and those that the recording's libraries took.
[[nodiscard]] std::vector<cost::OutsideTerm> outside_of(const RecordedProgram& recorded,
                                                        const cost::DeviceSpec& device);

/// The answer for `recorded` on `device` with `total` bytes of memory.
[[nodiscard]] cost::StepEstimate judge_program(const RecordedProgram& recorded,
                                               const ir::AllocatorSettings& settings,
                                               const cost::DeviceSpec& device, Bytes total);
/// The question's answer for other settings on the same device.
[[nodiscard]] cost::StepEstimate judge_program(const ProgramQuestion& question,
                                               const ir::AllocatorSettings& settings);
/// The question's answer on another device.
[[nodiscard]] cost::StepEstimate judge_program(const ProgramQuestion& question,
                                               const cost::DeviceSpec& device, Bytes total);

/// Remarks about the recording that a reader of an answer for `device` should know.
[[nodiscard]] std::vector<std::string> recording_remarks(const RecordedProgram& recorded,
                                                         const cost::DeviceSpec& device,
                                                         const ir::AllocatorSettings& settings);

}  // namespace headroom::check
