#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "model_ir/base/config_dir.h"
#include "model_ir/base/result.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cli {

/// A model as MODEL names it.
struct LoadedModel {
  ir::ModelSpec spec;
  std::string label;               ///< For the verdict: a catalogue name or the file's.
  std::string origin;              ///< "catalogue", or the path that was read.
  std::vector<std::string> notes;  ///< What is odd but no error.
};

/// Reads MODEL: a catalogue name, a config.json, a folder with one, a safetensors index or file
/// with a config.json beside it, a .gguf file, or "-" for a config.json on standard input.
///
/// Model:   what holds a slash or ends like one of these files is a path; anything else a name of
///          the catalogue, which is looked for only then. `--as` reads a configuration as another
///          family, `--task` puts another head on the model.
/// Errors:  those of the readers; kInvalidArgument for a name that is not known or a `--as` that is
///          no family.
[[nodiscard]] Result<LoadedModel> load_model_argument(const Arguments& arguments);

/// The model that `text` names, as `load_model_argument` reads it.
[[nodiscard]] Result<LoadedModel> load_model(const std::string& text, const Arguments& arguments);

/// The one positional of a verb that takes a MODEL.
///
/// Errors:  kInvalidArgument if there is none, or more than one.
[[nodiscard]] Result<std::string> model_text(const Arguments& arguments);

/// `--as FAMILY`, `--ignored-keys`, `--task TASK` and `--num-labels N`.
[[nodiscard]] std::span<const OptionSpec> model_options();

/// The folder of the catalogue, as `--config-dir` and its like say.
[[nodiscard]] Result<ConfigDir> config_dir_of(const Arguments& arguments);

}  // namespace headroom::cli
