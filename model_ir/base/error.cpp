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

std::string to_text(const Error& error) {
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
    text += "\n  note: " + note;
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
  const std::size_t far = std::max<std::size_t>(2, word.size() / 3);
  if (nearest.empty() || word.size() > nearest.front().size() + far ||
      edit_distance(word, nearest.front()) > far) {
    return std::nullopt;
  }
  return nearest.front();
}

}  // namespace headroom
