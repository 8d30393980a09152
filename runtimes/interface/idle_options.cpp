#include "runtimes/interface/idle_options.h"

#include <algorithm>
#include <array>
#include <string>

#include "model_ir/base/check.h"

namespace headroom::ir {
namespace {

struct Given {
  std::string_view name;
  bool given;
};

bool is_given(const ParallelPlan& plan, std::string_view name) {
  const ParallelPlan usual;
  const std::array<Given, 15> options = {{{"zero", plan.zero.has_value()},
                                          {"ddp", plan.ddp.has_value()},
                                          {"fsdp", plan.fsdp.has_value()},
                                          {"lora", plan.lora.has_value()},
                                          {"qlora", plan.quant.has_value()},
                                          {"generate", plan.generation.has_value()},
                                          {"evaluation", plan.evaluation},
                                          {"save", plan.checkpoint_save},
                                          {"checkpointing", plan.recompute != usual.recompute},
                                          {"loss", plan.loss != usual.loss},
                                          {"attention", plan.attention != usual.attention},
                                          {"liger", plan.liger},
                                          {"padded", plan.padded_batch},
                                          {"keep-logits", plan.keep_logits},
                                          {"keep-batch", plan.keep_batch}}};
  const auto* const found = std::ranges::find(options, name, &Given::name);
  HEADROOM_ASSERT(found != options.end());
  return found->given;
}

}  // namespace

std::optional<Error> idle_option(const ParallelPlan& plan, std::span<const IdleOption> idle,
                                 std::string_view runtime) {
  for (const IdleOption& option : idle) {
    if (is_given(plan, option.name)) {
      const std::string fix = option.instead.empty() ? "leave out --" + std::string(option.name)
                                                     : std::string(option.instead);
      return Error::invalid_argument(
          option.name, "given", "nothing: it has no effect under " + std::string(runtime), fix);
    }
  }
  return std::nullopt;
}

}  // namespace headroom::ir
