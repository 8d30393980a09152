#pragma once

#include <set>
#include <string_view>
#include <vector>

namespace headroom::arch {

/// C++ source, cut up without a compiler. Views into the text it was cut from.
struct Tokens {
  /// Words and signs ("::" and "->" are one each) in order. A literal is an empty word. Comments
  /// and preprocessor lines are left out.
  std::vector<std::string_view> words;
  std::vector<std::string_view> includes;  ///< Without quotes or brackets.
  std::set<std::string_view> macros;       ///< Names that `#define` gives.
};

[[nodiscard]] Tokens tokens_of(std::string_view text);

[[nodiscard]] bool is_word(std::string_view token);

}  // namespace headroom::arch
