#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"
#include "validators/dryrun/report.h"

namespace headroom::check {

/// The GPUs that a Python with PyTorch finds.
struct GpuProbe {
  bool answered = false;  ///< False: it did not run.
  std::string trouble;    ///< Why PyTorch has no GPU, in one phrase; empty: it has.
  std::int64_t gpus = 0;
  std::string name;  ///< Name of the first GPU.
};

/// Asks an interpreter for its GPUs.
[[nodiscard]] GpuProbe probe_gpus(const std::string& python);

/// Refuses a run for which this machine lacks something.
///
/// Errors:  kEnvironment, in one sentence: no such interpreter, no PyTorch, a build without CUDA,
///          no driver, no GPU, fewer GPUs than `world`.
[[nodiscard]] Status check_gpus(const GpuProbe& probe, const std::string& python,
                                std::int64_t world);

/// A training case on the GPUs of this machine.
struct GpuRun {
  std::string python;
  std::string folder;  ///< Folder of train.py.
  ir::JsonValue training_case;
  std::int64_t world = 1;
  std::int64_t timed_steps = 0;
  std::string snapshot;  ///< File for a memory snapshot; empty: none.
};

/// The reports of the run's processes, by rank, and the way the run ended.
struct GpuRunEnd {
  int exit_code = 0;
  int signal = 0;
  bool interrupted = false;
  std::vector<DryRunReport> reports;
  std::optional<double> step_seconds;  ///< Median of the timed steps of the first rank.
  std::int64_t outside_bytes = 0;      ///< Bytes on its device outside PyTorch's allocator.
};

/// The command line of the script; `case_file` names the case.
[[nodiscard]] std::vector<std::string> script_command(const std::string& python,
                                                      const std::string& folder,
                                                      const std::string& case_file);

/// Runs it. Its standard output goes to our standard error.
///
/// Errors:  those of `run_child` and `read_reports`; kEnvironment if there is no temporary folder;
///          kInvalidInput if no process measured anything.
[[nodiscard]] Result<GpuRunEnd> run_on_gpus(const GpuRun& run);

}  // namespace headroom::check
