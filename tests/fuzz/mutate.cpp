#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace headroom::test {
namespace {

const std::vector<std::string>& hostile_json() {
  static const std::vector<std::string> values = {"0",
                                                  "1",
                                                  "-1",
                                                  "2",
                                                  "3",
                                                  "7",
                                                  "1000000",
                                                  "2147483648",
                                                  "9223372036854775807",
                                                  "9223372036854775808",
                                                  "-9223372036854775808",
                                                  "18446744073709551616",
                                                  "1e999",
                                                  "1e18",
                                                  "-0.0",
                                                  "0.5",
                                                  "1e-300",
                                                  "NaN",
                                                  "null",
                                                  "true",
                                                  "false",
                                                  "\"\"",
                                                  "[]",
                                                  "{}",
                                                  "[null]",
                                                  "\"auto\"",
                                                  "\"none\"",
                                                  "\"\\u0000\"",
                                                  "\"\\ud800\"",
                                                  "\"\\u001b[31m\"",
                                                  "\"\xff\"",
                                                  "[[[[[[[[]]]]]]]]",
                                                  "{\"a\": {\"a\": {}}}",
                                                  "\"" + std::string(5'000, 'x') + "\""};
  return values;
}

const std::vector<std::string>& hostile_words() {
  static const std::vector<std::string> values = {"",
                                                  "-",
                                                  "--",
                                                  "---",
                                                  "-1",
                                                  "0",
                                                  "1",
                                                  "2",
                                                  "3",
                                                  "64",
                                                  "1000000",
                                                  "9223372036854775807",
                                                  "9223372036854775808",
                                                  "1e999",
                                                  "1e-9",
                                                  "nan",
                                                  "inf",
                                                  "any",
                                                  "none",
                                                  "all",
                                                  "auto",
                                                  "yes",
                                                  "no",
                                                  "=",
                                                  ",",
                                                  ",,",
                                                  "a=b",
                                                  "r=",
                                                  "=5",
                                                  "1-0",
                                                  "1-99999999999",
                                                  "80GiB",
                                                  "-1GiB",
                                                  "1e30TB",
                                                  "/",
                                                  "/dev/null",
                                                  ".",
                                                  "\x1b[31m",
                                                  "\xff\xfe",
                                                  "%s%n",
                                                  "--json",
                                                  "--help",
                                                  std::string(5'000, 'x')};
  return values;
}

std::size_t index_below(std::size_t size, Random& random) {
  return static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(size) - 1));
}

/// A JSON text cut at its punctuation, strings and blanks kept whole; joined, the parts are the
/// text.
std::vector<std::string> tokens_of(std::string_view text) {
  std::vector<std::string> tokens;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = at + 1;
    const char first = text[at];
    if (first == '"') {
      while (end < text.size() && text[end] != '"') {
        end += text[end] == '\\' ? 2U : 1U;
      }
      end = std::min(end + 1, text.size());
    } else if (std::isalnum(static_cast<unsigned char>(first)) != 0 || first == '-') {
      while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 ||
                                   std::string_view("+-.").find(text[end]) != std::string::npos)) {
        ++end;
      }
    }
    tokens.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

template <typename T>
void change_list(std::vector<T>& items, const std::vector<T>& hostile, Random& random) {
  if (items.empty()) {
    items.push_back(random.pick(hostile));
    return;
  }
  const std::size_t at = index_below(items.size(), random);
  switch (random.between(0, 5)) {
    case 0:
      items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), T(items[at]));
      break;
    case 2:
      std::swap(items[at], items[index_below(items.size(), random)]);
      break;
    default:
      items[at] = random.pick(hostile);
  }
}

void change_bytes(std::string& bytes, Random& random) {
  const std::size_t at = bytes.empty() ? 0 : index_below(bytes.size(), random);
  const auto length = static_cast<std::size_t>(random.between(1, 16));
  switch (random.between(0, 4)) {
    case 0:
      bytes.erase(at, length);
      break;
    case 1:
      bytes.insert(at, bytes.substr(at, length));
      break;
    case 2:
      bytes.resize(at);
      break;
    case 3:
      bytes.insert(at, std::string(length, static_cast<char>(random.between(0, 255))));
      break;
    default:
      if (!bytes.empty()) {
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.between(0, 7)));
      }
  }
}

/// Operations of a pickle, alone and in sequences that leave something open or missing.
const std::vector<std::string>& hostile_operations() {
  using namespace std::string_literals;
  static const std::vector<std::string> operations = {"}"s,
                                                      "}("s,
                                                      "]("s,
                                                      "u"s,
                                                      "e"s,
                                                      "s"s,
                                                      "a"s,
                                                      "0"s,
                                                      "1"s,
                                                      "2"s,
                                                      "("s,
                                                      "."s,
                                                      "N"s,
                                                      "K\0"s,
                                                      "K\xff"s,
                                                      "J\xff\xff\xff\xff"s,
                                                      "\x88"s,
                                                      "\x8a\0"s,
                                                      "h\0"s,
                                                      "h\x05"s,
                                                      "j\0\0\0\0"s,
                                                      "j\xff\0\0\0"s,
                                                      "\x94"s,
                                                      "q\0"s,
                                                      "r\xff\xff\xff\xff"s,
                                                      "\x85"s,
                                                      "\x86"s,
                                                      "\x87"s,
                                                      "\x8c\0"s,
                                                      "\x8c\x04size"s,
                                                      "X\xff\xff\xff\xff"s,
                                                      "\x8d\xff\xff\xff\xff\xff\xff\xff\xff"s,
                                                      "cos\nsystem\n"s,
                                                      "\x93"s,
                                                      "R"s,
                                                      "b"s,
                                                      "\x95\xff\xff\xff\xff\xff\xff\xff\xff"s,
                                                      "\x80\x02"s,
                                                      "G\x7f\xf0\0\0\0\0\0\0"s,
                                                      "h\x01h\x01"s};
  return operations;
}

}  // namespace

std::string mutated_bytes(std::string_view bytes, Random& random) {
  std::string changed(bytes);
  for (std::int64_t left = random.between(1, 4); left > 0; --left) {
    change_bytes(changed, random);
  }
  return changed;
}

std::string mutated_pickle(std::string_view bytes, Random& random) {
  if (random.chance(1, 4)) {
    return mutated_bytes(bytes, random);
  }
  std::string changed(bytes);
  for (std::int64_t left = random.between(1, 4); left > 0 && !changed.empty(); --left) {
    const auto at =
        static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(changed.size()) - 1));
    const std::size_t number = changed.find('\x8a', at);  // LONG1: a size, an address or a time.
    if (random.chance(1, 3) && number != std::string::npos && number + 10 < changed.size()) {
      const auto digits = static_cast<std::size_t>(changed[number + 1]) & 7U;
      const std::string_view pattern = random.chance(1, 2) ? std::string_view("\xff\x7f\x00", 3)
                                                           : std::string_view("\x00\x80\xff", 3);
      for (std::size_t i = 0; i < digits; ++i) {
        changed[number + 2 + i] = pattern[static_cast<std::size_t>(random.between(0, 2))];
      }
      continue;
    }
    const std::string& operation = random.pick(hostile_operations());
    if (random.chance(1, 2)) {
      changed.insert(at, operation);
    } else {
      changed.replace(at, operation.size(), operation);
    }
  }
  return changed;
}

std::string mutated_json(std::string_view text, Random& random) {
  if (random.chance(1, 8)) {
    return mutated_bytes(text, random);
  }
  std::vector<std::string> tokens = tokens_of(text);
  for (std::int64_t left = random.between(1, 4); left > 0; --left) {
    // Most changes hit a value and leave the text valid JSON, so that they reach the checks behind
    // the parser.
    std::vector<std::size_t> values;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto first = static_cast<unsigned char>(tokens[i].empty() ? ' ' : tokens[i][0]);
      const bool key = i + 1 < tokens.size() && tokens[i + 1] == ":";
      if (!key && (std::isalnum(first) != 0 || first == '-' || first == '"')) {
        values.push_back(i);
      }
    }
    if (values.empty() || random.chance(1, 4)) {
      change_list(tokens, hostile_json(), random);
    } else {
      tokens[random.pick(values)] = random.pick(hostile_json());
    }
  }
  std::string changed;
  for (const std::string& token : tokens) {
    changed += token;
  }
  return changed;
}

std::vector<std::string> mutated_words(std::vector<std::string> words,
                                       const std::vector<std::string>& pool, Random& random) {
  for (std::int64_t left = random.between(1, 3); left > 0; --left) {
    if (words.size() > 1 && random.chance(1, 3)) {
      std::string& word = words[1 + index_below(words.size() - 1, random)];
      word = mutated_bytes(word, random);
    } else {
      change_list(words, random.chance(1, 2) ? pool : hostile_words(), random);
    }
  }
  return words;
}

}  // namespace headroom::test
