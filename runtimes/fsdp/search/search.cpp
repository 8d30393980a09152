#include "runtimes/fsdp/search/search.h"

#include <array>
#include <memory>
#include <string_view>

#include "planner/evaluate/plan_bounds.h"
#include "planner/search/evaluator.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/fsdp/runtime.h"
#include "runtimes/registry.h"
#include "runtimes/transformers/search/search.h"

namespace headroom::plan {
namespace {

using ir::ParallelPlan;

constexpr auto kEverything = static_cast<std::int64_t>(OffloadChoice::kAll);

/// Numbers of replicas below the number of GPUs, since equal numbers are DistributedDataParallel.
AxisValues replicas_below(SpaceWalk& walk) {
  if (!has_fsdp(walk.plan)) {
    return {1};
  }
  AxisValues counts = divisors(walk.plan.world);
  std::erase_if(counts,
                [&](std::int64_t replicas) { return replicas > 1 && replicas == walk.plan.world; });
  return counts;
}

std::vector<SearchAxis> fsdp_rows() {
  std::vector<SearchAxis> rows = {
      {.axis = fsdp_axes::kVersion,
       .get = [](const ParallelPlan& plan) -> std::int64_t { return fsdp_of(plan).version; },
       .rule = [](const SpaceQuestion& /*question*/) -> std::string { return "1 or 2"; },
       .candidates =
           [](SpaceWalk& walk) {
             return walk.asks(fsdp_axes::kVersion) ? AxisValues{2, 1} : AxisValues{2};
           },
       .set =
           [](SpaceWalk& walk, std::int64_t version) {
             edit_fsdp(walk.plan).version = static_cast<int>(version);
             if (walk.plan.quant) {  // Version 1 takes no norms and heads in fp32.
               walk.plan.quant->prepare_kbit =
                   version == 2 && walk.question.base.quant.value_or(ir::QuantPlan{}).prepare_kbit;
             }
           }},
      {.axis = Axis::kPrecision, .get = [](const ParallelPlan& plan) {
         const bool wide = plan.precision == ir::Precision::kFp32;
         const bool computes_in_16 =
             has_fsdp(plan) && fsdp_of(plan).param_dtype != ir::DType::kFp32;
         const bool fp16 = has_fsdp(plan) && fsdp_of(plan).param_dtype == ir::DType::kFp16;
         return precision_value(!(wide && computes_in_16) ? plan.precision
                                : fp16                    ? ir::Precision::kFp16Master
                                                          : ir::Precision::kBf16Master);
       }}};
  for (const std::vector<SearchAxis>& some : {sharding_axes(), transformers_axes()}) {
    rows.insert(rows.end(), some.begin(), some.end());
  }
  return rows;
}

}  // namespace

std::vector<SearchAxis> sharding_axes() {
  return {{.axis = Axis::kReplicas,
           .get = get_degree<&ir::Mesh::replicas>,
           .rule = [](const SpaceQuestion& question) -> std::string {
             return "a divisor of the GPUs (" + gpus_text(question) + ") below them";
           },
           .candidates = replicas_below,
           .set = set_degree<&ir::Mesh::replicas>},
          {.axis = Axis::kReshard,
           .get = [](const ParallelPlan& plan) -> std::int64_t {
             return has_fsdp(plan) && fsdp_of(plan).reshard_after_forward ? 1 : 0;
           },
           .rule = [](const SpaceQuestion& /*question*/) -> std::string { return "yes or no"; },
           .candidates =
               [](SpaceWalk& walk) {
                 return has_fsdp(walk.plan) ? AxisValues{1, 0} : AxisValues{0};
               },
           .set =
               [](SpaceWalk& walk, std::int64_t value) {
                 if (has_fsdp(walk.plan)) {
                   edit_fsdp(walk.plan).reshard_after_forward = value != 0;
                 }
               }},
          {.axis = Axis::kOffload,
           .get = [](const ParallelPlan& plan) -> std::int64_t {
             return has_fsdp(plan) && fsdp_of(plan).cpu_offload ? kEverything : 0;
           },
           .help = "none, all",
           .rule = [](const SpaceQuestion& /*question*/) -> std::string { return "none or all"; },
           .candidates =
               [](SpaceWalk& walk) {
                 return has_fsdp(walk.plan) ? AxisValues{0, kEverything} : AxisValues{0};
               },
           .set =
               [](SpaceWalk& walk, std::int64_t value) {
                 if (has_fsdp(walk.plan)) {
                   edit_fsdp(walk.plan).cpu_offload = value != 0;
                 }
               }}};
}

AxisWords fsdp_axes::any_version() {
  static constexpr std::array<std::string_view, 2> kVersions = {"1", "2"};
  return kVersions;
}

namespace {

class FsdpSearch final : public FrameworkSearch {
 public:
  FsdpSearch() : FrameworkSearch("fsdp") {}

  [[nodiscard]] bool only_if_named() const override { return false; }

  [[nodiscard]] std::span<const SearchAxis> axes() const override {
    static const std::vector<SearchAxis> rows = fsdp_rows();
    return rows;
  }

  [[nodiscard]] std::vector<OfferedChange> offered_changes(
      const SpaceQuestion& /*question*/, const ir::ParallelPlan& plan) const override {
    return offered_liger(plan);
  }

  /// Shards are fp32 and are gathered in 16 bits; or, as asked for, both are fp32 or both are bf16.
  [[nodiscard]] bool begin(SpaceWalk& walk) const override {
    const ir::Precision asked = walk.plan.precision;
    const bool masters = asked == ir::Precision::kBf16Master || asked == ir::Precision::kFp16Master;
    const bool bf16 = asked == ir::Precision::kBf16 || asked == ir::Precision::kBf16AutocastBf16;
    if (walk.eight_bit_recipe != 0 || !(masters || bf16 || asked == ir::Precision::kFp32)) {
      walk.refusal = lacking(Axis::kPrecision, walk.eight_bit_recipe != 0
                                                   ? precision_with_recipe(walk.eight_bit_recipe)
                                                   : precision_position(asked));
      return false;
    }
    ir::runtime_of(walk.plan).prepare_for_search(walk.plan);
    edit_fsdp(walk.plan) = ir::FsdpPlan{};
    take_optimizer(walk);
    walk.plan.mesh = {};
    if (asked == ir::Precision::kFp32) {
      edit_fsdp(walk.plan).param_dtype = ir::DType::kFp32;
    } else if (asked == ir::Precision::kFp16Master) {
      edit_fsdp(walk.plan).param_dtype = ir::DType::kFp16;
    }
    return true;
  }

  [[nodiscard]] std::int64_t read(Axis axis, std::int64_t value) const override {
    return canonical(axis, value);
  }

  /// A group of parameters is a layer, so that no bucket joins layers.
  [[nodiscard]] std::unique_ptr<PlanBounds> bounds(const SearchInputs& inputs) const override {
    return std::make_unique<AloneBounds>(
        inputs.question.space.model, inputs.device, inputs.question.machine,
        inputs.records.of<AloneBounds::Samples>(), AloneBounds::Convex::kAlways);
  }
};

}  // namespace

const FrameworkSearch& fsdp_search() {
  static const FsdpSearch search;
  return search;
}

}  // namespace headroom::plan
