#include "runtimes/transformers/runtime.h"

#include <array>

#include "runtimes/transformers/lowering.h"
#include "runtimes/transformers/options.h"

namespace headroom::ir::transformers {
namespace {

class Transformers final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "transformers"; }
  [[nodiscard]] std::string_view title() const override {
    return "Hugging Face transformers on PyTorch; DDP on several GPUs";
  }
  [[nodiscard]] std::span<const PlanPart* const> parts() const override {
    static const std::array<const PlanPart*, 1> parts = {&options()};
    return parts;
  }
  [[nodiscard]] Status check(const ModelSpec& /*model*/,
                             const ParallelPlan& /*plan*/) const override {
    return ok();
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank /*rank*/,
                                          const DeviceTraits& device) const override {
    // Data-parallel ranks hold and do the same.
    return transformers::lower(model, plan, device);
  }
};

}  // namespace

const Runtime& runtime() {
  static const Transformers runtime;
  return runtime;
}

}  // namespace headroom::ir::transformers
