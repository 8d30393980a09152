#include "runtimes/fsdp/search/search.h"

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
  AxisValues counts = divisors(walk.plan.world);
  std::erase_if(counts,
                [&](std::int64_t replicas) { return replicas > 1 && replicas == walk.plan.world; });
  return counts;
}

std::vector<SearchAxis> fsdp_axes() {
  std::vector<SearchAxis> rows = {
      {.axis = Axis::kReplicas,
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
           [](SpaceWalk& /*walk*/) {
             return AxisValues{1, 0};
           },
       .set = [](SpaceWalk& walk,
                 std::int64_t value) { edit_fsdp(walk.plan).reshard_after_forward = value != 0; }},
      {.axis = Axis::kOffload,
       .get = [](const ParallelPlan& plan) -> std::int64_t {
         return has_fsdp(plan) && fsdp_of(plan).cpu_offload ? kEverything : 0;
       },
       .help = "none, all",
       .rule = [](const SpaceQuestion& /*question*/) -> std::string { return "none or all"; },
       .candidates =
           [](SpaceWalk& /*walk*/) {
             return AxisValues{0, kEverything};
           },
       .set = [](SpaceWalk& walk,
                 std::int64_t value) { edit_fsdp(walk.plan).cpu_offload = value != 0; }},
      {.axis = Axis::kPrecision, .get = [](const ParallelPlan& plan) {
         return precision_value(ir::fsdp::arithmetic_precision(plan));
       }}};
  for (const SearchAxis& row : transformers_axes()) {
    rows.push_back(row);
  }
  return rows;
}

class FsdpSearch final : public FrameworkSearch {
 public:
  FsdpSearch() : FrameworkSearch("fsdp") {}

  [[nodiscard]] bool only_if_named() const override { return false; }

  [[nodiscard]] std::span<const SearchAxis> axes() const override {
    static const std::vector<SearchAxis> rows = fsdp_axes();
    return rows;
  }

  [[nodiscard]] bool begin(SpaceWalk& walk) const override {
    const ir::Precision asked = walk.plan.precision;
    if (walk.eight_bit_recipe != 0 || asked == ir::Precision::kFp16Master) {
      return false;
    }
    ir::runtime_of(walk.plan).prepare_for_search(walk.plan);
    edit_fsdp(walk.plan) = ir::FsdpPlan{};
    walk.plan.mesh = {};
    if (asked == ir::Precision::kFp32) {
      edit_fsdp(walk.plan).param_dtype = ir::DType::kFp32;
    }
    return true;
  }
};

}  // namespace

const FrameworkSearch& fsdp_search() {
  static const FsdpSearch search;
  return search;
}

}  // namespace headroom::plan
