#include "cli/model_argument.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>

#include <utility>

#include "cli/quantisation_notes.h"
#include "cli/scalars.h"
#include "cli/weights_check.h"
#include "model_ir/base/file.h"
#include "model_ir/json/python_json.h"
#include "model_ir/plan/plan_words.h"
#include "model_ir/spec/family.h"
#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/model_catalogue.h"
#include "model_ir/spec/recorded_family/recorded_families.h"
#include "model_ir/spec/task.h"
#include "model_ir/spec/weights/gguf.h"
#include "model_ir/spec/weights/gguf_model.h"
#include "model_ir/spec/weights/read_weights.h"

namespace headroom::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfigName = "config.json";

constexpr std::array<OptionSpec, 4> kModelOptions = {
    {{"as", "FAMILY", "model_type of the config.json",
      "read config.json as that of another model family, such as llama"},
     {"ignored-keys", "", "", "list the keys of config.json that do not change the answer"},
     {"task", "TASK", "from architectures in config.json, otherwise language",
      "head of the model: language, sequence-classification or token-classification; image-text is "
      "the language model with its tower for images"},
     {"num-labels", "N", "from config.json, otherwise 2",
      "number of labels of a classification head; 1 means regression"}}};

/// How to read a configuration.
struct Reading {
  std::optional<ir::Family> as;
  bool tell_ignored = false;
  std::string families{};  ///< The folder with the recordings of families; empty: the usual one.
  ir::AskedHead head{};
};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool looks_like_path(const std::string& text) {
  return text.front() == '.' || text.front() == '/' || ends_with(text, ".json") ||
         ends_with(text, ".gguf") || ends_with(text, ".safetensors");
}

/// Whether `text` is a path. A Hugging Face id contains a slash, too, so a path with a slash must
/// exist.
bool is_path(const std::string& text) {
  std::error_code ignored;
  return looks_like_path(text) ||
         (text.find('/') != std::string::npos && fs::exists(text, ignored));
}

/// Whether the batches of the question, or those of the plan of `--plan`, have images.
bool asks_for_images(const Arguments& arguments) {
  const std::optional<std::string> file = arguments.value("plan");
  if (arguments.has("images") || !file) {
    return arguments.has("images");
  }
  const Result<std::string> text = read_file(*file);
  const Result<ir::JsonValue> document =
      text ? ir::parse_json(*text, *file) : Result<ir::JsonValue>(text.error());
  const ir::JsonValue* const plan = document ? document->find("plan") : nullptr;
  const ir::JsonValue* const images = plan == nullptr ? nullptr : plan->find("images");
  return images != nullptr && images->as_string() != nullptr;
}

/// `--task` and `--num-labels`.
Result<ir::AskedHead> read_head(const Arguments& arguments) {
  ir::AskedHead head;
  head.images = asks_for_images(arguments);
  if (const std::optional<std::string> text = arguments.value("task"); text == ir::kImagesHead) {
    head.task = ir::Task::kLanguage;
    head.images = true;
  } else if (text) {
    head.task = ir::parse_task(*text);
    if (!head.task) {
      std::vector<std::string> known = ir::task_names();
      known.emplace_back(ir::kImagesHead);
      return Error::invalid_argument("task", *text, "one of " + ir::join(known),
                                     ir::suggestion(*text, known));
    }
  }
  if (const std::optional<std::string> text = arguments.value("num-labels")) {
    constexpr std::int64_t kMostLabels = 1 << 20;
    const Result<std::int64_t> count = parse_whole("num-labels", *text, 1, kMostLabels);
    if (!count) {
      return count.error();
    }
    head.labels = *count;
  }
  return head;
}

Result<Reading> read_reading(const Arguments& arguments) {
  Reading reading{.as = std::nullopt, .tell_ignored = arguments.has("ignored-keys")};
  const Result<ir::AskedHead> head = read_head(arguments);
  if (!head) {
    return head.error();
  }
  reading.head = *head;
  if (const Result<ConfigDir> folder = config_dir_of(arguments)) {
    reading.families = folder->path + "/" + std::string(ir::kFamilyFolder);
  }
  const std::optional<std::string> text = arguments.value("as");
  if (!text) {
    return reading;
  }
  reading.as = ir::parse_family(*text);
  if (!reading.as) {
    const std::vector<std::string> known = ir::family_names();
    return Error::invalid_argument("as", *text, "one of " + ir::join(known),
                                   ir::suggestion(*text, known));
  }
  return reading;
}

/// Parses the text of a configuration. `file` names it in messages, and `label` names the model.
Result<LoadedModel> parse_model(std::string_view text, const std::string& file,
                                const std::string& label, const Reading& reading) {
  Result<ir::HfConfig> config = ir::inspect_hf_config(
      text, file,
      {.as = reading.as, .name = label, .families = reading.families, .head = reading.head});
  if (!config) {
    return std::move(config).error();
  }
  LoadedModel model{.spec = std::move(config->model), .label = label, .origin = file, .notes = {}};
  for (const std::string& note : config->notes) {
    model.notes.push_back(file + ": " + note);
  }
  model.quantisation = std::move(config->quantisation);
  if (model.quantisation) {
    for (const std::string& note : quantisation_notes(model.spec, *model.quantisation)) {
      model.notes.push_back(file + ": " + note);
    }
  }
  if (reading.tell_ignored || reading.as) {
    model.notes.push_back(file + ": without influence: " +
                          (config->ignored_keys.empty() ? "none" : ir::join(config->ignored_keys)));
  }
  const std::vector<std::string>& experts = config->ignored_experts;
  if (reading.as && !experts.empty()) {
    const std::string as = file + ": read as " + std::string(ir::name_of(*reading.as));
    model.notes.push_back(
        model.spec.moe
            ? as + ", which reads its experts from other keys: " + ir::join(experts) +
                  " of this model count nowhere, and experts that no key describes have the "
                  "defaults of that family"
            : as + ", which has no experts: the experts of this model (" + ir::join(experts) +
                  ") are left out of every figure");
  }
  return model;
}

Result<LoadedModel> read_gguf_model(const std::string& path) {
  const Result<ir::GgufFile> file = ir::read_gguf_parts(path);
  if (!file) {
    return file.error();
  }
  Result<ir::ModelSpec> spec = ir::model_of_gguf(*file);
  if (!spec) {
    return std::move(spec).error();
  }
  return LoadedModel{.spec = std::move(spec).value(),
                     .label = fs::path(path).stem().string(),
                     .origin = path,
                     .notes = file->tensors.notes};
}

/// The name of the folder that contains `config`, which is a better label than "config".
std::string label_of(const fs::path& config) {
  const std::string folder = fs::absolute(config).parent_path().filename().string();
  return config.filename() == kConfigName && !folder.empty() ? folder : config.stem().string();
}

/// The file beside a config.json that describes its quantisation in place of quantization_config:
/// Model Optimizer's, AutoGPTQ's or AutoAWQ's; empty: there is none.
std::string quantisation_file(const fs::path& config) {
  std::error_code ignored;
  for (const char* const name :
       {"hf_quant_config.json", "quantize_config.json", "quant_config.json"}) {
    if (fs::exists(config.parent_path() / name, ignored)) {
      return name;
    }
  }
  return {};
}

Result<LoadedModel> read_config_file(const fs::path& path, const Reading& reading) {
  const Result<std::string> text = read_file(path.string());
  if (!text) {
    return text.error();
  }
  Result<LoadedModel> model = parse_model(*text, path.string(), label_of(path), reading);
  const std::string beside = model && !model->quantisation ? quantisation_file(path) : "";
  if (!beside.empty()) {
    model->notes.push_back(path.string() + ": " + beside +
                           " beside it is not read: the weights seem to be quantised, and this "
                           "answer is for weights that are not");
  }
  return model;
}

Result<LoadedModel> read_weights_model(const fs::path& path, const Reading& reading) {
  std::error_code ignored;
  const fs::path folder = fs::is_directory(path, ignored) ? path : path.parent_path();
  const fs::path config = folder / kConfigName;
  if (!fs::exists(config, ignored)) {
    Error missing = Error::environment(
        config.string(), "no such file: the config.json of the weights is missing", {},
        "copy it into this folder, or give its path instead of " + path.string());
    const Result<ir::TensorList> list = ir::read_weights(path.string());
    return list ? std::move(missing).with_note("headroom weights " + path.string() +
                                               " needs the weights alone")
                : missing;
  }
  Result<LoadedModel> model = read_config_file(config, reading);
  if (!model) {
    return model;
  }
  Result<std::vector<std::string>> notes =
      check_weights(path.string(), model->spec, model->quantisation.has_value());
  if (!notes) {
    return std::move(notes).error();
  }
  model->notes.insert(model->notes.end(), notes->begin(), notes->end());
  return model;
}

Result<LoadedModel> read_path(const std::string& text, const Reading& reading) {
  const fs::path path(text);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    return ir::holds_weights(text) ? read_weights_model(path, reading)
                                   : read_config_file(path / kConfigName, reading);
  }
  if (ends_with(text, ".gguf")) {
    return read_gguf_model(text);
  }
  if (ends_with(text, ".safetensors") || ends_with(text, ".safetensors.index.json")) {
    return read_weights_model(path, reading);
  }
  return read_config_file(path, reading);
}

Result<LoadedModel> read_standard_input(const Arguments& arguments, const Reading& reading) {
  const std::optional<std::string>& known = arguments.model_input();
  const Result<std::string> text = known ? Result<std::string>(*known) : read_file("/dev/stdin");
  return text ? parse_model(*text, "-", "model", reading) : Result<LoadedModel>(text.error());
}

/// The file that has the configuration of the model that `text` names.
Result<std::string> configuration_file(const std::string& text, const Arguments& arguments) {
  if (!is_path(text)) {
    const Result<ConfigDir> folder = config_dir_of(arguments);
    if (!folder) {
      return folder.error();
    }
    const std::string models = folder->path + "/models";
    const Result<ir::ModelEntry> entry = ir::load_entry(models, text);
    return entry ? Result<std::string>(models + "/" + entry->name + ".json")
                 : Result<std::string>(entry.error());
  }
  if (text == "-" || ends_with(text, ".gguf")) {
    return Error::invalid_argument("MODEL", text, "a model with a config.json",
                                   "name its config.json, or a name of the catalogue");
  }
  const fs::path path(text);
  std::error_code ignored;
  const bool weights =
      ends_with(text, ".safetensors") || ends_with(text, ".safetensors.index.json");
  return (fs::is_directory(path, ignored) ? path / kConfigName
          : weights                       ? path.parent_path() / kConfigName
                                          : path)
      .string();
}

/// The configuration of the model that `text` names, with all its parts.
Result<ir::JsonValue> whole_configuration(const std::string& text, const Arguments& arguments) {
  const Result<std::string> file = configuration_file(text, arguments);
  if (!file) {
    return file.error();
  }
  const Result<std::string> content = read_file(*file);
  if (!content) {
    return content.error();
  }
  Result<ir::JsonValue> document = ir::parse_json(ir::json_of_python(*content), *file);
  if (!document || is_path(text)) {
    return document;
  }
  const ir::JsonValue* const config = document->find("config");
  return config == nullptr ? std::move(document) : Result<ir::JsonValue>(*config);
}

/// The storage of the published weights of an entry of the catalogue, if they are quantised.
std::optional<ir::CheckpointQuantisation> published_quantisation(const ir::JsonValue& config,
                                                                 const std::string& name,
                                                                 const Reading& reading) {
  if (config.find("quantization_config") == nullptr) {
    return std::nullopt;
  }
  Result<ir::HfConfig> read = ir::inspect_hf_config(
      ir::to_json(config), name,
      {.as = std::nullopt, .name = name, .families = reading.families, .one_variant = true});
  return read ? std::move(read->quantisation) : std::nullopt;
}

Result<LoadedModel> read_catalogue(const std::string& name, const Arguments& arguments,
                                   const Reading& reading) {
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (!folder) {
    return folder.error();
  }
  Result<ir::ModelSpec> spec = ir::load_model(folder->path + "/models", name, reading.head);
  if (!spec) {
    std::error_code ignored;
    return fs::exists(name, ignored) ? read_path(name, reading)
                                     : Result<LoadedModel>(std::move(spec).error());
  }
  std::string label = spec->name.empty() ? name : spec->name;
  std::vector<std::string> notes;
  const Result<ir::JsonValue> config = whole_configuration(name, arguments);
  if (config && !spec->recording) {
    for (const std::string& note : ir::notes_on_towers(*config, reading.families)) {
      notes.push_back(label + ": " + note);
    }
  }
  for (const std::string& note : ir::recording_notes(*spec, reading.head.images)) {
    notes.push_back(label + ": " + note);
  }
  return LoadedModel{
      .spec = std::move(spec).value(),
      .label = std::move(label),
      .origin = "catalogue",
      .notes = std::move(notes),
      .quantisation = config ? published_quantisation(*config, name, reading) : std::nullopt};
}

Result<LoadedModel> find_model(const std::string& text, const Arguments& arguments) {
  const Result<Reading> reading = read_reading(arguments);
  if (!reading) {
    return reading.error();
  }
  if (text == "-") {
    return read_standard_input(arguments, *reading);
  }
  if (is_path(text)) {
    return read_path(text, *reading);
  }
  if (reading->as) {
    return Error::invalid_argument(
        "as", "cannot be combined with a name of the catalogue, whose family is known", {},
        "leave out --as, or give the path of a config.json");
  }
  return read_catalogue(text, arguments, *reading);
}

/// The text part of a configuration, whose `model_type` has its own name.
ir::JsonValue text_part(const ir::JsonValue& config) {
  const ir::JsonValue* const part = config.find("text_config");
  if (part == nullptr || part->as_object() == nullptr) {
    return config;
  }
  ir::JsonValue text = *part;
  const ir::JsonValue* const whole = config.find("model_type");
  if (text.find("model_type") == nullptr && whole != nullptr && whole->as_string() != nullptr) {
    text.as_object()->insert(
        text.as_object()->begin(),
        {.key = "model_type", .value = ir::JsonValue{*whole->as_string() + "_text"}});
  }
  return text;
}

/// Applies `--task` and `--num-labels`.
Status apply_task(const Arguments& arguments, ir::ModelSpec& model) {
  const Result<ir::AskedHead> head = read_head(arguments);
  if (!head) {
    return head.error();
  }
  if (arguments.value("task") == ir::kImagesHead && !model.recording) {
    return Error::invalid_argument(
        "task", std::string(ir::kImagesHead), "another task: this model is known without a tower",
        "give the config.json of a whole model with its vision tower, or leave out --task");
  }
  const ir::Task task = head->task.value_or(model.task);
  if (head->labels && task == ir::Task::kLanguage) {
    return Error::invalid_argument("num-labels", "needs a classification head", {},
                                   "add --task sequence-classification");
  }
  return ir::set_task(model, task, head->labels.value_or(model.labels));
}

}  // namespace

std::span<const OptionSpec> model_options() {
  return kModelOptions;
}

Result<ConfigDir> config_dir_of(const Arguments& arguments) {
  return find_config_dir(arguments.value("config-dir"));
}

Result<ir::JsonValue> model_configuration(const std::string& text, const Arguments& arguments) {
  const Result<ir::JsonValue> config = whole_configuration(text, arguments);
  return config ? Result<ir::JsonValue>(text_part(*config)) : config;
}

Result<std::string> model_text(const Arguments& arguments) {
  const std::vector<std::string>& given = arguments.positionals();
  if (given.size() != 1 || given[0].empty()) {
    return Error::invalid_argument(
        "MODEL", given.empty() ? "nothing" : "'" + ir::join(given) + "'",
        "one model: a name of the catalogue, a config.json, a folder with one, a .gguf file, or -",
        given.size() < 2 ? "headroom catalog models lists the names"
                         : "give one model, and give each option its value");
  }
  return given[0];
}

Result<LoadedModel> load_model_argument(const Arguments& arguments) {
  const Result<std::string> text = model_text(arguments);
  return text ? load_model(*text, arguments) : Result<LoadedModel>(text.error());
}

Result<LoadedModel> load_model(const std::string& text, const Arguments& arguments) {
  Result<LoadedModel> model = find_model(text, arguments);
  if (model) {
    for (std::string* const shown : {&model->label, &model->origin, &model->spec.name}) {
      *shown = printable(*shown);
    }
    std::ranges::transform(model->notes, model->notes.begin(), printable);
    if (Status known = apply_task(arguments, model->spec); !known) {
      return std::move(known).error();
    }
  }
  return model;
}

}  // namespace headroom::cli
