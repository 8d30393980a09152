#include "gui/models/plan_choices.h"

#include <algorithm>
#include <span>
#include <utility>

#include <QCoreApplication>

#include "gui/whatif/what_if.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/registry.h"

namespace headroom::gui {
namespace {

using ir::OptimizerForm;
using ir::OptimizerKind;
using ir::Precision;

QString choice_words(const char* text) {
  return QCoreApplication::translate("Choice", text);
}

QString as_text(std::string_view text) {
  return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

QString detail_of(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return choice_words("Parameters, gradients and states in fp32");
    case Precision::kBf16:
      return choice_words("Parameters, gradients and states in bf16");
    case Precision::kFp16:
      return choice_words("Parameters, gradients and states in fp16");
    case Precision::kAutocastBf16:
      return choice_words("fp32 parameters, computing in bf16");
    case Precision::kAutocastFp16:
      return choice_words("fp32 parameters, computing in fp16 with loss scaling");
    case Precision::kBf16AutocastBf16:
      return choice_words("bf16 parameters under bf16 autocast");
    case Precision::kBf16Master:
      return choice_words("bf16 parameters and gradients, fp32 master copy and states");
    case Precision::kFp16Master:
      return choice_words("fp16 with loss scaling, fp32 master copy and states");
  }
  return {};
}

QString states_of(const ir::OptimizerPlan& optimizer) {
  switch (optimizer.kind) {
    case OptimizerKind::kNone:
      return choice_words("No optimizer step: forward and backward only");
    case OptimizerKind::kAdamW:
      return choice_words("AdamW: two states per parameter");
    case OptimizerKind::kSgd:
      return optimizer.momentum > 0 ? choice_words("SGD with momentum: one state per parameter")
                                    : choice_words("SGD: no states");
    case OptimizerKind::kAdafactor:
      return choice_words(
          "Adafactor of Hugging Face: factored states, a row and a column per matrix");
    case OptimizerKind::kAdafactorTorch:
      return choice_words("Adafactor of torch: factored states, a row and a column per matrix");
    case OptimizerKind::kLion:
      return choice_words("Lion: one state per parameter");
    case OptimizerKind::kMuon:
      return choice_words(
          "Muon: one state per matrix of the layers, two per other parameter (AdamW)");
  }
  return {};
}

QString step_of(OptimizerForm form) {
  switch (form) {
    case OptimizerForm::kForeach:
      return choice_words(
          "all parameters at once, with temporaries of their size (torch's default)");
    case OptimizerForm::kFused:
      return choice_words("one fused kernel, without temporaries");
    case OptimizerForm::kLoop:
      return choice_words("one parameter at a time");
    case OptimizerForm::kEightBit:
      return choice_words("8-bit states (bitsandbytes)");
    case OptimizerForm::kPagedEightBit:
      return choice_words("8-bit states that may be paged out to the host (bitsandbytes)");
    case OptimizerForm::kPaged:
      return choice_words("fp32 states that may be paged out to the host (bitsandbytes)");
  }
  return {};
}

QString detail_of(const ir::OptimizerPlan& optimizer) {
  if (optimizer.kind == OptimizerKind::kNone) {
    return states_of(optimizer);
  }
  return choice_words("%1; %2").arg(states_of(optimizer), step_of(optimizer.form));
}

QString detail_of(ir::AttentionKind attention) {
  switch (attention) {
    case ir::AttentionKind::kSdpa:
      return choice_words("torch's scaled_dot_product_attention, which picks a kernel");
    case ir::AttentionKind::kEager:
      return choice_words("Scores of sequence × sequence per head are kept for backward");
    case ir::AttentionKind::kFlash:
      return choice_words("FlashAttention 2: no scores are kept");
    case ir::AttentionKind::kSdpaNoCudnn:
      return choice_words("sdpa with cuDNN switched off (enable_cudnn_sdp(False))");
  }
  return {};
}

template <typename T>
std::vector<Choice<T>> choices_of(std::span<const ir::Word<T>> known) {
  std::vector<Choice<T>> choices;
  for (const ir::Word<T>& word : known) {
    choices.push_back({word.value, as_text(word.text), detail_of(word.value)});
  }
  return choices;
}

}  // namespace

std::vector<Choice<std::string>> runtime_choices() {
  std::vector<Choice<std::string>> choices;
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    choices.push_back(
        {std::string(runtime->name()), as_text(runtime->name()), as_text(runtime->title())});
  }
  return choices;
}

std::vector<Choice<std::int64_t>> control_choices(const ir::PlanControl& control) {
  std::vector<Choice<std::int64_t>> choices;
  for (const ir::PlanControlValue& value : control.choices) {
    choices.push_back({value.value, control_text(value.label), control_text(value.detail)});
  }
  return choices;
}

std::optional<ir::PlanControl> control_of(const ir::ParallelPlan& plan, std::string_view label) {
  for (ir::PlanControl& control : ir::runtime_of(plan).controls()) {
    if (control.label == label) {
      return std::move(control);
    }
  }
  return std::nullopt;
}

std::vector<ir::PlanControl> all_controls() {
  std::vector<ir::PlanControl> all;
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    for (ir::PlanControl& control : runtime->controls()) {
      const bool known = std::any_of(all.begin(), all.end(), [&control](const auto& one) {
        return one.label == control.label;
      });
      if (!known) {
        all.push_back(std::move(control));
      }
    }
  }
  return all;
}

std::vector<Choice<Precision>> precision_choices(const std::string& runtime) {
  std::vector<Choice<Precision>> choices;
  for (const Precision precision : ir::find_runtime(runtime)->precisions()) {
    choices.push_back(
        {precision, as_text(word_of(ir::precision_words(), precision)), detail_of(precision)});
  }
  return choices;
}

std::vector<Choice<ir::OptimizerPlan>> optimizer_choices() {
  return choices_of(ir::optimizer_words());
}

std::vector<Choice<ir::AttentionKind>> attention_choices() {
  return choices_of(ir::attention_words());
}

std::vector<Choice<ir::Recompute>> checkpointing_choices() {
  return {{ir::Recompute::kNone, choice_words("none"),
           choice_words("Every activation is kept for backward")},
          {ir::Recompute::kFull, choice_words("full"),
           choice_words("Layers are computed again in backward (use_reentrant=False)")},
          {ir::Recompute::kFullReentrant, choice_words("full-reentrant"),
           choice_words("Layers are computed again in backward (use_reentrant=True)")}};
}

std::vector<Choice<int>> quantization_choices() {
  return {{0, choice_words("as precision"), choice_words("The frozen weights are not quantised")},
          {8, choice_words("8-bit (LLM.int8)"), choice_words("bitsandbytes, 8 bits per weight")},
          {4, choice_words("4-bit (NF4)"),
           choice_words("bitsandbytes, 4 bits per weight, double quantisation")}};
}

}  // namespace headroom::gui
