#include "runtimes/litgpt/runtime.h"

#include "runtimes/interface/foreign_parts.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/litgpt/lowering.h"
#include "runtimes/litgpt/measured_runs.h"

namespace headroom::ir::litgpt {
namespace {

class Litgpt final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "litgpt"; }
  [[nodiscard]] std::string_view title() const override { return "LitGPT on one GPU"; }
  [[nodiscard]] Status check(const ModelSpec& /*model*/, const ParallelPlan& plan) const override {
    if (Status own = refuse_foreign_parts(plan, {"ddp"}); !own) {
      return own;
    }
    if (Status newest = refuse_version(plan); !newest) {
      return newest;
    }
    return ok();
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank /*rank*/,
                                          const DeviceTraits& device) const override {
    if (Status task = refuse_other_tasks(model, "litgpt"); !task) {
      return task.error();
    }
    return litgpt::lower(model, plan, device);
  }
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &litgpt::measured_runs();
  }
};

}  // namespace

const Runtime& runtime() {
  static const Litgpt runtime;
  return runtime;
}

}  // namespace headroom::ir::litgpt
