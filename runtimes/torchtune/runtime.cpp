#include "runtimes/torchtune/runtime.h"

#include "runtimes/fsdp/lowering.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/torchtune/check.h"
#include "runtimes/torchtune/measured_runs.h"
#include "runtimes/transformers/lowering.h"

namespace headroom::ir::torchtune {
namespace {

class Torchtune final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "torchtune"; }
  [[nodiscard]] std::string_view title() const override {
    return "torchtune: its own recipes on one GPU or on FSDP2";
  }
  [[nodiscard]] Status check(const ModelSpec& /*model*/, const ParallelPlan& plan) const override {
    return check_torchtune(plan);
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank rank, const DeviceTraits& device) const override {
    if (Status task = refuse_other_tasks(model, "torchtune"); !task) {
      return task.error();
    }
    return plan.fsdp ? fsdp::lower(model, plan, rank, device)
                     : transformers::lower(model, plan, device);
  }
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &torchtune::measured_runs();
  }
};

}  // namespace

const Runtime& runtime() {
  static const Torchtune runtime;
  return runtime;
}

}  // namespace headroom::ir::torchtune
