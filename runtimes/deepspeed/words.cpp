#include "runtimes/deepspeed/words.h"

#include "runtimes/deepspeed/plan.h"
#include "runtimes/interface/description.h"

namespace headroom::ir::deepspeed {
namespace {

std::string zero_words(const ZeroPlan& zero) {
  std::string text = " zero " + std::to_string(zero.stage);
  if (zero.offload_param != OffloadDevice::kNone) {
    text += " offload all";
  } else if (zero.offload_optimizer != OffloadDevice::kNone) {
    text += " offload optimizer";
  }
  return text +
         (zero.offload_ratio < 1 ? " optimizer-offload " + short_number(zero.offload_ratio) : "");
}

}  // namespace

std::string layout_words(const ParallelPlan& plan, const TypedOption& typed) {
  if (!has_zero(plan)) {
    return {};
  }
  const std::string plus = typed("zeropp");
  return "ZeRO-" + std::to_string(zero_of(plan).stage) + (plus.empty() ? "" : " " + plus);
}

std::string description(const ParallelPlan& plan) {
  return "deepspeed" + (has_zero(plan) ? zero_words(zero_of(plan)) : std::string()) + " dp " +
         std::to_string(plan.world) + precision_words_of(plan) + optimizer_words_of(plan) +
         kernel_words_of(plan) +
         batch_words(plan.workload.micro_batch, plan.workload.accumulation) +
         (plan.recompute == Recompute::kNone ? "no recomputation" : "recomputes every layer");
}

}  // namespace headroom::ir::deepspeed
