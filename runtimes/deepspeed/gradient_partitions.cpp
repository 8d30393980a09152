#include "runtimes/deepspeed/gradient_partitions.h"

#include <algorithm>
#include <utility>

#include "runtimes/deepspeed/gradient_checks.h"
#include "runtimes/deepspeed/quantised_tensor.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/stream_scope.h"

namespace headroom::ir::deepspeed {

using torch::Tensor;

namespace {

/// The type in which gradients are reduced: `communication_dtype` if set, else the engine's own
/// type.
DType communication_dtype(const EngineState& state) {
  return state.zero.communication_dtype.value_or(param_dtype(state.plan.precision));
}

}  // namespace

GradientPartitions::GradientPartitions(EngineState state, PartitionedParameters& parameters)
    : state_(state),
      parameters_(parameters),
      stream_(state.zero.overlap_comm.value_or(true) ? kReduceStream : StreamId{0}),
      accumulated_(state.zero.grad_accum_dtype.value_or(param_dtype(state.plan.precision))) {}

void GradientPartitions::allocate(const std::vector<std::size_t>& trainable) {
  state_.eager.set_site("zero3.bucket", -1);
  if (state_.zero.contiguous_gradients) {
    bucket_ = state_.eager.empty({state_.zero.reduce_bucket_size}, communication_dtype(state_),
                                 TensorRole::kCommunication);
  }
  std::int64_t elements = 0;
  for (const std::size_t parameter : trainable) {
    elements += parameters_[parameter].shard_elements;
  }
  if (state_.offloads_optimizer()) {
    // grad_partitions_flat_buffer, pinned. Source: stage3.py, __init__.
    hold_on_host(state_.eager.program(), HostUse::kGradients, HostPages::kPinnedBlock,
                 bytes_of(elements, accumulated_).value());
  } else {
    flat_ = state_.eager.empty({elements}, accumulated_, TensorRole::kGradient);
    torch::launch_fill(state_.eager, flat_);
  }
}

void GradientPartitions::arrived(std::size_t parameter) {
  const Tensor& whole = parameters_[parameter].whole;
  if (filled_ + whole.elements() > state_.zero.reduce_bucket_size && filled_ > 0) {
    reduce();
  }
  state_.eager.wait_stream(stream_, state_.eager.stream());
  if (bucket_.defined() && filled_ + whole.elements() <= state_.zero.reduce_bucket_size) {
    const torch::StreamScope stream(state_.eager, stream_);
    const Tensor gradient(state_.eager, whole->grad);
    torch::launch_copy(
        state_.eager, gradient, gradient,
        gradient.dtype() == bucket_.dtype() ? torch::CopyOrder::kSame : torch::CopyOrder::kOther);
    state_.eager.move_storage(Tensor(state_.eager, whole->grad), bucket_);
  }
  waiting_.push_back(parameter);
  filled_ += whole.elements();
}

void GradientPartitions::finish_backward() {
  reduce();
  state_.eager.host_wait(state_.eager.record_mark(stream_));
}

void GradientPartitions::reduce() {
  if (waiting_.empty()) {
    return;
  }
  constexpr std::size_t kMostReductions = 2;  // stage3.py, max_param_reduce_events
  if (reductions_.size() > kMostReductions) {
    state_.eager.host_wait(reductions_.front());
    reductions_.pop_front();
  }
  const torch::StreamScope stream(state_.eager, stream_);
  state_.eager.set_site("zero3.reduce_scatter", -1);
  const bool bucketed = bucket_.defined() && filled_ <= state_.zero.reduce_bucket_size;
  if (bucketed && !state_.zero.reduce_scatter) {
    share_out(waiting_, all_reduce_bucket());
  } else {
    std::sort(waiting_.begin(), waiting_.end());
    scatter(waiting_);
  }
  reductions_.push_back(state_.eager.record_mark(stream_));
  waiting_.clear();
  filled_ = 0;
}

/// Casts gradients of another type that are not in the bucket.
std::vector<Tensor> GradientPartitions::cast_gradients(const std::vector<std::size_t>& parameters) {
  const DType dtype = communication_dtype(state_);
  std::vector<Tensor> casts;
  for (const std::size_t parameter : parameters) {
    const Tensor& whole = parameters_[parameter].whole;
    const bool bucketed = bucket_.defined() && whole->grad->storage == bucket_->storage;
    if (!bucketed && whole.dtype() != dtype) {
      casts.push_back(
          torch::computed(state_.eager, {whole.elements()}, dtype, TensorRole::kTemporary));
    }
  }
  return casts;
}

/// Lays gradients out rank by rank. Where a gradient does not fill the parts of the last ranks, the
/// padding is a tensor of its own. The result is undefined if a single gradient is reduced in
/// place.
Tensor GradientPartitions::join(const std::vector<std::size_t>& parameters) {
  torch::Eager& eager = state_.eager;
  const DType dtype = communication_dtype(state_);
  const std::int64_t ranks = state_.plan.world;
  const std::int64_t elements = padded_elements(parameters);
  if (parameters.size() == 1 && parameters_[parameters[0]].whole.elements() == elements) {
    return {};
  }
  std::vector<Tensor> padding;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (const std::size_t parameter : parameters) {
      const std::int64_t share = parameters_[parameter].shard_elements;
      const std::int64_t whole = parameters_[parameter].whole.elements();
      const std::int64_t own = std::clamp<std::int64_t>(whole - rank * share, 0, share);
      if (own < share) {
        padding.push_back(torch::computed(eager, {share - own}, dtype, TensorRole::kTemporary));
      }
    }
  }
  Tensor joined = eager.empty({elements}, dtype, TensorRole::kCommunication);
  torch::launch_kernels(
      eager, 2 * torch::bytes_of(joined),
      ceil_div(ranks * static_cast<std::int64_t>(parameters.size()), torch::kTensorsPerConcat));
  return joined;
}

std::int64_t GradientPartitions::padded_elements(const std::vector<std::size_t>& parameters) const {
  std::int64_t elements = 0;
  for (const std::size_t parameter : parameters) {
    elements += parameters_[parameter].shard_elements * state_.plan.world;
  }
  return elements;
}

/// `reduce_scatter_coalesced`. Returns the tensor with the parts if it is not a gradient's own
/// memory.
Tensor GradientPartitions::reduce_together(const std::vector<std::size_t>& parameters) {
  torch::Eager& eager = state_.eager;
  const DType dtype = communication_dtype(state_);
  const std::int64_t ranks = state_.plan.world;
  Tensor joined = join(parameters);
  const std::int64_t all = padded_elements(parameters);
  torch::launch_kernels(eager, 2 * bytes_of(all, dtype).value(),  // Divides by the ranks.
                        torch::elementwise_launches(all, bits_of(dtype) / 8));
  if (ranks > 1) {
    eager.run(CollectiveShape{.kind = CollectiveKind::kReduceScatter,
                              .bytes = bytes_of(all, dtype).value(),
                              .group = {.size = ranks}});
  }
  return joined;
}

/// Whether gradients are quantised. Within one node none are.
bool GradientPartitions::exchanges_integers() const {
  return state_.zero.quantized_gradients && state_.plan.world / state_.zero.node_devices > 1;
}

/// Only a matrix whose number of elements is a multiple of twice the ranks is quantised.
bool GradientPartitions::is_exchanged(std::size_t parameter) const {
  const Tensor& whole = parameters_[parameter].whole;
  return whole.shape().rank() > 1 && whole.elements() % (2 * state_.plan.world) == 0;
}

/// qgZ reduces each matrix by itself, in 4 bits, first between the devices of a node, then between
/// nodes. The other gradients are reduced as usual.
/// Source: deepspeed/runtime/comm/coalesced_collectives.py, all_to_all_quant_reduce.
std::vector<Tensor> GradientPartitions::reduce_quantised(
    const std::vector<std::size_t>& parameters) {
  QuantisedExchange exchange(state_.eager, state_.plan.world, state_.zero.node_devices);
  std::vector<Tensor> outputs;
  for (const std::size_t parameter : parameters) {
    const Tensor& whole = parameters_[parameter].whole;
    outputs.push_back(is_exchanged(parameter) ? exchange.reduce(whole.shape())
                                              : reduce_together({parameter}));
  }
  return outputs;
}

void GradientPartitions::scatter(const std::vector<std::size_t>& parameters) {
  torch::Eager& eager = state_.eager;
  const DType dtype = communication_dtype(state_);
  const std::vector<Tensor> casts = cast_gradients(parameters);
  std::vector<Tensor> reduced;
  if (exchanges_integers()) {
    reduced = reduce_quantised(parameters);
  } else {
    reduced.push_back(reduce_together(parameters));
  }
  std::vector<Tensor> parts;
  if (accumulated_ != dtype) {
    for (const std::size_t parameter : parameters) {
      if (const std::int64_t own = own_elements(parameter); own > 0) {
        parts.push_back(torch::computed(eager, {own}, accumulated_, TensorRole::kTemporary));
      }
    }
    torch::release_list(reduced);
  }
  share_out(parameters, {});
}

/// All-reduces the bucket. Scaling the result afterwards makes another tensor.
/// Source: stage3.py, __avg_scatter_contiguous_grads.
Tensor GradientPartitions::all_reduce_bucket() {
  torch::Eager& eager = state_.eager;
  const auto made = [&](DType dtype) {
    return torch::computed(eager, {filled_}, dtype, TensorRole::kCommunication);
  };
  const DType dtype = communication_dtype(state_);
  Tensor sent = dtype != bucket_.dtype() ? made(dtype) : Tensor{};
  eager.run(CollectiveShape{.kind = CollectiveKind::kAllReduce,
                            .bytes = bytes_of(filled_, dtype).value(),
                            .group = {.size = state_.plan.world}});
  if (state_.plan.world > 1) {
    sent = made(dtype);
  }
  if (accumulated_ != dtype) {
    sent = made(accumulated_);
  }
  return sent;
}

/// Adds this rank's parts of the gradients to its partition. `reduced` holds the whole gradients
/// side by side, or is undefined. If it is defined, parts that end with padding are allocated
/// again.
void GradientPartitions::share_out(const std::vector<std::size_t>& parameters, Tensor reduced) {
  torch::Eager& eager = state_.eager;
  const DType dtype = communication_dtype(state_);
  std::vector<Tensor> padded;
  for (const std::size_t parameter : parameters) {
    const std::int64_t share = parameters_[parameter].shard_elements;
    if (reduced.defined() && own_elements(parameter) != share) {
      padded.push_back(torch::zeros(eager, {share}, accumulated_, TensorRole::kTemporary));
    }
  }
  std::vector<Tensor> swapped;
  for (const std::size_t parameter : parameters) {
    if (exchanges_integers() && adds_up_ && is_exchanged(parameter) && accumulated_ == dtype &&
        dtype != DType::kFp16) {  // The part is cast from fp16.
      const Tensor part =
          torch::computed(eager, {own_elements(parameter)}, accumulated_, TensorRole::kTemporary);
    }
    if (state_.offloads_optimizer()) {
      keep_offloaded(parameter, swapped);
    }
    eager.drop_grad(parameters_[parameter].whole);
  }
}

std::int64_t GradientPartitions::own_elements(std::size_t parameter) const {
  const std::int64_t share = parameters_[parameter].shard_elements;
  return std::clamp<std::int64_t>(parameters_[parameter].whole.elements() - state_.rank * share, 0,
                                  share);
}

/// Sends a part to the host. The norm and the fp32 copy of it are made on the device.
/// Source: stage3.py, _offload_grad_partition_at_boundary, _constant_buffered_norm2.
void GradientPartitions::keep_offloaded(std::size_t parameter, std::vector<Tensor>& swapped) {
  constexpr std::int64_t kPiece = 250'000'000;
  torch::Eager& eager = state_.eager;
  const std::int64_t elements = own_elements(parameter);
  if (elements == 0) {
    return;
  }
  const Tensor part = eager.empty({elements}, accumulated_, TensorRole::kTemporary);
  eager.run(CopyShape{.kind = CopyKind::kDeviceToHost, .bytes = torch::bytes_of(part)});
  if (!boundary_) {
    return;
  }
  const auto scalar = [&] { return eager.empty({}, DType::kFp64, TensorRole::kTemporary); };
  Tensor total;
  for (std::int64_t begin = 0; begin < elements; begin += kPiece) {
    Tensor wide =
        eager.empty({std::min(kPiece, elements - begin)}, DType::kFp64, TensorRole::kTemporary);
    const Tensor norm = reduce_all(eager, wide, DType::kFp64);
    wide.reset();
    const Tensor power = scalar();
    total = total.defined() ? total : power;
  }
  norms_[parameter] = scalar();
  total.reset();
  if (accumulated_ != DType::kFp32) {
    const Tensor wide = eager.empty({elements}, DType::kFp32, TensorRole::kTemporary);
    if (swapped_.contains(parameter)) {
      swapped.push_back(wide);
    }
  } else if (swapped_.contains(parameter)) {
    swapped.push_back(part);
  }
}

}  // namespace headroom::ir::deepspeed
