#pragma once

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/app.h"
#include "model_ir/base/check.h"
#include "model_ir/json/json_value.h"

namespace headroom::test {

/// The exit code and the output of one call of the program.
struct Answer {
  cli::ExitCode code = cli::ExitCode::kYes;
  std::string out;
  std::string err;

  [[nodiscard]] bool says(std::string_view text) const {
    return out.find(text) != std::string::npos;
  }
  [[nodiscard]] bool complains(std::string_view text) const {
    return err.find(text) != std::string::npos;
  }
};

/// Runs the program in this process. Arguments may contain blanks.
inline Answer headroom_with(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const cli::ExitCode code = cli::run(arguments, out, err);
  return {code, out.str(), err.str()};
}

/// Splits a line such as "fit gpt2 --gpu t4" at blanks.
inline std::vector<std::string> words(std::string_view line) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(line)};
  for (std::string part; stream >> part;) {
    parts.push_back(part);
  }
  return parts;
}

inline Answer headroom(std::string_view line) {
  return headroom_with(words(line));
}

/// A JSON answer. A path such as "peak/by_role/parameters" or "phases/0/name" selects a field.
class Document {
 public:
  explicit Document(ir::JsonValue value) : value_(std::move(value)) {}
  explicit Document(const std::string& text) : value_(ir::parse_json(text, "answer").value()) {}

  [[nodiscard]] const ir::JsonValue* find(std::string_view path) const {
    const ir::JsonValue* at = &value_;
    while (at != nullptr && !path.empty()) {
      const std::string key(path.substr(0, path.find('/')));
      path.remove_prefix(std::min(key.size() + 1, path.size()));
      at = at->as_array() != nullptr ? item(*at->as_array(), key) : at->find(key);
    }
    return at;
  }
  [[nodiscard]] const ir::JsonValue& at(std::string_view path) const {
    const ir::JsonValue* found = find(path);
    if (found == nullptr) {
      throw InternalError("the answer has no field " + std::string(path));
    }
    return *found;
  }
  [[nodiscard]] std::int64_t integer(std::string_view path) const {
    return at(path).as_integer().value();
  }
  [[nodiscard]] double number(std::string_view path) const { return at(path).as_number().value(); }
  [[nodiscard]] std::string text(std::string_view path) const { return *at(path).as_string(); }
  [[nodiscard]] const ir::JsonValue::Array& array(std::string_view path) const {
    return *at(path).as_array();
  }

 private:
  static const ir::JsonValue* item(const ir::JsonValue::Array& array, const std::string& key) {
    const std::size_t index = std::stoul(key);
    return index < array.size() ? &array[index] : nullptr;
  }

  ir::JsonValue value_;
};

/// The JSON answer of a command line that is not an error, whatever its verdict.
inline Document json_of(std::string_view line) {
  std::vector<std::string> arguments = words(line);
  arguments.emplace_back("--json");
  const Answer answer = headroom_with(arguments);
  if (answer.code != cli::ExitCode::kYes && answer.code != cli::ExitCode::kNo) {
    throw InternalError(std::string(line) + ": " + answer.err);
  }
  return Document(answer.out);
}

/// The path of a file in the source tree. Every test uses it.
inline std::string source_file(std::string_view below) {
  return std::string(HEADROOM_SOURCE_DIR) + "/" + std::string(below);
}

}  // namespace headroom::test
