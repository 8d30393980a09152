#include "runtimes/torchtune/runtime.h"

#include "runtimes/fsdp/lowering.h"
#include "runtimes/fsdp/window.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/torchtune/check.h"
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

  [[nodiscard]] std::string layout(const ParallelPlan& plan,
                                   const TypedOption& typed) const override {
    return plan.fsdp ? typed("fsdp") : "";
  }
  [[nodiscard]] std::vector<WordedOption> worded_options() const override { return {{"fsdp"}}; }

  /// The recipes' `dtype`.
  [[nodiscard]] std::span<const Precision> precisions() const override {
    return stored_precisions();
  }
  /// Recipes on several GPUs shard by FSDP2.
  void settle(ParallelPlan& plan) const override {
    drop_foreign_parts(plan, {"fsdp", "tune"});
    if (plan.world == 1) {
      plan.fsdp.reset();
    } else {
      fsdp::settle_shards(plan);
    }
  }
  [[nodiscard]] std::vector<PlanControl> controls() const override {
    return {fsdp::replicas_control()};
  }
};

}  // namespace

const Runtime& runtime() {
  static const Torchtune runtime;
  return runtime;
}

}  // namespace headroom::ir::torchtune
