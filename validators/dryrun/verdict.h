#pragma once

#include <string>
#include <string_view>

#include "model_ir/base/units.h"
#include "validators/dryrun/launcher.h"

namespace headroom::check {

enum class DryRunVerdict : std::uint8_t {
  kFits,
  kTight,       ///< Little is left, PyTorch had to empty its cache, or the program caught an error.
  kDoesNotFit,  ///< An out-of-memory error ended it.
  kUnknown,     ///< It ended for another reason before it was measured.
};
/// "fits", "tight", "does not fit", "unknown".
[[nodiscard]] std::string_view name_of(DryRunVerdict verdict);

/// The bytes that PyTorch lacked when it asked for `requested` with `free` left. If more was free
/// than it asked for, another limit refused it (a fraction of memory that the program set), and all
/// of `requested` was missing.
[[nodiscard]] Bytes missing_bytes(Bytes requested, Bytes free);

/// What the dry run of a program says about the device.
struct DryRunJudgement {
  DryRunVerdict verdict = DryRunVerdict::kUnknown;
  Bytes capacity;  ///< What PyTorch's allocator could take.
  Bytes peak_allocated;
  Bytes peak_reserved;  ///< Over all phases.
  Bytes margin;         ///< capacity - peak_reserved; if out of memory, minus what was missing.
  std::int64_t retries = 0;  ///< Times that PyTorch emptied its cache and asked again.
};

/// Judges `report`, one of the reports of `end`.
///
/// Model:   an out-of-memory error that ended the program means that it does not fit; what was
///          missing is what PyTorch asked for less what was free. Otherwise it must have come to
///          the end of its steps or to its own end. Margins below `cost::kTightShare` of the device
///          are tight, as in `fit`.
[[nodiscard]] DryRunJudgement judge_dry_run(const DryRunDevice& device, const DryRunEnd& end,
                                            const DryRunReport& report);

/// Whether a phase belongs to no step: the model is built and placed on the GPU.
[[nodiscard]] bool is_before_steps(const DryRunPhase& phase);

/// A phase in words: "step 2, backward, micro-batch 3", "load".
[[nodiscard]] std::string moment_of(const DryRunPhase& phase);

}  // namespace headroom::check
