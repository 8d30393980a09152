#include "runtimes/typed/shell_words.h"

#include <string_view>

#include "model_ir/base/error.h"
#include "runtimes/interface/launch.h"

namespace headroom::ir {

std::string shell_word(const std::string& raw) {
  const std::string text = printable(raw);
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=+,:@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) {
    return text;
  }
  std::string out = "'";
  for (const char c : text) {
    out += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return out + "'";
}

std::string shell_word_with_variables(const std::string& text) {
  for (const std::string_view variable : kLaunchVariables) {
    const std::string name = "$" + std::string(variable);
    const bool is_port = text.starts_with(name + ":");  // "$HEAD_NODE:29500"
    if (text == name || is_port) {
      return name + (is_port ? shell_word(text.substr(name.size())) : "");
    }
  }
  return shell_word(text);
}

}  // namespace headroom::ir
