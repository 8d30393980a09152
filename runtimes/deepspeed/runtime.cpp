#include "runtimes/deepspeed/runtime.h"

#include "runtimes/deepspeed/check.h"
#include "runtimes/deepspeed/lowering.h"
#include "runtimes/deepspeed/measured_runs.h"

namespace headroom::ir::deepspeed {
namespace {

class Deepspeed final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "deepspeed"; }
  [[nodiscard]] std::string_view title() const override {
    return "A model of transformers under DeepSpeed ZeRO";
  }
  [[nodiscard]] Status check(const ModelSpec& /*model*/, const ParallelPlan& plan) const override {
    return check_deepspeed(plan);
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank rank, const DeviceTraits& device) const override {
    return deepspeed::lower(model, plan, static_cast<std::int64_t>(rank), device);
  }
  /// DeepSpeedCPUAdam, which is fused, where the optimizer lives on the host.
  /// Source: deepspeedai/DeepSpeed deepspeed/ops/adam/cpu_adam.py.
  [[nodiscard]] OptimizerPlan usual_optimizer(const ParallelPlan& plan) const override {
    OptimizerPlan optimizer;
    if (plan.zero && plan.zero->offload_optimizer != OffloadDevice::kNone) {
      optimizer.form = OptimizerForm::kFused;
    }
    return optimizer;
  }
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &deepspeed::measured_runs();
  }
};

}  // namespace

const Runtime& runtime() {
  static const Deepspeed runtime;
  return runtime;
}

}  // namespace headroom::ir::deepspeed
