#include "runtimes/megatron/runtime.h"

#include "runtimes/interface/refusals.h"
#include "runtimes/megatron/check.h"
#include "runtimes/megatron/lowering.h"
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
  [[nodiscard]] Status check(const ModelSpec& model, const ParallelPlan& plan) const override {
    if (Status found = check_megatron(model, plan); !found) {
      return found;
    }
    return refuse_version(plan);
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank rank, const DeviceTraits& device) const override {
    return megatron::lower(model, plan, static_cast<std::int64_t>(rank), device);
  }

  [[nodiscard]] std::string layout(const ParallelPlan& plan,
                                   const TypedOption& /*typed*/) const override {
    return layout_words(plan);
  }
  [[nodiscard]] std::string kernels(const ParallelPlan& plan) const override {
    return kernel_words(plan.megatron.value_or(MegatronPlan{}));
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
  [[nodiscard]] std::vector<PlanControl> controls() const override { return window_controls(); }
  [[nodiscard]] Recompute recomputation(const ParallelPlan& plan) const override {
    return recomputation_of(plan);
  }
  void set_recomputation(ParallelPlan& plan, Recompute recompute) const override {
    put_recomputation(plan, recompute);
  }

  /// Experts with a capacity factor are padded to it, whatever is routed to them.
  [[nodiscard]] std::int64_t expert_ranks(const ParallelPlan& plan) const override {
    return plan.megatron && !plan.megatron->capacity_factor ? plan.megatron->expert : 1;
  }
  void set_expert_load(ParallelPlan& plan, double load) const override {
    plan.megatron->expert_load = load;
  }
  [[nodiscard]] std::optional<ParallelPlan> with_more_stages(
      const ParallelPlan& plan) const override {
    ParallelPlan wider = plan;
    wider.megatron = plan.megatron.value_or(MegatronPlan{});
    wider.megatron->pipeline *= 2;
    wider.world *= 2;
    return wider;
  }
};

}  // namespace

const Runtime& runtime() {
  static const Megatron runtime;
  return runtime;
}

}  // namespace headroom::ir::megatron
