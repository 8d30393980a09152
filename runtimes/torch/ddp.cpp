#include "runtimes/torch/ddp.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "runtimes/torch/collective.h"
#include "runtimes/torch/ddp_plan.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::torch {
namespace {

/// Largest size of one broadcast of buffers, and how many may run at once.
/// Source: torch/nn/parallel/distributed.py, broadcast_bucket_size; c10d/comm.cpp, kMaxInFlight.
constexpr std::int64_t kBroadcastBytes = 250 * kMiB;
constexpr std::size_t kMaxInFlight = 2;
constexpr std::int64_t kIndexBytes = 4;
constexpr std::int64_t kSizeBytes = 8;

}  // namespace

std::vector<std::vector<std::size_t>> assign_buckets(std::span<const std::int64_t> bytes,
                                                     std::span<const DType> dtypes,
                                                     std::int64_t cap_bytes) {
  struct Open {
    DType dtype;
    std::vector<std::size_t> members;
    std::int64_t bytes = 0;
  };
  std::vector<std::vector<std::size_t>> buckets;
  // The type that appeared last comes first: the order of libstdc++'s hash map.
  std::deque<Open> open;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto bucket = std::find_if(open.begin(), open.end(),
                               [&](const Open& each) { return each.dtype == dtypes[i]; });
    if (bucket == open.end()) {
      open.push_front(Open{.dtype = dtypes[i], .members = {}});
      bucket = open.begin();
    }
    bucket->members.push_back(i);
    bucket->bytes += bytes[i];
    if (bucket->bytes >= cap_bytes) {
      buckets.push_back(std::exchange(bucket->members, {}));
      bucket->bytes = 0;
    }
  }
  for (Open& bucket : open) {
    if (!bucket.members.empty()) {
      buckets.push_back(std::move(bucket.members));
    }
  }
  return buckets;
}

void broadcast_coalesced(Eager& eager, std::int64_t world, std::span<const Tensor> tensors) {
  std::vector<std::int64_t> bytes;
  std::vector<DType> dtypes;
  for (const Tensor& each : tensors) {
    bytes.push_back(bytes_of(each));
    dtypes.push_back(each.dtype());
  }
  auto assignment = assign_buckets(bytes, dtypes, kBroadcastBytes);
  std::sort(assignment.begin(), assignment.end());
  std::deque<Tensor> in_flight;
  for (const auto& members : assignment) {
    std::int64_t total = 0;
    std::int64_t elements = 0;
    for (const std::size_t index : members) {
      total += bytes[index];
      elements += tensors[index].elements();
    }
    if (members.size() > 1) {  // A single buffer is sent without a copy.
      in_flight.push_back(eager.empty(Shape{elements}, tensors[members.front()].dtype(),
                                      TensorRole::kCommunication));
      count_kernels(eager, ceil_div(static_cast<std::int64_t>(members.size()), kTensorsPerConcat));
    } else {
      in_flight.emplace_back();
    }
    finish_collective(
        eager, {.kind = CollectiveKind::kBroadcast, .bytes = total, .group = {.size = world}});
    if (in_flight.size() >= kMaxInFlight) {
      in_flight.pop_front();
    }
  }
  while (!in_flight.empty()) {
    in_flight.pop_front();
  }
}

Ddp::Ddp(Eager& eager, const DdpPlan& plan, std::int64_t world, std::span<const Tensor> parameters,
         std::span<const Tensor> buffers)
    : eager_(eager), plan_(plan), world_(world), buffers_(buffers.begin(), buffers.end()) {
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(parameters_),
               [](const Tensor& parameter) { return parameter.requires_grad(); });
  bucket_of_.resize(parameters_.size());
  if (plan_.init_sync) {
    eager_.set_site("ddp.init_sync", -1);
    compare_shapes();
    std::vector<Tensor> states(parameters.begin(), parameters.end());
    states.insert(states.end(), buffers.begin(), buffers.end());
    broadcast_coalesced(eager_, world_, states);
  }
  eager_.set_site("ddp.buckets", -1);
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  auto assignment = assign(order, std::numeric_limits<std::int64_t>::max());
  std::sort(assignment.begin(), assignment.end());  // Sorted by their first parameter.
  std::reverse(assignment.begin(), assignment.end());
  make_buckets(assignment);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    accumulator_of(eager_, parameters_[i].impl())->after_accumulate = [this, i](Eager&) {
      arrived(i);
    };
  }
}

Ddp::~Ddp() {
  for (const Tensor& parameter : parameters_) {
    accumulator_of(eager_, parameter.impl())->after_accumulate = nullptr;
  }
}

void Ddp::compare_shapes() {
  const auto sizes = [this](std::int64_t count) {
    return eager_.empty(Shape{count}, DType::kInt64, TensorRole::kCommunication);
  };
  const Tensor own = sizes(1);
  std::vector<Tensor> counts;
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    counts.push_back(sizes(1));
  }
  {
    const Tensor gathered = sizes(world_);
    finish_collective(eager_, {.kind = CollectiveKind::kAllGather,
                               .bytes = world_ * kSizeBytes,
                               .group = {.size = world_}});
  }
  std::int64_t entries = 0;  // A size and a stride of each dimension.
  for (const Tensor& parameter : parameters_) {
    entries += 2 * static_cast<std::int64_t>(parameter.shape().rank());
  }
  const Tensor metadata = sizes(entries);
  broadcast(entries * kSizeBytes);
}

std::vector<std::vector<std::size_t>> Ddp::assign(const std::vector<std::size_t>& order,
                                                  std::int64_t cap_bytes) const {
  std::vector<std::int64_t> bytes;
  std::vector<DType> dtypes;
  for (const std::size_t index : order) {
    bytes.push_back(bytes_of(parameters_[index]));
    dtypes.push_back(parameters_[index].dtype());
  }
  auto assignment = assign_buckets(bytes, dtypes, cap_bytes);
  for (auto& bucket : assignment) {
    std::transform(bucket.begin(), bucket.end(), bucket.begin(),
                   [&](std::size_t position) { return order[position]; });
  }
  return assignment;
}

void Ddp::make_buckets(const std::vector<std::vector<std::size_t>>& assignment) {
  const TensorRole role =
      plan_.gradient_as_bucket_view ? TensorRole::kGradient : TensorRole::kCommunication;
  // Old buckets are released first; gradients that are views of them keep the memory until they
  // have moved.
  buckets_.clear();
  for (const auto& members : assignment) {
    std::int64_t elements = 0;
    for (const std::size_t index : members) {
      elements += parameters_[index].elements();
      bucket_of_[index] = buckets_.size();
    }
    const DType dtype = parameters_[members.front()].dtype();
    buckets_.push_back(Bucket{.memory = eager_.empty(Shape{elements}, dtype, role),
                              .parameters = members,
                              .pending = members.size()});
    for (const std::size_t index : members) {
      if (plan_.gradient_as_bucket_view && parameters_[index]->grad != nullptr) {
        move_gradient(parameters_[index], buckets_.back());
      }
    }
  }
}

void Ddp::move_gradient(const Tensor& parameter, const Bucket& bucket) {
  const Tensor old = gradient_of(eager_, parameter);  // Freed with this name, unless shared.
  const Tensor view = eager_.alias(bucket.memory, parameter.shape(), false);
  --parameter->grad->uses;
  parameter->grad = view.impl();
  ++parameter->grad->uses;
}

void Ddp::before_forward() {
  if (eager_.grad_enabled()) {
    if (!rebuilt_ && arrivals_.size() == parameters_.size()) {
      rebuild_buckets();
    }
    for (Bucket& bucket : buckets_) {
      bucket.pending = bucket.parameters.size();
    }
    next_bucket_ = 0;
  }
  broadcast_buffers();
}

void Ddp::broadcast(std::int64_t bytes) {
  finish_collective(
      eager_, {.kind = CollectiveKind::kBroadcast, .bytes = bytes, .group = {.size = world_}});
}

void Ddp::rebuild_buckets() {
  eager_.set_site("ddp.buckets", -1);
  const auto assignment = assign(arrivals_, plan_.bucket_cap_bytes);
  // Rank 0 broadcasts its order: parameter indices and their number, then bucket sizes.
  const auto slots = static_cast<std::int64_t>(parameters_.size()) + 1;
  const auto sizes = static_cast<std::int64_t>(assignment.size());
  {
    const Tensor indices = eager_.empty(Shape{slots}, DType::kInt32, TensorRole::kCommunication);
    broadcast(slots * kIndexBytes);
    const Tensor counts = eager_.empty(Shape{sizes}, DType::kInt32, TensorRole::kCommunication);
    broadcast(sizes * kIndexBytes);
  }
  make_buckets(assignment);
  rebuilt_ = true;
}

void Ddp::broadcast_buffers() {
  eager_.set_site("ddp.broadcast_buffers", -1);
  broadcast_coalesced(eager_, world_, buffers_);
}

void Ddp::arrived(std::size_t index) {
  const Tensor& parameter = parameters_[index];
  Bucket& bucket = buckets_[bucket_of_[index]];
  if (!rebuilt_) {
    arrivals_.push_back(index);
  }
  count_kernels(eager_,
                elementwise_launches(parameter));  // Copied and divided, or divided in place.
  if (plan_.gradient_as_bucket_view && parameter->grad->storage != bucket.memory->storage) {
    move_gradient(parameter, bucket);
  }
  if (bucket.pending > 0 && --bucket.pending == 0) {
    reduce_complete_buckets();
  }
}

void Ddp::reduce_complete_buckets() {
  while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].pending == 0) {
    const Bucket& bucket = buckets_[next_bucket_++];
    reduced_.push_back(start_collective(eager_, {.kind = CollectiveKind::kAllReduce,
                                                 .bytes = bytes_of(bucket.memory),
                                                 .group = {.size = world_}}));
  }
  if (next_bucket_ == buckets_.size()) {  // finalize_backward
    for (const std::uint32_t mark : reduced_) {
      eager_.wait_mark(0, mark);
    }
    reduced_.clear();
  }
}

}  // namespace headroom::ir::torch
