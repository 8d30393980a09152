// ZeRO stages 1 and 2: gradients on their way to the partition that owns them.

#include <algorithm>
#include <iterator>

#include "runtimes/deepspeed/zero_buckets.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/stream_scope.h"

namespace headroom::ir::deepspeed {

using torch::Eager;
using torch::Tensor;

void ZeroBuckets::before_backward(bool boundary) {
  boundary_ = boundary;
}

Tensor ZeroBuckets::gradient_of(const Member& member) const {
  return accumulates_apart() ? member.accumulated
                             : torch::gradient_of(state_.eager, member.parameter);
}

void ZeroBuckets::clear_gradient(Member& member) {
  if (accumulates_apart()) {
    member.accumulated.reset();
  } else {
    state_.eager.drop_grad(member.parameter);
  }
}

void ZeroBuckets::make_buckets() {
  if (!buckets_.empty() || !state_.zero.contiguous_gradients) {
    return;
  }
  state_.eager.set_site("deepspeed.bucket", -1);
  const DType dtype = accumulates_apart() ? accumulation_ : dtype_;
  for (int i = 0; i < (overlaps_ ? 2 : 1); ++i) {
    buckets_.push_back(
        state_.eager.empty({state_.zero.reduce_bucket_size}, dtype, TensorRole::kCommunication));
  }
  current_ = 0;
}

void ZeroBuckets::arrived(Position position) {
  make_buckets();
  Member& member = at(position);
  if (accumulates_apart()) {
    const Tensor wide =
        state_.eager.empty(member.parameter.shape(), accumulation_, TensorRole::kGradient);
    if (!member.accumulated.defined()) {
      member.accumulated = wide;
    }
    state_.eager.drop_grad(member.parameter);
  }
  if (state_.zero.stage == 2 || (overlaps_ && boundary_)) {
    fill_bucket(position);
  }
}

void ZeroBuckets::fill_bucket(Position position) {
  Eager& eager = state_.eager;
  const Member& member = at(position);
  const std::int64_t elements = member.parameter.elements();
  if (filled_ + elements > state_.zero.reduce_bucket_size) {
    reduce_bucket();
    current_ = overlaps_ ? 1 - current_ : current_;
  }
  const Tensor gradient = gradient_of(member);
  if (!state_.zero.contiguous_gradients) {
    held_.push_back(gradient);
  } else if (elements <= state_.zero.reduce_bucket_size) {
    eager.move_storage(gradient, buckets_[current_]);
  } else if (state_.offloads_optimizer()) {
    eager.move_storage(gradient,
                       eager.empty(gradient.shape(), gradient.dtype(), TensorRole::kGradient));
  }
  filled_ += elements;
  waiting_.push_back(position);
}

std::vector<ZeroBuckets::Slice> ZeroBuckets::waiting_slices() {
  std::vector<Slice> slices;
  for (const Position& position : waiting_) {
    Group& group = groups_[position.group];
    const Member& member = at(position);
    const std::int64_t end = member.offset + member.parameter.elements();
    for (std::int64_t begin = member.offset; begin < end;) {
      const std::int64_t rank = begin / group.partition;
      const std::int64_t elements = std::min(end, (rank + 1) * group.partition) - begin;
      const bool added_up = is_compact() && rank == state_.rank;
      if (added_up) {
        static_cast<void>(compact_of(group));
      }
      if (!added_up && !slices.empty() && slices.back().rank == rank) {
        slices.back().elements += elements;
      } else {
        slices.push_back({.rank = rank, .elements = elements});
      }
      begin += elements;
    }
  }
  return slices;
}

Tensor& ZeroBuckets::compact_of(Group& group) {
  if (!group.compact.defined()) {
    group.compact =
        torch::zeros(state_.eager, {group.partition}, accumulation_, TensorRole::kGradient);
  }
  return group.compact;
}

/// Flattens slices and reduces them together. A flat tensor holds at most a bucket plus the slice
/// that exceeds it. A single slice is reduced in place.
void ZeroBuckets::all_reduce(const std::vector<Slice>& slices, const Tensor& memory,
                             CollectiveKind kind) {
  Eager& eager = state_.eager;
  for (std::size_t first = 0; first < slices.size();) {
    std::size_t next = first;
    std::int64_t elements = 0;
    while (next < slices.size() && elements <= state_.zero.reduce_bucket_size) {
      elements += slices[next++].elements;
    }
    Tensor flat = memory;
    if (next - first > 1) {
      flat = torch::computed(eager, {elements}, memory.dtype(), TensorRole::kCommunication);
    }
    if (memory.dtype() != communication_) {
      flat = torch::computed(eager, {elements}, communication_, TensorRole::kCommunication);
    }
    eager.run(CollectiveShape{.kind = kind,
                              .bytes = bytes_of(elements, communication_).value(),
                              .group = {.size = state_.plan.world}});
    for (; first < next; ++first) {
      if (slices[first].rank != state_.rank) {
        continue;
      }
      if (is_compact()) {
        const Tensor wide =
            eager.empty({slices[first].elements}, accumulation_, TensorRole::kTemporary);
      }
    }
  }
}

/// All-reduces the whole bucket in place. Source: stage_1_and_2.py, gradient_reduction_w_predivide,
/// _add_full_reduction_to_compact_grad_partition.
void ZeroBuckets::all_reduce_whole(const Tensor& memory) {
  Eager& eager = state_.eager;
  Tensor sent = memory;
  if (memory.dtype() != communication_) {
    sent = torch::computed(eager, {filled_}, communication_, TensorRole::kCommunication);
  }
  eager.run(CollectiveShape{.kind = CollectiveKind::kAllReduce,
                            .bytes = bytes_of(filled_, communication_).value(),
                            .group = {.size = state_.plan.world}});
  if (!is_compact()) {
    return;
  }
  for (const Slice& slice : waiting_slices()) {
    if (slice.rank == state_.rank && communication_ != accumulation_) {
      const Tensor wide = eager.empty({slice.elements}, accumulation_, TensorRole::kTemporary);
    }
  }
}

/// Reduces each rank's slices of the bucket to that rank.
void ZeroBuckets::reduce_slices(const Tensor& memory) {
  if (!state_.zero.reduce_scatter) {
    return all_reduce_whole(memory);
  }
  const std::vector<Slice> slices = waiting_slices();
  if (state_.zero.multi_rank_allreduce) {
    return all_reduce(slices, memory, CollectiveKind::kAllReduce);
  }
  std::vector<std::int64_t> owners;
  for (const Slice& slice : slices) {
    if (std::find(owners.begin(), owners.end(), slice.rank) == owners.end()) {
      owners.push_back(slice.rank);
    }
  }
  for (const std::int64_t owner : owners) {
    std::vector<Slice> own;
    std::copy_if(slices.begin(), slices.end(), std::back_inserter(own),
                 [&](const Slice& slice) { return slice.rank == owner; });
    all_reduce(own, memory, CollectiveKind::kReduce);
  }
}

/// Divides the bucket by the number of ranks.
void ZeroBuckets::average(std::int64_t elements) {
  torch::launch_kernels(state_.eager, 2 * bytes_of(elements, dtype_).value(),
                        torch::elementwise_launches(elements, bits_of(dtype_) / 8));
}

void ZeroBuckets::reduce_bucket() {
  Eager& eager = state_.eager;
  if (waiting_.empty()) {
    return;
  }
  if (overlaps_) {
    eager.wait_stream(kReductionStream, eager.stream());
    eager.wait_stream(eager.stream(), kReductionStream);  // Waits for the previous reduction.
  }
  const torch::StreamScope scope(eager, overlaps_ ? kReductionStream : StreamId{0});
  eager.set_site("deepspeed.reduce", -1);
  if (!state_.zero.contiguous_gradients) {
    reduce_apart();
  } else {
    // A gradient that is larger than the bucket waits alone, in its own memory.
    const Tensor memory = filled_ > state_.zero.reduce_bucket_size ? gradient_of(at(waiting_[0]))
                                                                   : buckets_[current_];
    average(filled_);
    reduce_slices(memory);
  }
  for (const Position& position : waiting_) {
    if (groups_[position.group].touches(at(position))) {
      keep_gradient(position);
    } else if (state_.zero.stage == 2 && overlaps_ && !state_.zero.contiguous_gradients) {
      reduced_.push_back(position);
    } else if (state_.zero.stage == 2) {
      clear_gradient(at(position));
    }
  }
  waiting_.clear();
  held_.clear();
  filled_ = 0;
}

/// Without contiguous_gradients, gradients are flattened, reduced and copied back. If reduction
/// overlaps backward, those that other ranks own are freed before the next reduction.
void ZeroBuckets::reduce_apart() {
  Eager& eager = state_.eager;
  clear_reduced();
  Tensor flat;
  if (held_.size() > 1) {
    flat = torch::computed(eager, {filled_}, dtype_, TensorRole::kCommunication);
  }
  Tensor sent;
  if (communication_ != dtype_) {
    sent = torch::computed(eager, {filled_}, communication_, TensorRole::kCommunication);
  }
  average(filled_);
  eager.run(CollectiveShape{.kind = CollectiveKind::kAllReduce,
                            .bytes = bytes_of(filled_, communication_).value(),
                            .group = {.size = state_.plan.world}});
}

void ZeroBuckets::clear_reduced() {
  for (const Position& position : reduced_) {
    clear_gradient(at(position));
  }
  reduced_.clear();
}

}  // namespace headroom::ir::deepspeed
