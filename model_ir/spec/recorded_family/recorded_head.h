#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"
#include "model_ir/spec/recorded_family/recorded_families.h"
#include "model_ir/spec/task.h"

namespace headroom::ir {

/// A value of `problem_type`: each sequence may have several labels.
inline constexpr std::string_view kSeveralLabels = "multi_label_classification";

/// The class that a configuration names first in `architectures`; empty: none.
[[nodiscard]] std::string named_class(const JsonValue& config);

/// How the recording of a family is chosen.
struct HeadQuestion {
  const std::string& families;  ///< The folder with the recordings.
  FamilyVariants variants = FamilyVariants::kAll;
  const AskedHead& asked;
};

/// The model of a config.json whose family was recorded, with the head that is asked for, or else
/// with that of the class which `architectures` names; nothing if the family was not recorded.
///
/// Model:   the number of labels is that of `asked`, of num_labels, of id2label, or 2.
/// Errors:  as `model_of_family`; also kInvalidArgument or kInvalidInput for a head or a loss with
///          which the family was not recorded.
[[nodiscard]] Result<std::optional<FamilyModel>> model_with_head(const JsonValue& config,
                                                                 std::string_view file,
                                                                 const HeadQuestion& question);

}  // namespace headroom::ir
