#include "runtimes/typed/key_values.h"

#include <algorithm>

#include "model_ir/plan/plan_words.h"

namespace headroom::ir {

Result<KeyValues> KeyValues::parse(std::string_view option, std::string_view text, char separator) {
  KeyValues values;
  values.option_ = option;
  std::string_view rest = text;
  for (bool more = !text.empty(); more;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    more = comma != std::string_view::npos;
    rest.remove_prefix(more ? comma + 1 : rest.size());
    const std::size_t middle = std::min(part.find(separator), part.size());
    const std::string key(part.substr(0, middle));
    if (key.empty()) {
      return Error::invalid_argument(
          option, text, "KEY" + std::string(1, separator) + "VALUE, several separated by commas");
    }
    const bool twice = std::any_of(values.parts_.begin(), values.parts_.end(),
                                   [&](const auto& earlier) { return earlier.first == key; });
    if (twice) {
      return Error::invalid_argument(option, "'" + key + "' twice", "each key at most once",
                                     "leave out one of them");
    }
    values.parts_.emplace_back(key, part.substr(std::min(middle + 1, part.size())));
  }
  return values;
}

std::optional<std::string> KeyValues::take(std::string_view key) {
  known_.emplace_back(key);
  for (const auto& [name, value] : parts_) {
    if (name == key) {
      return value;
    }
  }
  return std::nullopt;
}

Status KeyValues::finish() const {
  for (const auto& [name, value] : parts_) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
      return Error::invalid_argument(option_, name, "one of " + join(known_),
                                     suggestion(name, known_));
    }
  }
  return ok();
}

}  // namespace headroom::ir
