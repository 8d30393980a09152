#include "runtimes/fsdp/runtime.h"

#include <array>

#include "model_ir/spec/param_count.h"
#include "runtimes/fsdp/changes.h"
#include "runtimes/fsdp/check.h"
#include "runtimes/fsdp/lowering.h"
#include "runtimes/fsdp/measured_runs.h"
#include "runtimes/fsdp/options.h"
#include "runtimes/fsdp/window.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/transformers/alone.h"

namespace headroom::ir::fsdp {
namespace {

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
  [[nodiscard]] Status check(const ModelSpec& /*model*/, const ParallelPlan& plan) const override {
    if (Status newest = refuse_version(plan); !newest) {
      return newest;
    }
    return check_replicas(plan);
  }
  [[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                                          Rank rank, const DeviceTraits& device) const override {
    return fsdp::lower(model, plan, rank, device);
  }
  void complete(ParallelPlan& plan) const override { static_cast<void>(options().edit(plan)); }
  [[nodiscard]] const MeasuredRuns* measured_runs() const override {
    return &fsdp::measured_runs();
  }

  [[nodiscard]] std::string layout(const ParallelPlan& plan,
                                   const TypedOption& typed) const override {
    return plan.fsdp ? typed("fsdp") : "";
  }
  [[nodiscard]] std::vector<WordedOption> worded_options() const override { return {{"fsdp"}}; }

  /// The types in which shards are stored. FSDP's mixed-precision policy casts them.
  [[nodiscard]] std::span<const Precision> precisions() const override {
    return stored_precisions();
  }
  void settle(ParallelPlan& plan) const override {
    drop_foreign_parts(plan, {"fsdp"});
    settle_shards(plan);
    plan.lora.reset();
  }
  [[nodiscard]] std::vector<PlanControl> controls() const override { return {replicas_control()}; }

  /// Shards are stored in fp32, and the mixed-precision policy computes in bf16.
  void prepare_for_search(ParallelPlan& plan) const override {
    if (plan.precision == Precision::kBf16Master) {
      plan.precision = Precision::kFp32;
    }
  }
  [[nodiscard]] std::optional<ParallelPlan> one_rank_alone(
      const ParallelPlan& plan) const override {
    return transformers::one_rank_alone(plan);
  }
  [[nodiscard]] HeldParameters held_parameters(const ParallelPlan& plan) const override {
    return sharded_parameters(plan);
  }
  [[nodiscard]] ParallelPlan on_one_device(ParallelPlan plan) const override {
    plan.world = 1;
    if (plan.fsdp) {
      plan.fsdp->replicas = 1;
    }
    return plan;
  }
  [[nodiscard]] bool grows_by_layers(const ParallelPlan& plan) const override { return !plan.fsdp; }
  [[nodiscard]] Bytes gathered_after_forward(const ModelSpec& model,
                                             const ParallelPlan& plan) const override {
    const bool stay = plan.fsdp && !plan.fsdp->reshard_after_forward &&
                      plan.fsdp->reshard_ranks == 0 && plan.world > plan.fsdp->replicas;
    return stay && !plan.quant
               ? Bytes{count_parameters(model).total() * bits_of(plan.fsdp->param_dtype) / 8}
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
};

}  // namespace

const Runtime& runtime() {
  static const Fsdp runtime;
  return runtime;
}

DType gathered_dtype(const ParallelPlan& plan) {
  const bool full =
      plan.precision == Precision::kFp32 && (!plan.fsdp || plan.fsdp->param_dtype == DType::kFp32);
  return full ? DType::kFp32 : DType::kBf16;
}

}  // namespace headroom::ir::fsdp
