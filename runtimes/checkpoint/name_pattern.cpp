#include "runtimes/checkpoint/name_pattern.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <utility>

namespace headroom::ir::checkpoint {

/// Compiles by recursive descent: alternatives of sequences of repeated atoms.
class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  std::optional<NamePattern> parse() {
    alternatives(0);
    if (failed_ || at_ != text_.size()) {
      return std::nullopt;
    }
    emit({.step = NamePattern::Step::kDone});
    return std::move(pattern_);
  }

 private:
  using Step = NamePattern::Step;
  using Instruction = NamePattern::Instruction;
  using Letters = NamePattern::Letters;

  static constexpr int kDeepest = 32;

  [[nodiscard]] bool more() const { return at_ < text_.size() && !failed_; }
  [[nodiscard]] char next() const { return text_[at_]; }
  bool take(char letter) {
    const bool there = more() && next() == letter;
    at_ += there ? 1 : 0;
    return there;
  }
  std::size_t emit(Instruction instruction) {
    pattern_.program_.push_back(instruction);
    return pattern_.program_.size() - 1;
  }
  [[nodiscard]] std::size_t here() const { return pattern_.program_.size(); }

  /// Puts one instruction before `at`. Jumps from the code behind it move along; those from before
  /// that led to `at` lead to the new instruction.
  void insert(std::size_t at, Instruction instruction) {
    for (std::size_t index = 0; index < here(); ++index) {
      Instruction& each = pattern_.program_[index];
      const std::size_t least = index < at ? at + 1 : at;
      const bool jumps = each.step == Step::kSplit || each.step == Step::kJump;
      each.first += jumps && each.first >= least ? 1U : 0U;
      each.second += each.step == Step::kSplit && each.second >= least ? 1U : 0U;
    }
    pattern_.program_.insert(pattern_.program_.begin() + static_cast<std::ptrdiff_t>(at),
                             instruction);
  }

  void alternatives(int depth) {
    if (depth > kDeepest) {
      failed_ = true;
      return;
    }
    std::vector<std::size_t> jumps;
    std::size_t begin = here();
    sequence(depth);
    while (take('|')) {
      insert(begin, {.step = Step::kSplit, .first = begin + 1});
      jumps.push_back(emit({.step = Step::kJump}));
      pattern_.program_[begin].second = here();
      begin = here();
      sequence(depth);
    }
    for (const std::size_t jump : jumps) {
      pattern_.program_[jump].first = here();
    }
  }

  void sequence(int depth) {
    while (more() && next() != '|' && next() != ')') {
      const std::size_t begin = here();
      atom(depth);
      repetition(begin);
    }
  }

  void repetition(std::size_t begin) {
    if (!more()) {
      return;
    }
    if (take('*')) {
      insert(begin, {.step = Step::kSplit, .first = begin + 1, .second = here() + 2});
      emit({.step = Step::kJump, .first = begin});
    } else if (take('+')) {
      emit({.step = Step::kSplit, .first = begin, .second = here() + 1});
    } else if (take('?')) {
      insert(begin, {.step = Step::kSplit, .first = begin + 1, .second = here() + 1});
    } else {
      failed_ = failed_ || next() == '{';
      return;
    }
    take('?');  // Lazy: the same names match.
    failed_ = failed_ || (more() && (next() == '*' || next() == '+' || next() == '{'));
  }

  void atom(int depth) {
    const char letter = next();
    at_ += 1;
    switch (letter) {
      case '(':
        group(depth);
        break;
      case '[':
        letters();
        break;
      case '.':
        emit({.step = Step::kAny});
        break;
      case '^':
        emit({.step = Step::kBegin});
        break;
      case '$':
        emit({.step = Step::kEnd});
        break;
      case '\\':
        escape();
        break;
      case '*':
      case '+':
      case '?':
      case '{':
        failed_ = true;
        break;
      default:
        emit({.step = Step::kLiteral, .letter = letter});
    }
  }

  void group(int depth) {
    if (take('?') && !take(':')) {
      failed_ = true;  // Look-around and names.
      return;
    }
    alternatives(depth + 1);
    failed_ = failed_ || !take(')');
  }

  /// Adds \d, \w or \s; false for another letter.
  static bool add_kind(char kind, Letters& set) {
    int (*const is_kind)(int) = kind == 'd'   ? &isdigit
                                : kind == 'w' ? &isalnum
                                : kind == 's' ? &isspace
                                              : nullptr;
    if (is_kind == nullptr) {
      return false;
    }
    for (int letter = 0; letter < 128; ++letter) {
      if (is_kind(letter) != 0 || (kind == 'w' && letter == '_')) {
        set.add(static_cast<unsigned char>(letter));
      }
    }
    return true;
  }

  void emit_class(const Letters& set) {
    pattern_.classes_.push_back(set);
    emit({.step = Step::kClass, .first = pattern_.classes_.size() - 1});
  }

  void escape() {
    if (!more()) {
      failed_ = true;
      return;
    }
    const char letter = next();
    at_ += 1;
    Letters set;
    if (add_kind(letter, set)) {
      emit_class(set);
    } else if (std::isalnum(static_cast<unsigned char>(letter)) != 0) {
      failed_ = true;  // Back references, \b and their like.
    } else {
      emit({.step = Step::kLiteral, .letter = letter});
    }
  }

  void letters() {
    Letters set;
    const bool inverted = take('^');
    bool first = true;
    while (more() && (next() != ']' || first)) {
      first = false;
      unsigned char low = static_cast<unsigned char>(next());
      at_ += 1;
      if (low == '\\' && more()) {
        low = static_cast<unsigned char>(next());
        at_ += 1;
        if (add_kind(static_cast<char>(low), set)) {
          continue;
        }
      }
      unsigned char high = low;
      if (at_ + 1 < text_.size() && next() == '-' && text_[at_ + 1] != ']') {
        high = static_cast<unsigned char>(text_[at_ + 1]);
        at_ += 2;
      }
      for (unsigned letter = low; letter <= high; ++letter) {
        set.add(static_cast<unsigned char>(letter));
      }
    }
    failed_ = failed_ || !take(']');
    if (inverted) {
      for (std::uint64_t& bits : set.bits) {
        bits = ~bits;
      }
    }
    emit_class(set);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool failed_ = false;
  NamePattern pattern_;
};

Result<NamePattern> NamePattern::compile(std::string_view text) {
  constexpr std::size_t kLongest = 1024;
  if (text.find_first_of("\\^$*+?()[]{}|") == std::string_view::npos) {
    NamePattern pattern;
    pattern.plain_ = text;
    pattern.is_plain_ = true;
    return pattern;
  }
  std::optional<NamePattern> pattern =
      text.size() <= kLongest ? PatternParser(text).parse() : std::nullopt;
  if (!pattern) {
    return Error::invalid_argument("pattern", text.substr(0, 80),
                                   "a regular expression without counts and look-around");
  }
  return *std::move(pattern);
}

NamePattern NamePattern::wildcard(std::string_view text) {
  NamePattern pattern;
  for (const char letter : text) {
    if (letter == '*') {
      const std::size_t at = pattern.program_.size();
      pattern.program_.push_back({.step = Step::kSplit, .first = at + 1, .second = at + 3});
      pattern.program_.push_back({.step = Step::kAny});
      pattern.program_.push_back({.step = Step::kJump, .first = at});
    } else {
      pattern.program_.push_back(
          {.step = letter == '?' ? Step::kAny : Step::kLiteral, .letter = letter});
    }
  }
  pattern.program_.push_back({.step = Step::kDone});
  return pattern;
}

bool NamePattern::takes(const Instruction& instruction, char letter) const {
  switch (instruction.step) {
    case Step::kAny:
      return true;
    case Step::kLiteral:
      return instruction.letter == letter;
    case Step::kClass:
      return classes_[instruction.first].holds(static_cast<unsigned char>(letter));
    default:
      return false;
  }
}

void NamePattern::follow(std::size_t at, bool begin, bool end, std::vector<std::size_t>& states,
                         std::vector<bool>& seen) const {
  std::vector<std::size_t> open{at};
  while (!open.empty()) {
    const std::size_t state = open.back();
    open.pop_back();
    if (seen[state]) {
      continue;
    }
    seen[state] = true;
    const Instruction& instruction = program_[state];
    if (instruction.step == Step::kSplit || instruction.step == Step::kJump) {
      open.push_back(instruction.first);
      if (instruction.step == Step::kSplit) {
        open.push_back(instruction.second);
      }
    } else if (instruction.step == Step::kBegin || instruction.step == Step::kEnd) {
      if (instruction.step == Step::kBegin ? begin : end) {
        open.push_back(state + 1);
      }
    } else {
      states.push_back(state);
    }
  }
}

bool NamePattern::matches(std::string_view name, bool whole) const {
  if (is_plain_) {
    return (whole ? name.size() == plain_.size() : name.size() >= plain_.size()) &&
           std::equal(plain_.begin(), plain_.end(), name.begin(),
                      [](char wanted, char letter) { return wanted == '.' || wanted == letter; });
  }
  if (program_.empty()) {
    return false;
  }
  std::vector<std::size_t> states;
  std::vector<bool> seen(program_.size(), false);
  follow(0, true, name.empty(), states, seen);
  for (std::size_t at = 0;; ++at) {
    const bool done = std::ranges::any_of(
        states, [this](std::size_t state) { return program_[state].step == Step::kDone; });
    if (done && (!whole || at == name.size())) {
      return true;
    }
    if (at == name.size() || states.empty()) {
      return false;
    }
    std::vector<std::size_t> next;
    seen.assign(program_.size(), false);
    for (const std::size_t state : states) {
      if (takes(program_[state], name[at])) {
        follow(state + 1, false, at + 1 == name.size(), next, seen);
      }
    }
    states = std::move(next);
  }
}

bool NamePattern::matches_prefix(std::string_view name) const {
  return matches(name, false);
}

bool NamePattern::matches_all(std::string_view name) const {
  return matches(name, true);
}

}  // namespace headroom::ir::checkpoint
