#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/base/units.h"
#include "model_ir/json/json_value.h"

namespace headroom::check {

/// A part of a step that a process went through.
struct DryRunPhase {
  std::string name;  ///< "load", "forward", "backward", "optimizer", "end"
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;
  Bytes allocated_before;
  Bytes allocated_after;
  Bytes peak_allocated;
  Bytes reserved_after;
  Bytes peak_reserved;
  Bytes requested_after;
  Bytes peak_requested;
  std::int64_t retries = 0;  ///< Times that PyTorch emptied its cache and asked again.
  double seconds = 0;        ///< On this machine; says nothing about the GPU.
  ir::JsonValue work;        ///< As the stand-in counted it; null if it did not.
};

/// What the live blocks of one line of the program are for.
inline constexpr std::size_t kDryRunCategories = 5;
/// "parameters", "gradients", "optimizer states", "activations", "other".
[[nodiscard]] std::string_view dry_run_category(std::size_t index);
/// The category of that name; that of "other" if there is none.
[[nodiscard]] std::size_t dry_run_category(std::string_view name);

/// Blocks that were live at one moment and that one line of the program allocated.
struct DryRunBlocks {
  Bytes bytes;  ///< Of all of them together.
  std::int64_t count = 0;
  std::string frame;  ///< "train.py:31 forward"; empty if it is not known.
  std::size_t category = 0;
};

/// The moment at which most was allocated.
struct DryRunPeak {
  std::optional<std::size_t> phase;  ///< Index in `DryRunReport::phases`.
  Bytes allocated;
  Bytes reserved;
  Bytes device;                    ///< As nvidia-smi would show it.
  std::vector<DryRunBlocks> live;  ///< Largest first.
};

/// An out-of-memory error that the program met.
struct DryRunOom {
  Bytes requested;
  Bytes free;
  Bytes capacity;
  Bytes allocated;
  Bytes reserved;
  std::string phase;
  std::int64_t step = 0;
  std::vector<std::string> stack;  ///< "file:line function", the innermost first.
  std::vector<DryRunBlocks> live;  ///< Largest first.
};

/// An out-of-memory error that the program caught before it went on and completed a step.
struct DryRunCaught {
  Bytes requested;
  Bytes free;
  Bytes allocated;
  std::string phase;
  std::int64_t step = 0;
  std::vector<std::int64_t> batch;  ///< Shape of the first tensor of that forward pass; or empty.
  std::string where;                ///< "file:line function"; may be empty.
};

/// Why a process wrote its report.
enum class DryRunStop : std::uint8_t { kSteps, kEnd, kException, kSignal };
/// "steps", "end", "exception", "signal".
[[nodiscard]] std::string_view name_of(DryRunStop stop);

struct DryRunException {
  std::string type;
  std::string message;
  std::string where;
};

/// A value that a real GPU would have computed and the dry run assumed.
struct DryRunGuess {
  std::string what;  ///< One sentence.
  std::int64_t times = 0;
  std::string where;  ///< "file:line"; may be empty.
};

/// A function of CUDA's libraries that the stand-in answered with an error.
struct DryRunRefusal {
  std::string function;
  std::int64_t times = 0;
};

/// The report of one process (docs/dryrun.md, "The report of a process").
struct DryRunReport {
  std::string file;
  std::int64_t process = 0;
  std::vector<std::string> arguments;
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> world;
  std::vector<std::pair<std::string, std::string>> versions;  ///< In the order of the report.
  std::string device;
  Bytes device_total;
  std::vector<DryRunPhase> phases;  ///< In the order of time.
  DryRunPeak peak;
  std::optional<DryRunOom> oom;
  std::vector<DryRunCaught>
      caught;  ///< Caught errors in order of time; `phases` and `peak` leave them out.
  DryRunStop stopped = DryRunStop::kEnd;
  std::optional<DryRunException> exception;
  std::vector<DryRunGuess> guesses;
  std::vector<DryRunRefusal> refused;
  Bytes host_peak;        ///< Resident.
  Bytes pinned_peak;      ///< Page-locked; not counted in `host_peak`.
  ir::JsonValue program;  ///< What was recognised of the model and the plan; null if nothing was.
};

/// Reads one report. Keys that are not known are left out.
///
/// Units:   bytes, seconds.
/// Errors:  kInvalidInput naming `file` and the place: no JSON, another version, a missing field, a
///          wrong type, a value out of bounds, longer lists than a process can have a reason for.
[[nodiscard]] Result<DryRunReport> parse_report(std::string_view text, std::string_view file);

/// Reads all reports of a folder: those with the ending .json, by rank and name.
///
/// Errors:  those of `parse_report`; kEnvironment if a file cannot be read.
[[nodiscard]] Result<std::vector<DryRunReport>> read_reports(const std::string& folder);

/// The report that decides: one that ran out of memory, if there is one; then the one with the
/// highest reserved and allocated peak. Requires at least one report.
[[nodiscard]] std::size_t binding_report(const std::vector<DryRunReport>& reports);

}  // namespace headroom::check
