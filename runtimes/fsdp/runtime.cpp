#include "runtimes/fsdp/runtime.h"

#include "runtimes/fsdp/check.h"
#include "runtimes/fsdp/lowering.h"
#include "runtimes/fsdp/window.h"
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

  [[nodiscard]] std::string layout(const ParallelPlan& plan,
                                   const TypedOption& typed) const override {
    return plan.fsdp ? typed("fsdp") : "";
  }
  [[nodiscard]] std::vector<WordedOption> worded_options() const override { return {{"fsdp"}}; }

  /// What shards are stored in; FSDP's policy casts from there.
  [[nodiscard]] std::span<const Precision> precisions() const override {
    return stored_precisions();
  }
  void settle(ParallelPlan& plan) const override {
    drop_foreign_parts(plan, {"fsdp"});
    settle_shards(plan);
    plan.lora.reset();
  }
  [[nodiscard]] std::vector<PlanControl> controls() const override { return {replicas_control()}; }
};

}  // namespace

const Runtime& runtime() {
  static const Fsdp runtime;
  return runtime;
}

}  // namespace headroom::ir::fsdp
