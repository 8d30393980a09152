#pragma once

#include <string>
#include <vector>

#include "validators/dryrun/program_question.h"

namespace headroom::check {

/// A recorded program under other settings of the allocator.
struct SettingsChoice {
  std::string conf;  ///< Value of PYTORCH_ALLOC_CONF; empty: PyTorch's defaults.
  cost::Verdict verdict = cost::Verdict::kFits;
  Bytes peak_reserved;
  Bytes saved;  ///< Less than the question's settings reserve at their peak; negative: more.
  Bytes margin;
  std::int64_t retries = 0;
};

/// A recorded program on another GPU.
struct GpuChoice {
  std::string name;
  Bytes total;
  cost::Verdict verdict = cost::Verdict::kFits;
  Bytes margin;
};

/// Replays the question's program under settings that may reserve less, the best first. Among the
/// values of max_split_size_mb only the best one is kept; what changes nothing is left out.
/// `found`: the answer for the question's own settings.
[[nodiscard]] std::vector<SettingsChoice> try_settings(const ProgramQuestion& question,
                                                       const cost::StepEstimate& found);

/// Replays the question's program, with its settings, on every other GPU of NVIDIA in the
/// catalogue, by memory and name.
///
/// Errors:  those of `cost::list_devices`.
[[nodiscard]] Result<std::vector<GpuChoice>> try_gpus(const ProgramQuestion& question,
                                                      const std::string& config_dir);

}  // namespace headroom::check
