#include "runtimes/transformers/runtime.h"
#include "runtimes/transformers/launch.h"

#include <array>

#include "runtimes/interface/host_terms.h"
#include "runtimes/torch/ddp_plan.h"
#include "runtimes/transformers/alone.h"
#include "runtimes/transformers/changes.h"
#include "runtimes/transformers/host_memory.h"
#include "runtimes/transformers/lowering.h"
#include "runtimes/transformers/measured_runs.h"
#include "runtimes/transformers/options.h"
#include "runtimes/transformers/quantised_defaults.h"
#include "runtimes/transformers/required_capability.h"

namespace headroom::ir::transformers {
namespace {

/// Bits of an element of the optimizer's states.
std::int64_t state_bits(const ParallelPlan& plan) {
  switch (plan.optimizer.form) {
    case OptimizerForm::kEightBit:
    case OptimizerForm::kPagedEightBit:
      return 8;
    case OptimizerForm::kPaged:
      return 32;
    default:
      return bits_of(param_dtype(plan.precision));
  }
}

bool has_paged_states(const OptimizerPlan& optimizer) {
  return optimizer.form == OptimizerForm::kPaged || optimizer.form == OptimizerForm::kPagedEightBit;
}

class Transformers final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "transformers"; }
  [[nodiscard]] std::string_view title() const override {
    return "Hugging Face transformers on PyTorch; DDP on several GPUs";
  }
  [[nodiscard]] std::span<const PlanPart* const> parts() const override {
    static const std::array<const PlanPart*, 1> parts = {&options()};
    return parts;
  }
  [[nodiscard]] bool runs_recordings() const override { return true; }
  [[nodiscard]] Status check(const ModelSpec& /*model*/,
                             const ParallelPlan& /*plan*/) const override {
    return ok();
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank /*rank*/,
                                          const DeviceTraits& device) const override {
    // All data-parallel ranks hold and do the same.
    return transformers::lower(model, plan, device);
  }
  [[nodiscard]] Status check_device(const ParallelPlan& plan,
                                    const DeviceTraits& device) const override {
    return check_capability(capability_rules(), plan, device);
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
    std::vector<std::string> notes = quantised_notes(model, plan);
    if (needs_autocast(plan) && !model.recording) {
      notes.emplace_back(
          "without autocast, PEFT's preparation leaves fp32 activations, which no fused attention "
          "takes; the usual recipes train with bf16=True (--precision bf16-autocast)");
    }
    if (plan.workload.resume && has_paged_states(plan.optimizer)) {
      notes.emplace_back(
          "bitsandbytes loads paged states into the GPU's own memory when a run resumes, and they "
          "stay there (bitsandbytes 0.50.2, Optimizer8bit.load_state_dict)");
    }
    return notes;
  }
  [[nodiscard]] bool resuming_was_measured(const ParallelPlan& plan) const override {
    switch (plan.optimizer.kind) {
      case OptimizerKind::kAdamW:
        return plan.world == 1 || !has_paged_states(plan.optimizer);
      case OptimizerKind::kSgd:
      case OptimizerKind::kAdafactor:
      case OptimizerKind::kAdafactorTorch:
        return true;
      case OptimizerKind::kNone:
      case OptimizerKind::kLion:
      case OptimizerKind::kMuon:
        break;
    }
    return plan.optimizer.kind == OptimizerKind::kNone;  // Nothing is resumed.
  }
  void complete(ParallelPlan& plan) const override { complete_data_parallel(plan); }
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &transformers::measured_runs();
  }
  [[nodiscard]] std::string layout(const ParallelPlan& plan,
                                   const TypedOption& /*typed*/) const override {
    return plan.world > 1 ? "DDP" : "";
  }
  /// Several GPUs mean DDP.
  void settle(ParallelPlan& plan) const override {
    plan.own.keep<DdpPlan>();
    plan.mesh = {};
    complete_data_parallel(plan);
  }
  /// Source: huggingface/transformers training_args.py (5.17), TrainingArguments.default_optim,
  /// with PyTorch 2.8 and later.
  [[nodiscard]] OptimizerPlan searched_optimizer(const ParallelPlan& /*plan*/) const override {
    return {.kind = OptimizerKind::kAdamW, .form = OptimizerForm::kFused};
  }
  /// This framework computes in 16 bits by torch.autocast.
  void prepare_for_search(ParallelPlan& plan) const override {
    if (plan.precision == Precision::kBf16Master) {
      plan.precision = Precision::kAutocastBf16;
    } else if (plan.precision == Precision::kFp16Master) {
      plan.precision = Precision::kAutocastFp16;
    }
  }
  [[nodiscard]] std::optional<ParallelPlan> one_rank_alone(
      const ParallelPlan& plan) const override {
    return transformers::one_rank_alone(plan, transformers::without_masters(plan.precision));
  }
  [[nodiscard]] std::vector<HostTerm> host_terms(const ModelSpec& model,
                                                 const ParallelPlan& plan) const override {
    // Several ranks read the states to their devices.
    const double states =
        plan.world == 1 ? static_cast<double>(state_count(plan.optimizer) * state_bits(plan)) / 8
                        : 0;
    return joined(joined(loading_terms(model, plan, LoadedBy::kEveryRank),
                         saving_terms(model, plan, SavedFrom::kDevice)),
                  resuming_terms(model, plan, states,
                                 "transformers 5.17 trainer.py, _load_optimizer_and_scheduler: "
                                 "map_location is cpu with one process"));
  }
  [[nodiscard]] bool grows_by_layers(const ParallelPlan& /*plan*/) const override { return true; }
  [[nodiscard]] std::span<const OwnChange> changes(const ParallelPlan& /*plan*/) const override {
    return plan_changes();
  }
  [[nodiscard]] Launch launch(const ModelSpec& model, const ParallelPlan& plan,
                              const LaunchSite& site) const override {
    Launch launch{.command = torchrun_words(plan, site),
                  .code = script_lines(model, plan, site.model)};
    launch.command.emplace_back("train.py");
    append_words(launch.command, training_arguments(plan));
    return launch;
  }
  [[nodiscard]] bool can_move(const ParallelPlan& /*plan*/) const override { return true; }
};

}  // namespace

const Runtime& runtime() {
  static const Transformers runtime;
  return runtime;
}

}  // namespace headroom::ir::transformers
