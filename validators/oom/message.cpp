#include "validators/oom/message.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "model_ir/base/error.h"

namespace headroom::check {
namespace {

constexpr std::string_view kBegin = " out of memory. Tried to allocate ";
/// No message is longer, apart from the list of processes.
constexpr std::size_t kLongest = 4'000;
/// No prefix of a launcher is longer, and no name of a backend ("CUDA").
constexpr std::size_t kLongestPrefix = 80;
constexpr std::size_t kLongestKind = 16;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

struct OomUnit {
  std::string_view name;
  std::int64_t bytes = 0;
};

/// `format_size` prints the first four; the others are of those who write such messages.
constexpr std::array<OomUnit, 9> kOomUnits = {{{"bytes", 1},
                                               {"KiB", kKiB},
                                               {"MiB", kMiB},
                                               {"GiB", kGiB},
                                               {"TiB", kKiB* kGiB},
                                               {"KB", 1'000},
                                               {"MB", 1'000'000},
                                               {"GB", 1'000'000'000},
                                               {"B", 1}}};

/// The size at the beginning of `text`: "38.75 MiB".
std::optional<PrintedSize> size_at(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [after, fault] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (fault != std::errc{} || !std::isfinite(value) || value < 0 || after == end || *after != ' ') {
    return std::nullopt;
  }
  const std::string_view number(text.data(), static_cast<std::size_t>(after - text.data()));
  const std::string_view rest = text.substr(number.size() + 1);
  const auto unit = std::ranges::find_if(
      kOomUnits, [rest](const OomUnit& one) { return rest.starts_with(one.name); });
  constexpr double kMost = 1e15;  // A thousand times what GPUs have.
  if (unit == kOomUnits.end() || value * static_cast<double>(unit->bytes) > kMost) {
    return std::nullopt;
  }
  const std::size_t point = number.find('.');
  const std::size_t digits = point == std::string_view::npos ? 0 : number.size() - point - 1;
  const auto scale = static_cast<double>(unit->bytes);
  const double slack = unit->bytes == 1 ? 0 : scale / 2 / std::pow(10, digits);
  return PrintedSize{.bytes = Bytes{std::llround(value * scale)},
                     .slack = Bytes{static_cast<std::int64_t>(std::ceil(slack))}};
}

/// The size behind `words`.
std::optional<PrintedSize> size_after(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  return at == std::string_view::npos ? std::nullopt : size_at(text.substr(at + words.size()));
}

/// The size before the word at `at`: a number and a unit.
std::optional<PrintedSize> size_ending_at(std::string_view text, std::size_t at) {
  const std::size_t unit = text.substr(0, at).rfind(' ');
  if (unit == std::string_view::npos || unit == 0) {
    return std::nullopt;
  }
  std::size_t number = unit;
  while (number > 0 && (is_digit(text[number - 1]) || text[number - 1] == '.')) {
    --number;
  }
  return size_at(text.substr(number, at - number));
}

/// The size before `words`, which begin with a blank.
std::optional<PrintedSize> size_before(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  return at == std::string_view::npos ? std::nullopt : size_ending_at(text, at);
}

std::optional<PrintedSize> first_of(std::initializer_list<std::optional<PrintedSize>> sizes) {
  for (const std::optional<PrintedSize>& size : sizes) {
    if (size) {
      return size;
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> gpu_of(std::string_view text) {
  const std::size_t at = text.find("GPU ");
  std::int64_t number = 0;
  if (at == std::string_view::npos ||
      std::from_chars(text.data() + at + 4, text.data() + text.size(), number).ec != std::errc{} ||
      number < 0) {
    return std::nullopt;
  }
  return number;
}

/// "Process 123 has 8.06 GiB memory in use."
std::vector<OtherProcess> other_processes(std::string_view text) {
  constexpr std::string_view kProcess = "Process ";
  constexpr std::string_view kHas = " has ";
  std::vector<OtherProcess> found;
  for (std::size_t at = text.find(kProcess); at != std::string_view::npos;
       at = text.find(kProcess, at + 1)) {
    const std::string_view rest = text.substr(at + kProcess.size());
    std::size_t digits = 0;
    while (digits < rest.size() && is_digit(rest[digits])) {
      ++digits;
    }
    const std::string_view after = rest.substr(digits);
    if (digits == 0 || !after.starts_with(kHas)) {
      continue;
    }
    if (const std::optional<PrintedSize> used = size_at(after.substr(kHas.size()))) {
      found.push_back({.number = std::string(rest.substr(0, digits)), .used = *used});
    }
  }
  return found;
}

PrintedSize sum_of(const PrintedSize& a, const PrintedSize& b) {
  return {.bytes = a.bytes + b.bytes, .slack = a.slack + b.slack};
}

/// Reads the figures of one message, which begins with its first size.
std::optional<OutOfMemoryMessage> read_one(std::string_view text) {
  const std::optional<PrintedSize> asked = size_at(text);
  if (!asked) {
    return std::nullopt;
  }
  OutOfMemoryMessage message;
  message.asked = *asked;
  message.gpu = gpu_of(text);
  message.capacity = first_of({size_after(text, "total capacity of "),
                               size_after(text, "total capacty of "),  // PyTorch 2.1.
                               size_before(text, " total capacity")});
  message.free = first_of(
      {size_before(text, " is free"), size_before(text, " free;"), size_before(text, " free)")});
  message.allowed = size_before(text, " allowed;");
  message.process = size_after(text, "this process has ");
  message.allocated = first_of(
      {size_before(text, " is allocated by PyTorch"), size_before(text, " already allocated")});
  message.private_pools = size_before(text, " allocated in private pools");
  message.unallocated = size_before(text, " is reserved by PyTorch but unallocated");
  message.reserved = size_before(text, " reserved in total by PyTorch");
  if (!message.reserved && message.allocated && message.unallocated) {
    message.reserved = sum_of(*message.allocated, *message.unallocated);
  } else if (message.reserved && message.allocated && !message.unallocated) {
    message.unallocated =
        PrintedSize{.bytes = std::max(message.reserved->bytes - message.allocated->bytes, Bytes{0}),
                    .slack = message.reserved->slack + message.allocated->slack};
  }
  message.others = other_processes(text);
  if (text.find("expandable_segments") != std::string_view::npos) {
    message.hint = MessageHint::kExpandableSegments;
  } else if (text.find("max_split_size_mb") != std::string_view::npos) {
    message.hint = MessageHint::kMaxSplitSize;
  }
  return message;
}

/// A line without colours of terminals and frames of tracebacks.
std::string plain_line(std::string_view line) {
  std::string plain;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\033' && at + 1 < line.size() && line[at + 1] == '[') {
      at += 2;
      while (at < line.size() && (is_digit(line[at]) || line[at] == ';')) {
        ++at;  // The letter behind them ends the sequence.
      }
    } else if (line.substr(at).starts_with("│")) {
      plain += ' ';
      at += std::string_view("│").size() - 1;
    } else {
      plain += line[at] == '\t' || line[at] == '\r' ? ' ' : line[at];
    }
  }
  return plain;
}

/// The number of characters of a timestamp: "2024-01-31 12:00:01,123 " or "2021-12-08T01:25:15.3Z
/// ".
std::size_t timestamp_length(std::string_view text) {
  constexpr std::string_view kDate = "dddd-dd-dd";
  if (text.size() <= kDate.size()) {
    return 0;
  }
  for (std::size_t at = 0; at < kDate.size(); ++at) {
    if (kDate[at] == 'd' ? !is_digit(text[at]) : text[at] != kDate[at]) {
      return 0;
    }
  }
  std::size_t at = kDate.size();
  if (text[at] == 'T' || text[at] == ' ') {
    ++at;
    while (at < text.size() && (is_digit(text[at]) || text[at] == ':' || text[at] == ',' ||
                                text[at] == '.' || text[at] == 'Z' || text[at] == '+')) {
      ++at;
    }
  }
  return at;
}

struct PlainLine {
  std::string prefix;  ///< The innermost prefix that names who prints: "rank3".
  std::string_view text;
};

/// Takes the prefix in brackets, "[rank3]:" or "(worker pid=12)", off a line.
bool take_bracket(PlainLine& line) {
  const char close = line.text.starts_with("[") ? ']' : line.text.starts_with("(") ? ')' : '\0';
  const std::size_t end = close == '\0' ? std::string_view::npos : line.text.find(close);
  if (end == std::string_view::npos || end > kLongestPrefix) {
    return false;
  }
  const std::string_view inside = line.text.substr(1, end - 1);
  const bool names_rank = inside.find("rank") != std::string_view::npos ||
                          inside.starts_with("default") ||
                          inside.find("pid=") != std::string_view::npos;
  const bool numbered = !inside.empty() && is_digit(inside.back());
  if (close == ')' && !names_rank) {
    return false;  // "(GPU 0; ..." of a message that was broken into lines.
  }
  if (names_rank || (numbered && inside.find_first_of("-:. ") == std::string_view::npos)) {
    line.prefix = inside;
  }
  line.text.remove_prefix(end + 1);
  line.text.remove_prefix(line.text.starts_with(":") ? 1 : 0);
  return true;
}

/// Takes "3: " (srun --label) or "worker-1: " (pdsh) off a line.
bool take_label(PlainLine& line) {
  std::size_t end = 0;
  while (end < line.text.size() && end <= kLongestPrefix &&
         (is_word(line.text[end]) || line.text[end] == '-')) {
    ++end;
  }
  const bool is_label = end > 0 && end <= kLongestPrefix &&
                        line.text.substr(end).starts_with(": ") && is_digit(line.text[end - 1]) &&
                        line.prefix.empty();
  if (is_label) {
    line.prefix = line.text.substr(0, end);
    line.text.remove_prefix(end + 2);
  }
  return is_label;
}

PlainLine without_prefixes(std::string_view text) {
  PlainLine line{.prefix = {}, .text = text};
  for (bool more = true; more;) {
    while (!line.text.empty() && is_blank(line.text.front())) {
      line.text.remove_prefix(1);
    }
    const std::size_t stamp = timestamp_length(line.text);
    line.text.remove_prefix(stamp);
    more = stamp > 0 || take_bracket(line) || take_label(line);
  }
  return line;
}

/// What one rank prints, in one line.
struct RankText {
  std::string rank;
  std::string text;
  std::size_t begin = std::string::npos;  ///< Where the last `kBegin` of `text` is, if anywhere.
};

void add_words(std::string& text, std::string_view words) {
  for (const char c : words) {
    if (!is_blank(c)) {
      text += c;
    } else if (!text.empty() && text.back() != ' ') {
      text += ' ';
    }
  }
  if (!text.empty() && text.back() != ' ') {
    text += ' ';
  }
}

/// Adds the words of a line, and finds the last `kBegin`, which may be broken into lines.
void add_line(RankText& rank, std::string_view line) {
  const std::size_t from = rank.text.size() - std::min(rank.text.size(), kBegin.size());
  add_words(rank.text, line);
  const std::size_t at = std::string_view(rank.text).substr(from).rfind(kBegin);
  rank.begin = at == std::string_view::npos ? rank.begin : from + at;
}

/// Collects the lines of each rank.
class RankTexts {
 public:
  void add(std::string_view raw) {
    const std::string plain = plain_line(raw);
    PlainLine line = without_prefixes(plain);
    if (line.prefix.empty() && line.text.empty()) {
      return;
    }
    if (line.prefix.empty() && continues(line.text)) {
      line.prefix = ranks_[last_].rank;
    }
    const auto [known, is_new] = places_.try_emplace(line.prefix, ranks_.size());
    if (is_new) {
      ranks_.push_back({.rank = line.prefix, .text = {}, .begin = std::string::npos});
    }
    last_ = known->second;
    add_line(ranks_[last_], line.text);
  }
  [[nodiscard]] const std::vector<RankText>& all() const { return ranks_; }

 private:
  /// Whether a line without a prefix may go on with the message of the line before.
  [[nodiscard]] bool continues(std::string_view line) const {
    if (ranks_.empty() || line.find(kBegin.substr(0, 14)) != std::string_view::npos) {
      return false;
    }
    const RankText& before = ranks_[last_];
    return before.begin != std::string::npos && before.text.size() - before.begin <= kLongest;
  }

  std::vector<RankText> ranks_;
  std::map<std::string, std::size_t> places_;
  std::size_t last_ = 0;
};

RankTexts texts_by_rank(std::string_view text) {
  RankTexts ranks;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    // "\\n" as two characters is a line break of a message inside JSON or a repr.
    std::string_view line = text.substr(0, end);
    for (std::size_t at = line.find("\\n"); at != std::string_view::npos; at = line.find("\\n")) {
      ranks.add(line.substr(0, at));
      line.remove_prefix(at + 2);
    }
    ranks.add(line);
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return ranks;
}

/// The word that ends at `end`: "CUDA". Of a longer one, the last `kLongestKind` characters.
std::string_view word_before(std::string_view text, std::size_t end) {
  std::size_t begin = end;
  while (begin > 0 && end - begin < kLongestKind && is_word(text[begin - 1])) {
    --begin;
  }
  return text.substr(begin, end - begin);
}

}  // namespace

std::vector<OutOfMemoryMessage> read_out_of_memory(std::string_view text) {
  std::vector<OutOfMemoryMessage> messages;
  const RankTexts ranks = texts_by_rank(text);
  for (const RankText& rank : ranks.all()) {
    const std::string_view all = rank.text;
    for (std::size_t at = all.find(kBegin); at != std::string_view::npos;) {
      const std::size_t first = at + kBegin.size();
      const std::size_t next = all.find(kBegin, first);
      const std::size_t length =
          std::min(next == std::string_view::npos ? all.size() : next, first + kLongest) - first;
      if (std::optional<OutOfMemoryMessage> one = read_one(all.substr(first, length))) {
        one->kind = word_before(all, at);
        one->rank = printable(rank.rank);
        messages.push_back(std::move(*one));
      }
      at = next;
    }
  }
  return messages;
}

std::string_view outside_allocation_failure(std::string_view text) {
  constexpr std::array<std::string_view, 7> kFailures = {
      "CUDA error: out of memory",        "HIP error: out of memory",
      "CUDA driver error: out of memory", "Triton Error [CUDA]: out of memory",
      "Cuda failure 'out of memory'",     "Cuda failure 2 'out of memory'",
      "CUBLAS_STATUS_ALLOC_FAILED"};
  std::string_view first;
  std::size_t before = std::string_view::npos;
  for (const std::string_view failure : kFailures) {
    if (const std::size_t at = text.find(failure); at < before) {
      before = at;
      first = failure;
    }
  }
  return first;
}

}  // namespace headroom::check
