#include "model_ir/plan/phase_name.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>

#include "model_ir/base/check.h"

namespace headroom::ir {
namespace {

struct PhaseWording {
  PhaseKind kind;
  std::string_view words;
  bool in_step;  ///< Whether its name begins with a position.
};

constexpr std::array<PhaseWording, kPhaseKindCount - 1> kPhaseWordings = {{
    {PhaseKind::kLoad, "load", false},
    {PhaseKind::kPeft, "peft", false},
    {PhaseKind::kModel, "model", false},
    {PhaseKind::kDdp, "ddp", false},
    {PhaseKind::kOptimizerObject, "optimizer_object", false},
    {PhaseKind::kInitialize, "deepspeed.initialize", false},
    {PhaseKind::kFlatten, "deepspeed.initialize.flatten", false},
    {PhaseKind::kResume, "resume", false},
    {PhaseKind::kForward, "forward", true},
    {PhaseKind::kBackward, "backward", true},
    {PhaseKind::kForwardBackward, "forward_backward", true},
    {PhaseKind::kOptimizer, "optimizer", true},
    {PhaseKind::kEngineStep, "step", true},
    {PhaseKind::kEngineStepNoop, "step_noop", true},
    {PhaseKind::kZeroGrad, "zero_grad", true},
    {PhaseKind::kWholeStep, "", true},
    {PhaseKind::kEvaluation, "evaluation", false},
    {PhaseKind::kCheckpointSave, "checkpoint-save", false},
    {PhaseKind::kPrefill, "generation.prefill", false},
    {PhaseKind::kDecode, "generation.decode", false},
}};

constexpr std::string_view kStepWord = "step";

/// Cuts a number as `std::to_string` writes it, more than zero, off `rest`.
template <typename Number>
std::optional<Number> cut_number(std::string_view& rest) {
  Number number = 0;
  const char* const end = rest.data() + rest.size();
  const auto [behind, error] = std::from_chars(rest.data(), end, number);
  if (error != std::errc{} || number <= 0 || rest.front() == '0') {
    return std::nullopt;
  }
  rest.remove_prefix(static_cast<std::size_t>(behind - rest.data()));
  return number;
}

/// The words behind a position: nothing, or a dot and something.
std::optional<std::string_view> words_behind(std::string_view rest) {
  if (rest.empty()) {
    return rest;
  }
  return rest.size() > 1 && rest.front() == '.' ? std::optional(rest.substr(1)) : std::nullopt;
}

/// Cuts "step2" or "step2.3" off `words`, which become what is behind it; leaves words alone that
/// have no position.
StepPosition cut_position(std::string_view& words) {
  std::string_view rest = words;
  if (!rest.starts_with(kStepWord)) {
    return {};
  }
  rest.remove_prefix(kStepWord.size());
  const std::optional<int> step = cut_number<int>(rest);
  const std::optional<std::string_view> behind = words_behind(rest);
  if (!step || !behind) {
    return {};
  }
  words = *behind;
  std::string_view tail = words;
  if (const std::optional<std::int64_t> micro_batch = cut_number<std::int64_t>(tail)) {
    if (const std::optional<std::string_view> last = words_behind(tail)) {
      words = *last;
      return {.step = *step, .micro_batch = *micro_batch};
    }
  }
  return {.step = *step};
}

}  // namespace

bool runs_forward(PhaseKind kind) {
  return kind == PhaseKind::kForward || kind == PhaseKind::kForwardBackward;
}

bool runs_optimizer(PhaseKind kind) {
  return kind == PhaseKind::kOptimizer || kind == PhaseKind::kEngineStep;
}

std::string_view words_of(const PhaseName& name) {
  if (name.kind == PhaseKind::kOther) {
    return name.other;
  }
  const auto* const wording = std::ranges::find(kPhaseWordings, name.kind, &PhaseWording::kind);
  HEADROOM_ASSERT(wording != kPhaseWordings.end());
  return wording->words;
}

std::string to_text(const PhaseName& name) {
  const std::string_view words = words_of(name);
  if (name.at.step == 0) {
    return std::string(words);
  }
  std::string text(kStepWord);
  text += std::to_string(name.at.step);
  if (name.at.micro_batch > 0) {
    text += '.';
    text += std::to_string(name.at.micro_batch);
  }
  if (!words.empty()) {
    text += '.';
    text += words;
  }
  return text;
}

PhaseName parse_phase_name(std::string_view text) {
  std::string_view words = text;
  const StepPosition at = cut_position(words);
  for (const PhaseWording& wording : kPhaseWordings) {
    if (wording.words == words && wording.in_step == (at.step > 0)) {
      return {.kind = wording.kind, .at = at};
    }
  }
  return {.kind = PhaseKind::kOther, .at = at, .other = std::string(words)};
}

}  // namespace headroom::ir
