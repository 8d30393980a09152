#include "runtimes/megatron/runtime.h"

#include <array>

#include "runtimes/interface/refusals.h"
#include "runtimes/megatron/check.h"
#include "runtimes/megatron/lowering.h"
#include "runtimes/megatron/options.h"

namespace headroom::ir::megatron {
namespace {

class Megatron final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "megatron"; }
  [[nodiscard]] std::string_view title() const override {
    return "Megatron-Core with Transformer Engine";
  }
  [[nodiscard]] std::span<const PlanPart* const> parts() const override {
    static const std::array<const PlanPart*, 1> parts = {&options()};
    return parts;
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
};

}  // namespace

const Runtime& runtime() {
  static const Megatron runtime;
  return runtime;
}

}  // namespace headroom::ir::megatron
