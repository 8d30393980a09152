#include "runtimes/litgpt/runtime.h"
#include "runtimes/litgpt/launch.h"

#include <array>

#include "runtimes/interface/refusals.h"
#include "runtimes/litgpt/lowering.h"
#include "runtimes/litgpt/measured_runs.h"
#include "runtimes/litgpt/model.h"
#include "runtimes/transformers/changes.h"
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
