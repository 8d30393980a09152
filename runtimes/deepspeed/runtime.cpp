#include "runtimes/deepspeed/runtime.h"
#include "runtimes/deepspeed/launch.h"

#include <algorithm>
#include <array>

#include "model_ir/spec/param_count.h"
#include "runtimes/deepspeed/changes.h"
#include "runtimes/deepspeed/check.h"
#include "runtimes/deepspeed/config.h"
#include "runtimes/deepspeed/emit.h"
#include "runtimes/deepspeed/leaf_modules.h"
#include "runtimes/deepspeed/lowering.h"
#include "runtimes/deepspeed/measured_runs.h"
#include "runtimes/deepspeed/options.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/deepspeed/words.h"
#include "runtimes/deepspeed/wrapper.h"
#include "runtimes/transformers/alone.h"
#include "runtimes/transformers/host_memory.h"
#include "runtimes/transformers/quantised_defaults.h"
#include "runtimes/transformers/required_capability.h"

namespace headroom::ir::deepspeed {
namespace {

class Deepspeed final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "deepspeed"; }
  [[nodiscard]] std::string_view title() const override {
    return "A model of transformers under DeepSpeed ZeRO";
  }
  [[nodiscard]] std::span<const PlanPart* const> parts() const override {
    static const std::array<const PlanPart*, 1> parts = {&options()};
    return parts;
  }
  [[nodiscard]] bool runs_recordings() const override { return true; }
  [[nodiscard]] Status check(const ModelSpec& /*model*/, const ParallelPlan& plan) const override {
    return check_deepspeed(plan);
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank rank, const DeviceTraits& device) const override {
    return deepspeed::lower(model, plan, static_cast<std::int64_t>(rank), device);
  }
  [[nodiscard]] Status check_device(const ParallelPlan& plan,
                                    const DeviceTraits& device) const override {
    return check_capability(transformers::capability_rules(), plan, device);
  }
  [[nodiscard]] UsualRecomputation usual_recomputation(const ParallelPlan& plan) const override {
    return transformers::recomputation_of_prepared(plan);
  }
  [[nodiscard]] std::vector<TrainerDefaults> trainer_defaults(
      const ParallelPlan& plan) const override {
    return transformers::adapter_trainers(plan);
  }
  [[nodiscard]] std::vector<std::string> notes(const ModelSpec& model,
                                               const ParallelPlan& plan) const override {
    return transformers::quantised_notes(model, plan);
  }
  [[nodiscard]] bool resuming_was_measured(const ParallelPlan& plan) const override {
    if (!has_zero(plan) || plan.optimizer.kind != OptimizerKind::kAdamW ||
        zero_of(plan).offload_optimizer != OffloadDevice::kNone) {
      return false;
    }
    const OptimizerForm form = plan.optimizer.form;  // Of PyTorch, not FusedAdam of DeepSpeed.
    return form == OptimizerForm::kForeach ||
           (form == OptimizerForm::kFused && zero_of(plan).torch_adam);
  }
  void complete(ParallelPlan& plan) const override { options().add(plan); }
  /// If the optimizer is on the host, it is DeepSpeedCPUAdam, which is fused.
  /// Source: deepspeedai/DeepSpeed deepspeed/ops/adam/cpu_adam.py.
  [[nodiscard]] OptimizerPlan usual_optimizer(const ParallelPlan& plan) const override {
    OptimizerPlan optimizer;
    if (has_zero(plan) && zero_of(plan).offload_optimizer != OffloadDevice::kNone) {
      optimizer.form = OptimizerForm::kFused;
    }
    return optimizer;
  }
  /// FusedAdam, which "AdamW" in a DeepSpeed configuration means.
  /// Source: deepspeedai/DeepSpeed deepspeed/runtime/engine.py, _configure_basic_optimizer.
  [[nodiscard]] OptimizerPlan searched_optimizer(const ParallelPlan& /*plan*/) const override {
    return {.kind = OptimizerKind::kAdamW, .form = OptimizerForm::kFused};
  }
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &deepspeed::measured_runs();
  }

  [[nodiscard]] std::string layout(const ParallelPlan& plan,
                                   const TypedOption& typed) const override {
    return layout_words(plan, typed);
  }
  [[nodiscard]] std::vector<WordedOption> worded_options() const override {
    return {{"zero"}, {"zeropp"}};
  }
  [[nodiscard]] std::string describe(const ParallelPlan& plan) const override {
    return description(plan);
  }

  /// Parameters are 16-bit, and DeepSpeed keeps an fp32 master copy.
  /// Source: deepspeedai/DeepSpeed deepspeed/runtime/engine.py, _configure_bf16_optimizer.
  [[nodiscard]] std::span<const Precision> precisions() const override {
    return master_precisions();
  }
  void settle(ParallelPlan& plan) const override {
    plan.own.keep<ZeroPlan>();
    plan.mesh = {};
    if (!has_zero(plan)) {
      edit_zero(plan) = {};
      edit_zero(plan).stage = 2;
    }
  }

  [[nodiscard]] std::vector<ConfigurationFormat> configuration_formats() const override {
    return {{.name = "deepspeed",
             .options = "--zero 2",
             .option = "deepspeed",
             .help = "A DeepSpeed configuration; options change it and fill its \"auto\".",
             .file = "ds_config.json",
             .holds = is_in_file}};
  }
  [[nodiscard]] Result<std::string> emit(const ModelSpec& model, const ParallelPlan& plan,
                                         std::string_view /*format*/) const override {
    if (zero_of(plan).leaf == ZeroLeaf::kExperts && experts_class(model.family).empty()) {
      return Error::invalid_argument("zeropp", "leaf=experts",
                                     "a model whose blocks of experts have a class of transformers",
                                     "leave out leaf=experts");
    }
    return emitted_config(model, plan);
  }
  [[nodiscard]] Result<ConfigurationReading> read_configuration(
      const std::string& path, const ModelSpec& model, const ParallelPlan& arguments,
      std::string_view /*format*/) const override {
    return read_config(path, model, arguments);
  }

  /// DeepSpeed keeps fp32 master weights itself.
  void prepare_for_search(ParallelPlan& /*plan*/) const override {}
  [[nodiscard]] std::optional<ParallelPlan> one_rank_alone(
      const ParallelPlan& plan) const override {
    return transformers::one_rank_alone(plan, transformers::without_masters(plan.precision));
  }
  [[nodiscard]] bool has_buckets(const ParallelPlan& plan) const override { return has_zero(plan); }
  /// Stages 1 and 2 make a flat tensor on the host if the device has no room for it.
  /// Source: DeepSpeed, runtime/zero/stage_1_and_2.py, __init__, flatten_dense_tensors_aligned.
  [[nodiscard]] bool depends_on_room(const ParallelPlan& plan) const override {
    return has_zero(plan) && (zero_of(plan).stage == 1 || zero_of(plan).stage == 2);
  }
  [[nodiscard]] std::vector<HostTerm> host_terms(const ModelSpec& model,
                                                 const ParallelPlan& plan) const override {
    using transformers::LoadedBy;
    using transformers::SavedFrom;
    const int stage = has_zero(plan) ? zero_of(plan).stage : 0;
    const bool parts = stage == 3;
    const auto moments = static_cast<double>(moment_count(plan.optimizer));
    const double states = stage > 0 ? 4 * (1 + moments) / static_cast<double>(plan.world) : 0;
    const std::vector<HostTerm> terms = transformers::joined(
        transformers::loading_terms(model, plan, parts ? LoadedBy::kParts : LoadedBy::kEveryRank),
        transformers::saving_terms(model, plan, parts ? SavedFrom::kGathered : SavedFrom::kDevice));
    return transformers::joined(
        terms, transformers::resuming_terms(model, plan, states,
                                            "DeepSpeed 0.19.8 engine.py, "
                                            "_get_all_zero_checkpoint_state_dicts: a rank's own "
                                            "masters and moments on the CPU"));
  }
  /// Parameters in 16 bits; fp32 masters, gradients and moments of what is trained. Pinned blocks
  /// are larger, and sub-groups may stay on the device.
  [[nodiscard]] Bytes held_on_host(const ModelSpec& model,
                                   const ParallelPlan& plan) const override {
    const ZeroPlan& zero = zero_of(plan);
    const std::int64_t part =
        count_parameters(model).total() / std::max<std::int64_t>(plan.world, 1);
    Bytes held;
    if (zero.offload_param == OffloadDevice::kCpu) {
      // Quantisation leaves embeddings and head as they are; here they count with its bits.
      held += plan.quant ? Bytes{part * plan.quant->bits / 8}
                         : bytes_of(part, param_dtype(plan.precision));
    }
    if (zero.offload_optimizer == OffloadDevice::kCpu && zero.offload_ratio == 1 && !plan.lora) {
      const auto moments = static_cast<std::int64_t>(moment_count(plan.optimizer));
      held += bytes_of((2 + moments) * part, DType::kFp32);
    }
    return held;
  }
  [[nodiscard]] PlanExecution execution(const ModelSpec& model,
                                        const ParallelPlan& plan) const override {
    const ZeroPlan& zero = zero_of(plan);
    PlanExecution execution = common_execution(model, plan);
    execution.zero_stage = zero.stage;
    execution.parameters_on_host = zero.offload_param == OffloadDevice::kCpu;
    execution.states_on_host = zero.offload_optimizer == OffloadDevice::kCpu;
    execution.gradient_dtype = zero.grad_accum_dtype;
    beyond_if(execution,
              zero.offload_param == OffloadDevice::kNvme ||
                  zero.offload_optimizer == OffloadDevice::kNvme,
              "parameters or optimizer states on NVMe");
    beyond_if(execution, execution.states_on_host && zero.offload_ratio < 1,
              "optimizer states of which a share is on the host");
    beyond_if(execution, zero.hpz_partition_size > 1, "secondary partitions of ZeRO++");
    beyond_if(execution, zero.quantized_weights || zero.quantized_gradients,
              "communication in fewer bits (ZeRO++)");
    return execution;
  }
  [[nodiscard]] HeldParameters held_parameters(const ParallelPlan& plan) const override {
    const ZeroPlan zero = zero_of(plan);
    HeldParameters held = whole_parameters(plan);
    // Gradients of stage 1 count as sharded: buckets may be reduced before the last layer's
    // backward.
    held.weights.ranks = zero.stage >= 3 ? plan.world : 1;
    held.gradients.ranks = held.optimizer.ranks = zero.stage >= 1 ? plan.world : 1;
    if (zero.offload_param != OffloadDevice::kNone) {
      held.weights.bits = 0;
    }
    if (zero.offload_optimizer != OffloadDevice::kNone) {
      held.gradients.bits = held.optimizer.bits = 0;
    }
    return held;
  }
  /// Stage 3 reduces each gradient to its owner.
  [[nodiscard]] bool has_all_reduce(const ParallelPlan& plan) const override {
    return !has_zero(plan) || zero_of(plan).stage < 3;
  }
  [[nodiscard]] bool grows_by_layers(const ParallelPlan& plan) const override {
    return !has_zero(plan);
  }
  [[nodiscard]] std::span<const OwnChange> changes(const ParallelPlan& /*plan*/) const override {
    return plan_changes();
  }
  [[nodiscard]] std::span<const OwnChange> moves_here() const override { return moves(); }
  [[nodiscard]] std::vector<ParallelPlan> plans_against(Bottleneck bottleneck,
                                                        const ParallelPlan& plan,
                                                        std::int64_t /*layers*/) const override {
    return faster_plans(bottleneck, plan);
  }
  [[nodiscard]] Launch launch(const ModelSpec& model, const ParallelPlan& plan,
                              const LaunchSite& site) const override {
    return deepspeed_launch(model, plan, site);
  }
};

}  // namespace

const Runtime& runtime() {
  static const Deepspeed runtime;
  return runtime;
}

}  // namespace headroom::ir::deepspeed
