#include "runtimes/torchtitan/runtime.h"
#include "runtimes/torchtitan/launch.h"

#include <algorithm>
#include <array>

#include "runtimes/fsdp/changes.h"
#include "runtimes/fsdp/check.h"
#include "runtimes/fsdp/options.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/fsdp/runtime.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/torchtitan/changes.h"
#include "runtimes/torchtitan/highest_ranks.h"
#include "runtimes/torchtitan/host_memory.h"
#include "runtimes/torchtitan/lowering.h"
#include "runtimes/torchtitan/measured_runs.h"
#include "runtimes/torchtitan/memory_budget.h"
#include "runtimes/torchtitan/model.h"
#include "runtimes/torchtitan/options.h"
#include "runtimes/torchtitan/plan.h"
#include "runtimes/torchtitan/required_capability.h"
#include "runtimes/torchtitan/stage_layers.h"
#include "runtimes/torchtitan/window.h"
#include "runtimes/torchtitan/words.h"

namespace headroom::ir::torchtitan {
namespace {

class Torchtitan final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "torchtitan"; }
  [[nodiscard]] std::string_view title() const override {
    return "torchtitan: its own models on FSDP2 with TP, CP, PP and EP";
  }
  [[nodiscard]] std::span<const PlanPart* const> parts() const override {
    static const std::array<const PlanPart*, 2> parts = {&fsdp::options(), &options()};
    return parts;
  }
  [[nodiscard]] Status check(const ModelSpec& /*model*/, const ParallelPlan& plan) const override {
    if (Status layers = refuse_first_layers(plan); !layers) {
      return layers;
    }
    return fsdp::check_replicas(plan);
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank rank, const DeviceTraits& device) const override {
    if (Status task = refuse_other_tasks(model, "torchtitan"); !task) {
      return task.error();
    }
    return torchtitan::lower(model, plan, static_cast<std::int64_t>(rank), device);
  }
  [[nodiscard]] Status check_device(const ParallelPlan& plan,
                                    const DeviceTraits& device) const override {
    return check_capability(capability_rules(), plan, device);
  }
  /// Source: pytorch/torchtitan torchtitan/config/job_config.py (0.2.2), Optimizer.implementation.
  [[nodiscard]] OptimizerPlan usual_optimizer(const ParallelPlan& /*plan*/) const override {
    return {.kind = OptimizerKind::kAdamW, .form = OptimizerForm::kFused};
  }
  void complete(ParallelPlan& plan) const override { fsdp::options().add(plan); }
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &torchtitan::measured_runs();
  }

  [[nodiscard]] std::string layout(const ParallelPlan& plan,
                                   const TypedOption& typed) const override {
    return layout_words(plan, typed);
  }
  [[nodiscard]] std::vector<WordedOption> worded_options() const override {
    return {{"titan"}, {"fsdp"}};
  }
  [[nodiscard]] std::string describe(const ParallelPlan& plan) const override {
    return description(plan);
  }
  [[nodiscard]] std::vector<std::string> notes(const ModelSpec& model,
                                               const ParallelPlan& plan) const override {
    if (unsupported(model, plan) || !weighs_shared_keys(model, plan)) {
      return {};
    }
    return {
        "--titan memory-budget: PyTorch 2.11 stops with an AssertionError of its FLOP counter "
        "where queries share keys; shown is what later versions choose"};
  }
  [[nodiscard]] bool resuming_was_measured(const ParallelPlan& plan) const override {
    return plan.optimizer.kind == OptimizerKind::kAdamW && plan.mesh.pipeline == 1 &&
           plan.mesh.expert == 1 && plan.mesh.context == 1;
  }

  [[nodiscard]] std::span<const Precision> precisions() const override {
    return stored_precisions();
  }
  void settle(ParallelPlan& plan) const override { settle_plan(plan); }

  [[nodiscard]] std::vector<Rank> binding_ranks(const ModelSpec& model,
                                                const ParallelPlan& plan) const override {
    const auto layers = static_cast<std::int64_t>(model.layers.size());
    const bool pipelined = has_titan(plan) && plan.mesh.pipeline > 1;
    return pipelined && !unsupported_pipeline(plan, layers) ? highest_ranks(model, plan)
                                                            : std::vector<Rank>{Rank{0}};
  }
  [[nodiscard]] PlanExecution execution(const ModelSpec& model,
                                        const ParallelPlan& plan) const override {
    const TitanPlan& titan = titan_of(plan);
    PlanExecution execution = fsdp::sharded_execution(model, plan);
    execution.sequence_parallel = plan.mesh.tensor > 1;
    beyond_if(execution,
              plan.mesh.pipeline > 1 && titan.schedule != PipelineKind::kOneForwardOneBackward,
              "a pipeline schedule other than 1F1B");
    beyond_if(execution, titan.selective_operators || titan.memory_budget,
              "recomputation of single operators");
    execution.fp8_products = titan.float8 == Float8Recipe::kTensorwise;
    beyond_if(execution, titan.float8 != Float8Recipe::kNone && !execution.fp8_products,
              "linear layers in 8 bits with scales of rows");
    beyond_if(execution, titan.float8_gather, "all-gathers in 8 bits");
    return execution;
  }
  [[nodiscard]] HeldParameters held_parameters(const ParallelPlan& plan) const override {
    return fsdp::held_shards(plan);
  }
  [[nodiscard]] std::vector<HostTerm> host_terms(const ModelSpec& model,
                                                 const ParallelPlan& plan) const override {
    return torchtitan::host_terms(model, plan);
  }
  [[nodiscard]] ParallelPlan on_one_device(ParallelPlan plan) const override {
    plan.world = 1;
    plan.mesh.replicas = 1;
    return plan;
  }
  /// Its peaks are those of FSDP's groups, regardless of the model code.
  [[nodiscard]] std::string_view residual_family(const ParallelPlan& /*plan*/) const override {
    return fsdp::runtime().name();
  }
  /// A rank processes `Workload::micro_batch` sequences in one pipeline run and splits them
  /// into the pipeline's micro-batches. Gradients accumulate over several runs.
  [[nodiscard]] PipelineRuns pipeline(const ParallelPlan& plan) const override {
    const std::int64_t stages = plan.mesh.pipeline;
    return {.stages = stages,
            .stage_stride = std::max<std::int64_t>(plan.world / stages, 1),
            .micro_batches = plan.workload.micro_batch / own(plan).pipeline_batch,
            .runs = plan.workload.accumulation};
  }
  [[nodiscard]] PipelineShape schedule(const ModelSpec& model,
                                       const ParallelPlan& plan) const override {
    return titan_pipeline(plan, static_cast<std::int64_t>(model.layers.size()));
  }
  [[nodiscard]] std::int64_t ranks_per_replica(const ParallelPlan& plan) const override {
    return plan.mesh.tensor * plan.mesh.context * plan.mesh.pipeline;
  }
  [[nodiscard]] DType product_dtype(const ParallelPlan& plan) const override {
    return own(plan).float8 != Float8Recipe::kNone ? DType::kFp8 : fsdp::gathered_dtype(plan);
  }
  [[nodiscard]] KernelCalls kernel_calls(const ParallelPlan& plan) const override {
    return own(plan).compiled ? KernelCalls::kCompiled : KernelCalls::kEager;
  }
  [[nodiscard]] bool has_wide_kernels(const ParallelPlan& plan) const override {
    return own(plan).compiled;
  }
  [[nodiscard]] std::span<const OwnChange> changes(const ParallelPlan& /*plan*/) const override {
    return plan_changes();
  }
  [[nodiscard]] std::vector<ParallelPlan> plans_against(Bottleneck bottleneck,
                                                        const ParallelPlan& plan,
                                                        std::int64_t /*layers*/) const override {
    return fsdp::faster_plans(bottleneck, plan);
  }

 private:
  [[nodiscard]] static TitanPlan own(const ParallelPlan& plan) { return titan_of(plan); }
  [[nodiscard]] Launch launch(const ModelSpec& model, const ParallelPlan& plan,
                              const LaunchSite& site) const override {
    return titan_launch(model, plan, site);
  }
};

}  // namespace

const Runtime& runtime() {
  static const Torchtitan runtime;
  return runtime;
}

}  // namespace headroom::ir::torchtitan
