#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "model_ir/base/config_dir.h"
#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"
#include "model_ir/spec/checkpoint_quantisation.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cli {

/// A model that the argument MODEL names.
struct LoadedModel {
  ir::ModelSpec spec;
  std::string label;               ///< For the verdict: catalogue name or file name.
  std::string origin;              ///< "catalogue", or the path that was read.
  std::vector<std::string> notes;  ///< Unusual properties that are not errors.
  /// The storage of the checkpoint's weights, if they are quantised.
  std::optional<ir::CheckpointQuantisation> quantisation{};
};

/// Reads MODEL: a catalogue name, a config.json, a folder that contains one, a safetensors index,
/// file or shards with a config.json beside them, a .gguf file, or "-" for a config.json on
/// standard input.
///
/// Model:   a text with a slash or with the ending of one of these files is a path. Any other text
///          is a name, and only then is the catalogue searched. `--as` reads a configuration as
///          another family; `--task` gives the model another head.
/// Errors:  those of the readers; kInvalidArgument for an unknown name, or if `--as` names no
///          family.
[[nodiscard]] Result<LoadedModel> load_model_argument(const Arguments& arguments);

/// Reads the model that `text` names, like `load_model_argument`.
[[nodiscard]] Result<LoadedModel> load_model(const std::string& text, const Arguments& arguments);

/// The config.json of the model that `text` names, as an object; of a model with several parts,
/// that of its text part.
///
/// Errors:  those of the readers; kInvalidArgument for a model that has none (.gguf).
[[nodiscard]] Result<ir::JsonValue> model_configuration(const std::string& text,
                                                        const Arguments& arguments);

/// The single positional of a verb that takes a MODEL.
///
/// Errors:  kInvalidArgument if there is none or more than one.
[[nodiscard]] Result<std::string> model_text(const Arguments& arguments);

/// The options `--as FAMILY`, `--ignored-keys`, `--task TASK` and `--num-labels N`.
[[nodiscard]] std::span<const OptionSpec> model_options();

/// The folder of the catalogue, according to `--config-dir` and the other ways of naming it.
[[nodiscard]] Result<ConfigDir> config_dir_of(const Arguments& arguments);

}  // namespace headroom::cli
