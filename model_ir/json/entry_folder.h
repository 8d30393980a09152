#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"

namespace headroom::ir {

/// A folder of the catalogue: one JSON file per entry, named after it, and `aliases.json`, which
/// maps further names to entries. Only the requested file is opened.
struct EntryFolder {
  std::string path;
  std::string kind;          ///< "model", "gpu": the option that names an entry.
  std::string list_command;  ///< "headroom catalog gpus"
};

/// Names of all entries, sorted, from the folder's listing alone.
///
/// Errors:  kEnvironment if the folder cannot be read.
[[nodiscard]] Result<std::vector<std::string>> entry_names(const EntryFolder& folder);

/// The entry called `name`, directly or by an alias; upper and lower case are the same.
///
/// Errors:  kInvalidArgument for a name that is not known, with the closest ones; kEnvironment or
///          kInvalidInput if the folder or `aliases.json` cannot be read.
[[nodiscard]] Result<std::string> find_entry(const EntryFolder& folder, std::string_view name);

/// Path of the file of an entry.
[[nodiscard]] std::string entry_path(const EntryFolder& folder, std::string_view entry);

}  // namespace headroom::ir
