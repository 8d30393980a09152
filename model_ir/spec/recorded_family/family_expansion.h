#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"

namespace headroom::ir {

/// The recording of one configuration.
struct ExpandedFamily {
  JsonValue recording;
  /// The dimensions that the configuration leaves to constant defaults of the family, sorted.
  std::vector<std::string> defaulted;
  std::vector<std::string> ignored;  ///< JSON pointers of the keys that had no influence.
};

/// The model recording of one configuration, from the recording of its family: dimensions become
/// numbers, and loops over layers are written out (docs/recordings.md, "Recordings of families").
/// `file` names the configuration in messages, `family_file` the recording of the family.
///
/// Errors:  kInvalidInput if the configuration is one whose code was not recorded, naming its key,
///          and if the family's recording is none.
[[nodiscard]] Result<ExpandedFamily> expand_family(JsonValue family, std::string_view family_file,
                                                   const JsonValue& config, std::string_view file);

}  // namespace headroom::ir
