#include "runtimes/fsdp/sharded_group.h"

#include <algorithm>
#include <utility>

#include "runtimes/fsdp/copy_tables.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/torch/collective.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/split_reduction.h"
#include "runtimes/torch/stream_scope.h"

namespace headroom::ir::fsdp {

using torch::Eager;
using torch::Shape;
using torch::StreamScope;
using torch::Tensor;

namespace {

/// A table that a copy sends to the device and frees once it has been launched.
void pass_table(Eager& eager, std::int64_t bytes) {
  const Tensor table = eager.empty({bytes / 8}, DType::kInt64, TensorRole::kTemporary);
}

}  // namespace

std::int64_t own_rows(const Sharding& sharding, std::int64_t rows) {
  const std::int64_t part = ceil_div(rows, sharding.ranks);
  return std::clamp<std::int64_t>(rows - sharding.rank * part, 0, part);
}

void ShardedGroup::pad_shards() {
  Eager& eager = sharding_.eager;
  eager.set_site("fsdp.pad", module_);
  for (const ShardedParameter& each : parameters_) {
    if (each.shard.elements() == each.shard_elements || sharding_.plan.cpu_offload) {
      continue;
    }
    const Tensor padded =
        eager.empty({each.shard_elements}, each.shard.dtype(), TensorRole::kParameter);
    torch::launch_fill(eager, padded);
    if (each.shard.elements() > 0) {
      torch::launch_copy(eager, each.shard, each.shard, torch::CopyOrder::kSame);
    }
    eager.move_storage(each.shard, padded);
  }
}

void ShardedGroup::add(const Tensor& whole, const Tensor& shard, bool partial) {
  const std::int64_t rows = whole.shape()[0];
  const std::int64_t own = sharding_.by_columns
                               ? whole.elements() / sharding_.ranks
                               : ceil_div(rows, sharding_.ranks) * (whole.elements() / rows);
  parameters_.push_back({.whole = whole,
                         .shard = shard,
                         .shard_elements = own,
                         .kept = {},
                         .sum = {},
                         .partial = partial});
}

bool ShardedGroup::casts(const ShardedParameter& parameter) const {
  return parameter.shard.dtype() != parameter.whole.dtype();
}

bool ShardedGroup::quantises(const ShardedParameter& parameter) const {
  return parameter.whole.dtype() == DType::kFp8 && casts(parameter);
}

/// tensor_to_scale of a shard. The largest magnitude is reduced among the ranks.
/// Source: pytorch/ao 0.17 torchao/float8/float8_utils.py.
void ShardedGroup::make_scale(ShardedParameter& parameter) {
  Eager& eager = sharding_.eager;
  const auto scalar = [&](DType dtype) {
    return torch::computed(eager, {}, dtype, TensorRole::kTemporary);
  };
  const DType dtype = parameter.shard.dtype();
  Tensor largest;
  {
    const Tensor magnitudes =
        torch::computed(eager, {parameter.shard_elements}, dtype, {&parameter.shard});
    largest = torch::reduce_all(eager, magnitudes);
  }
  const Tensor reduced = scalar(dtype);
  torch::finish_collective(eager, {.kind = CollectiveKind::kAllReduce,
                                   .bytes = torch::bytes_of(reduced),
                                   .group = {.size = sharding_.ranks, .stride = sharding_.stride}});
  largest.reset();
  const Tensor wide = scalar(DType::kFp64);
  Tensor quotient;
  {
    const Tensor clamped = scalar(DType::kFp64);
    const Tensor reciprocal = scalar(DType::kFp64);
    quotient = scalar(DType::kFp64);
  }
  parameter.scale = scalar(DType::kFp32);
}

/// fsdp_pre_all_gather: scales, clamps and casts a shard.
/// Source: pytorch/ao 0.17 torchao/float8/fsdp_utils.py; float8_training_tensor.py,
/// _ToFloat8ConstrFunc.
Tensor ShardedGroup::quantise(ShardedParameter& parameter) {
  Eager& eager = sharding_.eager;
  if (!precomputed_scales_) {
    make_scale(parameter);
  }
  const Shape shape{parameter.shard_elements};
  const Tensor scaled = torch::computed(eager, shape, DType::kFp32, {&parameter.shard});
  const Tensor clamped = torch::computed(eager, shape, DType::kFp32, {&scaled});
  return torch::computed(eager, shape, DType::kFp8, {&clamped});
}

std::int64_t ShardedGroup::gather_ranks() const {
  return kept_ ? sharding_.plan.reshard_ranks : sharding_.ranks;
}

std::int64_t ShardedGroup::part_of(const ShardedParameter& parameter) const {
  return kept_ ? parameter.kept.elements() : parameter.shard_elements;
}

/// _foreach_copy_: copies casts, and copies every input to its place in the gather's buffer.
void ShardedGroup::copy_in(std::span<const Tensor> inputs) {
  std::vector<std::int64_t> all;
  std::vector<std::int64_t> cast;
  std::int64_t read = 0;
  std::int64_t written = 0;
  for (const ShardedParameter& each : parameters_) {
    const std::int64_t part = part_of(each);
    all.push_back(part);
    written += bytes_of(part, each.whole.dtype()).value();
    if (casts(each) && !quantises(each) && !(sharding_.plan.cpu_offload && !kept_)) {
      cast.push_back(part);
      read += bytes_of(part, each.shard.dtype()).value();
    }
  }
  if (!cast.empty() && !inputs.empty()) {
    torch::launch_kernels(sharding_.eager, read + torch::bytes_of(inputs.back()),
                          torch::list_launches(cast, torch::ListKernel::kTwoLists));
  }
  torch::launch_kernels(sharding_.eager, 2 * written,
                        torch::list_launches(all, torch::ListKernel::kTwoLists));
}

/// The inputs that are copied into the gather's buffer. Casts share one tensor for all parameters
/// that need one; with offload each has its own.
std::vector<Tensor> ShardedGroup::gather_inputs() {
  Eager& eager = sharding_.eager;
  std::vector<Tensor> inputs;
  std::int64_t cast = 0;
  for (ShardedParameter& each : parameters_) {
    const std::int64_t part = part_of(each);
    if (quantises(each)) {
      inputs.push_back(quantise(each));
    } else if (sharding_.plan.cpu_offload && !kept_) {
      Tensor copied = eager.empty({part}, each.shard.dtype(), TensorRole::kCommunication);
      eager.run(CopyShape{.kind = CopyKind::kHostToDevice, .bytes = torch::bytes_of(copied)});
      inputs.push_back(casts(each) ? torch::computed(eager, {part}, each.whole.dtype(),
                                                     TensorRole::kCommunication)
                                   : copied);
    } else if (casts(each)) {
      cast += part;
    }
  }
  if (cast > 0) {
    inputs.push_back(eager.empty({cast}, sharding_.plan.param_dtype, TensorRole::kCommunication));
  }
  return inputs;
}

void ShardedGroup::start_gather() {
  gather_on(sharding_.streams.gather, sharding_.streams.collective);
}

void ShardedGroup::start_gather_here() {
  gather_on(sharding_.eager.stream(), sharding_.eager.stream());
}

void ShardedGroup::gather_on(StreamId copies_stream, StreamId collective_stream) {
  pending_ = true;
  const std::int64_t ranks = gather_ranks();
  if (ranks == 1) {
    return;  // Each parameter is copied when it is needed.
  }
  Eager& eager = sharding_.eager;
  eager.set_site("fsdp.all_gather", module_);
  std::int64_t bytes = 0;
  for (const ShardedParameter& each : parameters_) {
    bytes += bytes_of(part_of(each), each.whole.dtype()).value();
  }
  if (was_released_) {
    eager.wait_mark(copies_stream, *was_released_);
    eager.wait_mark(collective_stream, *was_released_);
    was_released_.reset();
  }
  const StreamScope copies(eager, copies_stream);
  const std::vector<Tensor> inputs = gather_inputs();
  buffer_ = eager.empty({bytes * ranks}, DType::kUInt8, TensorRole::kCommunication);
  copy_in(inputs);
  if (collective_stream != copies_stream) {
    eager.wait_stream(collective_stream, copies_stream);
  }
  const StreamScope stream(eager, collective_stream);
  eager.run(CollectiveShape{.kind = CollectiveKind::kAllGather,
                            .bytes = bytes * ranks,
                            .group = {.size = ranks, .stride = sharding_.stride}});
  was_gathered_ = eager.record_mark(collective_stream);
}

void ShardedGroup::copy_out_alone() {
  Eager& eager = sharding_.eager;
  std::vector<Tensor> inputs;
  Tensor input;
  for (const ShardedParameter& each : parameters_) {
    const DType dtype = each.whole.dtype();
    const std::int64_t part = part_of(each);
    if (sharding_.plan.cpu_offload && !kept_) {
      const Tensor copied = eager.empty({part}, each.shard.dtype(), TensorRole::kTemporary);
      eager.run(CopyShape{.kind = CopyKind::kHostToDevice, .bytes = torch::bytes_of(copied)});
      input = casts(each) ? torch::computed(eager, {part}, dtype, TensorRole::kTemporary) : copied;
    } else if (casts(each) && !kept_) {
      input = torch::computed(eager, {part}, dtype, TensorRole::kTemporary);
    }
    eager.fill_storage(each.whole, bytes_of(part, dtype).value(), TensorRole::kParameter);
    eager.run(CopyShape{.kind = CopyKind::kDeviceToDevice, .bytes = bytes_of(part, dtype).value()});
  }
}

void ShardedGroup::drop_kept() {
  for (ShardedParameter& each : parameters_) {
    each.kept.reset();
  }
  kept_ = false;
}

Tensor ShardedGroup::finish_gather() {
  Eager& eager = sharding_.eager;
  eager.set_site("fsdp.all_gather_copy_out", module_);
  pending_ = false;
  gathered_ = true;
  const std::int64_t ranks = gather_ranks();
  if (ranks == 1) {
    copy_out_alone();
    drop_kept();
    return {};
  }
  if (was_gathered_) {
    eager.wait_mark(eager.stream(), *was_gathered_);
    was_gathered_.reset();
  }
  std::vector<std::int64_t> chunks;
  std::vector<Tensor> pieces;  // Pieces to join along another dim.
  for (const ShardedParameter& each : parameters_) {
    const std::int64_t chunk = bytes_of(part_of(each), each.whole.dtype()).value();
    eager.fill_storage(each.whole, chunk * ranks, TensorRole::kParameter);
    chunks.push_back(chunk);
    if (sharding_.by_columns) {
      pieces.push_back(
          eager.empty(each.whole.shape(), each.whole.dtype(), TensorRole::kCommunication));
    }
  }
  pass_table(eager, split_copy_table_bytes(chunks, ranks, eager.device()));
  torch::launch_kernels(eager, 2 * torch::bytes_of(buffer_));  // split_with_sizes_copy
  for (const Tensor& piece : pieces) {
    torch::launch_copy(eager, piece, piece, torch::CopyOrder::kOther);
  }
  torch::release_list(pieces);
  drop_kept();
  return std::move(buffer_);
}

void ShardedGroup::drop_pending() {
  if (was_gathered_) {  // Unused, but finalize_backward waits.
    sharding_.eager.wait_mark(sharding_.eager.stream(), *was_gathered_);
    was_gathered_.reset();
  }
  pending_ = false;
  buffer_.reset();
}

void ShardedGroup::release() {
  if (!gathered_) {
    return;
  }
  sharding_.eager.set_site("fsdp.reshard", module_);
  for (const ShardedParameter& each : parameters_) {
    sharding_.eager.drain_storage(each.whole);
  }
  gathered_ = false;
}

void ShardedGroup::release_after_forward() {
  const std::int64_t ranks = sharding_.plan.reshard_ranks;
  if (ranks == 0 || !gathered_) {
    release();
    return;
  }
  Eager& eager = sharding_.eager;
  eager.set_site("fsdp.reshard", module_);
  for (ShardedParameter& each : parameters_) {
    const std::int64_t whole = each.shard_elements * sharding_.ranks;
    each.kept = eager.empty({whole / ranks}, each.whole.dtype(), TensorRole::kParameter);
    torch::launch_copy(eager, each.kept, each.kept, torch::CopyOrder::kSame);
    eager.drain_storage(each.whole);
  }
  was_released_ = eager.record_mark(eager.stream());
  gathered_ = false;
  kept_ = true;
}

void ShardedGroup::add_to_sums(bool begins) {
  Eager& eager = sharding_.eager;
  for (ShardedParameter& each : parameters_) {
    if (each.whole->grad == nullptr || (!begins && !each.sum.defined())) {
      continue;
    }
    if (!each.sum.defined()) {
      const Tensor gradient(eager, each.whole->grad);
      each.sum = eager.empty(gradient.shape(), sharding_.plan.reduce_dtype, TensorRole::kGradient);
    }
    eager.drop_grad(each.whole);
  }
}

std::vector<std::size_t> ShardedGroup::take_gradients(std::vector<Tensor>& gradients) {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    ShardedParameter& parameter = parameters_[i];
    Tensor gradient = std::exchange(parameter.sum, Tensor{});
    if (!gradient.defined() && parameter.whole->grad != nullptr) {
      gradient = torch::gradient_of(sharding_.eager, parameter.whole);
      sharding_.eager.drop_grad(parameter.whole);
    }
    if (!gradient.defined()) {
      continue;
    }
    // The sum of a DTensor's parts among the ranks needs another tensor; so does slicing this
    // rank's rows.
    if (parameter.partial || gradient.elements() != parameter.whole.elements()) {
      gradient = sharding_.eager.empty(parameter.whole.shape(), gradient.dtype());
    }
    indices.push_back(i);
    gradients.push_back(std::move(gradient));
  }
  return indices;
}

Tensor ShardedGroup::scatter(std::int64_t elements, DType trained) {
  Eager& eager = sharding_.eager;
  const FsdpPlan& plan = sharding_.plan;
  eager.wait_stream(sharding_.streams.reduce, eager.stream());  // For the copies.
  const StreamScope scattering(eager, sharding_.streams.reduce);
  Tensor reduced = eager.empty({elements}, plan.reduce_dtype, TensorRole::kGradient);
  if (sharding_.ranks > 1) {
    eager.run(
        CollectiveShape{.kind = CollectiveKind::kReduceScatter,
                        .bytes = bytes_of(elements * sharding_.ranks, plan.reduce_dtype).value(),
                        .group = {.size = sharding_.ranks, .stride = sharding_.stride}});
  } else {
    const Tensor divided = sharding_.divides
                               ? torch::computed(eager, {elements}, plan.reduce_dtype, {&reduced})
                               : Tensor{};
    torch::launch_copy(eager, reduced, reduced, torch::CopyOrder::kSame);
  }
  scattered_ = eager.record_mark(sharding_.streams.reduce);
  const bool replicated = sharding_.replicas > 1;
  const StreamScope stream(eager,
                           replicated ? sharding_.streams.replica : sharding_.streams.reduce);
  if (replicated) {
    eager.wait_stream(sharding_.streams.replica, sharding_.streams.reduce);
    eager.run(CollectiveShape{
        .kind = CollectiveKind::kAllReduce,
        .bytes = bytes_of(elements, plan.reduce_dtype).value(),
        .group = {.size = sharding_.replicas, .stride = sharding_.ranks * sharding_.stride}});
    all_reduce_input_ = reduced;
  }
  if (plan.reduce_dtype != trained) {
    reduced = torch::computed(eager, {elements}, trained, TensorRole::kGradient);
  }
  return reduced;
}

void ShardedGroup::wait_for_reduction() {
  if (reduced_) {
    if (sharding_.plan.cpu_offload) {  // grad_offload_event
      sharding_.eager.host_wait(*reduced_);
    }
    sharding_.eager.wait_mark(sharding_.eager.stream(), *reduced_);
    reduced_.reset();
  }
}

/// The gradients of the shards become views of the reduced tensor, or the latter is added to them.
void ShardedGroup::accumulate(std::span<const std::size_t> indices, const Tensor& reduced) {
  for (const std::size_t index : indices) {
    const Tensor& shard = parameters_[index].shard;
    if (shard->grad == nullptr) {
      const Tensor view = sharding_.eager.alias(reduced, shard.shape(), false);
      shard->grad = view.impl();
      ++shard->grad->uses;
    } else {
      torch::launch(sharding_.eager, {&shard, &shard, &shard});
    }
  }
}

/// The chunk_cat kernel accepts gradients of the reduction's type and bf16 ones. Others are copied
/// one by one, and those that need padding to the ranks are first padded in tensors of their own.
/// Source: aten/src/ATen/native/cuda/TensorShape.cu, _chunk_cat_out_cuda;
///         aten/src/ATen/native/TensorShape.cpp, _pad_chunk.
void ShardedGroup::chunk_by_copies(std::span<const Tensor> gradients, const Tensor& input) {
  Eager& eager = sharding_.eager;
  std::vector<Tensor> padded;
  for (const Tensor& gradient : gradients) {
    const std::int64_t rows = gradient.shape()[0];
    const std::int64_t all = align_up(rows, sharding_.ranks);
    if (all != rows) {
      padded.push_back(eager.empty(gradient.shape().with(0, all), gradient.dtype()));
      torch::launch_copy(eager, gradient, padded.back(), torch::CopyOrder::kSame);
    }
  }
  torch::launch_kernels(eager,
                        torch::bytes_of(input) + bytes_of(input.elements(), DType::kFp16).value(),
                        static_cast<std::int64_t>(gradients.size()));
}

Tensor ShardedGroup::turn_gradients(std::vector<Tensor>& gradients) {
  Tensor before;
  for (Tensor& gradient : gradients) {
    before.reset();
    Tensor turned =
        torch::computed(sharding_.eager, gradient.shape(), gradient.dtype(), {&gradient});
    before = std::exchange(gradient, std::move(turned));
  }
  return before;
}

Tensor ShardedGroup::reduce(std::span<const std::size_t> indices, std::vector<Tensor>& gradients) {
  Eager& eager = sharding_.eager;
  eager.set_site("fsdp.reduce_scatter", module_);
  const Tensor before = sharding_.by_columns ? turn_gradients(gradients) : Tensor{};
  const DType dtype = sharding_.plan.reduce_dtype;
  std::int64_t elements = 0;
  std::vector<std::int64_t> chunks;
  for (const std::size_t index : indices) {
    elements += parameters_[index].shard_elements;
    chunks.push_back(bytes_of(parameters_[index].shard_elements, dtype).value());
  }
  Tensor input = eager.empty({elements * sharding_.ranks}, dtype, TensorRole::kCommunication);
  if (gradients.front().dtype() == DType::kFp16 && dtype != DType::kFp16) {
    chunk_by_copies(gradients, input);
  } else {
    pass_table(eager, chunk_cat_table_bytes(chunks));
    torch::launch_kernels(eager, torch::bytes_of(input) +
                                     bytes_of(input.elements(), gradients.front().dtype()).value());
  }
  // The variable of a Python loop over the gradients still refers to the last one.
  Tensor last = sharding_.ranks > 1 && !sharding_.by_columns ? gradients.back() : Tensor{};
  torch::release_list(gradients);
  const DType trained = parameters_[indices.front()].shard.dtype();
  const Tensor reduced = scatter(elements, trained);
  const StreamId last_stream =
      sharding_.replicas > 1 ? sharding_.streams.replica : sharding_.streams.reduce;
  {
    const StreamScope stream(eager, last_stream);
    if (sharding_.plan.cpu_offload) {
      eager.run(CopyShape{.kind = CopyKind::kDeviceToHost, .bytes = torch::bytes_of(reduced)});
    } else {
      accumulate(indices, reduced);
    }
  }
  reduced_ = eager.record_mark(last_stream);
  last.reset();
  return input;
}

}  // namespace headroom::ir::fsdp
