#include "runtimes/deepspeed/zero_init.h"

#include <algorithm>

#include "runtimes/deepspeed/plan.h"
#include "runtimes/torch/ddp.h"

namespace headroom::ir::deepspeed {

using torch::Tensor;

void ZeroInit::partition(const Tensor& parameter) {
  parameters_.push_back(partitioned(eager_, plan_, zero_, parameter));
}

void ZeroInit::collect_garbage(const transformers::Model& model) {
  std::erase_if(parameters_,
                [&](const PartitionedParameter& each) { return !refers_to(model, each.whole); });
}

PartitionedParameter partitioned(torch::Eager& eager, const ParallelPlan& plan,
                                 const ZeroPlan& zero, const Tensor& parameter) {
  const std::int64_t own = ceil_div(parameter.elements(), plan.world);
  PartitionedParameter result;
  result.whole = parameter;
  result.shard_elements = own;
  eager.run(CollectiveShape{.kind = CollectiveKind::kBroadcast,
                            .bytes = bytes_of(parameter.elements(), parameter.dtype()).value(),
                            .group = {.size = plan.world}});
  if (zero.hpz_partition_size > 1) {
    make_secondary(eager, plan, zero, result);
  }
  if (zero.offload_param == OffloadDevice::kNone) {
    result.shard = eager.empty({own}, parameter.dtype(), TensorRole::kParameter);
  } else {
    const Bytes bytes = bytes_of(own, parameter.dtype());
    RankProgram& program = eager.program();
    if (swaps_out(zero.offload_param, bytes)) {
      program.nvme_bytes += bytes.value();
    } else {  // Source: partition_parameters.py, _partition_param (pin_memory).
      hold_on_host(program, HostUse::kParameters, HostPages::kPinnedBlock, bytes.value());
    }
  }
  eager.move_storage(parameter, Tensor{});
  return result;
}

bool refers_to(const transformers::Model& model, const Tensor& parameter) {
  return std::any_of(model.parameters.begin(), model.parameters.end(), [&](const Tensor& each) {
    return each.defined() && each.impl() == parameter.impl();
  });
}

}  // namespace headroom::ir::deepspeed
