#include "runtimes/torchtitan/runtime.h"

#include "runtimes/fsdp/check.h"
#include "runtimes/interface/foreign_parts.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/torchtitan/lowering.h"
#include "runtimes/torchtitan/measured_runs.h"

namespace headroom::ir::torchtitan {
namespace {

class Torchtitan final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "torchtitan"; }
  [[nodiscard]] std::string_view title() const override {
    return "torchtitan: its own models on FSDP2 with TP, CP, PP and EP";
  }
  [[nodiscard]] Status check(const ModelSpec& /*model*/, const ParallelPlan& plan) const override {
    if (Status own = refuse_foreign_parts(plan, {"fsdp", "titan"}); !own) {
      return own;
    }
    return fsdp::check_replicas(plan);
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank rank, const DeviceTraits& device) const override {
    if (Status task = refuse_other_tasks(model, "torchtitan"); !task) {
      return task.error();
    }
    return torchtitan::lower(model, plan, static_cast<std::int64_t>(rank), device);
  }
  /// Source: pytorch/torchtitan torchtitan/config/job_config.py (0.2.2), Optimizer.implementation.
  [[nodiscard]] OptimizerPlan usual_optimizer(const ParallelPlan& /*plan*/) const override {
    return {.kind = OptimizerKind::kAdamW, .form = OptimizerForm::kFused};
  }
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &torchtitan::measured_runs();
  }
};

}  // namespace

const Runtime& runtime() {
  static const Torchtitan runtime;
  return runtime;
}

}  // namespace headroom::ir::torchtitan
