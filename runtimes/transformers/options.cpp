#include "runtimes/transformers/options.h"

#include <array>

#include "runtimes/torch/ddp_plan.h"

namespace headroom::ir::transformers {
namespace {

constexpr std::array kDdpFields = {
    field<&DdpPlan::gradient_as_bucket_view>("gradient_as_bucket_view")
        .key_of("ddp", "bucket-view")
        .spelled({.name = "gradient_as_bucket_view"})
        .changes(OptionEffect::kMemory)
        .means("Gradients are views of the buckets in which they are reduced."),
    field<&DdpPlan::bucket_cap_bytes>("bucket_cap_bytes")
        .key_of("ddp", "bucket")
        .spelled({.name = "bucket_cap_mb"})  // In MiB: torch/nn/parallel/distributed.py.
        .in_bytes()
        .between(1, std::int64_t{1} << 50)
        .shown_always()
        .means("Size of the buckets in which gradients are reduced."),
    field<&DdpPlan::init_sync>("init_sync")
        .key_of("ddp", "init-sync")
        .spelled({.name = "init_sync"})
        .changes(OptionEffect::kMemory)
        .means(
            "When the model is wrapped, ranks compare the shapes of their parameters, and rank 0 "
            "sends parameters and buffers to the others, in pieces of 250 MiB and the tensor "
            "that fills them.")};

constexpr PlanPart kDdpPart = [] {
  PlanPart part = own_part<DdpPlan>("ddp", kDdpFields);
  part.title = "PyTorch DistributedDataParallel.";
  part.runtime = "transformers";
  return part;
}();

}  // namespace

const PlanPart& options() {
  return kDdpPart;
}

void complete_data_parallel(ParallelPlan& plan) {
  if (plan.world == 1) {
    plan.own.reset<DdpPlan>();
  } else if (!has_ddp(plan)) {
    edit_ddp(plan) = {};
  }
}

}  // namespace headroom::ir::transformers
