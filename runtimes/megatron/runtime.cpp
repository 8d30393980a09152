#include "runtimes/megatron/runtime.h"
#include "runtimes/megatron/launch.h"

#include <array>
#include <numeric>

#include "runtimes/interface/refusals.h"
#include "runtimes/megatron/changes.h"
#include "runtimes/megatron/check.h"
#include "runtimes/megatron/execution.h"
#include "runtimes/megatron/lowering.h"
#include "runtimes/megatron/measured_runs.h"
#include "runtimes/megatron/memory_terms.h"
#include "runtimes/megatron/options.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/required_capability.h"
#include "runtimes/megatron/stage_layers.h"
#include "runtimes/megatron/window.h"
#include "runtimes/megatron/words.h"

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
  [[nodiscard]] Status check_device(const ParallelPlan& plan,
                                    const DeviceTraits& device) const override {
    return check_capability(capability_rules(), plan, device);
  }
  /// Nothing is emulated: what a GPU lacks is refused.
  /// Source: ROCm/TransformerEngine, README.
  [[nodiscard]] std::vector<std::string> device_notes(const ParallelPlan& plan,
                                                      const DeviceTraits& device) const override {
    if (!device.rocm || !megatron_of(plan).transformer_engine) {
      return {};
    }
    return {
        "AMD GPUs need AMD's fork of Transformer Engine (ROCm/TransformerEngine); its attention "
        "and "
        "its workspaces are not modelled"};
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank rank, const DeviceTraits& device) const override {
    return megatron::lower(model, plan, static_cast<std::int64_t>(rank), device);
  }
  void complete(ParallelPlan& plan) const override { options().add(plan); }
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &megatron::measured_runs();
  }

  [[nodiscard]] std::string layout(const ParallelPlan& plan,
                                   const TypedOption& /*typed*/) const override {
    return layout_words(plan);
  }
  [[nodiscard]] std::string kernels(const ParallelPlan& plan) const override {
    return kernel_words(megatron_of(plan));
  }
  [[nodiscard]] std::vector<WordedOption> worded_options() const override {
    return {{.option = "megatron", .keys = worded_keys()}};
  }
  [[nodiscard]] std::string describe(const ParallelPlan& plan) const override {
    return description(plan);
  }
  [[nodiscard]] bool names_rank(const ParallelPlan& /*plan*/) const override { return true; }

  /// Megatron's optimizer keeps an fp32 copy of 16-bit parameters.
  [[nodiscard]] std::span<const Precision> precisions() const override {
    return master_precisions();
  }
  void settle(ParallelPlan& plan) const override { settle_plan(plan); }

  /// Experts with a capacity factor are padded to it, whatever the router does.
  [[nodiscard]] std::int64_t expert_ranks(const ParallelPlan& plan) const override {
    return has_megatron(plan) && !megatron_of(plan).capacity_factor ? plan.mesh.expert : 1;
  }
  void set_expert_load(ParallelPlan& plan, double load) const override {
    edit_megatron(plan).expert_load = load;
  }
  [[nodiscard]] std::optional<ParallelPlan> with_more_stages(
      const ModelSpec& model, const ParallelPlan& plan) const override {
    ParallelPlan wider = plan;
    MegatronPlan& megatron = edit_megatron(wider);
    megatron = megatron_of(plan);
    const auto layers = static_cast<std::int64_t>(model.layers.size());
    const std::int64_t before = wider.mesh.pipeline;
    do {
      ++wider.mesh.pipeline;
    } while (wider.mesh.pipeline <= layers && layers % wider.mesh.pipeline != 0);
    if (wider.mesh.pipeline > layers || !megatron.pipeline_layout.empty()) {
      return std::nullopt;
    }
    wider.world = plan.world / before * wider.mesh.pipeline;
    return wider;
  }

  /// Tensor-parallel ranks within a node of eight, which share everything that can be shared.
  [[nodiscard]] std::optional<ParallelPlan> with_sharded_layers(
      const ParallelPlan& plan) const override {
    if (plan.runtime == name() || plan.lora || plan.quant) {
      return std::nullopt;
    }
    ParallelPlan sharded = plan;
    sharded.runtime = name();
    MegatronPlan& megatron = edit_megatron(sharded);
    megatron = MegatronPlan{};
    sharded.mesh = {.tensor = std::gcd(plan.world, std::int64_t{8})};
    megatron.sequence_parallel = sharded.mesh.tensor > 1;
    megatron.distributed_optimizer = true;
    settle(sharded);
    const bool half = plan.precision == Precision::kFp16 ||
                      plan.precision == Precision::kAutocastFp16 ||
                      plan.precision == Precision::kFp16Master;
    sharded.precision = half ? Precision::kFp16Master : Precision::kBf16Master;
    return sharded;
  }

  /// It keeps fp32 master weights itself.
  void prepare_for_search(ParallelPlan& /*plan*/) const override {}
  [[nodiscard]] std::vector<Rank> binding_ranks(const ModelSpec& model,
                                                const ParallelPlan& plan) const override {
    return has_megatron(plan) ? highest_ranks(model, plan) : std::vector<Rank>{Rank{0}};
  }
  [[nodiscard]] PlanExecution execution(const ModelSpec& model,
                                        const ParallelPlan& plan) const override {
    return megatron::execution(model, plan);
  }
  [[nodiscard]] HeldParameters held_parameters(const ParallelPlan& plan) const override {
    return has_megatron(plan) ? parameters_of_rank(plan) : whole_parameters(plan);
  }
  [[nodiscard]] ParallelPlan on_one_device(ParallelPlan plan) const override {
    plan.world = 1;
    plan.mesh = {};
    plan.own.reset<MegatronPlan>();
    return plan;
  }
  [[nodiscard]] std::vector<OutsideTerm> outside_terms(const ModelSpec& model,
                                                       const ParallelPlan& plan) const override {
    return has_megatron(plan) ? own_buffers(model, plan) : std::vector<OutsideTerm>{};
  }
  [[nodiscard]] std::vector<HostTerm> host_terms(const ModelSpec& /*model*/,
                                                 const ParallelPlan& /*plan*/) const override {
    return {loader_term()};
  }
  [[nodiscard]] Bytes held_on_host(const ModelSpec& model,
                                   const ParallelPlan& plan) const override {
    return has_megatron(plan) ? optimizer_on_host(model, plan) : Bytes{0};
  }
  /// The micro-batches in flight, plus two for the steady state. An interleaved schedule needs a
  /// multiple of the stages.
  [[nodiscard]] std::int64_t steady_micro_batches(const ParallelPlan& plan) const override {
    if (plan.mesh.pipeline == 1) {
      return Runtime::steady_micro_batches(plan);
    }
    return is_interleaved(plan) ? 2 * plan.mesh.pipeline : plan.mesh.pipeline + 2;
  }
  [[nodiscard]] PipelineRuns pipeline(const ParallelPlan& plan) const override {
    return {.stages = plan.mesh.pipeline,
            .stage_stride = stage_stride(plan),
            .micro_batches = plan.workload.accumulation};
  }
  [[nodiscard]] PipelineShape schedule(const ModelSpec& model,
                                       const ParallelPlan& plan) const override {
    const std::int64_t chunks =
        chunks_per_stage(plan, static_cast<std::int64_t>(model.layers.size()));
    return {.kind = chunks > 1 ? PipelineKind::kInterleaved : PipelineKind::kOneForwardOneBackward,
            .stages = plan.mesh.pipeline,
            .micro_batches = plan.workload.accumulation,
            .chunks = chunks,
            .group = own(plan).micro_batch_group,
            .together = own(plan).overlap_expert_exchange && chunks > 1};
  }
  [[nodiscard]] std::vector<StageLayers> stage_layers(const ModelSpec& model,
                                                      const ParallelPlan& plan) const override {
    return layers_of_stages(model, plan);
  }
  [[nodiscard]] std::int64_t ranks_per_replica(const ParallelPlan& plan) const override {
    return plan.mesh.tensor * plan.mesh.pipeline * plan.mesh.context;
  }
  [[nodiscard]] std::int64_t predicted_layers(const ParallelPlan& plan) const override {
    return own(plan).mtp_layers;
  }
  [[nodiscard]] DType product_dtype(const ParallelPlan& plan) const override {
    return own(plan).fp8 != MegatronFp8::kNone ? DType::kFp8 : Runtime::product_dtype(plan);
  }
  [[nodiscard]] KernelCalls kernel_calls(const ParallelPlan& plan) const override {
    return own(plan).transformer_engine ? KernelCalls::kModules : KernelCalls::kEager;
  }
  [[nodiscard]] bool has_wide_kernels(const ParallelPlan& /*plan*/) const override { return true; }
  [[nodiscard]] std::span<const OwnChange> changes(const ParallelPlan& plan) const override {
    return has_megatron(plan) ? plan_changes() : usual_changes();
  }
  [[nodiscard]] std::vector<Change> remedy_order(const ParallelPlan& /*plan*/) const override {
    return tree_of_remedies();
  }
  [[nodiscard]] std::vector<ParallelPlan> plans_against(Bottleneck bottleneck,
                                                        const ParallelPlan& plan,
                                                        std::int64_t layers) const override {
    return has_megatron(plan) ? faster_plans(bottleneck, plan, layers)
                              : std::vector<ParallelPlan>{};
  }

 private:
  [[nodiscard]] static MegatronPlan own(const ParallelPlan& plan) { return megatron_of(plan); }
  [[nodiscard]] Launch launch(const ModelSpec& model, const ParallelPlan& plan,
                              const LaunchSite& site) const override {
    return megatron_launch(model, plan, site);
  }
};

}  // namespace

const Runtime& runtime() {
  static const Megatron runtime;
  return runtime;
}

}  // namespace headroom::ir::megatron
