#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model_ir/base/result.h"
#include "validators/dryrun/dry_run_files.h"
#include "validators/dryrun/profile.h"
#include "validators/dryrun/recorded_program.h"
#include "validators/dryrun/report.h"

namespace headroom::check {

/// A program, and what it is to believe.
struct DryRunRequest {
  std::vector<std::string> command;  ///< Name and arguments, as they would be typed.
  DryRunDevice device;
  DryRunWorld world;
  std::int64_t steps = 3;           ///< Optimizer steps after which the program stops; 0: never.
  std::string routing = "uniform";  ///< Of tokens to experts: "uniform", "skewed:0.3".
  std::int64_t lag = 0;             ///< Launches by which the device lags behind the host.
  std::string snapshot;             ///< File for a memory snapshot; empty: none.
  bool record = false;              ///< Whether the binding process's events are kept.
  bool output_to_error = false;     ///< Its standard output goes to our standard error.
};

/// How a program ended, and what it reported.
struct DryRunEnd {
  int exit_code = 0;         ///< 0 if a signal ended it.
  int signal = 0;            ///< The signal that ended it; 0: none.
  bool interrupted = false;  ///< Whether a signal to us was passed on.
  int told = 0;              ///< The first such signal; 0: none.
  double seconds = 0;
  std::vector<DryRunReport> reports;  ///< By rank.
  /// The events of the binding report's process; empty unless they were asked for and are whole.
  std::optional<AllocatorHistory> history{};
  std::string unrecorded{};  ///< Why there is no such history, if it was asked for.
};

/// The command line in one line, for people: the program without its folders, long lines cut.
[[nodiscard]] std::string command_text(const std::vector<std::string>& command);

/// The program that the binding process of `end` went through. Requires that it has a history.
[[nodiscard]] RecordedProgram recorded_of(const DryRunRequest& request, const DryRunEnd& end);

/// The environment of the program, from `own`, that of this process ("NAME=value").
///
/// Model:   the variables of docs/dryrun.md are set, whatever stood in LD_PRELOAD and PYTHONPATH
///          stays behind ours, CUDA_VISIBLE_DEVICES is removed. `reports`: the folder for reports.
[[nodiscard]] std::vector<std::string> dry_run_environment(const DryRunRequest& request,
                                                           const DryRunFiles& files,
                                                           const std::string& reports,
                                                           std::span<const std::string> own);

/// Runs the program and reads what it reports.
///
/// Model:   the program gets a process group and an environment of its own, and our streams. A
///          terminal as standard input is replaced by an empty one. SIGINT, SIGTERM and SIGHUP are
///          passed on to the group; the third one kills it. Reports lie in a temporary folder,
///          which is removed in any case. Nothing of this process's environment changes.
/// Errors:  kEnvironment if the command is not found or cannot be started, or if there is no
///          temporary folder; those of `read_reports`.
[[nodiscard]] Result<DryRunEnd> run_dry(const DryRunRequest& request, const DryRunFiles& files);

}  // namespace headroom::check
