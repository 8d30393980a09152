#include "cli/model_argument.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "cli/weights_check.h"
#include "model_ir/base/file.h"
#include "model_ir/plan/plan_words.h"
#include "model_ir/spec/family.h"
#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/model_catalogue.h"
#include "model_ir/spec/weights/gguf.h"
#include "model_ir/spec/weights/gguf_model.h"

namespace headroom::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfigName = "config.json";

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool looks_like_path(const std::string& text) {
  return text.front() == '.' || text.front() == '/' || ends_with(text, ".json") ||
         ends_with(text, ".gguf") || ends_with(text, ".safetensors");
}

/// A Hugging Face id holds a slash, too, so a path with one must exist to be taken for a path.
bool is_path(const std::string& text) {
  std::error_code ignored;
  return looks_like_path(text) ||
         (text.find('/') != std::string::npos && fs::exists(text, ignored));
}

Result<std::optional<ir::Family>> read_as(const Arguments& arguments) {
  const std::optional<std::string> text = arguments.value("as");
  if (!text) {
    return std::optional<ir::Family>();
  }
  const std::optional<ir::Family> family = ir::parse_family(*text);
  if (!family) {
    const std::vector<std::string> known = ir::family_names();
    return Error::invalid_argument("as", *text, "one of " + ir::join(known),
                                   ir::suggestion(*text, known));
  }
  return family;
}

Result<LoadedModel> read_gguf_model(const std::string& path) {
  const Result<ir::GgufFile> file = ir::read_gguf(path);
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

/// Name of the folder that holds `config`, which says more than "config".
std::string label_of(const fs::path& config) {
  const std::string folder = fs::absolute(config).parent_path().filename().string();
  return config.filename() == kConfigName && !folder.empty() ? folder : config.stem().string();
}

Result<LoadedModel> read_config_file(const fs::path& path, const std::optional<ir::Family>& as) {
  const std::string label = label_of(path);
  Result<ir::ModelSpec> spec = ir::read_hf_config(path.string(), {.as = as, .name = label});
  if (!spec) {
    return std::move(spec).error();
  }
  return LoadedModel{
      .spec = std::move(spec).value(), .label = label, .origin = path.string(), .notes = {}};
}

Result<LoadedModel> read_weights_model(const fs::path& path, const std::optional<ir::Family>& as) {
  const fs::path config = path.parent_path() / kConfigName;
  std::error_code ignored;
  if (!fs::exists(config, ignored)) {
    return Error::environment(config.string(), "no such file", "the config.json beside the weights",
                              "copy it there, or name it instead of " + path.string());
  }
  Result<LoadedModel> model = read_config_file(config, as);
  if (!model) {
    return model;
  }
  Result<std::vector<std::string>> notes = check_weights(path.string(), model->spec);
  if (!notes) {
    return std::move(notes).error();
  }
  model->notes = std::move(notes).value();
  return model;
}

Result<LoadedModel> read_path(const std::string& text, const std::optional<ir::Family>& as) {
  const fs::path path(text);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    for (const char* weights : {"model.safetensors.index.json", "model.safetensors"}) {
      if (fs::exists(path / weights, ignored)) {
        return read_weights_model(path / weights, as);
      }
    }
    return read_config_file(path / kConfigName, as);
  }
  if (ends_with(text, ".gguf")) {
    return read_gguf_model(text);
  }
  if (ends_with(text, ".safetensors") || ends_with(text, ".safetensors.index.json")) {
    return read_weights_model(path, as);
  }
  return read_config_file(path, as);
}

Result<LoadedModel> read_standard_input(const std::optional<ir::Family>& as) {
  const Result<std::string> text = read_file("/dev/stdin");
  if (!text) {
    return text.error();
  }
  Result<ir::ModelSpec> spec = ir::parse_hf_config(*text, "-", {.as = as, .name = "model"});
  if (!spec) {
    return std::move(spec).error();
  }
  return LoadedModel{.spec = std::move(spec).value(), .label = "model", .origin = "-", .notes = {}};
}

Result<LoadedModel> read_catalogue(const std::string& name, const Arguments& arguments) {
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (!folder) {
    return folder.error();
  }
  Result<ir::ModelSpec> spec = ir::load_model(folder->path + "/models", name);
  if (!spec) {
    std::error_code ignored;
    return fs::exists(name, ignored) ? read_path(name, std::nullopt)
                                     : Result<LoadedModel>(std::move(spec).error());
  }
  std::string label = spec->name.empty() ? name : spec->name;
  return LoadedModel{.spec = std::move(spec).value(),
                     .label = std::move(label),
                     .origin = "catalogue",
                     .notes = {}};
}

}  // namespace

OptionSpec as_option() {
  return {.name = "as",
          .value = "FAMILY",
          .fallback = "the configuration's model_type",
          .help = "read the configuration as that of another family"};
}

Result<ConfigDir> config_dir_of(const Arguments& arguments) {
  return find_config_dir(arguments.value("config-dir"));
}

Result<std::string> model_text(const Arguments& arguments) {
  const std::vector<std::string>& given = arguments.positionals();
  if (given.size() != 1 || given[0].empty()) {
    return Error::invalid_argument(
        "MODEL", given.empty() ? "nothing" : "'" + ir::join(given) + "'",
        "one model: a catalogue name, a config.json, a folder with one, a .gguf file, or -",
        "headroom catalog models lists the names");
  }
  return given[0];
}

Result<LoadedModel> load_model_argument(const Arguments& arguments) {
  const Result<std::string> text = model_text(arguments);
  if (!text) {
    return text.error();
  }
  const Result<std::optional<ir::Family>> as = read_as(arguments);
  if (!as) {
    return as.error();
  }
  if (*text == "-") {
    return read_standard_input(*as);
  }
  if (is_path(*text)) {
    return read_path(*text, *as);
  }
  if (*as) {
    return Error::invalid_argument("as", arguments.value("as").value_or(""),
                                   "nothing with a catalogue name, whose family is known",
                                   "give --as together with a config.json");
  }
  return read_catalogue(*text, arguments);
}

}  // namespace headroom::cli
