#include "model_ir/spec/hf_config.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "model_ir/base/config_dir.h"
#include "model_ir/base/file.h"
#include "model_ir/json/python_json.h"
#include "model_ir/spec/hf_families.h"
#include "model_ir/spec/recorded_family/recorded_families.h"
#include "model_ir/spec/recorded_family/recorded_head.h"
#include "model_ir/spec/recording/recorded_spec.h"
#include "model_ir/spec/recording/recording.h"
#include "model_ir/spec/recording/recording_reader.h"
#include "model_ir/spec/unknown_type.h"

namespace headroom::ir {
namespace {

void read_family(const HfFields& fields, ModelSpec& model) {
  switch (model.family) {
    case Family::kLlama:
      return hf::read_llama(fields, model);
    case Family::kMistral:
      return hf::read_mistral(fields, model);
    case Family::kMixtral:
      return hf::read_mixtral(fields, model);
    case Family::kQwen2:
      return hf::read_qwen2(fields, model);
    case Family::kQwen2Moe:
      return hf::read_qwen2_moe(fields, model);
    case Family::kQwen3:
      return hf::read_qwen3(fields, model);
    case Family::kQwen3Moe:
      return hf::read_qwen3_moe(fields, model);
    case Family::kGemma:
      return hf::read_gemma(fields, model);
    case Family::kGemma2:
      return hf::read_gemma2(fields, model);
    case Family::kGemma3Text:
      return hf::read_gemma3_text(fields, model);
    case Family::kPhi3:
      return hf::read_phi3(fields, model);
    case Family::kGpt2:
      return hf::read_gpt2(fields, model);
    case Family::kGptNeox:
      return hf::read_gpt_neox(fields, model);
    case Family::kOpt:
      return hf::read_opt(fields, model);
    case Family::kBloom:
      return hf::read_bloom(fields, model);
    case Family::kFalcon:
      return hf::read_falcon(fields, model);
    case Family::kDeepseekV2:
      return hf::read_deepseek_v2(fields, model);
    case Family::kDeepseekV3:
      return hf::read_deepseek_v3(fields, model);
    case Family::kGptOss:
      return hf::read_gpt_oss(fields, model);
    case Family::kGranite:
      return hf::read_granite(fields, model);
    case Family::kOlmo2:
      return hf::read_olmo2(fields, model);
    case Family::kCohere:
      return hf::read_cohere(fields, model);
    case Family::kStarcoder2:
      return hf::read_starcoder2(fields, model);
    case Family::kGlm4:
      return hf::read_glm4(fields, model);
    case Family::kStablelm:
      return hf::read_stablelm(fields, model);
    case Family::kBert:
      return hf::read_bert(fields, model);
    case Family::kT5:
      return hf::read_t5(fields, model);
    case Family::kRecorded:
      return;  // Recordings have a reader of their own.
  }
}

/// The family of the one class that `architectures` names.
std::optional<Family> family_of_class(const JsonObject& config) {
  if (!config.has_texts("architectures")) {
    return std::nullopt;
  }
  const std::vector<std::string> classes = config.texts_or_none("architectures");
  return classes.size() == 1 ? parse_family_class(classes.front()) : std::nullopt;
}

/// The family that the file is read as; nothing, with the fault noted, if it cannot be determined.
std::optional<Family> family_of(const JsonObject& config, const HfConfigOptions& options) {
  if (options.as) {
    config.accept("model_type");
    return options.as;
  }
  const std::optional<std::string> type = config.optional_text("model_type");
  if (type == kMultimodalGemma3) {
    return Family::kGemma3Text;
  }
  const std::optional<Family> family = type ? parse_family(*type) : std::nullopt;
  if (family) {
    return family;
  }
  if (const std::optional<Family> named = type ? family_of_class(config) : std::nullopt) {
    return named;
  }
  if (!type) {
    config.refuse("model_type", "a model_type: is this a config.json of Hugging Face?",
                  "give the path of one, or name the family of the model: --as llama");
    return std::nullopt;
  }
  config.refuse("model_type", "a known model_type (headroom catalog families lists them)",
                advice_on(describe_unknown_type(config)));
  return std::nullopt;
}

/// The object with the sizes: a multimodal file has its text part in `text_config`.
JsonObject text_part(const JsonObject& config, Family family, const HfConfigOptions& options) {
  const bool nested = config.text_or("model_type", "") == kMultimodalGemma3 || options.as;
  if (nested && !config.has("hidden_size")) {
    if (const auto inner = config.optional_object("text_config")) {
      inner->accept("model_type");
      return *inner;
    }
  }
  if (family == Family::kGemma3Text && nested && !options.as && !config.has("hidden_size")) {
    return config.object("text_config");
  }
  return config;
}

/// Families whose configuration class names a padding token.
bool pads_by_default(Family family) {
  switch (family) {
    case Family::kGemma:
    case Family::kGemma2:
    case Family::kGemma3Text:
    case Family::kPhi3:
    case Family::kOpt:
    case Family::kOlmo2:
    case Family::kCohere:
    case Family::kGlm4:
    case Family::kBert:
    case Family::kT5:
      return true;
    default:
      return false;
  }
}

/// The dropout before a head that classifies: classifier_dropout, else hidden_dropout where the
/// class has it.
double classifier_dropout(const HfFields& fields, const ModelSpec& model) {
  constexpr double kDefault = 0.1;
  switch (model.family) {
    case Family::kBert:
    case Family::kBloom:
    case Family::kFalcon:
    case Family::kStablelm:
      return fields.probability("classifier_dropout", model.dropout.residual);
    default:
      return fields.probability("classifier_dropout", kDefault);
  }
}

/// Notes the keys whose null is read as the default of the family. Where null has a meaning of its
/// own, or is how transformers writes an absent value, nothing is to be said.
void note_nulls(const JsonReader& reader, HfConfig& read) {
  constexpr std::array<std::string_view, 13> kUsual = {
      "pad_token_id",           "bos_token_id",    "eos_token_id",   "sep_token_id", "rope_scaling",
      "decoder_start_token_id", "rope_parameters", "sliding_window", "head_dim",     "q_lora_rank",
      "quantization_config",    "problem_type",    "layer_types"};
  std::string nulls;
  for (const std::string& pointer : reader.nulls()) {
    const std::string_view key = std::string_view(pointer).substr(pointer.rfind('/') + 1);
    if (std::ranges::find(kUsual, key) == kUsual.end()) {
      nulls += (nulls.empty() ? "" : ", ") + pointer.substr(1);
    }
  }
  if (!nulls.empty()) {
    read.notes.push_back("null is read as the default of the family: " + nulls);
  }
}

/// Gathers the keys below `value` that describe experts.
void gather_experts(const JsonValue& value, const std::string& pointer,
                    std::vector<std::string>& experts) {
  if (value.as_object() == nullptr) {
    return;
  }
  for (const JsonMember& member : *value.as_object()) {
    const std::string place = pointer + "/" + member.key;
    const bool is_switch = member.value.is_null() || member.value.as_bool().has_value();
    if (!is_switch &&
        (member.key.find("expert") != std::string::npos || member.key.starts_with("moe_"))) {
      experts.push_back(place);
    } else {
      gather_experts(member.value, place, experts);
    }
  }
}

/// The keys about experts that had no influence, those inside of objects that nobody read included.
std::vector<std::string> ignored_experts(std::string_view text, const HfConfig& read) {
  const Result<JsonValue> root = parse_json(text, "");
  std::vector<std::string> all;
  std::vector<std::string> ignored;
  if (root) {
    gather_experts(*root, "", all);
  }
  for (const std::string& place : all) {
    const bool unread = std::ranges::any_of(read.ignored_keys, [&place](const std::string& key) {
      return place == key || place.starts_with(key + "/");
    });
    if (unread) {
      ignored.push_back(place);
    }
  }
  return ignored;
}

/// Reads the head that `architectures` names, and the keys of heads that classify.
void read_task(const HfFields& fields, const JsonObject& config, ModelSpec& model) {
  const JsonObject& json = fields.json();
  model.pad_token = json.is_null("pad_token_id")
                        ? false
                        : json.has("pad_token_id") || pads_by_default(model.family);
  model.dropout.classifier = classifier_dropout(fields, model);
  constexpr IntegerRange kLabels{1, 1 << 20};
  constexpr std::int64_t kDefaultLabels = 2;
  const auto names = config.optional_object("id2label");
  if (names) {
    for (const std::string& key : names->keys()) {
      names->accept(key);
    }
  }
  model.labels = config.integer_or(
      "num_labels", names ? static_cast<std::int64_t>(names->keys().size()) : kDefaultLabels,
      kLabels);
  const std::string problem = json.has("problem_type") && !json.is_null("problem_type")
                                  ? config.text_or("problem_type", "")
                                  : "";
  const bool squared = problem == "regression" && model.labels > 1;
  if (squared || problem == kSeveralLabels) {
    config.refuse("problem_type", "one label of each sequence, or regression with num_labels 1");
  }
  const std::vector<std::string> classes = config.texts_or_none("architectures");
  const std::optional<Task> task = classes.empty() ? std::nullopt : task_of_class(classes.front());
  if (task && !set_task(model, *task, model.labels)) {
    config.refuse("architectures", "a head of this family that is modelled");
  }
}

/// The quantisation of a file, or of its text part. Older files of compressed-tensors call it
/// compression_config.
std::optional<CheckpointQuantisation> quantisation_of(const JsonObject& config) {
  std::vector<JsonObject> places{config};
  if (const auto text = config.optional_object("text_config")) {
    places.push_back(*text);
  }
  for (const JsonObject& place : places) {
    for (const char* const key : {"quantization_config", "compression_config"}) {
      if (const auto found = place.optional_object(key)) {
        return read_quantisation(*found);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

ModelSpec read_hf_object(const JsonObject& config, const HfConfigOptions& options) {
  ModelSpec model;
  model.name = options.name;
  const std::optional<Family> family = family_of(config, options);
  if (!family) {
    return model;
  }
  model.family = *family;
  const JsonObject text = text_part(config, *family, options);
  if (text.has("per_layer_config")) {
    text.refuse("per_layer_config", "no overrides of single layers", "remove it");
  }
  const HfFields fields(text);
  read_family(fields, model);
  fields.read_numbers(model);
  fields.read_dtype(model, config);
  read_task(fields, config, model);
  check_size(model, text);
  return model;
}

std::vector<std::string> recording_notes(const ModelSpec& model, bool images) {
  std::vector<std::string> notes;
  if (!model.recording) {
    return notes;
  }
  const Recording& recording = *model.recording;
  const bool attends = std::ranges::any_of(recording.modules, [](const RecordedModule& one) {
    return one.type.find("ttention") != std::string::npos;
  });
  if (attends && !recording.has_fused_attention()) {
    notes.emplace_back(
        "transformers has no fused attention for this model: sdpa means eager attention here");
  }
  const auto has_images = [](const RecordedVariant& one) {
    return one.images.kind != RecordedImages::Kind::kNone;
  };
  const bool sees = std::ranges::any_of(recording.variants, has_images);
  const bool reads = !std::ranges::all_of(recording.variants, has_images);
  const bool has_tower = std::ranges::any_of(recording.modules, [](const RecordedModule& one) {
    return one.type.find("Vision") != std::string::npos;
  });
  if (sees && (images || !reads)) {
    notes.emplace_back(
        "cuDNN's workspace for the convolution that cuts images into patches is not counted");
  } else if (has_tower) {
    notes.emplace_back(
        "the answer is for batches of text alone: the vision tower is in memory, and no image "
        "runs through it" +
        std::string(sees ? "; add --images to include images" : ""));
  }
  if (recording.task == kSpeechTask) {
    notes.emplace_back(
        "--seq is the length of the transcript; each sequence also has a spectrogram of the one "
        "length that the encoder takes (30 s for Whisper)");
  } else if (recording.task == "seq2seq-lm") {
    notes.emplace_back("source and target have --seq tokens each");
  }
  if (!recording.missing.empty()) {
    std::string packages;
    for (const std::string& name : recording.missing) {
      packages += (packages.empty() ? "" : ", ") + name;
    }
    notes.push_back("the answer is for PyTorch's own operators: with the kernels of " + packages +
                    " installed, the model takes other memory and is faster");
  }
  return notes;
}

namespace {

void add_recording_notes(HfConfig& config, bool images) {
  for (std::string& note : recording_notes(config.model, images)) {
    config.notes.push_back(std::move(note));
  }
}

/// A model recording in place of a configuration.
Result<HfConfig> inspect_recording(std::string_view text, std::string_view file,
                                   const HfConfigOptions& options) {
  const Result<JsonValue> document = parse_json(text, file);
  if (!document) {
    return document.error();
  }
  Result<ModelSpec> model = read_recorded_model(*document, file);
  if (!model) {
    return std::move(model).error();
  }
  HfConfig config;
  config.model = std::move(model).value();
  config.model.name = options.name.empty() ? config.model.name : options.name;
  add_recording_notes(config, options.head.images);
  return config;
}

/// Whether the families that are written by hand have the type of this configuration.
bool is_written(const JsonValue& config) {
  const JsonValue* const named = config.find("model_type");
  const std::string* const type = named == nullptr ? nullptr : named->as_string();
  return type == nullptr || *type == kMultimodalGemma3 || parse_family(*type).has_value();
}

/// The model of a configuration from the recording of its family; nothing if there is none.
Result<std::optional<FamilyModel>> find_recorded_family(const JsonValue& config,
                                                        std::string_view file,
                                                        const HfConfigOptions& options) {
  if (options.as || (is_written(config) && !options.head.images)) {
    return std::optional<FamilyModel>();
  }
  std::string families = options.families;
  if (families.empty()) {
    const Result<ConfigDir> found = find_config_dir(std::nullopt);
    if (!found) {
      return std::optional<FamilyModel>();
    }
    families = found->path + "/" + std::string(kFamilyFolder);
  }
  const FamilyVariants variants =
      options.one_variant ? FamilyVariants::kFirst : FamilyVariants::kAll;
  Result<std::optional<FamilyModel>> read = model_with_head(
      config, file, {.families = families, .variants = variants, .asked = options.head});
  if (!read) {
    return read;
  }
  std::optional<FamilyModel> found = std::move(read).value();
  if (found) {
    found->model.name = options.name.empty() ? std::string(file) : options.name;
  }
  return found;
}

/// Whether only the decoder of an encoder-decoder was recorded.
bool is_lone_decoder(const Recording& recording) {
  const auto has = [&recording](std::string_view part) {
    return std::ranges::any_of(recording.modules, [part](const RecordedModule& one) {
      return one.path.find(part) != std::string::npos;
    });
  };
  return has("decoder.layers.0") && !has("encoder.layers.0");
}

/// Says of which class the answer is, where it is not the one that the file names.
Status check_class(const JsonValue& config, std::string_view file, const HfConfigOptions& options,
                   HfConfig& read) {
  const std::string named = named_class(config);
  const Recording& recording = *read.model.recording;
  const std::string& recorded = recording.modules.front().type;
  if (options.head.task.value_or(Task::kLanguage) != Task::kLanguage) {
    return ok();  // The user has named this head.
  }
  if (named == recorded) {
    return ok();
  }
  const bool decodes = is_lone_decoder(recording);
  if (decodes && named.ends_with("ForConditionalGeneration")) {
    return Error::invalid_input(file, "/architectures", named,
                                recorded + ": the decoder alone was recorded",
                                "leave out architectures to ask about the decoder, or record the "
                                "whole model: headroom import FILE --output model.json");
  }
  if (decodes || !named.empty()) {
    read.notes.push_back("the answer is for " + recorded + (decodes ? ", the decoder alone" : "") +
                         (named.empty() ? "" : ", not for " + named));
  }
  return ok();
}

/// A configuration of a family that was recorded; nothing if it is of none.
Result<std::optional<HfConfig>> inspect_recorded_family(std::string_view text,
                                                        std::string_view file,
                                                        const HfConfigOptions& options) {
  const Result<JsonValue> document = parse_json(text, file);
  if (!document) {
    return std::optional<HfConfig>();
  }
  Result<std::optional<FamilyModel>> read = find_recorded_family(*document, file, options);
  if (!read) {
    return std::move(read).error();
  }
  std::optional<FamilyModel> found = std::move(read).value();
  if (!found) {
    return std::optional<HfConfig>();
  }
  HfConfig config;
  config.model = std::move(found->model);
  config.ignored_keys = std::move(found->ignored);
  if (Status status = check_class(*document, file, options, config); !status) {
    return status.error();
  }
  if (!found->defaulted.empty()) {
    std::string keys;
    for (const std::string& key : found->defaulted) {
      keys += (keys.empty() ? "" : ", ") + key;
    }
    config.notes.push_back("not in the file, so that the defaults of transformers apply: " + keys);
  }
  add_recording_notes(config, options.head.images);
  if (const Result<JsonReader> reader = JsonReader::from_text(text, file)) {
    config.quantisation = quantisation_of(reader->root());
  }
  for (const auto& [key, part] : {std::pair{"vision_config", "vis"}, {"audio_config", "audio"}}) {
    const JsonValue* const tower = document->find(key);
    if (tower != nullptr && !tower->is_null()) {
      const bool is_built = std::ranges::any_of(
          config.model.recording->modules,
          [part](const RecordedModule& one) { return one.path.find(part) != std::string::npos; });
      const bool is_said = std::ranges::any_of(config.notes, [](const std::string& note) {
        return note.find("the vision tower is in memory") != std::string::npos;
      });
      if (is_built && (is_said || options.head.images)) {
        continue;
      }
      config.notes.push_back(std::string(key) +
                             (is_built ? " is built and has its parameters, but batches are of "
                                         "text alone"
                                       : " is not read: the model is the language model alone"));
    }
  }
  return std::optional<HfConfig>(std::move(config));
}

}  // namespace

Result<std::optional<ModelSpec>> read_recorded_family(const JsonValue& config,
                                                      std::string_view file,
                                                      const HfConfigOptions& options) {
  Result<std::optional<FamilyModel>> read = find_recorded_family(config, file, options);
  if (!read) {
    return std::move(read).error();
  }
  std::optional<FamilyModel> found = std::move(read).value();
  return found ? std::optional(std::move(found->model)) : std::optional<ModelSpec>();
}

std::vector<std::string> notes_on_towers(const JsonValue& config, const std::string& families) {
  const JsonValue* const tower = config.find("vision_config");
  if (tower == nullptr || tower->is_null()) {
    return {};
  }
  std::string note =
      "the answer is for the language model alone, without the tower of vision_config";
  if (is_recorded(config, families, kImagesHead)) {
    note += "; --task image-text adds the tower, --images runs images through it";
  }
  return {std::move(note)};
}

Result<HfConfig> inspect_hf_config(std::string_view written, std::string_view file,
                                   const HfConfigOptions& options) {
  const std::string text = json_of_python(written);
  if (text.find(kRecordingKey) != std::string_view::npos) {
    return inspect_recording(text, file, options);
  }
  if (text.find(kFamilyKey) != std::string_view::npos) {
    return Error::invalid_input(file, "", "the recording of a family", "one model",
                                "give the config.json of a model of this family");
  }
  Result<std::optional<HfConfig>> recorded = inspect_recorded_family(text, file, options);
  if (!recorded) {
    return std::move(recorded).error();
  }
  if (*recorded) {
    return std::move(**recorded);
  }
  const Result<JsonReader> reader = JsonReader::from_text(text, file);
  if (!reader) {
    return reader.error();
  }
  HfConfigOptions named = options;
  if (named.name.empty()) {
    named.name = file;
  }
  HfConfig config;
  config.model = read_hf_object(reader->root(), named);
  if (const Result<JsonValue> document = parse_json(text, file)) {
    config.notes = notes_on_towers(*document, options.families);
  }
  const std::string type = reader->root().text_or("model_type", "");
  if (!options.as && !type.empty() && type != kMultimodalGemma3 && !parse_family(type)) {
    config.notes.push_back("no model_type of transformers is called " + type + "; it is read as " +
                           std::string(name_of(config.model.family)) +
                           ", the family of the class in architectures");
  }
  config.quantisation = quantisation_of(reader->root());
  Status status = reader->finish();
  if (!status) {
    return std::move(status).error();
  }
  config.ignored_keys = reader->unread();
  config.ignored_experts = ignored_experts(text, config);
  note_nulls(*reader, config);
  return config;
}

Result<ModelSpec> parse_hf_config(std::string_view text, std::string_view file,
                                  const HfConfigOptions& options) {
  Result<HfConfig> config = inspect_hf_config(text, file, options);
  if (!config) {
    return std::move(config).error();
  }
  return std::move(config->model);
}

Result<ModelSpec> read_hf_config(const std::string& path, const HfConfigOptions& options) {
  const Result<std::string> text = read_file(path);
  if (!text) {
    return text.error();
  }
  return parse_hf_config(*text, path, options);
}

}  // namespace headroom::ir
