#include "runtimes/torchtitan/runtime.h"

#include "runtimes/fsdp/check.h"
#include "runtimes/interface/foreign_parts.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/torchtitan/lowering.h"
#include "runtimes/torchtitan/memory_budget.h"
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
  [[nodiscard]] Status check(const ModelSpec& /*model*/, const ParallelPlan& plan) const override {
    if (Status own = refuse_foreign_parts(plan, {"fsdp", "titan"}); !own) {
      return own;
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
  /// Source: pytorch/torchtitan torchtitan/config/job_config.py (0.2.2), Optimizer.implementation.
  [[nodiscard]] OptimizerPlan usual_optimizer(const ParallelPlan& /*plan*/) const override {
    return {.kind = OptimizerKind::kAdamW, .form = OptimizerForm::kFused};
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
    if (!weighs_shared_keys(model, plan)) {
      return {};
    }
    return {
        "--titan memory-budget: PyTorch 2.11 stops with an AssertionError of its FLOP counter "
        "where queries share keys; shown is what later versions choose"};
  }

  [[nodiscard]] std::span<const Precision> precisions() const override {
    return stored_precisions();
  }
  void settle(ParallelPlan& plan) const override { settle_plan(plan); }
  [[nodiscard]] std::vector<PlanControl> controls() const override { return window_controls(); }
};

}  // namespace

const Runtime& runtime() {
  static const Torchtitan runtime;
  return runtime;
}

}  // namespace headroom::ir::torchtitan
