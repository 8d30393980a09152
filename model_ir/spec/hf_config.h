#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/json/json_reader.h"
#include "model_ir/spec/checkpoint_quantisation.h"
#include "model_ir/spec/family.h"
#include "model_ir/spec/model_spec.h"
#include "model_ir/spec/task.h"

namespace headroom::ir {

struct HfConfigOptions {
  std::optional<Family> as;  ///< Reads the file as this family, whatever its `model_type`.
  std::string name;          ///< `ModelSpec::name`; empty: the file's.
  std::string families{};    ///< The recordings of families; empty: those of `find_config_dir`.
  /// Reads one variant of recorded code, which is enough for sizes and counts but not for a run.
  bool one_variant = false;
  AskedHead head{};  ///< The head of a recorded family; `set_task` sets that of other families.
};

/// The result of reading a configuration.
struct HfConfig {
  ModelSpec model;
  /// JSON pointers of the keys that had no influence, in the order of the file.
  std::vector<std::string> ignored_keys;
  /// Those of them that describe experts, also inside of objects that had no influence as a whole.
  std::vector<std::string> ignored_experts{};
  /// Parts of the model that the file names and `model` leaves out, such as other towers.
  std::vector<std::string> notes;
  /// The storage of the checkpoint's weights, if they are quantised.
  std::optional<CheckpointQuantisation> quantisation{};
  friend bool operator==(const HfConfig&, const HfConfig&) = default;
};

/// Reads the config.json of a model on the Hugging Face hub.
///
/// Model:   the model that transformers 5.17.0 builds from the file: keys that are absent take the
///          defaults of the family's configuration class. hidden_size, num_hidden_layers,
///          num_attention_heads and vocab_size (or the family's own names of them) must be there,
///          because a guess would change the model's size unnoticed. `model_type` "gemma3" means
///          the text part in `text_config`; the published files omit heads and vocabulary there, so
///          the defaults apply.
///          Types that are not written by hand are answered from the recordings of their families
///          (`model_of_family`).
/// Errors:  those of `read_file`; kInvalidInput for what is no JSON, an unknown `model_type`
///          (with the closest known ones), wrong types, values outside their bounds and sizes that
///          do not fit together. Returns one error for all faults: the first, with the rest as
///          notes.
/// Ignores: keys that change no tensor (rotary frequencies, token ids, norm epsilons), layer drop.
/// Source:  huggingface/transformers 5.17.0, src/transformers/models/*/configuration_*.py.
[[nodiscard]] Result<ModelSpec> read_hf_config(const std::string& path,
                                               const HfConfigOptions& options = {});
/// As `read_hf_config`, from text; `file` names it in messages.
[[nodiscard]] Result<ModelSpec> parse_hf_config(std::string_view text, std::string_view file,
                                                const HfConfigOptions& options = {});
/// As `parse_hf_config`, with the keys that were ignored. A model recording (docs/recordings.md)
/// may stand in place of the configuration.
[[nodiscard]] Result<HfConfig> inspect_hf_config(std::string_view written, std::string_view file,
                                                 const HfConfigOptions& options = {});
/// What a reader of an answer must know of the recorded code of a model; empty without a recording.
/// `images`: the question is about batches with images.
[[nodiscard]] std::vector<std::string> recording_notes(const ModelSpec& model, bool images);

/// What a model that is written by hand leaves out of its configuration: a tower for images.
/// `families`: the folder with the recordings of families, which may know the whole model.
[[nodiscard]] std::vector<std::string> notes_on_towers(const JsonValue& config,
                                                       const std::string& families);
/// The model of a configuration of a family that was recorded (`model_of_family`); nothing if its
/// family is written by hand, or is not known at all.
[[nodiscard]] Result<std::optional<ModelSpec>> read_recorded_family(const JsonValue& config,
                                                                    std::string_view file,
                                                                    const HfConfigOptions& options);
/// As `parse_hf_config`, from an object inside a larger document. Faults are noted in its reader.
[[nodiscard]] ModelSpec read_hf_object(const JsonObject& config, const HfConfigOptions& options);

}  // namespace headroom::ir
