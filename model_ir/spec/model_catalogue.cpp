#include "model_ir/spec/model_catalogue.h"

#include <filesystem>
#include <utility>

#include "model_ir/base/check.h"
#include "model_ir/base/file.h"
#include "model_ir/json/entry_folder.h"
#include "model_ir/json/json_reader.h"
#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/param_count.h"
#include "model_ir/spec/recorded_family/recorded_families.h"

namespace headroom::ir {
namespace {

constexpr IntegerRange kParameters{1, std::int64_t{1} << 50};

EntryFolder folder_of(const std::string& catalogue) {
  return {.path = catalogue, .kind = "model", .list_command = "headroom catalog models"};
}

HfConfigOptions options_of(std::string_view file, const std::string& name, bool one_variant) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  return {.as = {},
          .name = name,
          .families = folder.empty() ? "" : (folder.parent_path() / kFamilyFolder).string(),
          .one_variant = one_variant};
}

/// The model of an entry, from the recordings of families beside it if its type is not written by
/// hand. Faults of a configuration that is are noted in its reader.
Result<ModelSpec> model_of(std::string_view text, std::string_view file, const JsonObject& config,
                           const std::string& name, bool one_variant) {
  const HfConfigOptions options = options_of(file, name, one_variant);
  const Result<JsonValue> document = parse_json(text, file);
  const JsonValue* const found = document ? document->find("config") : nullptr;
  if (found != nullptr) {
    Result<std::optional<ModelSpec>> recorded = read_recorded_family(*found, file, options);
    if (!recorded) {
      return std::move(recorded).error();
    }
    if (*recorded) {
      for (const std::string& key : config.keys()) {
        config.accept(key);
      }
      return std::move(**recorded);
    }
  }
  config.accept("quantization_config");  // It describes the published weights alone.
  if (found != nullptr && is_recorded(*found, options.families, kImagesHead)) {
    for (const std::string& key : config.keys()) {
      config.accept(key);  // The recording of the whole model reads them.
    }
  }
  return read_hf_object(config, options);
}

Result<ModelEntry> read_entry(std::string_view text, std::string_view file, bool one_variant) {
  const Result<JsonReader> reader = JsonReader::from_text(text, file);
  if (!reader) {
    return reader.error();
  }
  const JsonObject root = reader->root();
  root.accept("$schema");
  ModelEntry entry;
  entry.name = root.text("name");
  entry.aliases = root.texts_or_none("aliases");
  entry.hf_id = root.optional_text("hf_id").value_or("");
  const JsonObject source = root.object("source");
  entry.config_source = source.text("config");
  entry.parameters_source = source.text("parameters");
  entry.parameters = root.integer("parameters", kParameters);
  entry.published_parameters =
      root.integer_or("published_parameters", entry.parameters, kParameters);
  entry.difference = root.text_or("difference", "");
  if ((entry.published_parameters != entry.parameters) == entry.difference.empty()) {
    root.refuse("difference", "a reason if and only if published_parameters is another number");
  }
  Result<ModelSpec> spec = model_of(text, file, root.object("config"), entry.name, one_variant);
  if (!spec) {
    return std::move(spec).error();
  }
  entry.spec = std::move(spec).value();
  if (!reader->has_errors() && count_parameters(entry.spec).total() != entry.parameters) {
    root.refuse("parameters", "what the configuration adds up to, " +
                                  std::to_string(count_parameters(entry.spec).total()));
  }
  Status status = reader->finish_refusing_unknown_keys();
  if (!status) {
    return std::move(status).error();
  }
  return entry;
}

/// The entry of the file `name`.json.
Result<ModelEntry> open_entry(const EntryFolder& folder, const std::string& name,
                              bool one_variant) {
  const std::string path = entry_path(folder, name);
  const Result<std::string> text = read_file(path);
  if (!text) {
    return text.error();
  }
  Result<ModelEntry> entry = read_entry(*text, path, one_variant);
  if (entry && entry->name != name) {
    return Error::invalid_input(path, "/name", entry->name, "the name of the file, " + name);
  }
  return entry;
}

/// The model of the entry `name` with another head; nothing if its family was not recorded.
Result<std::optional<ModelSpec>> model_with_head(const EntryFolder& folder, const std::string& name,
                                                 const AskedHead& head) {
  const std::string path = entry_path(folder, name);
  const Result<std::string> text = read_file(path);
  const Result<JsonValue> document =
      text ? parse_json(*text, path) : Result<JsonValue>(text.error());
  if (!document) {
    return document.error();
  }
  HfConfigOptions options = options_of(path, name, false);
  options.head = head;
  return read_recorded_family(*document->find("config"), path, options);
}

/// The title of the entry of the file `path`.
Result<ModelTitle> read_title(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) {
    return text.error();
  }
  const Result<JsonReader> reader = JsonReader::from_text(*text, path);
  if (!reader) {
    return reader.error();
  }
  const JsonObject root = reader->root();
  ModelTitle title;
  title.name = root.text("name");
  title.hf_id = root.optional_text("hf_id").value_or("");
  title.parameters = root.integer("parameters", kParameters);
  if (Status status = reader->finish(); !status) {
    return std::move(status).error();
  }
  return title;
}

}  // namespace

Result<ModelEntry> parse_entry(std::string_view text, std::string_view file) {
  return read_entry(text, file, false);
}

Result<ModelEntry> load_entry(const std::string& catalogue, std::string_view name) {
  const EntryFolder folder = folder_of(catalogue);
  const Result<std::string> found = find_entry(folder, name);
  if (!found) {
    return found.error();
  }
  return open_entry(folder, *found, false);
}

Result<ModelSpec> load_model(const std::string& catalogue, std::string_view name,
                             const AskedHead& head) {
  Result<ModelEntry> entry = load_entry(catalogue, name);
  if (!entry) {
    return std::move(entry).error();
  }
  const bool classifies = head.task && *head.task != Task::kLanguage;
  if (!head.images && !(classifies && entry->spec.recording)) {
    return std::move(entry->spec);
  }
  Result<std::optional<ModelSpec>> other = model_with_head(folder_of(catalogue), entry->name, head);
  if (!other) {
    return std::move(other).error();
  }
  return other->has_value() ? **std::move(other) : std::move(entry->spec);
}

Result<std::vector<std::string>> model_names(const std::string& catalogue) {
  return entry_names(folder_of(catalogue));
}

Result<std::vector<ModelTitle>> list_titles(const std::string& catalogue) {
  const Result<std::vector<std::string>> names = model_names(catalogue);
  if (!names) {
    return names.error();
  }
  std::vector<ModelTitle> titles;
  for (const std::string& name : *names) {
    Result<ModelTitle> title = read_title(entry_path(folder_of(catalogue), name));
    if (!title) {
      return std::move(title).error();
    }
    titles.push_back(std::move(title).value());
  }
  return titles;
}

Result<std::vector<ModelEntry>> list_models(const std::string& catalogue) {
  const Result<std::vector<std::string>> names = model_names(catalogue);
  if (!names) {
    return names.error();
  }
  std::vector<ModelEntry> entries;
  for (const std::string& name : *names) {
    Result<ModelEntry> entry = open_entry(folder_of(catalogue), name, true);
    if (!entry) {
      return std::move(entry).error();
    }
    entries.push_back(std::move(entry).value());
  }
  return entries;
}

}  // namespace headroom::ir
