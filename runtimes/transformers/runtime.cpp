#include "runtimes/transformers/runtime.h"

#include "runtimes/interface/foreign_parts.h"
#include "runtimes/transformers/lowering.h"

namespace headroom::ir::transformers {
namespace {

class Transformers final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "transformers"; }
  [[nodiscard]] std::string_view title() const override {
    return "Hugging Face transformers on PyTorch; DDP on several GPUs";
  }
  [[nodiscard]] Status check(const ModelSpec& /*model*/, const ParallelPlan& plan) const override {
    return refuse_foreign_parts(plan, {"ddp"});
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank /*rank*/,
                                          const DeviceTraits& device) const override {
    // Data-parallel ranks hold and do the same.
    return transformers::lower(model, plan, device);
  }
  [[nodiscard]] std::string layout(const ParallelPlan& plan,
                                   const TypedOption& /*typed*/) const override {
    return plan.world > 1 ? "DDP" : "";
  }
  /// Several GPUs are DDP.
  void settle(ParallelPlan& plan) const override {
    drop_foreign_parts(plan, {"ddp"});
    if (plan.world == 1) {
      plan.ddp.reset();
    } else if (!plan.ddp) {
      plan.ddp = DdpPlan{};
    }
  }
};

}  // namespace

const Runtime& runtime() {
  static const Transformers runtime;
  return runtime;
}

}  // namespace headroom::ir::transformers
