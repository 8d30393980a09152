#pragma once

#include <string>
#include <vector>

#include "model_ir/base/result.h"
#include "validators/dryrun/launcher.h"

namespace headroom::check {

/// A model whose Python code is to be recorded.
struct ModelSource {
  std::string python;  ///< The interpreter that has PyTorch and transformers.
  std::string source;  ///< A config.json, the folder of one, or "file.py:make_model".
  std::string output;
  std::vector<std::string> options;  ///< Further words for the recorder.
  DryRunDevice device;
  /// Records the family instead: several configurations, whose dimensions become symbols.
  bool family = false;
};

/// Runs the recorder (runtimes/torch/record), which writes a model recording to `output`.
///
/// Model:   as a program of the dry run, on a GPU without end that computes nothing.
/// Errors:  those of `find_dry_run_files`, `check_interpreter` and `run_dry`; kEnvironment if the
///          recorder's files are missing; kInvalidInput if the recorder fails, which has then said
///          why on standard error. `output` is left as it was.
[[nodiscard]] Status record_model(const ModelSource& source);

}  // namespace headroom::check
