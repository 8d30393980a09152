#pragma once

#include <array>
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

/// The whole model of images and text, of a family whose text part is known by itself.
inline constexpr std::string_view kImagesHead = "image-text";

/// The heads that a family may have besides the first that transformers has for it.
inline constexpr std::array<std::string_view, 6> kRecordedHeads = {
    "masked-lm", "seq2seq-lm", "speech-seq2seq", "sequence-classification", "token-classification",
    kImagesHead};

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
  std::vector<std::string> heads{};  ///< The entries of `kRecordedHeads` that have recordings, too.
};

/// The families whose recordings `folder` holds, by name; empty without the folder.
///
/// Errors:  kEnvironment if the folder cannot be read.
[[nodiscard]] Result<std::vector<RecordedFamily>> recorded_families(const std::string& folder);

/// Whether the family of a config.json was recorded with a head, as in `model_of_family`.
[[nodiscard]] bool is_recorded(const JsonValue& config, const std::string& folder,
                               std::string_view head = {});

/// The model of a config.json whose family (`model_type`) was recorded; nothing if it was not.
///
/// Model:   a family has one recording for each code that its configurations lead to:
///          `folder`/TYPE.json, TYPE.2.json, and so on. The first whose code is that of the
///          configuration answers (docs/recordings.md, "Recordings of families"). Other heads
///          than the first that transformers has (`kRecordedHeads`) are in TYPE.HEAD.json,
///          TYPE.HEAD.2.json, ...; those that classify read "num_labels".
/// Errors:  kInvalidInput naming the key for which no recording serves, with the command that
///          records the model itself; kEnvironment or kInvalidInput for files that cannot be read.
[[nodiscard]] Result<std::optional<FamilyModel>> model_of_family(
    const JsonValue& config, std::string_view file, const std::string& folder,
    FamilyVariants variants = FamilyVariants::kAll, std::string_view head = {});

}  // namespace headroom::ir
