#include "tests/arch/hidden_names.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "tests/arch/tokens.h"

namespace headroom::arch {
namespace {

using Words = std::vector<std::string_view>;

std::string joined(const Words& words) {
  std::string text;
  for (const std::string_view word : words) {
    text += (text.empty() ? "" : " ") + std::string(word);
  }
  return text;
}

bool opens(std::string_view token) {
  return token == "(" || token == "[" || token == "<" || token == "{";
}

bool closes(std::string_view token) {
  return token == ")" || token == "]" || token == ">" || token == "}";
}

/// Types of parameters that stand between parentheses: without their names and defaults.
std::string parameter_types(const Words& words) {
  Words types;
  Words one;
  int depth = 0;
  bool is_default = false;
  const auto finish = [&types, &one, &is_default] {
    if (one.size() > 1 && is_word(one.back())) {
      one.pop_back();
    }
    types.insert(types.end(), one.begin(), one.end());
    types.emplace_back(",");
    one.clear();
    is_default = false;
  };
  for (const std::string_view word : words) {
    depth += opens(word) ? 1 : 0;
    depth -= closes(word) ? 1 : 0;
    if (depth == 0 && word == ",") {
      finish();
    } else if (depth == 0 && word == "=") {
      is_default = true;
    } else if (!is_default) {
      one.push_back(word);
    }
  }
  finish();
  return joined(types);
}

/// Without "template <...>".
Words without_template(Words words) {
  if (words.empty() || words.front() != "template") {
    return words;
  }
  int depth = 0;
  const auto end = std::find_if(words.begin() + 1, words.end(), [&depth](std::string_view word) {
    depth += word == "<" ? 1 : 0;
    depth -= word == ">" ? 1 : 0;
    return depth == 0;
  });
  words.erase(words.begin(), end == words.end() ? end : end + 1);
  return words;
}

/// Of a type, a function or a variable; its name is empty if a statement declares none.
HiddenName declared_by(const Words& words) {
  const auto at = [&words](std::size_t index) {
    return index < words.size() ? words[index] : std::string_view();
  };
  if (at(0) == "struct" || at(0) == "class" || at(0) == "enum" || at(0) == "union") {
    return {.name = std::string(at(1) == "class" ? at(2) : at(1)), .beside = {}};
  }
  if (at(0) == "using") {
    return {.name = std::string(at(2) == "=" ? at(1) : words.back()), .beside = joined(words)};
  }
  int depth = 0;
  for (std::size_t i = 1; i < words.size(); ++i) {
    depth += words[i] == "<" ? 1 : 0;
    depth -= words[i] == ">" ? 1 : 0;
    if (depth > 0) {
      continue;
    }
    if (words[i] == "(") {
      const auto first = words.begin() + static_cast<std::ptrdiff_t>(i) + 1;
      const auto last = std::find(words.rbegin(), std::make_reverse_iterator(first), ")").base();
      return {.name = std::string(words[i - 1]),
              .beside = "(" + parameter_types({first, last == first ? last : last - 1})};
    }
    if (words[i] == "=" || words[i] == "[") {
      return {.name = std::string(words[i - 1]), .beside = {}};
    }
  }
  return {.name = std::string(words.back()), .beside = {}};
}

class HiddenReader {
 public:
  std::vector<HiddenName> read(const Words& words) {
    for (const std::string_view word : words) {
      follow(word);
    }
    return std::move(names_);
  }

 private:
  void follow(std::string_view word) {
    if (bodies_ > 0) {
      bodies_ += word == "{" ? 1 : 0;
      bodies_ -= word == "}" ? 1 : 0;
    } else if (word == "{") {
      open();
    } else if (word == "}" && !namespaces_.empty()) {
      namespaces_.pop_back();
    } else if (word == ";") {
      finish();
    } else {
      statement_.push_back(word);
    }
  }

  void open() {
    if (!statement_.empty() && statement_.front() == "namespace") {
      namespaces_.emplace_back();
      for (std::size_t i = 1; i < statement_.size(); ++i) {
        namespaces_.back() += statement_[i];
      }
      statement_.clear();
    } else {
      finish();
      bodies_ = 1;
    }
  }

  void finish() {
    const Words words = without_template(std::exchange(statement_, {}));
    const bool is_hidden =
        std::find(namespaces_.begin(), namespaces_.end(), "") != namespaces_.end();
    if (!is_hidden || words.size() < 2 || words.front() == "static_assert") {
      return;
    }
    HiddenName found = declared_by(words);
    if (!is_word(found.name)) {
      return;  // A macro, an operator.
    }
    std::string around;
    for (const std::string& each : namespaces_) {
      around += (each.empty() ? "(unnamed)" : each) + "::";
    }
    found.name = around + found.name;
    names_.push_back(std::move(found));
  }

  std::vector<std::string> namespaces_;
  Words statement_;
  int bodies_ = 0;  ///< Braces around the current token that are no namespace's.
  std::vector<HiddenName> names_;
};

}  // namespace

std::vector<HiddenName> hidden_names_in(std::string_view text) {
  return HiddenReader().read(tokens_of(text).words);
}

bool may_meet(const HiddenName& first, const HiddenName& second) {
  if (first.name != second.name) {
    return true;
  }
  if (first.beside.empty() || second.beside.empty()) {
    return false;
  }
  const bool are_functions = first.beside.starts_with("(") && second.beside.starts_with("(");
  return are_functions ? first.beside != second.beside : first.beside == second.beside;
}

}  // namespace headroom::arch
