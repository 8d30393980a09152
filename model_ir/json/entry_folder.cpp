#include "model_ir/json/entry_folder.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "model_ir/json/json_reader.h"

namespace headroom::ir {
namespace {

constexpr std::string_view kSuffix = ".json";
constexpr std::string_view kAliases = "aliases";
constexpr std::size_t kSuggestions = 3;

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return lower;
}

/// Names of entries contain only these characters, so that no name leads out of the folder.
bool is_entry_name(std::string_view name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789.-_";
  return !name.empty() && name.front() != '.' && name != kAliases &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

bool is_file(const std::string& path) {
  std::error_code fault;
  return std::filesystem::is_regular_file(path, fault);
}

/// The entry that an alias names; nothing if it is not an alias.
Result<std::optional<std::string>> resolve_alias(const EntryFolder& folder,
                                                 const std::string& alias) {
  const std::string path = entry_path(folder, kAliases);
  if (!is_file(path)) {
    return std::optional<std::string>();
  }
  const Result<JsonReader> reader = JsonReader::from_file(path);
  if (!reader) {
    return reader.error();
  }
  std::optional<std::string> entry = reader->root().optional_text(alias);
  Status status = reader->finish();
  if (!status) {
    return std::move(status).error();
  }
  return entry;
}

/// Names whose spelling is similar, the closest first. A name counts as what precedes one of its
/// dashes, too: "a1000" is close to a100-80gb.
std::vector<std::string> similar_names(const std::string& wanted,
                                       const std::vector<std::string>& names) {
  std::vector<std::string> starts = names;
  for (const std::string& name : names) {
    for (std::size_t dash = name.find('-'); dash != std::string::npos;
         dash = name.find('-', dash + 1)) {
      starts.push_back(name.substr(0, dash));
    }
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  std::vector<std::string> similar;
  for (const std::string& start : closest_words(wanted, starts, starts.size())) {
    for (const std::string& name : closest_words(wanted, names, names.size())) {
      const bool begins = name == start || name.starts_with(start + "-");
      if (begins && std::find(similar.begin(), similar.end(), name) == similar.end()) {
        similar.push_back(name);
      }
    }
    if (similar.size() >= kSuggestions) {
      break;
    }
  }
  return similar;
}

/// Names that the user may have meant: those that contain the text, then those with a similar
/// spelling.
std::vector<std::string> suggestions(const std::string& wanted,
                                     const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (found.size() < kSuggestions && name.find(wanted) != std::string::npos) {
      found.push_back(name);
    }
  }
  for (std::string& name : similar_names(wanted, names)) {
    if (found.size() < kSuggestions && std::find(found.begin(), found.end(), name) == found.end()) {
      found.push_back(std::move(name));
    }
  }
  return found;
}

Error unknown_entry(const EntryFolder& folder, std::string_view name) {
  Result<std::vector<std::string>> names = entry_names(folder);
  if (!names) {
    return std::move(names).error();
  }
  std::string list;
  for (const std::string& near : suggestions(lower_case(name), *names)) {
    list += (list.empty() ? "" : ", ") + near;
  }
  const std::string command = "`" + folder.list_command + "` lists ";
  return Error::invalid_argument(
      folder.kind, name,
      "a " + (folder.kind == "gpu" ? std::string("GPU") : folder.kind) +
          " of the catalogue or the path of its file",
      list.empty() ? command + "them" : "the closest are " + list + "; " + command + "all");
}

}  // namespace

std::string entry_path(const EntryFolder& folder, std::string_view entry) {
  return folder.path + "/" + std::string(entry) + std::string(kSuffix);
}

Result<std::vector<std::string>> entry_names(const EntryFolder& folder) {
  std::error_code fault;
  std::filesystem::directory_iterator file(folder.path, fault);
  std::vector<std::string> names;
  for (; !fault && file != std::filesystem::directory_iterator(); file.increment(fault)) {
    const std::filesystem::path& path = file->path();
    if (path.extension() == kSuffix && is_entry_name(path.stem().string())) {
      names.push_back(path.stem().string());
    }
  }
  if (fault) {
    return Error::environment(folder.path, fault.message(),
                              "the folder of the " + folder.kind + " catalogue",
                              "name its parent with --config-dir");
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> find_entry(const EntryFolder& folder, std::string_view name) {
  const std::string wanted = lower_case(name);
  if (is_entry_name(wanted) && is_file(entry_path(folder, wanted))) {
    return wanted;
  }
  Result<std::optional<std::string>> entry = resolve_alias(folder, wanted);
  if (!entry) {
    return std::move(entry).error();
  }
  if (!*entry || !is_entry_name(**entry)) {
    return unknown_entry(folder, name);
  }
  return **entry;
}

}  // namespace headroom::ir
