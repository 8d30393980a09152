#include "model_ir/json/plain_json.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace headroom::ir {
namespace {

/// Nesting is bounded by the stack; `JsonLimits` allows less by default.
constexpr std::size_t kDeepest = 256;

class PlainReader {
 public:
  PlainReader(std::string_view text, const JsonLimits& limits)
      : at_(text.data()),
        end_(text.data() + text.size()),
        depth_(std::min(limits.depth, kDeepest)),
        values_(limits.values) {}

  std::optional<JsonValue> read() {
    JsonValue root;
    const bool whole = read_value(root);
    skip_blanks();
    return whole && at_ == end_ ? std::optional(std::move(root)) : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) {
      ++at_;
    }
  }

  /// Skips blanks, and `wanted` if it comes next.
  bool accept(char wanted) {
    skip_blanks();
    if (at_ == end_ || *at_ != wanted) {
      return false;
    }
    ++at_;
    return true;
  }

  bool read_value(JsonValue& value) {
    skip_blanks();
    if (at_ == end_ || values_ == 0) {
      return false;
    }
    --values_;
    switch (*at_) {
      case '[':
        return read_array(value);
      case '{':
        return read_object(value);
      case '"': {
        std::string text;
        const bool whole = read_string(text);
        value = JsonValue(std::move(text));
        return whole;
      }
      case 't':
        value = JsonValue(true);
        return read_word("true");
      case 'f':
        value = JsonValue(false);
        return read_word("false");
      case 'n':
        return read_word("null");
      default:
        return read_number(value);
    }
  }

  bool read_word(std::string_view word) {
    const std::string_view left(at_, static_cast<std::size_t>(end_ - at_));
    at_ += left.starts_with(word) ? word.size() : 0;
    return left.starts_with(word);
  }

  bool read_array(JsonValue& value) {
    if (depth_ == 0) {
      return false;
    }
    --depth_;
    ++at_;
    const std::size_t first = items_.size();
    bool more = !accept(']');
    while (more) {
      JsonValue item;
      if (!read_value(item)) {
        return false;
      }
      items_.push_back(std::move(item));
      more = accept(',');
      if (!more && !accept(']')) {
        return false;
      }
    }
    const auto begin = items_.begin() + static_cast<std::ptrdiff_t>(first);
    value = JsonValue(
        JsonValue::Array(std::make_move_iterator(begin), std::make_move_iterator(items_.end())));
    items_.erase(begin, items_.end());
    ++depth_;
    return true;
  }

  bool read_object(JsonValue& value) {
    if (depth_ == 0) {
      return false;
    }
    --depth_;
    ++at_;
    JsonValue::Object members;
    bool more = !accept('}');
    while (more) {
      JsonMember member;
      skip_blanks();
      if (at_ == end_ || *at_ != '"' || !read_string(member.key) || !accept(':') ||
          !read_value(member.value)) {
        return false;
      }
      members.push_back(std::move(member));
      more = accept(',');
      if (!more && !accept('}')) {
        return false;
      }
    }
    const bool unique = has_unique_keys(members);
    value = JsonValue(std::move(members));
    ++depth_;
    return unique;
  }

  static bool has_unique_keys(const JsonValue::Object& members) {
    constexpr std::size_t kFew = 8;
    if (members.size() <= kFew) {
      for (std::size_t i = 1; i < members.size(); ++i) {
        for (std::size_t k = 0; k < i; ++k) {
          if (members[i].key == members[k].key) {
            return false;
          }
        }
      }
      return true;
    }
    std::vector<std::string_view> keys;
    keys.reserve(members.size());
    for (const JsonMember& member : members) {
      keys.emplace_back(member.key);
    }
    std::ranges::sort(keys);
    return std::ranges::adjacent_find(keys) == keys.end();
  }

  /// The text from one quotation mark to the next.
  bool read_string(std::string& text) {
    ++at_;
    for (const char* begin = at_; at_ != end_; ++at_) {
      const auto code = static_cast<unsigned char>(*at_);
      if (code == '"') {
        text.append(begin, at_);
        ++at_;
        return true;
      }
      if (code == '\\') {
        text.append(begin, at_);
        if (!read_escape(text)) {
          return false;
        }
        begin = at_ + 1;
      } else if (code < 0x20 || code >= 0x80) {
        return false;
      }
    }
    return false;
  }

  /// The character after a backslash; leaves `at_` on it.
  bool read_escape(std::string& text) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    ++at_;
    const std::size_t index = at_ == end_ ? std::string_view::npos : kNames.find(*at_);
    if (index == std::string_view::npos) {
      return false;
    }
    text += kMeant[index];
    return true;
  }

  /// Skips digits; false if there are none.
  bool skip_digits() {
    const char* const begin = at_;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') {
      ++at_;
    }
    return at_ != begin;
  }

  bool read_number(JsonValue& value) {
    const char* const begin = at_;
    at_ += *at_ == '-' ? 1 : 0;
    const char* const digits = at_;
    if (!skip_digits() || (*digits == '0' && at_ - digits > 1)) {
      return false;
    }
    bool whole = true;
    if (at_ != end_ && *at_ == '.') {
      whole = false;
      ++at_;
      if (!skip_digits()) {
        return false;
      }
    }
    if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
      whole = false;
      ++at_;
      at_ += at_ != end_ && (*at_ == '+' || *at_ == '-') ? 1 : 0;
      if (!skip_digits()) {
        return false;
      }
    }
    return whole ? convert<std::int64_t>(begin, value) : convert<double>(begin, value);
  }

  template <typename Number>
  bool convert(const char* begin, JsonValue& value) {
    Number number{};
    const auto [last, fault] = std::from_chars(begin, at_, number);
    value = JsonValue(number);
    return fault == std::errc{} && last == at_;
  }

  const char* at_;
  const char* end_;
  std::size_t depth_;             ///< Arrays and objects that may still be opened.
  std::size_t values_;            ///< Values that may still be read.
  std::vector<JsonValue> items_;  ///< Items of the open arrays, the outermost first.
};

}  // namespace

std::optional<JsonValue> read_plain_json(std::string_view text, const JsonLimits& limits) {
  return PlainReader(text, limits).read();
}

}  // namespace headroom::ir
