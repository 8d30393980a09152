#include "tests/arch/source_names.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "tests/arch/tokens.h"

namespace headroom::arch {
namespace {

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}

/// Words that a name may follow without being declared there: "return next(...)".
bool is_keyword(std::string_view token) {
  static const std::set<std::string_view> keywords = {
      "case",      "catch",     "class",     "co_return", "co_yield",  "concept",   "const",
      "consteval", "constexpr", "constinit", "decltype",  "default",   "delete",    "do",
      "else",      "emit",      "enum",      "explicit",  "extern",    "final",     "for",
      "friend",    "goto",      "if",        "inline",    "mutable",   "namespace", "new",
      "noexcept",  "operator",  "override",  "private",   "protected", "public",    "requires",
      "return",    "sizeof",    "static",    "struct",    "switch",    "template",  "thread_local",
      "throw",     "typename",  "union",     "using",     "virtual",   "while"};
  return keywords.contains(token);
}

bool names_a_type(std::string_view token) {
  return token == "class" || token == "struct" || token == "union" || token == "enum";
}

class NameReader {
 public:
  explicit NameReader(std::string_view text) : tokens_(tokens_of(text)) {
    names_.includes = tokens_.includes;
    names_.types = tokens_.macros;
    names_.inner = tokens_.macros;
  }

  SourceNames read() {
    for (at_ = 0; at_ < tokens_.words.size(); ++at_) {
      is_outside_ = depth_ == 0 && std::all_of(scopes_.begin(), scopes_.end(), [](Scope scope) {
                      return scope == Scope::kNamespace;
                    });
      if (is_word(token())) {
        read_word();
      } else {
        follow_scopes();
      }
    }
    return std::move(names_);
  }

 private:
  enum class Scope { kNamespace, kEnum, kOther };

  /// The token so many after the current one; empty outside the text.
  [[nodiscard]] std::string_view token(std::ptrdiff_t offset = 0) const {
    const std::ptrdiff_t index = static_cast<std::ptrdiff_t>(at_) + offset;
    return index >= 0 && index < std::ssize(tokens_.words)
               ? tokens_.words[static_cast<std::size_t>(index)]
               : std::string_view();
  }

  void follow_scopes() {
    const std::string_view sign = token();
    if (sign == "(" || sign == "[") {
      ++depth_;
    } else if (sign == ")" || sign == "]") {
      --depth_;
    } else if (sign == "{") {
      scopes_.push_back(next_scope_);
      next_scope_ = Scope::kOther;
    } else if (sign == "}" && !scopes_.empty()) {
      scopes_.pop_back();
    } else if (sign == ";" && depth_ == 0) {
      next_scope_ = Scope::kOther;
    }
  }

  void read_word() {
    if (token() == "namespace" && token(-1) != "using" && token(2) != "=") {
      next_scope_ = Scope::kNamespace;
      for (std::ptrdiff_t part = 1; is_word(token(part)); part += 2) {
        names_.namespaces.insert(token(part));
      }
    } else if (token() == "enum") {
      next_scope_ = Scope::kEnum;
    }
    if (is_keyword(token()) || read_parameter() || read_type() || read_alias() ||
        read_enumerator()) {
      return;
    }
    read_variable_or_function();
    read_use();
  }

  /// "typename Value", "class Value" or "typename... Values" of a template.
  bool read_parameter() {
    const bool is_pack = token(-1) == "." && token(-4) == "typename";
    const bool is_class = token(-1) == "class" && (token(-2) == "<" || token(-2) == ",");
    if (!is_pack && !is_class && token(-1) != "typename") {
      return false;
    }
    names_.parameters.insert(token());
    return true;
  }

  /// "struct Name {", "class Name;", "enum class Name : int".
  bool read_type() {
    if (!names_a_type(token(-1)) && token(-1) != "concept") {
      return false;
    }
    if (is_outside_ && token(1) == ";") {
      names_.announced.insert(token());
      return true;
    }
    names_.inner.insert(token());
    if (is_outside_ &&
        (token(1) == "{" || token(1) == ":" || token(1) == "final" || token(-1) == "concept")) {
      names_.types.insert(token());
    }
    return true;
  }

  /// "using Name = ..." and "using other::Name;".
  bool read_alias() {
    if (token(-1) == "using" && token(1) == "=") {
      names_.inner.insert(token());
      if (is_outside_) {
        names_.types.insert(token());
      }
      return true;
    }
    std::ptrdiff_t first = 0;
    while (token(first - 1) == "::" || (is_word(token(first - 1)) && token(first - 1) != "using")) {
      --first;
    }
    if (first < 0 && token(1) == ";" && token(first - 1) == "using") {
      names_.inner.insert(token());
    }
    return false;
  }

  bool read_enumerator() {
    const bool is_one = !scopes_.empty() && scopes_.back() == Scope::kEnum &&
                        (token(-1) == "{" || token(-1) == ",");
    if (is_one) {
      names_.inner.insert(token());
    }
    return is_one;
  }

  /// A name after a type: "int name", "std::vector<int> name(", "Type& name".
  void read_variable_or_function() {
    const std::string_view before = token(-1);
    const bool follows_type =
        (is_word(before) && !is_keyword(before)) || before == ">" || before == "&" || before == "*";
    if (!follows_type) {
      return;
    }
    const std::string_view after = token(1);
    const bool has_value = (after == "=" && token(2) != "=") || after == "{" || after == "[";
    if (is_constant_name(token()) ? has_value : !is_type_name(token())) {  // Not "2 * kGiB".
      names_.inner.insert(token());
    }
    if (is_outside_ && after == "(") {
      names_.functions.insert(token());
    }
    if (is_outside_ && has_value && is_constant_name(token())) {
      names_.types.insert(token());
    }
  }

  void read_use() {
    const std::string_view before = token(-1);
    const std::string_view after = token(1);
    if (before == "." || before == "->") {
      return;
    }
    const bool is_declared = is_word(before) && !is_keyword(before);
    names_.uses.push_back({.name = token(),
                           .qualifier = before == "::" ? qualifier() : std::string_view(),
                           .is_call = after == "(" && !is_declared,
                           .needs_definition = after != "&" && after != "*" && after != ";" &&
                                               !is_in_smart_pointer()});
  }

  /// "::name" and "Template<...>::name" are nobody's that we look for.
  [[nodiscard]] std::string_view qualifier() const {
    return is_word(token(-2)) ? token(-2) : token(-1);
  }

  /// "std::unique_ptr<Name>", "std::shared_ptr<const Name>".
  [[nodiscard]] bool is_in_smart_pointer() const {
    const std::ptrdiff_t before = token(-1) == "const" ? -2 : -1;
    return token(1) == ">" && token(before) == "<" &&
           (token(before - 1) == "unique_ptr" || token(before - 1) == "shared_ptr");
  }

  Tokens tokens_;
  SourceNames names_;
  std::size_t at_ = 0;
  std::ptrdiff_t depth_ = 0;  ///< Of parentheses and brackets.
  std::vector<Scope> scopes_;
  Scope next_scope_ = Scope::kOther;  ///< What the next "{" opens.
  bool is_outside_ = true;            ///< Of functions and types.
};

}  // namespace

SourceNames names_in(std::string_view text) {
  return NameReader(text).read();
}

bool is_type_name(std::string_view name) {
  return !name.empty() && is_upper(name.front());
}

bool is_constant_name(std::string_view name) {
  return name.size() > 1 && name[0] == 'k' && is_upper(name[1]);
}

}  // namespace headroom::arch
