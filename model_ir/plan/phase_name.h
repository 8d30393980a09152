#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// What a phase of a program is, as a value. The words stand here and nowhere else: whoever wants
/// to know what a phase does asks for its kind.
namespace headroom::ir {

enum class PhaseKind : std::uint8_t {
  // Before the first step.
  kLoad,             ///< The model is loaded, with what wraps it.
  kPeft,             ///< Adapters are added to a quantised model.
  kModel,            ///< The model is built (DeepSpeed, Megatron-Core).
  kDdp,              ///< Megatron-Core's buffers of parameters and gradients are made.
  kOptimizerObject,  ///< The optimizer is constructed.
  kInitialize,       ///< deepspeed.initialize.
  kFlatten,          ///< The part of it before DeepSpeed last resets torch's peak counters.
  kResume,           ///< The states of a checkpoint are loaded into the optimizer.
  // In each step, some of them once for every micro-batch.
  kForward,
  kBackward,
  kForwardBackward,  ///< All passes of Megatron-Core's schedule.
  kOptimizer,
  kEngineStep,      ///< DeepSpeed's engine.step() of the last micro-batch: its optimizer.
  kEngineStepNoop,  ///< engine.step() of any other micro-batch, which does nothing.
  kZeroGrad,
  kWholeStep,  ///< torchtitan's step, which is not divided.
  // After the last step.
  kEvaluation,
  kCheckpointSave,
  kPrefill,
  kDecode,
  kOther,  ///< None of these: a text of `PhaseName::other`.
};
inline constexpr int kPhaseKindCount = 21;

/// Where in the run a phase lies; both count from 1.
struct StepPosition {
  int step = 0;                  ///< 0: outside the steps.
  std::int64_t micro_batch = 0;  ///< 0: not of one micro-batch, or the only one.
  friend bool operator==(const StepPosition&, const StepPosition&) = default;
};

struct PhaseName {
  PhaseKind kind = PhaseKind::kOther;
  StepPosition at{};
  std::string other{};  ///< kOther: its words, without those of the position.
  friend bool operator==(const PhaseName&, const PhaseName&) = default;
};

/// Whether a phase runs passes forward, alone or among others.
[[nodiscard]] bool runs_forward(PhaseKind kind);
/// Whether a phase is the optimizer's. An undivided step is not: the optimizer is only its end.
[[nodiscard]] bool runs_optimizer(PhaseKind kind);

/// The words of a name without its position: "forward"; empty for an undivided step.
[[nodiscard]] std::string_view words_of(const PhaseName& name);

/// "load", "step2.backward", "step2.3.forward", "step2", "deepspeed.initialize.flatten".
[[nodiscard]] std::string to_text(const PhaseName& name);

/// The name that has this text: `to_text(parse_phase_name(text)) == text` for every text. Words
/// that no kind has give `PhaseKind::kOther`.
[[nodiscard]] PhaseName parse_phase_name(std::string_view text);

}  // namespace headroom::ir
