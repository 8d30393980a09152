#include "runtimes/megatron/runtime.h"

#include "runtimes/interface/refusals.h"
#include "runtimes/megatron/check.h"
#include "runtimes/megatron/lowering.h"
#include "runtimes/megatron/measured_runs.h"

namespace headroom::ir::megatron {
namespace {

class Megatron final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "megatron"; }
  [[nodiscard]] std::string_view title() const override {
    return "Megatron-Core with Transformer Engine";
  }
  [[nodiscard]] Status check(const ModelSpec& model, const ParallelPlan& plan) const override {
    if (Status found = check_megatron(model, plan); !found) {
      return found;
    }
    return refuse_version(plan);
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank rank, const DeviceTraits& device) const override {
    return megatron::lower(model, plan, static_cast<std::int64_t>(rank), device);
  }
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &megatron::measured_runs();
  }
};

}  // namespace

const Runtime& runtime() {
  static const Megatron runtime;
  return runtime;
}

}  // namespace headroom::ir::megatron
