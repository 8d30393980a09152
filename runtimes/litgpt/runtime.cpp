#include "runtimes/litgpt/runtime.h"
#include "runtimes/litgpt/launch.h"

#include <array>

#include "runtimes/interface/host_terms.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/litgpt/lowering.h"
#include "runtimes/litgpt/measured_runs.h"
#include "runtimes/litgpt/model.h"
#include "runtimes/transformers/changes.h"
#include "runtimes/transformers/host_memory.h"
#include "runtimes/transformers/options.h"

namespace headroom::ir::litgpt {
namespace {

class Litgpt final : public Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "litgpt"; }
  [[nodiscard]] std::string_view title() const override { return "LitGPT on one GPU"; }
  [[nodiscard]] std::span<const PlanPart* const> parts() const override {
    static const std::array<const PlanPart*, 1> parts = {&transformers::options()};
    return parts;
  }
  [[nodiscard]] Status check(const ModelSpec& model, const ParallelPlan& plan) const override {
    for (const Status& status : {refuse_version(plan), refuse_other_tasks(model, "litgpt")}) {
      if (!status) {
        return status;
      }
    }
    const std::optional<Error> refused = unsupported(model, plan);
    return refused ? Status(*refused) : ok();
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank /*rank*/,
                                          const DeviceTraits& device) const override {
    if (Status task = refuse_other_tasks(model, "litgpt"); !task) {
      return task.error();
    }
    return litgpt::lower(model, plan, device);
  }
  void complete(ParallelPlan& plan) const override { transformers::complete_data_parallel(plan); }
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &litgpt::measured_runs();
  }

  /// Fabric's "bf16-true".
  [[nodiscard]] std::span<const Precision> precisions() const override {
    static constexpr std::array kPrecisions = {Precision::kBf16};
    return kPrecisions;
  }
  /// One GPU, LitGPT's own attention and loss, no recomputation, and weights of 4 bits or not
  /// quantised.
  void settle(ParallelPlan& plan) const override {
    const ParallelPlan usual;
    plan.own = {};
    plan.mesh = {};
    plan.world = 1;
    plan.recompute = usual.recompute;
    plan.recompute_every = usual.recompute_every;
    plan.recompute_first = usual.recompute_first;
    plan.loss = usual.loss;
    if (plan.attention != AttentionKind::kSdpaNoCudnn) {
      plan.attention = usual.attention;
    }
    if (plan.quant) {
      plan.quant->bits = 4;
      plan.quant->prepare_kbit = false;
    }
  }
  /// The model is made on the GPU, and its weights are read one by one from the mapped file; saving
  /// writes tensor by tensor. A checkpoint of a run is read whole.
  /// Source: Lightning-AI/litgpt 0.5.13 litgpt/utils.py, load_checkpoint (lazy_load);
  ///         litgpt/data/alpaca.py (num_workers); litgpt/finetune/full.py, fabric.load(resume);
  ///         Lightning-AI/pytorch-lightning src/lightning/fabric/utilities/cloud_io.py, _load.
  [[nodiscard]] std::vector<HostTerm> host_terms(const ModelSpec& model,
                                                 const ParallelPlan& plan) const override {
    constexpr int kWorkers = 4;
    const double states = static_cast<double>((1 + state_count(plan.optimizer)) *
                                              bits_of(param_dtype(plan.precision))) /
                          8;
    return transformers::joined(
        {mapped_checkpoint(model, "litgpt 0.5.13 litgpt/utils.py, load_checkpoint: lazy_load"),
         data_loaders(kWorkers,
                      "litgpt 0.5.13 litgpt/data/alpaca.py, num_workers: 4; a forked "
                      "worker of torch 2.11 shares 424 MiB with its parent and has 10 "
                      "MiB of its own (measured)")},
        transformers::resuming_terms(model, plan, states,
                                     "litgpt 0.5.13 finetune/full.py, fabric.load: the whole "
                                     "checkpoint of the run, on the host"));
  }
  [[nodiscard]] bool grows_by_layers(const ParallelPlan& /*plan*/) const override { return true; }
  [[nodiscard]] std::span<const OwnChange> changes(const ParallelPlan& /*plan*/) const override {
    return transformers::plan_changes();
  }
  [[nodiscard]] Launch launch(const ModelSpec& /*model*/, const ParallelPlan& plan,
                              const LaunchSite& site) const override {
    return litgpt_launch(plan, site);
  }
  [[nodiscard]] bool can_move(const ParallelPlan& /*plan*/) const override { return true; }
};

}  // namespace

const Runtime& runtime() {
  static const Litgpt runtime;
  return runtime;
}

}  // namespace headroom::ir::litgpt
