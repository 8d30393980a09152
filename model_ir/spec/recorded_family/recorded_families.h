#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// The key that the recording of a family has and no configuration of a model, in quotation marks.
inline constexpr std::string_view kFamilyKey = "\"headroom_family\"";

/// The folder of `ConfigDir` with the recordings of families.
inline constexpr std::string_view kFamilyFolder = "families";

/// A model that a recording of its family describes.
struct FamilyModel {
  ModelSpec model;
  std::vector<std::string> defaulted;  ///< `ExpandedFamily::defaulted`
  std::vector<std::string> ignored;    ///< `ExpandedFamily::ignored`
};

/// Which variants of the code are read: all, or the first, which is enough for what a model is.
enum class FamilyVariants : std::uint8_t { kAll, kFirst };

/// A family that was recorded.
struct RecordedFamily {
  std::string type;  ///< `model_type`
  int forms = 0;     ///< Recordings: one for each code that its configurations lead to.
};

/// The families whose recordings `folder` holds, by name; empty without the folder.
///
/// Errors:  kEnvironment if the folder cannot be read.
[[nodiscard]] Result<std::vector<RecordedFamily>> recorded_families(const std::string& folder);

/// The model of a config.json whose family (`model_type`) was recorded; nothing if it was not.
///
/// Model:   a family has one recording for each code that its configurations lead to:
///          `folder`/TYPE.json, TYPE.2.json, and so on. The first whose code is that of the
///          configuration answers (docs/recordings.md, "Recordings of families").
/// Errors:  kInvalidInput naming the key for which no recording serves, with the command that
///          records the model itself; kEnvironment or kInvalidInput for files that cannot be read.
[[nodiscard]] Result<std::optional<FamilyModel>> model_of_family(
    const JsonValue& config, std::string_view file, const std::string& folder,
    FamilyVariants variants = FamilyVariants::kAll);

}  // namespace headroom::ir
