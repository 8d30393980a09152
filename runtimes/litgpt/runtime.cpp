#include "runtimes/litgpt/runtime.h"

#include <array>

#include "runtimes/interface/refusals.h"
#include "runtimes/litgpt/lowering.h"
#include "runtimes/transformers/options.h"

namespace headroom::ir::litgpt {
namespace {

class Litgpt final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "litgpt"; }
  [[nodiscard]] std::string_view title() const override { return "LitGPT on one GPU"; }
  [[nodiscard]] std::span<const PlanPart* const> parts() const override {
    static const std::array<const PlanPart*, 1> parts = {&transformers::options()};
    return parts;
  }
  [[nodiscard]] Status check(const ModelSpec& /*model*/, const ParallelPlan& plan) const override {
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
};

}  // namespace

const Runtime& runtime() {
  static const Litgpt runtime;
  return runtime;
}

}  // namespace headroom::ir::litgpt
