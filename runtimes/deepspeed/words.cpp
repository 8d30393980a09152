#include "runtimes/deepspeed/words.h"

#include "runtimes/deepspeed/plan.h"
#include "runtimes/interface/description.h"

namespace headroom::ir::deepspeed {
namespace {

std::string zero_words(const ZeroPlan& zero) {
  std::string text;
  add_degree(text, "zero", zero.stage, true);
  if (zero.offload_param != OffloadDevice::kNone) {
    add_word(text, "offload=all");
  } else if (zero.offload_optimizer != OffloadDevice::kNone) {
    add_word(text, "offload=optimizer");
  }
  add_word(text, "optimizer-offload=" + short_number(zero.offload_ratio), zero.offload_ratio < 1);
  return text;
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
  std::string layout = has_zero(plan) ? zero_words(zero_of(plan)) : std::string();
  add_degree(layout, "dp", plan.world, true);
  return "deepspeed" + layout + precision_words_of(plan) + training_words_of(plan);
}

}  // namespace headroom::ir::deepspeed
