#include "runtimes/fsdp/runtime.h"

#include "runtimes/fsdp/check.h"
#include "runtimes/fsdp/lowering.h"
#include "runtimes/fsdp/measured_runs.h"
#include "runtimes/interface/foreign_parts.h"
#include "runtimes/interface/refusals.h"

namespace headroom::ir::fsdp {
namespace {

class Fsdp final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "fsdp"; }
  [[nodiscard]] std::string_view title() const override {
    return "A model of transformers under PyTorch FSDP (fully_shard)";
  }
  [[nodiscard]] Status check(const ModelSpec& /*model*/, const ParallelPlan& plan) const override {
    if (Status own = refuse_foreign_parts(plan, {"fsdp"}); !own) {
      return own;
    }
    if (Status newest = refuse_version(plan); !newest) {
      return newest;
    }
    return check_replicas(plan);
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank rank, const DeviceTraits& device) const override {
    return fsdp::lower(model, plan, rank, device);
  }
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &fsdp::measured_runs();
  }
};

}  // namespace

const Runtime& runtime() {
  static const Fsdp runtime;
  return runtime;
}

}  // namespace headroom::ir::fsdp
