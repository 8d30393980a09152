#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/base/result.h"

namespace headroom::ir {

/// The keys and values in an option's value such as "r=16,targets=q_proj+v_proj,dora".
class KeyValues {
 public:
  /// Parses `text`. `option` names the option in messages; `separator` is between a key and its
  /// value.
  ///
  /// Errors:  kInvalidArgument for an empty part, or for a key that occurs twice.
  [[nodiscard]] static Result<KeyValues> parse(std::string_view option, std::string_view text,
                                               char separator);

  /// The value of `key`, which then counts as known; empty for a key without a value.
  [[nodiscard]] std::optional<std::string> take(std::string_view key);
  /// All keys and values, in the order of the text.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& parts() const {
    return parts_;
  }
  /// Errors:  kInvalidArgument for the first key that was not taken; the error lists the known
  ///          ones.
  [[nodiscard]] Status finish() const;

 private:
  std::string option_;
  std::vector<std::pair<std::string, std::string>> parts_;
  std::vector<std::string> known_;
};

}  // namespace headroom::ir
