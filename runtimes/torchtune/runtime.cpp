#include "runtimes/torchtune/runtime.h"

#include <array>

#include "runtimes/fsdp/changes.h"
#include "runtimes/fsdp/check.h"
#include "runtimes/fsdp/lowering.h"
#include "runtimes/fsdp/options.h"
#include "runtimes/fsdp/runtime.h"
#include "runtimes/fsdp/window.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/torchtune/check.h"
#include "runtimes/torchtune/measured_runs.h"
#include "runtimes/torchtune/options.h"
#include "runtimes/transformers/changes.h"
#include "runtimes/transformers/lowering.h"
#include "runtimes/transformers/options.h"

namespace headroom::ir::torchtune {
namespace {

class Torchtune final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "torchtune"; }
  [[nodiscard]] std::string_view title() const override {
    return "torchtune: its own recipes on one GPU or on FSDP2";
  }
  [[nodiscard]] std::span<const PlanPart* const> parts() const override {
    static const std::array<const PlanPart*, 3> parts = {&transformers::options(), &fsdp::options(),
                                                         &options()};
    return parts;
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
  /// torchtune's recipes shard with FSDP2 or not at all.
  void complete(ParallelPlan& plan) const override {
    if (plan.fsdp) {
      plan.ddp.reset();
    } else {
      transformers::complete_data_parallel(plan);
    }
  }
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &torchtune::measured_runs();
  }

  [[nodiscard]] std::string layout(const ParallelPlan& plan,
                                   const TypedOption& typed) const override {
    return plan.fsdp ? typed("fsdp") : "";
  }
  [[nodiscard]] std::vector<WordedOption> worded_options() const override { return {{"fsdp"}}; }

  /// The values of the recipes' `dtype`.
  [[nodiscard]] std::span<const Precision> precisions() const override {
    return stored_precisions();
  }
  /// Recipes for several GPUs shard with FSDP2.
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

  /// Recipes keep parameters in bf16; those for several GPUs shard them.
  void prepare_for_search(ParallelPlan& plan) const override {
    Runtime::prepare_for_search(plan);
    if (plan.world > 1) {
      plan.fsdp.emplace();
    }
  }
  [[nodiscard]] HeldParameters held_parameters(const ParallelPlan& plan) const override {
    HeldParameters held = plan.fsdp ? sharded_parameters(plan) : whole_parameters(plan);
    if (plan.tune && plan.tune->optimizer_in_backward) {
      held.gradients.bits = 0;
    }
    return held;
  }
  [[nodiscard]] ParallelPlan on_one_device(ParallelPlan plan) const override {
    plan.world = 1;
    if (plan.fsdp) {
      plan.fsdp->replicas = 1;
    }
    return plan;
  }
  [[nodiscard]] bool grows_by_layers(const ParallelPlan& plan) const override { return !plan.fsdp; }
  /// With FSDP2, the groups of FSDP determine the peak, whatever the model code.
  [[nodiscard]] std::string_view residual_family(const ParallelPlan& plan) const override {
    return plan.fsdp ? fsdp::runtime().name() : name();
  }
  [[nodiscard]] DType product_dtype(const ParallelPlan& plan) const override {
    return fsdp::gathered_dtype(plan);
  }
  [[nodiscard]] std::span<const OwnChange> changes(const ParallelPlan& plan) const override {
    return plan.fsdp ? fsdp::plan_changes() : transformers::plan_changes();
  }
  [[nodiscard]] std::vector<ParallelPlan> plans_against(Bottleneck bottleneck,
                                                        const ParallelPlan& plan,
                                                        std::int64_t /*layers*/) const override {
    return fsdp::faster_plans(bottleneck, plan);
  }
};

}  // namespace

const Runtime& runtime() {
  static const Torchtune runtime;
  return runtime;
}

}  // namespace headroom::ir::torchtune
