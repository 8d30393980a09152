#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"

namespace headroom::ir::checkpoint {

/// A regular expression of Python, as quantised checkpoints name modules with it.
///
/// Model:   literals, ".", classes, groups, alternatives, "*", "+", "?", "^", "$" and the escapes
///          \d, \w and \s. All states are followed at once, so that the time of a match grows with
///          pattern times name, whatever the pattern.
/// Source:  docs.python.org/3/library/re.html; the method: Thompson 1968, CACM 11(6):419-422.
class NamePattern {
 public:
  /// Errors:  kInvalidArgument for what is no such expression, has more than 1,024 characters, or
  ///          uses counts, look-around or back references.
  [[nodiscard]] static Result<NamePattern> compile(std::string_view text);
  /// A pattern of file names: "*" and "?" are wildcards, all else is literal.
  [[nodiscard]] static NamePattern wildcard(std::string_view text);

  /// Whether a prefix of `name` matches (re.match).
  [[nodiscard]] bool matches_prefix(std::string_view name) const;
  /// Whether all of `name` matches (re.fullmatch).
  [[nodiscard]] bool matches_all(std::string_view name) const;

 private:
  friend class PatternParser;

  enum class Step : std::uint8_t { kAny, kLiteral, kClass, kSplit, kJump, kBegin, kEnd, kDone };
  struct Instruction {
    Step step = Step::kDone;
    char letter = 0;         ///< For `kLiteral`.
    std::size_t first = 0;   ///< Next instruction of kSplit and kJump; index of a class.
    std::size_t second = 0;  ///< The other way of kSplit.
  };
  /// Characters of a class: 256 bits.
  struct Letters {
    std::uint64_t bits[4] = {0, 0, 0, 0};
    void add(unsigned char letter) { bits[letter / 64] |= std::uint64_t{1} << (letter % 64U); }
    [[nodiscard]] bool holds(unsigned char letter) const {
      return (bits[letter / 64] >> (letter % 64U) & 1U) != 0;
    }
  };

  [[nodiscard]] bool matches(std::string_view name, bool whole) const;
  [[nodiscard]] bool takes(const Instruction& instruction, char letter) const;
  void follow(std::size_t at, bool begin, bool end, std::vector<std::size_t>& states,
              std::vector<bool>& seen) const;

  std::string plain_;  ///< A pattern of literals and "." only; then there is no program.
  bool is_plain_ = false;
  std::vector<Instruction> program_;
  std::vector<Letters> classes_;
};

}  // namespace headroom::ir::checkpoint
