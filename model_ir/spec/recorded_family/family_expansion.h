#pragma once

#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"

namespace headroom::ir {

/// The model recording of one configuration, from the recording of its family: dimensions become
/// numbers, and loops over layers are written out (docs/recordings.md, "Recordings of families").
/// `file` names the configuration in messages, `family_file` the recording of the family.
///
/// Errors:  kInvalidInput if the configuration is one whose code was not recorded, naming its key,
///          and if the family's recording is none.
[[nodiscard]] Result<JsonValue> expand_family(const JsonValue& family, std::string_view family_file,
                                              const JsonValue& config, std::string_view file);

}  // namespace headroom::ir
