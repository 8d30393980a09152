#include <algorithm>

#include "model_ir/runtime/deepspeed/wrapper.h"
#include "model_ir/runtime/torch/ddp.h"
#include "model_ir/runtime/torch/record.h"

namespace headroom::ir::deepspeed {

using torch::Tensor;

ZeroBuckets::ZeroBuckets(EngineState state) : state_(state) {
  for (const Tensor& parameter : state_.model.trainable) {
    total_ += parameter.elements();
  }
  partition_ = partition_elements(total_, state_.plan.world);
  std::int64_t offset = 0;
  for (const Tensor& parameter : state_.model.trainable) {
    const bool touched = offset < partition_;  // Rank 0 owns the beginning.
    owned_ += touched ? parameter.elements() : 0;
    widest_ = std::max(widest_, std::min(parameter.elements(), partition_ - offset));
    torch::accumulator_of(state_.eager, parameter.impl())->after_accumulate =
        [this, parameter, offset](torch::Eager&) { arrived(parameter, offset); };
    offset += parameter.elements();
  }
}

ZeroBuckets::~ZeroBuckets() {
  for (const Tensor& parameter : state_.model.trainable) {
    torch::accumulator_of(state_.eager, parameter.impl())->after_accumulate = nullptr;
  }
}

void ZeroBuckets::initialize() {
  torch::Eager& eager = state_.eager;
  const DType dtype = state_.model.trainable.front().dtype();
  eager.set_site("deepspeed.flatten", -1);
  flat_ = eager.empty({align_up(total_, 2 * state_.plan.world)}, dtype, TensorRole::kParameter);
  for (const Tensor& parameter : state_.model.trainable) {
    eager.move_storage(parameter, flat_);  // Parameters become views of the flat group.
  }
  eager.set_site("deepspeed.masters", -1);
  if (state_.offloads_optimizer()) {
    // fp32 master and gradient partition on the host.
    state_.hold_offloaded(bytes_of(2 * partition_, DType::kFp32).value());
  } else {
    const Tensor copy = eager.empty({partition_}, dtype, TensorRole::kTemporary);
    master_ = eager.empty({partition_}, DType::kFp32, TensorRole::kMasterParameter);
  }
  if (!state_.offloads_optimizer()) {
    const Tensor zeros = eager.empty({partition_}, DType::kFp32, TensorRole::kTemporary);
  }
  adam_ = std::make_unique<FlatAdam>(state_, partition_);
}

void ZeroBuckets::before_backward(bool boundary) {
  filled_ = 0;
  accumulates_ = state_.zero.stage == 1 && !boundary;
}

void ZeroBuckets::arrived(const Tensor& parameter, std::int64_t offset) {
  torch::Eager& eager = state_.eager;
  if (buckets_.empty()) {
    const int count = state_.zero.overlap_comm.value_or(false) ? 2 : 1;
    for (int i = 0; i < count; ++i) {
      buckets_.push_back(eager.empty({state_.zero.reduce_bucket_size}, parameter.dtype(),
                                     TensorRole::kCommunication));
    }
  }
  if (accumulates_) {
    return;  // Stage 1 keeps whole gradients until the boundary.
  }
  const std::int64_t elements = parameter.elements();
  if (filled_ + elements > state_.zero.reduce_bucket_size && !waiting_.empty()) {
    reduce_bucket();
  }
  filled_ += elements;
  waiting_.push_back({parameter, offset});
  const bool fits_bucket = elements <= state_.zero.reduce_bucket_size;
  if (state_.zero.stage == 2 && fits_bucket) {
    eager.drop_grad(parameter);  // Copied into the bucket.
  }
}

bool ZeroBuckets::spans_partitions() const {
  std::int64_t last = -1;
  for (const Waiting& each : waiting_) {
    const std::int64_t first = each.offset / partition_;
    const std::int64_t end = (each.offset + each.parameter.elements() - 1) / partition_;
    if (first != end || (last >= 0 && first != last)) {
      return true;
    }
    last = end;
  }
  return false;
}

void ZeroBuckets::reduce_bucket() {
  torch::Eager& eager = state_.eager;
  const DType dtype = state_.model.trainable.front().dtype();
  torch::count_collective(eager, {.operation = "all_reduce",
                                  .ranks = state_.plan.world,
                                  .calls = 1,
                                  .bytes = bytes_of(filled_, dtype).value()});
  // Slices of several ranks are flattened to be reduced together; a parameter larger than the
  // bucket is reduced where it is.
  Tensor flattened;
  if (filled_ <= state_.zero.reduce_bucket_size && spans_partitions()) {
    flattened = eager.empty({filled_}, dtype, TensorRole::kCommunication);
  }
  for (const Waiting& each : waiting_) {
    if (each.offset < partition_) {
      keep_partition(each.parameter.elements());
    }
    if (state_.zero.stage == 2) {
      eager.drop_grad(each.parameter);
    }
  }
  waiting_.clear();
  filled_ = 0;
}

void ZeroBuckets::keep_partition(std::int64_t elements) {
  torch::Eager& eager = state_.eager;
  if (state_.offloads_optimizer()) {
    return;  // Copied to the host from the bucket.
  }
  eager.set_site("deepspeed.partition_gradients", -1);
  const DType dtype = state_.model.trainable.front().dtype();
  if (!partition_gradients_.defined()) {
    partition_gradients_ = eager.empty({owned_}, dtype, TensorRole::kGradient);
  } else if (state_.zero.stage == 2 && state_.plan.accumulation > 1) {
    const Tensor addend = eager.empty({elements}, dtype, TensorRole::kTemporary);
  }
}

void ZeroBuckets::after_backward() {
  if (accumulates_) {
    return;
  }
  if (!waiting_.empty()) {
    reduce_bucket();
  }
  for (const Tensor& parameter : state_.model.trainable) {
    state_.eager.drop_grad(parameter);
  }
  buckets_.clear();
}

void ZeroBuckets::step() {
  torch::Eager& eager = state_.eager;
  if (state_.offloads_optimizer()) {
    return;
  }
  eager.set_site("deepspeed.grad_norm", -1);
  // get_grad_norm_direct: each parameter's gradient in fp64, one after the other.
  { const Tensor wide = eager.empty({widest_}, DType::kFp64, TensorRole::kTemporary); }
  norm_ = eager.empty({}, DType::kFp32, TensorRole::kOptimizerState);
  eager.set_site("deepspeed.fp32_gradients", -1);
  const Tensor gradients = eager.empty({partition_}, DType::kFp32, TensorRole::kGradient);
  partition_gradients_.reset();
  adam_->step();
}

}  // namespace headroom::ir::deepspeed
