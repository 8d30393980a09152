#include "runtimes/transformers/runtime.h"

#include "runtimes/interface/foreign_parts.h"
#include "runtimes/transformers/lowering.h"
#include "runtimes/transformers/measured_runs.h"

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
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &transformers::measured_runs();
  }
};

}  // namespace

const Runtime& runtime() {
  static const Transformers runtime;
  return runtime;
}

}  // namespace headroom::ir::transformers
