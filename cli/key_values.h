#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/base/result.h"

namespace headroom::cli {

/// The parts of an option's value like "r=16,targets=q_proj+v_proj,dora".
class KeyValues {
 public:
  /// `option` names it in messages; `separator` stands between a key and its value.
  ///
  /// Errors:  kInvalidArgument for an empty part or a key that occurs twice.
  [[nodiscard]] static Result<KeyValues> parse(std::string_view option, std::string_view text,
                                               char separator);

  /// The value of `key`, which counts as known from now on; empty for a bare key.
  [[nodiscard]] std::optional<std::string> take(std::string_view key);
  /// Keys and values in the order of the text.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& parts() const {
    return parts_;
  }
  /// Errors:  kInvalidArgument for the first key that nobody took, naming those that were.
  [[nodiscard]] Status finish() const;

 private:
  std::string option_;
  std::vector<std::pair<std::string, std::string>> parts_;
  std::vector<std::string> known_;
};

}  // namespace headroom::cli
