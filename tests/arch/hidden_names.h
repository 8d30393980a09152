#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headroom::arch {

/// What an unnamed namespace declares.
struct HiddenName {
  std::string name;  ///< With the namespaces around it: "headroom::ir::(unnamed)::key_of".
  /// What tells whether another of that name may stand beside it: the types of a function's
  /// parameters, an alias or a using-declaration as it is written. Empty: none may.
  std::string beside;
};

/// Of a source file, in order.
[[nodiscard]] std::vector<HiddenName> hidden_names_in(std::string_view text);

/// Whether both can be declared in one translation unit.
[[nodiscard]] bool may_meet(const HiddenName& first, const HiddenName& second);

}  // namespace headroom::arch
