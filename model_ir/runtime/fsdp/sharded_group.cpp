#include "model_ir/runtime/fsdp/sharded_group.h"

#include <utility>

#include "model_ir/runtime/fsdp/copy_tables.h"
#include "model_ir/runtime/torch/ddp.h"
#include "model_ir/runtime/torch/foreach.h"

namespace headroom::ir::fsdp {

using torch::Eager;
using torch::Tensor;

namespace {

/// with torch.cuda.stream(...)
class StreamScope {
 public:
  StreamScope(Eager& eager, StreamId stream)
      : eager_(eager), before_(eager.exchange_stream(stream)) {}
  ~StreamScope() { eager_.exchange_stream(before_); }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Eager& eager_;
  StreamId before_;
};

/// A table that a copy brings along and drops when it has been launched.
void pass_table(Eager& eager, std::int64_t bytes) {
  const Tensor table = eager.empty({bytes / 8}, DType::kInt64, TensorRole::kTemporary);
}

}  // namespace

void ShardedGroup::add(const Tensor& whole, const Tensor& shard) {
  const std::int64_t rows = whole.shape()[0];
  const std::int64_t own = ceil_div(rows, sharding_.ranks) * (whole.elements() / rows);
  parameters_.push_back({.whole = whole, .shard = shard, .shard_elements = own, .kept = {}});
}

bool ShardedGroup::casts(const ShardedParameter& parameter) const {
  return parameter.shard.dtype() != parameter.whole.dtype();
}

std::int64_t ShardedGroup::gather_ranks() const {
  return kept_ ? sharding_.plan.reshard_ranks : sharding_.ranks;
}

std::int64_t ShardedGroup::part_of(const ShardedParameter& parameter) const {
  return kept_ ? parameter.kept.elements() : parameter.shard_elements;
}

/// What is copied into the gather's buffer: casts in one tensor for all parameters that need one,
/// or, from the host, each on its own.
std::vector<Tensor> ShardedGroup::gather_inputs() {
  Eager& eager = sharding_.eager;
  std::vector<Tensor> inputs;
  std::int64_t cast = 0;
  for (const ShardedParameter& each : parameters_) {
    const std::int64_t part = part_of(each);
    if (sharding_.plan.cpu_offload && !kept_) {
      Tensor copied = eager.empty({part}, each.shard.dtype(), TensorRole::kCommunication);
      inputs.push_back(casts(each)
                           ? eager.empty({part}, each.whole.dtype(), TensorRole::kCommunication)
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
  pending_ = true;
  const std::int64_t ranks = gather_ranks();
  if (ranks == 1) {
    return;  // Parameters are copied one by one when they are needed.
  }
  Eager& eager = sharding_.eager;
  eager.set_site("fsdp.all_gather", module_);
  std::int64_t bytes = 0;
  for (const ShardedParameter& each : parameters_) {
    bytes += bytes_of(part_of(each), each.whole.dtype()).value();
  }
  const StreamScope stream(eager, kGatherStream);
  const std::vector<Tensor> inputs = gather_inputs();
  buffer_ = eager.empty({bytes * ranks}, DType::kUInt8, TensorRole::kCommunication);
  eager.run(CollectiveShape{
      .kind = CollectiveKind::kAllGather, .bytes = bytes * ranks, .group = {.size = ranks}});
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
      input = casts(each) ? eager.empty({part}, dtype, TensorRole::kTemporary) : copied;
    } else if (casts(each) && !kept_) {
      input = eager.empty({part}, dtype, TensorRole::kTemporary);
    }
    eager.fill_storage(each.whole, bytes_of(part, dtype).value(), TensorRole::kParameter);
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
  std::vector<std::int64_t> chunks;
  for (const ShardedParameter& each : parameters_) {
    const std::int64_t chunk = bytes_of(part_of(each), each.whole.dtype()).value();
    eager.fill_storage(each.whole, chunk * ranks, TensorRole::kParameter);
    chunks.push_back(chunk);
  }
  pass_table(eager, split_copy_table_bytes(chunks, ranks, eager.device()));
  drop_kept();
  return std::move(buffer_);
}

void ShardedGroup::drop_pending() {
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
    eager.drain_storage(each.whole);
  }
  gathered_ = false;
  kept_ = true;
}

std::vector<std::size_t> ShardedGroup::take_gradients(std::vector<Tensor>& gradients) {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& whole = parameters_[i].whole;
    if (whole->grad != nullptr) {
      indices.push_back(i);
      gradients.push_back(torch::gradient_of(sharding_.eager, whole));
      sharding_.eager.drop_grad(whole);
    }
  }
  return indices;
}

Tensor ShardedGroup::scatter(std::int64_t elements) {
  Eager& eager = sharding_.eager;
  const FsdpPlan& plan = sharding_.plan;
  Tensor reduced;
  {
    const StreamScope stream(eager, kReduceStream);
    reduced = eager.empty({elements}, plan.reduce_dtype, TensorRole::kGradient);
  }
  if (sharding_.ranks > 1) {
    eager.run(
        CollectiveShape{.kind = CollectiveKind::kReduceScatter,
                        .bytes = bytes_of(elements * sharding_.ranks, plan.reduce_dtype).value(),
                        .group = {.size = sharding_.ranks}});
  }
  const bool replicated = plan.replicas > 1;
  if (replicated) {
    eager.run(CollectiveShape{.kind = CollectiveKind::kAllReduce,
                              .bytes = bytes_of(elements, plan.reduce_dtype).value(),
                              .group = {.size = plan.replicas}});
    all_reduce_input_ = reduced;
  }
  if (plan.reduce_dtype != sharding_.trained) {
    const StreamScope stream(eager, replicated ? kReplicaStream : kReduceStream);
    reduced = eager.empty({elements}, sharding_.trained, TensorRole::kGradient);
  }
  return reduced;
}

/// The gradients of the shards are views of what was reduced, or it is added to them.
void ShardedGroup::accumulate(std::span<const std::size_t> indices, const Tensor& reduced) {
  for (const std::size_t index : indices) {
    const Tensor& shard = parameters_[index].shard;
    if (shard->grad == nullptr) {
      const Tensor view = sharding_.eager.alias(reduced, shard.shape(), false);
      shard->grad = view.impl();
      ++shard->grad->uses;
    }
  }
}

Tensor ShardedGroup::reduce(std::span<const std::size_t> indices, std::vector<Tensor>& gradients) {
  Eager& eager = sharding_.eager;
  eager.set_site("fsdp.reduce_scatter", module_);
  const DType dtype = sharding_.plan.reduce_dtype;
  std::int64_t elements = 0;
  std::vector<std::int64_t> chunks;
  for (const std::size_t index : indices) {
    elements += parameters_[index].shard_elements;
    chunks.push_back(bytes_of(parameters_[index].shard_elements, dtype).value());
  }
  Tensor input = eager.empty({elements * sharding_.ranks}, dtype, TensorRole::kCommunication);
  pass_table(eager, chunk_cat_table_bytes(chunks));
  // A loop over the gradients has left its variable behind.
  Tensor last = sharding_.ranks > 1 ? gradients.back() : Tensor{};
  torch::release_list(gradients);
  const Tensor reduced = scatter(elements);
  if (!sharding_.plan.cpu_offload) {  // Else copied to the host.
    accumulate(indices, reduced);
  }
  last.reset();
  return input;
}

}  // namespace headroom::ir::fsdp
