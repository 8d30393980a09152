#include "runtimes/deepspeed/partitioned_parameters.h"

#include <algorithm>
#include <array>
#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/torch/collective.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"

namespace headroom::ir::deepspeed {

using torch::Tensor;
using Residence = PartitionedParameter::Residence;

namespace {

/// Types are gathered in the order of their names.
/// Source: deepspeed/runtime/torch_autocast.py, sort_dtypes.
constexpr std::array kGatherOrder = {DType::kBf16, DType::kFp16, DType::kFp32, DType::kInt8,
                                     DType::kUInt8};

std::ptrdiff_t gather_place(DType dtype) {
  return std::find(kGatherOrder.begin(), kGatherOrder.end(), dtype) - kGatherOrder.begin();
}

}  // namespace

PartitionedParameters::PartitionedParameters(EngineState state,
                                             std::vector<PartitionedParameter> parameters)
    : state_(state) {
  for (PartitionedParameter& parameter : parameters) {
    add(std::move(parameter));
  }
}

void PartitionedParameters::add(PartitionedParameter parameter) {
  index_.emplace(parameter.whole.impl(), parameters_.size());
  parameters_.push_back(std::move(parameter));
}

std::size_t PartitionedParameters::index_of(const Tensor& whole) const {
  const auto found = index_.find(whole.impl());
  HEADROOM_ASSERT(found != index_.end());
  return found->second;
}

std::int64_t PartitionedParameters::padded_elements(std::size_t index) const {
  return parameters_[index].shard_elements * state_.plan.world;
}

/// Starts the all-gather into `memory`; returns the mark after it.
std::uint32_t PartitionedParameters::start(const Tensor& memory, std::int64_t ranks) {
  return torch::start_collective(state_.eager, {.kind = CollectiveKind::kAllGather,
                                                .bytes = torch::bytes_of(memory),
                                                .group = {.size = ranks}});
}

std::int64_t PartitionedParameters::gather_ranks(std::size_t index) const {
  return parameters_[index].has_secondary
             ? std::min(state_.zero.hpz_partition_size, state_.plan.world)
             : state_.plan.world;
}

std::int64_t PartitionedParameters::part_elements(std::size_t index) const {
  return padded_elements(index) / gather_ranks(index);
}

/// This rank's part. If the host holds it, it is copied to the device first.
Tensor PartitionedParameters::shard_on_device(std::size_t index) {
  const PartitionedParameter& parameter = parameters_[index];
  if (parameter.shard.defined()) {
    return parameter.shard;
  }
  Tensor shard = state_.eager.empty({parameter.shard_elements}, parameter.whole.dtype(),
                                    TensorRole::kTemporary);
  if (swaps_out(state_.zero.offload_param, Bytes{torch::bytes_of(shard)})) {
    state_.eager.run(CopyShape{.kind = CopyKind::kNvme, .bytes = torch::bytes_of(shard)});
  }
  state_.eager.run(CopyShape{.kind = CopyKind::kHostToDevice, .bytes = torch::bytes_of(shard)});
  return shard;
}

Tensor PartitionedParameters::part_on_device(std::size_t index) {
  const PartitionedParameter& parameter = parameters_[index];
  if (!parameter.has_secondary) {
    return shard_on_device(index);
  }
  if (parameter.secondary.defined()) {
    return parameter.secondary;
  }
  Tensor part =
      state_.eager.empty({part_elements(index)}, parameter.whole.dtype(), TensorRole::kTemporary);
  state_.eager.run(CopyShape{.kind = CopyKind::kHostToDevice, .bytes = torch::bytes_of(part)});
  return part;
}

/// NoGatherHandle: with one rank, its part is the whole parameter.
void PartitionedParameters::share_shard(std::size_t index) {
  state_.eager.move_storage(parameters_[index].whole, shard_on_device(index));
}

std::shared_ptr<ParameterGather> PartitionedParameters::start_gather(
    std::vector<std::size_t> indices) {
  state_.eager.set_site("zero3.all_gather", -1);
  auto gather = std::make_shared<ParameterGather>();
  for (const std::size_t index : indices) {
    parameters_[index].status = Residence::kInFlight;
  }
  if (state_.plan.world == 1) {
    for (const std::size_t index : indices) {
      share_shard(index);
    }
  } else if (state_.zero.quantized_weights) {
    gather->parameters = indices;
    gather_packed(*gather);
  } else if (indices.size() == 1 || state_.zero.allgather_sequential) {
    for (const std::size_t index : indices) {
      gather_alone(*gather, index);
    }
  } else if (state_.zero.all_reduce_fetch) {
    gather->parameters = indices;
    gather_by_sum(*gather);
  } else {
    gather->parameters = indices;
    gather_together(*gather);
  }
  gather->parameters = std::move(indices);
  return gather;
}

void PartitionedParameters::gather_alone(ParameterGather& gather, std::size_t index) {
  const Tensor& whole = parameters_[index].whole;
  const Tensor memory =
      state_.eager.empty({padded_elements(index)}, whole.dtype(), TensorRole::kParameter);
  gather.inputs.push_back(part_on_device(index));
  gather.marks.push_back(start(memory, gather_ranks(index)));
  state_.eager.move_storage(whole, memory);
}

/// use_all_reduce_for_fetch_params: parameters are views of a buffer of zeros. Each rank copies its
/// parts into the buffer, which is then all-reduced.
void PartitionedParameters::gather_by_sum(ParameterGather& gather) {
  torch::Eager& eager = state_.eager;
  std::int64_t elements = 0;
  for (const std::size_t index : gather.parameters) {
    elements += padded_elements(index);
  }
  const DType dtype = parameters_[gather.parameters.front()].whole.dtype();
  const std::int64_t ranks = gather_ranks(gather.parameters.front());
  const Tensor flat = torch::zeros(eager, {elements}, dtype, TensorRole::kParameter);
  for (const std::size_t index : gather.parameters) {
    const Tensor part = part_on_device(index);
    eager.run(CopyShape{.kind = CopyKind::kDeviceToDevice, .bytes = torch::bytes_of(part)});
    eager.move_storage(parameters_[index].whole, flat);
  }
  gather.marks.push_back(torch::start_collective(eager, {.kind = CollectiveKind::kAllReduce,
                                                         .bytes = torch::bytes_of(flat),
                                                         .group = {.size = ranks}}));
}

/// Gathers into one buffer for each type, in the order of the types' names.
void PartitionedParameters::gather_together(ParameterGather& gather) {
  for (const DType dtype : kGatherOrder) {
    std::int64_t elements = 0;
    for (const std::size_t index : gather.parameters) {
      elements += parameters_[index].whole.dtype() == dtype ? padded_elements(index) : 0;
    }
    if (elements == 0) {
      continue;
    }
    gather.flats.push_back(state_.eager.empty({elements}, dtype, TensorRole::kCommunication));
    std::vector<Tensor> inputs;
    for (const std::size_t index : gather.parameters) {
      if (parameters_[index].whole.dtype() == dtype) {
        inputs.push_back(part_on_device(index));
      }
    }
    const std::int64_t ranks = gather_ranks(gather.parameters.front());
    // The parts are concatenated in this rank's section of the buffer.
    torch::launch_kernels(
        state_.eager, 2 * torch::bytes_of(gather.flats.back()) / ranks,
        ceil_div(static_cast<std::int64_t>(inputs.size()), torch::kTensorsPerConcat));
    gather.marks.push_back(start(gather.flats.back(), ranks));
  }
}

/// qwZ: the parts are concatenated if there are several, quantised to 8-bit integers and gathered
/// with their scales. Source: partition_parameters.py, _all_gather_sequential and
/// _all_gather_coalesced.
void PartitionedParameters::gather_packed(ParameterGather& gather) {
  torch::Eager& eager = state_.eager;
  const std::int64_t ranks = gather_ranks(gather.parameters.front());
  std::int64_t elements = 0;
  for (const std::size_t index : gather.parameters) {
    elements += part_elements(index);
  }
  gather.packed.emplace();
  gather.packed->values = eager.empty({elements * ranks}, DType::kInt8, TensorRole::kCommunication);
  QuantisedTensor own;
  {
    std::vector<Tensor> parts;
    for (const std::size_t index : gather.parameters) {
      parts.push_back(part_on_device(index));
    }
    Tensor part = parts.front();
    if (parts.size() > 1) {
      const bool wide = std::any_of(parts.begin(), parts.end(), [](const Tensor& each) {
        return each.dtype() == DType::kFp32;  // torch.cat takes the widest type.
      });
      part = eager.empty({elements}, wide ? DType::kFp32 : part.dtype(), TensorRole::kTemporary);
      torch::launch_kernels(
          eager, 2 * torch::bytes_of(part),
          ceil_div(static_cast<std::int64_t>(parts.size()), torch::kTensorsPerConcat));
    }
    torch::release_list(parts);
    own = quantise(eager, std::move(part));
  }
  gather.packed->scales =
      eager.empty({own.scales.elements() * ranks}, DType::kFp32, TensorRole::kCommunication);
  gather.marks.push_back(start(gather.packed->values, ranks));
  gather.marks.push_back(start(gather.packed->scales, ranks));
  gather.inputs = {own.values, own.scales};
}

/// A single parameter is the dequantised tensor itself; several are copied out of it.
void PartitionedParameters::unpack(ParameterGather& gather) {
  torch::Eager& eager = state_.eager;
  gather.flats.push_back(dequantise(eager, *gather.packed));
  for (const std::size_t index : gather.parameters) {
    const Tensor& whole = parameters_[index].whole;
    Tensor memory = gather.flats.back();
    if (gather.parameters.size() > 1) {
      memory = torch::computed(eager, {whole.elements()}, DType::kFp16, TensorRole::kParameter);
    } else {
      gather.flats.clear();
    }
    if (whole.dtype() != DType::kFp16) {
      memory = torch::computed(eager, {memory.elements()}, whole.dtype(), TensorRole::kParameter);
    }
    eager.move_storage(whole, memory);
    parameters_[index].status = Residence::kAvailable;
  }
}

void PartitionedParameters::wait(ParameterGather& gather) {
  if (gather.complete) {
    return;
  }
  state_.eager.set_site("zero3.all_gather", -1);
  for (const std::uint32_t mark : gather.marks) {
    state_.eager.wait_mark(state_.eager.stream(), mark);
  }
  gather.inputs.clear();
  gather.complete = true;
  if (gather.packed) {
    unpack(gather);
    return;
  }
  std::vector<std::size_t> order = gather.parameters;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    return gather_place(parameters_[left].whole.dtype()) <
           gather_place(parameters_[right].whole.dtype());
  });
  for (const std::size_t index : order) {
    const Tensor& whole = parameters_[index].whole;
    if (!gather.flats.empty()) {
      const Tensor memory =
          torch::computed(state_.eager, {whole.elements()}, whole.dtype(), TensorRole::kParameter);
      state_.eager.move_storage(whole, memory);
    }
    parameters_[index].status = Residence::kAvailable;
  }
}

void PartitionedParameters::gather(std::span<const std::size_t> indices) {
  state_.eager.set_site("zero3.all_gather", -1);
  if (state_.plan.world == 1 && indices.size() > 1) {
    for (const std::size_t index : indices) {
      share_shard(index);
      parameters_[index].status = Residence::kAvailable;
    }
    return;
  }
  std::vector<Tensor> inputs;  // A single input is copied after its memory exists.
  for (std::size_t i = 0; indices.size() > 1 && i < indices.size(); ++i) {
    inputs.push_back(shard_on_device(indices[i]));
  }
  std::vector<Tensor> memories;
  std::vector<std::uint32_t> marks;
  for (const std::size_t index : indices) {
    const Tensor& whole = parameters_[index].whole;
    memories.push_back(
        state_.eager.empty({padded_elements(index)}, whole.dtype(), TensorRole::kParameter));
    if (inputs.empty()) {
      inputs.push_back(shard_on_device(index));
    }
    marks.push_back(start(memories.back(), state_.plan.world));
  }
  for (const std::uint32_t mark : marks) {
    state_.eager.wait_mark(state_.eager.stream(), mark);
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    state_.eager.move_storage(parameters_[indices[i]].whole, memories[i]);
    parameters_[indices[i]].status = Residence::kAvailable;
  }
}

void PartitionedParameters::partition(std::size_t index) {
  PartitionedParameter& parameter = parameters_[index];
  HEADROOM_ASSERT(parameter.users.empty());
  if (state_.zero.hpz_partition_size > 1 && !parameter.has_secondary) {
    make_secondary(state_.eager, state_.plan, state_.zero, parameter);
  }
  parameter.status = Residence::kPartitioned;
  state_.eager.move_storage(parameter.whole, Tensor{});
}

void PartitionedParameters::drop_secondary(std::size_t index) {
  PartitionedParameter& parameter = parameters_[index];
  if (parameter.has_secondary && !parameter.secondary.defined()) {
    hold_on_host(state_.eager.program(), HostUse::kParameters, HostPages::kPinnedBlock,
                 -bytes_of(part_elements(index), parameter.whole.dtype()).value());
  }
  parameter.has_secondary = false;
  parameter.secondary.reset();
}

void make_secondary(torch::Eager& eager, const ParallelPlan& plan, const ZeroPlan& zero,
                    PartitionedParameter& parameter) {
  const std::int64_t elements =
      parameter.shard_elements * plan.world / std::min(zero.hpz_partition_size, plan.world);
  const DType dtype = parameter.whole.dtype();
  parameter.has_secondary = true;
  if (zero.offload_param != OffloadDevice::kNone) {
    hold_on_host(eager.program(), HostUse::kParameters, HostPages::kPinnedBlock,
                 bytes_of(elements, dtype).value());
    return;
  }
  eager.set_site("zero3.secondary_partition", -1);
  parameter.secondary = eager.empty({elements}, dtype, TensorRole::kParameter);
  torch::launch_fill(eager, parameter.secondary);
  eager.run(
      CopyShape{.kind = CopyKind::kDeviceToDevice, .bytes = bytes_of(elements, dtype).value()});
}

}  // namespace headroom::ir::deepspeed
