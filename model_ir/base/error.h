#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// What kind of fault an `Error` reports; `cli/exit_code.h` maps each to an exit code.
enum class ErrorCode {
  kInvalidArgument,  ///< An option or a field of a plan is wrong (exit code 2).
  kInvalidInput,     ///< A file or a value in it cannot be accepted (exit code 3).
  kEnvironment,      ///< A file cannot be read, a device or a part is missing (exit code 4).
};

/// A fault of the input or of the environment, worded for the person who can fix it.
/// Style: lower case, facts first, no full stop.
struct Error {
  ErrorCode code = ErrorCode::kInvalidInput;
  std::string file;     ///< Path as the user gave it; empty when there is none.
  std::string pointer;  ///< JSON pointer or byte offset inside `file` ("/num_key_value_heads").
  std::string key;      ///< Option or field that is wrong, when there is no file.
  std::string got;      ///< The offending value.
  std::string wanted;   ///< What would have been accepted.
  std::string fix;      ///< How to fix it.
  std::vector<std::string> notes;  ///< Added by callers on the way up.

  [[nodiscard]] static Error invalid_argument(std::string_view key, std::string_view got,
                                              std::string_view wanted, std::string_view fix = {});
  [[nodiscard]] static Error invalid_input(std::string_view file, std::string_view pointer,
                                           std::string_view got, std::string_view wanted,
                                           std::string_view fix = {});
  [[nodiscard]] static Error environment(std::string_view file, std::string_view got,
                                         std::string_view wanted, std::string_view fix = {});

  [[nodiscard]] Error with_note(std::string_view note) &&;

  friend bool operator==(const Error&, const Error&) = default;
};

/// Text from a file or a command line as a terminal may show it: control characters become escapes
/// such as \\x1b, and bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string printable(std::string_view text);

/// "error: FILE: POINTER: got X, expected Y" and, on lines of their own, the fix and the notes.
[[nodiscard]] std::string to_text(const Error& error);

/// The candidate nearest to `word` by edit distance, if one is near enough to be a misspelling.
[[nodiscard]] std::optional<std::string> closest_word(std::string_view word,
                                                      std::span<const std::string> candidates);
/// Up to `count` candidates in the order of their edit distance to `word`, however far.
[[nodiscard]] std::vector<std::string> closest_words(std::string_view word,
                                                     std::span<const std::string> candidates,
                                                     std::size_t count);

}  // namespace headroom
