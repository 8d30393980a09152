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
        left_(limits.values) {}

  std::optional<JsonValue> read() {
    const bool whole = read_value();
    skip_blanks();
    return whole && at_ == end_ ? std::optional(std::move(values_.back())) : std::nullopt;
  }

  std::optional<JsonValue> read_member(std::string_view wanted) {
    for (bool more = accept('{'); more; more = accept(',')) {
      std::string key;
      if (!read_key(key) || !read_value()) {
        return std::nullopt;
      }
      if (key == wanted) {
        return std::move(values_.back());
      }
      values_.pop_back();
    }
    return std::nullopt;
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

  /// Adds a value to `values_`.
  bool read_value() {
    skip_blanks();
    if (at_ == end_ || left_ == 0) {
      return false;
    }
    --left_;
    switch (*at_) {
      case '[':
        return read_array();
      case '{':
        return read_object();
      case '"': {
        std::string text;
        const bool whole = read_string(text);
        values_.emplace_back(std::move(text));
        return whole;
      }
      case 't':
        values_.emplace_back(true);
        return read_word("true");
      case 'f':
        values_.emplace_back(false);
        return read_word("false");
      case 'n':
        values_.emplace_back();
        return read_word("null");
      default:
        return read_number();
    }
  }

  bool read_word(std::string_view word) {
    const std::string_view left(at_, static_cast<std::size_t>(end_ - at_));
    at_ += left.starts_with(word) ? word.size() : 0;
    return left.starts_with(word);
  }

  bool read_array() {
    if (depth_ == 0) {
      return false;
    }
    --depth_;
    ++at_;
    const std::size_t first = values_.size();
    bool more = !accept(']');
    while (more) {
      if (!read_value()) {
        return false;
      }
      more = accept(',');
      if (!more && !accept(']')) {
        return false;
      }
    }
    const auto begin = values_.begin() + static_cast<std::ptrdiff_t>(first);
    JsonValue::Array items(std::make_move_iterator(begin), std::make_move_iterator(values_.end()));
    values_.erase(begin, values_.end());
    values_.emplace_back(std::move(items));
    ++depth_;
    return true;
  }

  bool read_object() {
    if (depth_ == 0) {
      return false;
    }
    --depth_;
    ++at_;
    JsonValue::Object members;
    bool more = !accept('}');
    while (more) {
      std::string key;
      if (!read_key(key) || !read_value()) {
        return false;
      }
      members.push_back({.key = std::move(key), .value = std::move(values_.back())});
      values_.pop_back();
      more = accept(',');
      if (!more && !accept('}')) {
        return false;
      }
    }
    const bool unique = has_unique_keys(members);
    values_.emplace_back(std::move(members));
    ++depth_;
    return unique;
  }

  /// The name of a member, and the colon behind it.
  bool read_key(std::string& key) {
    skip_blanks();
    return at_ != end_ && *at_ == '"' && read_string(key) && accept(':');
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
        if (text.empty()) {
          text.assign(begin, at_);
        } else {
          text.append(begin, at_);
        }
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

  bool read_number() {
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
    return whole ? convert<std::int64_t>(begin) : convert<double>(begin);
  }

  template <typename Number>
  bool convert(const char* begin) {
    Number number{};
    const auto [last, fault] = std::from_chars(begin, at_, number);
    values_.emplace_back(number);
    return fault == std::errc{} && last == at_;
  }

  const char* at_;
  const char* end_;
  std::size_t depth_;  ///< Arrays and objects that may still be opened.
  std::size_t left_;   ///< Values that may still be read.
  /// Values that are in no array or object yet: the items of the open arrays, the outermost first.
  std::vector<JsonValue> values_;
};

}  // namespace

std::optional<JsonValue> read_plain_json(std::string_view text, const JsonLimits& limits) {
  return PlainReader(text, limits).read();
}

std::optional<JsonValue> read_plain_member(std::string_view text, std::string_view key,
                                           const JsonLimits& limits) {
  return PlainReader(text, limits).read_member(key);
}

}  // namespace headroom::ir
