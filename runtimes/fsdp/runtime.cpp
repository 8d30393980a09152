#include "runtimes/fsdp/runtime.h"

#include <array>

#include "runtimes/fsdp/check.h"
#include "runtimes/fsdp/lowering.h"
#include "runtimes/fsdp/options.h"
#include "runtimes/interface/refusals.h"

namespace headroom::ir::fsdp {
namespace {

class Fsdp final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "fsdp"; }
  [[nodiscard]] std::string_view title() const override {
    return "A model of transformers under PyTorch FSDP (fully_shard)";
  }
  [[nodiscard]] std::span<const PlanPart* const> parts() const override {
    static const std::array<const PlanPart*, 1> parts = {&options()};
    return parts;
  }
  [[nodiscard]] Status check(const ModelSpec& /*model*/, const ParallelPlan& plan) const override {
    if (Status newest = refuse_version(plan); !newest) {
      return newest;
    }
    return check_replicas(plan);
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank rank, const DeviceTraits& device) const override {
    return fsdp::lower(model, plan, rank, device);
  }
};

}  // namespace

const Runtime& runtime() {
  static const Fsdp runtime;
  return runtime;
}

}  // namespace headroom::ir::fsdp
