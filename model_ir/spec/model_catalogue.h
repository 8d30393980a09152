#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/spec/model_spec.h"
#include "model_ir/spec/task.h"

namespace headroom::ir {

/// The name, the repository and the size of an entry's model.
struct ModelTitle {
  std::string name;             ///< Name of the file, without ".json".
  std::string hf_id;            ///< Repository on the Hugging Face hub; empty: none.
  std::int64_t parameters = 0;  ///< Count of the model code, tied weights once.
  friend bool operator==(const ModelTitle&, const ModelTitle&) = default;
};

/// One file of `configs/models`.
struct ModelEntry {
  std::string name;  ///< Name of the file, without ".json".
  std::vector<std::string> aliases;
  std::string hf_id;                      ///< Repository on the Hugging Face hub; empty: none.
  std::string config_source;              ///< Where the dimensions are published.
  std::string parameters_source;          ///< Where the count of parameters is published.
  std::int64_t parameters = 0;            ///< Count of the model code, tied weights once.
  std::int64_t published_parameters = 0;  ///< Count of the source.
  std::string difference;  ///< Why the two differ (stored buffers, a tied head stored twice).
  ModelSpec spec;
  friend bool operator==(const ModelEntry&, const ModelEntry&) = default;
};

/// The model that the catalogue in folder `catalogue` knows as `name`, as an alias or by its
/// Hugging Face id; upper and lower case are the same.
///
/// Model:   opens the one file of that name; only if there is none, `aliases.json` is read.
/// Errors:  kInvalidArgument for a name that is not known, with the closest ones; kEnvironment if
///          the folder cannot be read; kInvalidInput for a faulty entry.
[[nodiscard]] Result<ModelEntry> load_entry(const std::string& catalogue, std::string_view name);

/// As `load_entry`, its `spec` only, with the head that is asked for if its family was recorded
/// with it (`set_task` gives it to other families).
///
/// Errors:  also kInvalidArgument for a head of a recorded family that was not recorded.
[[nodiscard]] Result<ModelSpec> load_model(const std::string& catalogue, std::string_view name,
                                           const AskedHead& head = {});

/// Names of all entries, sorted, from the folder's listing alone.
///
/// Errors:  kEnvironment if the folder cannot be read.
[[nodiscard]] Result<std::vector<std::string>> model_names(const std::string& catalogue);

/// The titles of all entries, sorted by name. Configurations are not looked at, so this takes a
/// fraction of the time of `list_models`.
///
/// Errors:  kEnvironment if the folder cannot be read; kInvalidInput for a file that is not JSON or
///          has no such title.
[[nodiscard]] Result<std::vector<ModelTitle>> list_titles(const std::string& catalogue);

/// All entries, sorted by name. Of recorded models, only the first variant of the code is read:
/// what is to be run comes from `load_entry`.
[[nodiscard]] Result<std::vector<ModelEntry>> list_models(const std::string& catalogue);

/// Reads one entry.
///
/// Errors:  kInvalidInput if it does not name its sources, holds an unknown key, configures a model
///          with another number of parameters than it says, or leaves a difference to the
///          published number unexplained.
[[nodiscard]] Result<ModelEntry> parse_entry(std::string_view text, std::string_view file);

}  // namespace headroom::ir
