#include "runtimes/interface/description.h"

#include <array>
#include <cstdio>

#include "model_ir/base/counted.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/interface/runtime.h"

namespace headroom::ir {

void add_degree(std::string& text, std::string_view name, std::int64_t value, bool shown) {
  if (shown) {
    add_word(text, std::string(name) + "=" + std::to_string(value));
  }
}

void add_word(std::string& text, std::string_view word, bool shown) {
  if (shown) {
    text += (text.empty() ? " " : ", ") + std::string(word);
  }
}

std::string short_number(double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

std::string precision_words_of(const ParallelPlan& plan) {
  const bool usual =
      plan.precision == Precision::kBf16Master || plan.precision == Precision::kAutocastBf16;
  return usual ? "" : ", " + std::string(word_of(precision_words(), plan.precision));
}

std::string optimizer_words_of(const ParallelPlan& plan) {
  const bool usual = plan.optimizer.kind == OptimizerKind::kAdamW &&
                     plan.optimizer.form != OptimizerForm::kEightBit;
  return usual ? "" : ", " + std::string(word_of(optimizer_words(), plan.optimizer));
}

std::string kernel_words_of(const ParallelPlan& plan) {
  std::string text;
  if (plan.attention != AttentionKind::kSdpa) {
    text += ", attention=" + std::string(word_of(attention_words(), plan.attention));
  }
  if (plan.loss != LossKind::kHf) {
    text += ", loss=" + std::string(word_of(loss_words(), plan.loss));
  }
  return text + (plan.liger ? ", liger" : "");
}

std::string batch_words(std::int64_t sequences, std::int64_t passes) {
  return ", micro-batch " + std::to_string(sequences) + ", " + std::to_string(passes) +
         " per step, ";
}

namespace {

/// ", QLoRA r=16"; empty if all parameters are trained.
std::string adapter_words(const ParallelPlan& plan) {
  if (!plan.lora) {
    return "";
  }
  const std::string kind = plan.lora->dora ? "DoRA" : "LoRA";
  const std::string weights = !plan.quant ? "" : plan.quant->bits == 4 ? "Q" : "8-bit ";
  return ", " + weights + kind + " r=" + std::to_string(plan.lora->rank);
}

/// "recomputes every layer", "recomputes one layer in 4", "recomputes the first 8 layers".
std::string recomputed_words(const ParallelPlan& plan) {
  if (plan.recompute_first > 0) {
    return "recomputes the first " + (plan.recompute_first == 1
                                          ? std::string("layer")
                                          : counted(plan.recompute_first, "layer"));
  }
  return plan.recompute_every == 1
             ? "recomputes every layer"
             : "recomputes one layer in " + std::to_string(plan.recompute_every);
}

}  // namespace

std::string training_words_of(const ParallelPlan& plan) {
  return adapter_words(plan) + optimizer_words_of(plan) + kernel_words_of(plan) +
         batch_words(plan.workload.micro_batch, plan.workload.accumulation) +
         (plan.recompute == Recompute::kNone ? "no recomputation" : recomputed_words(plan));
}

std::string Runtime::kernels(const ParallelPlan& plan) const {
  return std::string(word_of(attention_words(), plan.attention));
}

std::string Runtime::describe(const ParallelPlan& plan) const {
  return std::string(name()) + " dp=" + std::to_string(plan.world) + precision_words_of(plan) +
         training_words_of(plan);
}

Result<std::string> Runtime::emit(const ModelSpec& /*model*/, const ParallelPlan& /*plan*/,
                                  std::string_view format) const {
  return Error::invalid_argument("format", format, "one that " + std::string(name()) + " reads");
}

Result<ConfigurationReading> Runtime::read_configuration(const std::string& /*path*/,
                                                         const ModelSpec& /*model*/,
                                                         const ParallelPlan& /*arguments*/,
                                                         std::string_view format) const {
  return Error::invalid_argument("format", format, "one that " + std::string(name()) + " reads");
}

}  // namespace headroom::ir
