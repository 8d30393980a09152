#include "runtimes/fsdp/runtime.h"
#include "runtimes/fsdp/launch.h"

#include <algorithm>
#include <array>
#include <string>

#include "model_ir/spec/param_count.h"
#include "runtimes/fsdp/changes.h"
#include "runtimes/fsdp/check.h"
#include "runtimes/fsdp/host_memory.h"
#include "runtimes/fsdp/lowering.h"
#include "runtimes/fsdp/measured_runs.h"
#include "runtimes/fsdp/options.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/fsdp/window.h"
#include "runtimes/interface/description.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/transformers/alone.h"
#include "runtimes/transformers/host_memory.h"
#include "runtimes/transformers/quantised_defaults.h"
#include "runtimes/transformers/required_capability.h"

namespace headroom::ir::fsdp {
namespace {

/// How 4-bit weights get to the GPUs.
/// Source: huggingface/transformers 4.57.1 src/transformers/modeling_utils.py,
///         _load_state_dict_into_meta_model; 5.17 src/transformers/core_model_loading.py and
///         quantizers/quantizer_bnb_4bit.py, update_device_map.
std::vector<std::string> loading_notes(const ModelSpec& model, const ParallelPlan& plan) {
  std::vector<std::string> notes = transformers::quantised_notes(model, plan);
  if (plan.quant) {
    notes.emplace_back(
        fsdp_of(plan).quantised_on_host
            ? "weights are quantised one by one and kept on the host until FSDP shards them, as "
              "transformers 4 does with fsdp_cpu_ram_efficient_loading; transformers 5 ignores "
              "that setting for quantised weights, and needs memory for all of them on every GPU"
            : "every rank has the whole quantised model on its GPU before FSDP shards it, even "
              "with Accelerate's fsdp_cpu_ram_efficient_loading, which transformers 5 ignores for "
              "quantised weights. Transformers 4 keeps them on the host: --fsdp version=1 with "
              "quantised-on-host");
  }
  return notes;
}

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
  [[nodiscard]] bool runs_recordings() const override { return true; }
  [[nodiscard]] Status check(const ModelSpec& model, const ParallelPlan& plan) const override {
    for (const Status& status :
         {refuse_version(plan), check_replicas(plan), check_optimizer(plan)}) {
      if (!status) {
        return status;
      }
    }
    const std::optional<Error> refused = unsupported(model, plan);
    return refused ? Status(*refused) : ok();
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank rank, const DeviceTraits& device) const override {
    return fsdp::lower(model, plan, rank, device);
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
    return loading_notes(model, plan);
  }
  [[nodiscard]] bool resuming_was_measured(const ParallelPlan& plan) const override {
    const bool recorded =
        plan.optimizer.kind == OptimizerKind::kAdamW || plan.optimizer.kind == OptimizerKind::kSgd;
    return recorded && fsdp_of(plan).version == 2 && !fsdp_of(plan).cpu_offload;
  }
  void complete(ParallelPlan& plan) const override { options().add(plan); }
  [[nodiscard]] std::vector<std::string> device_notes(const ParallelPlan& plan,
                                                      const DeviceTraits& device) const override {
    // AdamW steps the shards, whatever type is gathered.
    std::vector<std::string> notes = narrow_adam_notes(plan);
    ParallelPlan computing = plan;
    computing.precision = arithmetic_precision(plan);
    if (computes_in_bf16(computing)) {
      for (std::string& note : precision_notes(computing, device, "add --fsdp param=fp16")) {
        notes.push_back(std::move(note));
      }
    }
    return notes;
  }
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &fsdp::measured_runs();
  }

  [[nodiscard]] std::string layout(const ParallelPlan& plan,
                                   const TypedOption& typed) const override {
    return has_fsdp(plan) ? typed("fsdp") : "";
  }
  [[nodiscard]] std::vector<WordedOption> worded_options() const override { return {{"fsdp"}}; }
  [[nodiscard]] std::string describe(const ParallelPlan& plan) const override {
    return std::string(name()) + sharding_words(plan);
  }

  /// The types in which shards are stored. FSDP's mixed-precision policy casts them.
  [[nodiscard]] std::span<const Precision> precisions() const override {
    return stored_precisions();
  }
  void settle(ParallelPlan& plan) const override {
    plan.own.keep<FsdpPlan>();
    plan.mesh = {.replicas = plan.mesh.replicas};
    settle_shards(plan);
    plan.lora.reset();
  }

  /// The default of transformers' Trainer, which starts FSDP, too.
  /// Source: huggingface/transformers training_args.py (5.17), TrainingArguments.default_optim.
  [[nodiscard]] OptimizerPlan searched_optimizer(const ParallelPlan& /*plan*/) const override {
    return {.kind = OptimizerKind::kAdamW, .form = OptimizerForm::kFused};
  }
  /// Shards are stored in fp32, and the mixed-precision policy computes in 16 bits.
  void prepare_for_search(ParallelPlan& plan) const override {
    if (plan.precision == Precision::kBf16Master || plan.precision == Precision::kFp16Master) {
      plan.precision = Precision::kFp32;
    }
  }
  [[nodiscard]] std::optional<ParallelPlan> one_rank_alone(
      const ParallelPlan& plan) const override {
    return transformers::one_rank_alone(plan, arithmetic_precision(plan));
  }
  [[nodiscard]] std::vector<HostTerm> host_terms(const ModelSpec& model,
                                                 const ParallelPlan& plan) const override {
    return transformers::joined(
        transformers::joined(
            transformers::loading_terms(model, plan, transformers::LoadedBy::kFirstOfNode),
            quantised_terms(model, plan)),
        checkpoint_terms(model, plan));
  }
  /// Shards, and gradients and moments of what is trained.
  [[nodiscard]] Bytes held_on_host(const ModelSpec& model,
                                   const ParallelPlan& plan) const override {
    if (!has_fsdp(plan) || !fsdp_of(plan).cpu_offload) {
      return Bytes{0};
    }
    const std::int64_t ranks = std::max<std::int64_t>(plan.world / plan.mesh.replicas, 1);
    const Bytes shard =
        bytes_of(count_parameters(model).total() / ranks, param_dtype(plan.precision));
    const bool trains = !plan.lora && plan.optimizer.kind != OptimizerKind::kNone;
    const std::int64_t moments = plan.optimizer.kind == OptimizerKind::kAdamW ? 2 : 0;
    return (1 + (trains ? 1 + moments : 0)) * shard;
  }
  [[nodiscard]] PlanExecution execution(const ModelSpec& model,
                                        const ParallelPlan& plan) const override {
    return sharded_execution(model, plan);
  }
  [[nodiscard]] HeldParameters held_parameters(const ParallelPlan& plan) const override {
    return held_shards(plan);
  }
  [[nodiscard]] ParallelPlan on_one_device(ParallelPlan plan) const override {
    plan.world = 1;
    plan.mesh.replicas = 1;
    return plan;
  }
  [[nodiscard]] bool grows_by_layers(const ParallelPlan& plan) const override {
    return !has_fsdp(plan);
  }
  [[nodiscard]] Bytes gathered_after_forward(const ModelSpec& model,
                                             const ParallelPlan& plan) const override {
    const bool stay = has_fsdp(plan) && !fsdp_of(plan).reshard_after_forward &&
                      fsdp_of(plan).reshard_ranks == 0 && plan.world > plan.mesh.replicas;
    return stay && !plan.quant
               ? Bytes{count_parameters(model).total() * bits_of(fsdp_of(plan).param_dtype) / 8}
               : Bytes{0};
  }
  [[nodiscard]] DType product_dtype(const ParallelPlan& plan) const override {
    return gathered_dtype(plan);
  }
  [[nodiscard]] std::span<const OwnChange> changes(const ParallelPlan& /*plan*/) const override {
    return plan_changes();
  }
  [[nodiscard]] std::vector<ParallelPlan> plans_against(Bottleneck bottleneck,
                                                        const ParallelPlan& plan,
                                                        std::int64_t /*layers*/) const override {
    return faster_plans(bottleneck, plan);
  }
  [[nodiscard]] Launch launch(const ModelSpec& model, const ParallelPlan& plan,
                              const LaunchSite& site) const override {
    return accelerate_launch(model, plan, site);
  }
};

}  // namespace

const Runtime& runtime() {
  static const Fsdp runtime;
  return runtime;
}

PlanExecution sharded_execution(const ModelSpec& model, const ParallelPlan& plan) {
  PlanExecution execution = common_execution(model, plan);
  if (!has_fsdp(plan)) {
    return execution;
  }
  const FsdpPlan& fsdp = fsdp_of(plan);
  execution.zero_stage = 3;
  execution.compute_dtype = gathered_dtype(plan);
  execution.parameters_on_host = fsdp.cpu_offload;
  execution.states_on_host = fsdp.cpu_offload;
  beyond_if(execution, !fsdp.reshard_after_forward || fsdp.reshard_ranks > 0,
            "parameters that stay gathered after forward");
  return execution;
}

HeldParameters held_shards(const ParallelPlan& plan) {
  const FsdpPlan& fsdp = fsdp_of(plan);
  return fsdp.cpu_offload
             ? HeldParameters{}
             : sharded_parameters(plan, std::max<std::int64_t>(1, plan.world / plan.mesh.replicas));
}

std::string sharding_words(const ParallelPlan& plan) {
  std::string text;
  if (has_fsdp(plan)) {
    const FsdpPlan& fsdp = fsdp_of(plan);
    add_word(text, "reshard=no", !fsdp.reshard_after_forward);
    add_degree(text, "replicas", plan.mesh.replicas, plan.mesh.replicas > 1);
    add_word(text, "offload=all", fsdp.cpu_offload);
    add_word(text, "quantised on the host first (transformers 4)", fsdp.quantised_on_host);
  }
  add_degree(text, "dp", plan.world, true);
  return text + precision_words(plan) + training_words_of(plan);
}

std::string precision_words(const ParallelPlan& plan) {
  const DType computes = has_fsdp(plan) ? fsdp_of(plan).param_dtype : DType::kFp32;
  return computes == DType::kBf16   ? ""
         : computes == DType::kFp16 ? ", param=fp16"
                                    : precision_words_of(plan);
}

Precision arithmetic_precision(const ParallelPlan& plan) {
  const DType computes = has_fsdp(plan) ? fsdp_of(plan).param_dtype : DType::kFp32;
  return computes == DType::kBf16   ? Precision::kBf16
         : computes == DType::kFp16 ? Precision::kFp16
                                    : transformers::without_masters(plan.precision);
}

DType gathered_dtype(const ParallelPlan& plan) {
  const bool full = plan.precision == Precision::kFp32 &&
                    (!has_fsdp(plan) || fsdp_of(plan).param_dtype == DType::kFp32);
  return full ? DType::kFp32 : DType::kBf16;
}

}  // namespace headroom::ir::fsdp
