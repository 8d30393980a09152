#include "planner/space/axis.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "model_ir/plan/plan_words.h"
#include "runtimes/interface/settle.h"
#include "runtimes/registry.h"
#include "runtimes/typed/scalars.h"

namespace headroom::plan {
namespace {

constexpr std::array<std::string_view, 2> kSwitch = {"no", "yes"};
constexpr std::array<std::string_view, 6> kAttention = {"fused", "unfused", "sdpa",
                                                        "eager", "flash",   "sdpa-no-cudnn"};
constexpr std::array<std::string_view, 5> kRecompute = {"none", "selective", "uniform", "block",
                                                        "full"};
constexpr std::array<std::string_view, 6> kLoss = {"unfused", "native",  "te",
                                                   "hf",      "chunked", "fused-linear"};
constexpr std::array<std::string_view, 3> kOffload = {"none", "optimizer", "all"};
constexpr std::array<std::string_view, kOffloadSteps + 1> kOptimizerOffload = {"0", "0.25", "0.5",
                                                                               "0.75", "1"};

/// The 8-bit recipes. Their values follow those of `ir::precision_words`.
constexpr std::array<std::string_view, 4> kEightBits = {"fp8-delayed", "fp8-tensorwise",
                                                        "fp8-blockwise", "fp8-mxfp8"};

constexpr std::array<std::string_view, 9> kAnyPrecision = {
    "bf16-master", "bf16",           "bf16-autocast", "fp16-master", "fp32",
    "fp8-delayed", "fp8-tensorwise", "fp8-blockwise", "fp8-mxfp8"};
/// The optimizers that people choose among for memory or time.
constexpr std::array<std::string_view, 10> kAnyOptimizer = {
    "adamw",        "adamw-fused", "adamw-8bit", "paged-adamw-8bit", "paged-adamw-32bit", "sgd",
    "sgd-momentum", "adafactor",   "lion",       "lion-8bit"};
constexpr std::array<std::string_view, kFrozenBits.size()> kFrozen = {"16-bit", "8-bit", "4-bit"};

template <typename Value>
std::vector<std::string_view> names_of(std::span<const ir::Word<Value>> words) {
  std::vector<std::string_view> names;
  for (const ir::Word<Value>& word : words) {
    names.push_back(word.text);
  }
  return names;
}

constexpr std::int64_t kGreatest = std::int64_t{1} << 24;

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  const bool good = fault == std::errc() && rest == end && value >= 0 && value <= kGreatest;
  return good ? std::optional(value) : std::nullopt;
}

std::string expected(Axis axis) {
  if (axis->expected != nullptr) {
    return axis->expected();
  }
  const AxisWords words = words_of_axis(axis);
  if (words.empty()) {
    return "comma-separated whole numbers, a range such as 2-16, or any";
  }
  std::string text = "any, or some of (comma-separated) ";
  for (const std::string_view word : words) {
    text += (word == words.front() ? "" : ", ") + std::string(word);
  }
  return text;
}

/// "write 8-512" for "512-8", a range whose ends are exchanged; empty for anything else.
std::string turned_range(std::string_view part) {
  const std::size_t dash = part.find('-');
  if (dash == std::string_view::npos) {
    return {};
  }
  const std::optional<std::int64_t> first = whole(part.substr(0, dash));
  const std::optional<std::int64_t> last = whole(part.substr(dash + 1));
  return first && last && *first > *last
             ? "write " + std::to_string(*last) + "-" + std::to_string(*first)
             : std::string();
}

/// "use fp8-delayed, fp8-mxfp8" for "fp8": the words that begin so, otherwise the closest one. For
/// numbers, the range or the thousands that were meant.
std::string nearest(Axis axis, std::string_view part) {
  if (std::string turned = turned_range(part); !turned.empty()) {
    return turned;
  }
  if (words_of_axis(axis).empty()) {
    return ir::without_k(part, kGreatest);
  }
  std::vector<std::string> words;
  std::string begun;
  for (const std::string_view word : words_of_axis(axis)) {
    words.emplace_back(word);
    if (!part.empty() && word.starts_with(part)) {
      begun += (begun.empty() ? "use " : ", ") + std::string(word);
    }
  }
  return begun.empty() ? ir::suggestion(part, words) : begun;
}

/// Parses one of the parts between commas.
std::optional<AxisValues> parse_part(Axis axis, std::string_view part) {
  if (axis->parse != nullptr) {
    return axis->parse(part);
  }
  const AxisWords words = words_of_axis(axis);
  if (!words.empty()) {
    const auto word = std::ranges::find(words, part);
    return word == words.end() ? std::nullopt : std::optional(AxisValues{word - words.begin()});
  }
  const std::size_t dash = part.find('-');
  const std::optional<std::int64_t> first = whole(part.substr(0, dash));
  const std::optional<std::int64_t> last =
      dash == std::string_view::npos ? first : whole(part.substr(dash + 1));
  constexpr std::int64_t kWidest = 1 << 16;
  if (!first || !last || *first > *last || *last - *first > kWidest) {
    return std::nullopt;
  }
  AxisValues values;
  for (std::int64_t value = *first; value <= *last; ++value) {
    values.push_back(value);
  }
  return values;
}

template <typename Value>
std::int64_t position(std::span<const ir::Word<Value>> words, const Value& value) {
  const auto found = std::ranges::find(words, value, &ir::Word<Value>::value);
  return found == words.end() ? -1 : found - words.begin();
}

}  // namespace

namespace axis_words {

AxisWords runtimes() {
  return ir::runtime_words();
}
AxisWords schedules() {
  static const std::vector<std::string_view> names = names_of(ir::schedule_words());
  return names;
}
AxisWords precisions() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all = names_of(ir::precision_words());
    all.insert(all.end(), kEightBits.begin(), kEightBits.end());
    return all;
  }();
  return names;
}
AxisWords any_precision() {
  return kAnyPrecision;
}
AxisWords frozen_weights() {
  return kFrozen;
}
AxisWords optimizers() {
  static const std::vector<std::string_view> names = names_of(ir::optimizer_words());
  return names;
}
AxisWords any_optimizer() {
  return kAnyOptimizer;
}
AxisWords switches() {
  return kSwitch;
}
AxisWords attentions() {
  return kAttention;
}
AxisWords recomputations() {
  return kRecompute;
}
AxisWords losses() {
  return kLoss;
}
AxisWords offloads() {
  return kOffload;
}
AxisWords offload_shares() {
  return kOptimizerOffload;
}

}  // namespace axis_words

std::string value_text(Axis axis, std::int64_t value) {
  const AxisWords words = words_of_axis(axis);
  const auto index = static_cast<std::size_t>(value);
  return index < words.size() ? std::string(words[index]) : std::to_string(value);
}

int eight_bit_recipe(std::int64_t precision) {
  const auto first = static_cast<std::int64_t>(ir::precision_words().size());
  return precision < first ? 0 : static_cast<int>(precision - first + 1);
}

std::int64_t precision_with_recipe(int recipe) {
  return static_cast<std::int64_t>(ir::precision_words().size()) + recipe - 1;
}

std::int64_t schedule_with(ir::PipelineKind kind) {
  return position(ir::schedule_words(), kind);
}

std::int64_t precision_position(ir::Precision precision) {
  return position(ir::precision_words(), precision);
}

std::int64_t precision_value(ir::Precision precision) {
  return canonical(Axis::kPrecision, precision_position(precision));
}

std::int64_t canonical(Axis axis, std::int64_t value) {
  if (axis != Axis::kPrecision) {
    return value;
  }
  const auto is = [&](ir::Precision one) { return value == position(ir::precision_words(), one); };
  if (is(ir::Precision::kAutocastBf16)) {
    return position(ir::precision_words(), ir::Precision::kBf16Master);
  }
  if (is(ir::Precision::kAutocastFp16)) {
    return position(ir::precision_words(), ir::Precision::kFp16Master);
  }
  return value;
}

Result<AxisValues> parse_axis(Axis axis, std::string_view text) {
  AxisValues values;
  if (text == "any") {
    for (const std::string_view word : is_held(axis) ? axis->any() : AxisWords()) {
      const std::optional<AxisValues> one = parse_part(axis, word);
      values.insert(values.end(), one->begin(), one->end());
    }
    std::ranges::sort(values);
    return values;
  }
  std::string_view rest = text;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    more = comma != std::string_view::npos;
    rest.remove_prefix(more ? comma + 1 : rest.size());
    const std::optional<AxisValues> some = parse_part(axis, part);
    if (!some) {
      return Error::invalid_argument(option_of(axis), text, expected(axis), nearest(axis, part));
    }
    values.insert(values.end(), some->begin(), some->end());
  }
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

const AxisValues& Constraints::of(Axis axis) const {
  static const AxisValues none;
  const auto found = said_.find(axis->order);
  return found == said_.end() ? none : found->second;
}

bool Constraints::allows(Axis axis, std::int64_t value) const {
  const AxisValues& given = of(axis);
  return given.empty() || std::ranges::binary_search(given, value);
}

}  // namespace headroom::plan
