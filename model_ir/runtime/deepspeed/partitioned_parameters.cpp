#include "model_ir/runtime/deepspeed/partitioned_parameters.h"

#include <algorithm>
#include <utility>

#include "model_ir/base/check.h"
#include "model_ir/runtime/torch/collective.h"
#include "model_ir/runtime/torch/launch.h"

namespace headroom::ir::deepspeed {

using torch::Tensor;
using Status = PartitionedParameter::Status;

namespace {

constexpr std::int64_t kTensorsPerConcat = 128;  ///< Inputs per kernel of torch.cat.

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

/// The all-gather of all of `memory`; returns the mark behind it.
std::uint32_t PartitionedParameters::start(const Tensor& memory) {
  return torch::start_collective(state_.eager, {.kind = CollectiveKind::kAllGather,
                                                .bytes = torch::bytes_of(memory),
                                                .group = {.size = state_.plan.world}});
}

/// A part that the host holds comes to the device first.
Tensor PartitionedParameters::shard_on_device(std::size_t index) {
  const PartitionedParameter& parameter = parameters_[index];
  if (parameter.shard.defined()) {
    return parameter.shard;
  }
  Tensor shard = state_.eager.empty({parameter.shard_elements}, parameter.whole.dtype(),
                                    TensorRole::kTemporary);
  state_.eager.run(CopyShape{.kind = CopyKind::kHostToDevice, .bytes = torch::bytes_of(shard)});
  return shard;
}

/// One rank's part is the whole: NoGatherHandle.
void PartitionedParameters::share_shard(std::size_t index) {
  state_.eager.move_storage(parameters_[index].whole, shard_on_device(index));
}

std::shared_ptr<ParameterGather> PartitionedParameters::start_gather(
    std::vector<std::size_t> indices) {
  state_.eager.set_site("zero3.all_gather", -1);
  auto gather = std::make_shared<ParameterGather>();
  for (const std::size_t index : indices) {
    parameters_[index].status = Status::kInFlight;
  }
  if (state_.plan.world == 1) {
    for (const std::size_t index : indices) {
      share_shard(index);
    }
  } else if (indices.size() == 1) {
    const Tensor& whole = parameters_[indices[0]].whole;
    const Tensor memory =
        state_.eager.empty({padded_elements(indices[0])}, whole.dtype(), TensorRole::kParameter);
    gather->input = shard_on_device(indices[0]);
    gather->marks.push_back(start(memory));
    state_.eager.move_storage(whole, memory);
  } else {
    gather->parameters = indices;
    gather_together(*gather);
  }
  gather->parameters = std::move(indices);
  return gather;
}

/// One buffer for each type, in the order of the types' names.
void PartitionedParameters::gather_together(ParameterGather& gather) {
  for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32}) {
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
        inputs.push_back(shard_on_device(index));
      }
    }
    // Parts are joined in this rank's stretch of it.
    torch::launch_kernels(state_.eager,
                          2 * torch::bytes_of(gather.flats.back()) / state_.plan.world,
                          ceil_div(static_cast<std::int64_t>(inputs.size()), kTensorsPerConcat));
    gather.marks.push_back(start(gather.flats.back()));
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
  gather.input.reset();
  std::vector<std::size_t> order = gather.parameters;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    return bits_of(parameters_[left].whole.dtype()) < bits_of(parameters_[right].whole.dtype());
  });
  for (const std::size_t index : order) {
    const Tensor& whole = parameters_[index].whole;
    if (!gather.flats.empty()) {
      const Tensor memory =
          torch::computed(state_.eager, {whole.elements()}, whole.dtype(), TensorRole::kParameter);
      state_.eager.move_storage(whole, memory);
    }
    parameters_[index].status = Status::kAvailable;
  }
  gather.complete = true;
}

void PartitionedParameters::gather(std::span<const std::size_t> indices) {
  state_.eager.set_site("zero3.all_gather", -1);
  if (state_.plan.world == 1 && indices.size() > 1) {
    for (const std::size_t index : indices) {
      share_shard(index);
      parameters_[index].status = Status::kAvailable;
    }
    return;
  }
  std::vector<Tensor> inputs;  // One alone comes to the device when its memory is there.
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
    marks.push_back(start(memories.back()));
  }
  for (const std::uint32_t mark : marks) {
    state_.eager.wait_mark(state_.eager.stream(), mark);
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    state_.eager.move_storage(parameters_[indices[i]].whole, memories[i]);
    parameters_[indices[i]].status = Status::kAvailable;
  }
}

void PartitionedParameters::partition(std::size_t index) {
  PartitionedParameter& parameter = parameters_[index];
  HEADROOM_ASSERT(parameter.users.empty());
  parameter.status = Status::kPartitioned;
  state_.eager.move_storage(parameter.whole, Tensor{});
}

}  // namespace headroom::ir::deepspeed
