#include "runtimes/torchtune/runtime.h"
#include "runtimes/torchtune/launch.h"

#include <array>
#include <optional>

#include "runtimes/fsdp/changes.h"
#include "runtimes/fsdp/check.h"
#include "runtimes/fsdp/lowering.h"
#include "runtimes/fsdp/options.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/fsdp/runtime.h"
#include "runtimes/fsdp/window.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/torch/ddp_plan.h"
#include "runtimes/torchtune/check.h"
#include "runtimes/torchtune/host_memory.h"
#include "runtimes/torchtune/measured_runs.h"
#include "runtimes/torchtune/options.h"
#include "runtimes/torchtune/plan.h"
#include "runtimes/transformers/alone.h"
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
  [[nodiscard]] Status check(const ModelSpec& model, const ParallelPlan& plan) const override {
    for (const Status& status :
         {check_family(model), check_torchtune(plan), refuse_other_tasks(model, "torchtune")}) {
      if (!status) {
        return status;
      }
    }
    const std::optional<Error> refused =
        has_fsdp(plan) ? fsdp::unsupported(model, plan) : std::nullopt;
    return refused ? Status(*refused) : ok();
  }
  /// Source: pytorch/pytorch 2.11 torch/_inductor/exc.py, GPUTooOldForTriton.
  [[nodiscard]] Status check_device(const ParallelPlan& plan,
                                    const DeviceTraits& device) const override {
    static constexpr std::array<CapabilityRule, 1> kRules = {
        {{.option = "torchtune",
          .what = "compiled layers",
          .uses = [](const ParallelPlan& one) { return tune_of(one).compiled; },
          .least = {7, 0},
          .words = "\"Triton only supports devices of CUDA Capability >= 7.0\"",
          .fix = "leave out compile"}}};
    return check_capability(kRules, plan, device);
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank rank, const DeviceTraits& device) const override {
    if (Status task = refuse_other_tasks(model, "torchtune"); !task) {
      return task.error();
    }
    const TunePlan& tune = tune_of(plan);
    const transformers::ModelSetting setting{.offloads_activations = tune.offload_activations,
                                             .compiles_loss = tune.compiled,
                                             .steps_in_backward = tune.optimizer_in_backward};
    return has_fsdp(plan) ? fsdp::lower(model, plan, rank, device, setting)
                          : transformers::lower(model, plan, device, setting);
  }
  /// torchtune's recipes shard with FSDP2 or not at all.
  void complete(ParallelPlan& plan) const override {
    if (plan.quant) {
      plan.quant->prepare_kbit = false;  // PEFT prepares weights; torchtune's recipes do not.
    }
    if (has_fsdp(plan)) {
      plan.own.reset<DdpPlan>();
    } else {
      transformers::complete_data_parallel(plan);
    }
  }
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &torchtune::measured_runs();
  }

  [[nodiscard]] std::string layout(const ParallelPlan& plan,
                                   const TypedOption& typed) const override {
    return has_fsdp(plan) ? typed("fsdp") : "";
  }
  [[nodiscard]] std::vector<WordedOption> worded_options() const override { return {{"fsdp"}}; }
  [[nodiscard]] std::string describe(const ParallelPlan& plan) const override {
    return std::string(name()) + fsdp::sharding_words(plan);
  }

  /// The values of the recipes' `dtype`.
  [[nodiscard]] std::span<const Precision> precisions() const override {
    return stored_precisions();
  }
  /// Recipes for several GPUs shard with FSDP2.
  void settle(ParallelPlan& plan) const override {
    plan.own.keep<FsdpPlan, TunePlan>();
    plan.mesh = {.replicas = plan.mesh.replicas};
    if (plan.world == 1) {
      plan.own.reset<FsdpPlan>();
      plan.mesh = {};
    } else {
      fsdp::settle_shards(plan);
    }
  }

  /// Compiled layers launch other kernels.
  [[nodiscard]] std::optional<ParallelPlan> one_rank_alone(
      const ParallelPlan& plan) const override {
    const Precision arithmetic = has_fsdp(plan) ? fsdp::arithmetic_precision(plan) : plan.precision;
    return tune_of(plan).compiled ? std::nullopt
                                  : std::optional(transformers::one_rank_alone(plan, arithmetic));
  }
  /// Recipes keep parameters in bf16; those for several GPUs shard them.
  void prepare_for_search(ParallelPlan& plan) const override {
    Runtime::prepare_for_search(plan);
    if (plan.world > 1) {
      edit_fsdp(plan) = {};
      plan.mesh.replicas = 1;
    }
  }
  [[nodiscard]] PlanExecution execution(const ModelSpec& model,
                                        const ParallelPlan& plan) const override {
    PlanExecution execution = fsdp::sharded_execution(model, plan);
    execution.activations_on_host = tune_of(plan).offload_activations;
    beyond_if(execution, tune_of(plan).optimizer_in_backward, "an optimizer within backward");
    return execution;
  }
  [[nodiscard]] HeldParameters held_parameters(const ParallelPlan& plan) const override {
    HeldParameters held = has_fsdp(plan) ? fsdp::held_shards(plan) : whole_parameters(plan);
    if (has_tune(plan) && tune_of(plan).optimizer_in_backward) {
      held.gradients.bits = 0;
    }
    return held;
  }
  [[nodiscard]] std::vector<HostTerm> host_terms(const ModelSpec& model,
                                                 const ParallelPlan& plan) const override {
    return torchtune::host_terms(model, plan);
  }
  [[nodiscard]] ParallelPlan on_one_device(ParallelPlan plan) const override {
    plan.world = 1;
    plan.mesh.replicas = 1;
    return plan;
  }
  [[nodiscard]] bool grows_by_layers(const ParallelPlan& plan) const override {
    return !has_fsdp(plan);
  }
  /// With FSDP2, the groups of FSDP determine the peak, whatever the model code.
  [[nodiscard]] std::string_view residual_family(const ParallelPlan& plan) const override {
    return has_fsdp(plan) ? fsdp::runtime().name() : name();
  }
  [[nodiscard]] DType product_dtype(const ParallelPlan& plan) const override {
    return fsdp::gathered_dtype(plan);
  }
  [[nodiscard]] std::span<const OwnChange> changes(const ParallelPlan& plan) const override {
    return has_fsdp(plan) ? fsdp::plan_changes() : transformers::plan_changes();
  }
  [[nodiscard]] bool can_move(const ParallelPlan& plan) const override { return !has_fsdp(plan); }
  [[nodiscard]] std::vector<ParallelPlan> plans_against(Bottleneck bottleneck,
                                                        const ParallelPlan& plan,
                                                        std::int64_t /*layers*/) const override {
    return fsdp::faster_plans(bottleneck, plan);
  }
  [[nodiscard]] Launch launch(const ModelSpec& model, const ParallelPlan& plan,
                              const LaunchSite& site) const override {
    return tune_launch(model, plan, site);
  }
};

}  // namespace

const Runtime& runtime() {
  static const Torchtune runtime;
  return runtime;
}

}  // namespace headroom::ir::torchtune
