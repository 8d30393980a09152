#include "tests/arch/tokens.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace headroom::arch {
namespace {

bool starts_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text) : text_(text) {}

  Tokens read() {
    while (at_ < text_.size()) {
      read_one();
    }
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }
  [[nodiscard]] char next() const { return at_ < text_.size() ? text_[at_] : '\n'; }
  /// Past the next `end`, or to the end of the text.
  void skip_past(std::string_view end) {
    const std::size_t found = text_.find(end, at_);
    at_ = found == std::string_view::npos ? text_.size() : found + end.size();
  }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t", at_), text_.size()); }

  void read_one() {
    if (is_blank(next())) {
      ++at_;
    } else if (rest().starts_with("//")) {
      skip_past("\n");
    } else if (rest().starts_with("/*")) {
      skip_past("*/");
    } else if (next() == '#') {
      read_directive();
    } else if (rest().starts_with("R\"")) {
      read_raw_string();
    } else if (next() == '"' || next() == '\'') {
      read_quoted(next());
    } else if (starts_word(next())) {
      tokens_.words.push_back(word());
    } else if (is_digit(next())) {
      read_number();
    } else {
      const bool is_pair = rest().starts_with("::") || rest().starts_with("->");
      tokens_.words.push_back(text_.substr(at_, is_pair ? 2 : 1));
      at_ += is_pair ? 2 : 1;
    }
  }

  std::string_view word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (starts_word(next()) || is_digit(next()))) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  void read_directive() {
    ++at_;
    skip_blanks();
    const std::string_view directive = word();
    skip_blanks();
    if (directive == "define") {
      tokens_.macros.insert(word());
    } else if (directive == "include" && (next() == '"' || next() == '<')) {
      const std::size_t begin = at_ + 1;
      const std::size_t end = std::min(text_.find_first_of("\">", begin), text_.size());
      tokens_.includes.push_back(text_.substr(begin, end - begin));
    }
    do {
      skip_past("\n");
    } while (at_ >= 2 && at_ < text_.size() && text_[at_ - 2] == '\\');
  }

  void read_raw_string() {
    const std::size_t open = text_.find('(', at_);
    const std::string end = ")" + std::string(text_.substr(at_ + 2, open - at_ - 2)) + "\"";
    skip_past(end);
    tokens_.words.emplace_back();
  }

  void read_quoted(char quote) {
    ++at_;
    while (at_ < text_.size() && next() != quote) {
      at_ += next() == '\\' ? 2U : 1U;
    }
    ++at_;
    tokens_.words.emplace_back();
  }

  /// "0x1F", "1'000", "1e-6".
  void read_number() {
    while (at_ < text_.size() &&
           (starts_word(next()) || is_digit(next()) || next() == '.' || next() == '\'')) {
      ++at_;
    }
    tokens_.words.emplace_back();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Tokens tokens_;
};

}  // namespace

Tokens tokens_of(std::string_view text) {
  return Tokenizer(text).read();
}

bool is_word(std::string_view token) {
  return !token.empty() && starts_word(token.front());
}

}  // namespace headroom::arch
