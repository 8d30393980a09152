#include "model_ir/base/error.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace headroom {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above + 1, row[j - 1] + 1, replaced});
      diagonal = above;
    }
  }
  return row[b.size()];
}

/// Bytes of the UTF-8 sequence that `text` begins with; 0: it begins with none. Overlong forms,
/// surrogates and values above U+10FFFF are none.
std::size_t sequence_length(std::string_view text) {
  const auto at = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto follows = [&at](std::size_t i) { return (at(i) & 0xc0U) == 0x80U; };
  const unsigned first = at(0);
  if (first < 0x80) {
    return 1;
  }
  if (first >= 0xc2 && first < 0xe0) {
    return follows(1) ? 2 : 0;
  }
  if (first >= 0xe0 && first < 0xf0) {
    const bool legal = !(first == 0xe0 && at(1) < 0xa0) && !(first == 0xed && at(1) >= 0xa0);
    return legal && follows(1) && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first < 0xf5) {
    const bool legal = !(first == 0xf0 && at(1) < 0x90) && !(first == 0xf4 && at(1) >= 0x90);
    return legal && follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

Error Error::invalid_argument(std::string_view key, std::string_view got, std::string_view wanted,
                              std::string_view fix) {
  Error error;
  error.code = ErrorCode::kInvalidArgument;
  error.key = key;
  error.got = got;
  error.wanted = wanted;
  error.fix = fix;
  return error;
}

Error Error::invalid_input(std::string_view file, std::string_view pointer, std::string_view got,
                           std::string_view wanted, std::string_view fix) {
  Error error;
  error.code = ErrorCode::kInvalidInput;
  error.file = file;
  error.pointer = pointer;
  error.got = got;
  error.wanted = wanted;
  error.fix = fix;
  return error;
}

Error Error::environment(std::string_view file, std::string_view got, std::string_view wanted,
                         std::string_view fix) {
  Error error = invalid_input(file, {}, got, wanted, fix);
  error.code = ErrorCode::kEnvironment;
  return error;
}

Error Error::with_note(std::string_view note) && {
  notes.emplace_back(note);
  return std::move(*this);
}

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    // C1 controls, U+0080 to U+009F, are escapes of terminals as well.
    const bool control =
        first < 0x20 || first == 0x7f ||
        (length == 2 && first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0);
    if (length == 0) {
      shown += "\xef\xbf\xbd";
    } else if (control) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      const auto last = static_cast<unsigned char>(text[length - 1]);
      shown += "\\x";
      shown += kDigits[last >> 4U];
      shown += kDigits[last & 0xfU];
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return shown;
}

std::string to_text(const Error& raw) {
  Error error = raw;
  for (std::string* const part :
       {&error.file, &error.pointer, &error.key, &error.got, &error.wanted, &error.fix}) {
    *part = printable(*part);
  }
  std::string text = "error: ";
  for (const std::string* part : {&error.file, &error.pointer, &error.key}) {
    if (!part->empty()) {
      text += *part + ": ";
    }
  }
  if (error.wanted.empty() && !error.key.empty()) {
    // The message is a statement about the option: "--lora is not supported with Megatron-Core".
    text.resize(text.size() - 2);
    text += " " + error.got;
  } else if (error.wanted.empty()) {
    text += error.got;  // Also a statement, about the file: "plan.json: no such file".
  } else {
    text += error.got.empty() ? "" : "got " + error.got;
  }
  if (!error.wanted.empty()) {
    text += (error.got.empty() ? "expected " : ", expected ") + error.wanted;
  }
  if (!error.fix.empty()) {
    text += "\n  fix: " + error.fix;
  }
  for (const std::string& note : error.notes) {
    text += "\n  note: " + printable(note);
  }
  return text;
}

std::vector<std::string> closest_words(std::string_view word,
                                       std::span<const std::string> candidates, std::size_t count) {
  constexpr std::size_t kLongestWord = 64;  // A longer word resembles no known word.
  word = word.substr(0, kLongestWord);
  std::vector<std::pair<std::size_t, std::string>> ranked;
  ranked.reserve(candidates.size());
  for (const std::string& candidate : candidates) {
    ranked.emplace_back(edit_distance(word, candidate), candidate);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> words;
  for (const auto& [distance, candidate] : ranked) {
    if (words.size() == count) {
      break;
    }
    words.push_back(candidate);
  }
  return words;
}

std::optional<std::string> closest_word(std::string_view word,
                                        std::span<const std::string> candidates) {
  const std::vector<std::string> nearest = closest_words(word, candidates, 1);
  if (nearest.empty()) {
    return std::nullopt;
  }
  // Two changes of a short word leave little of it, unless it begins alike ("fast" is not "cost").
  const bool begins_alike = !word.empty() && nearest.front().starts_with(word.front());
  // Half of a word must be left in any case ("a" is not "aio").
  const std::size_t most = std::max<std::size_t>(begins_alike ? 2 : 1, word.size() / 3);
  const std::size_t far = std::min(most, (word.size() + 1) / 2);
  if (word.size() > nearest.front().size() + far || edit_distance(word, nearest.front()) > far) {
    return std::nullopt;
  }
  return nearest.front();
}

}  // namespace headroom
