#include <algorithm>
#include <utility>

#include "model_ir/runtime/deepspeed/wrapper.h"
#include "model_ir/runtime/torch/ddp.h"
#include "model_ir/runtime/torch/record.h"

namespace headroom::ir::deepspeed {

using torch::Tensor;

ZeroPartitions::ZeroPartitions(EngineState state, std::vector<Tensor> shards)
    : state_(state), shards_(std::move(shards)) {
  for (const Tensor& parameter : state_.model.trainable) {
    total_ += parameter.elements();
    shard_ += ceil_div(parameter.elements(), state_.plan.world);
    torch::accumulator_of(state_.eager, parameter.impl())->after_accumulate =
        [this, parameter](torch::Eager&) { arrived(parameter); };
  }
  state_.eager.on_backward_layer = [this](std::int32_t layer) { fetch(layer); };
}

ZeroPartitions::~ZeroPartitions() {
  state_.eager.on_backward_layer = nullptr;
  for (const Tensor& parameter : state_.model.trainable) {
    torch::accumulator_of(state_.eager, parameter.impl())->after_accumulate = nullptr;
  }
}

std::int64_t ZeroPartitions::layer_elements(std::int32_t layer) const {
  std::int64_t elements = 0;
  for (const TensorId id : state_.model.graph->parameters()) {
    const TensorInfo& info = state_.model.graph->tensor(id);
    const bool persistent = info.elements() <= state_.zero.param_persistence_threshold;
    elements += info.layer == layer && !persistent ? info.elements() : 0;
  }
  return elements;
}

void ZeroPartitions::initialize() {
  torch::Eager& eager = state_.eager;
  const DType dtype = state_.model.trainable.front().dtype();
  eager.set_site("deepspeed.partition_parameters", -1);
  std::int64_t persistent = 0;
  for (const Tensor& parameter : state_.model.trainable) {
    const bool stays = parameter.elements() <= state_.zero.param_persistence_threshold;
    persistent += stays ? parameter.elements() : 0;
  }
  if (persistent > 0) {
    persistent_ = eager.empty({persistent}, dtype, TensorRole::kParameter);
  }
  eager.set_site("deepspeed.masters", -1);
  if (state_.offloads_optimizer()) {
    state_.hold_offloaded(bytes_of(2 * shard_, DType::kFp32).value());
  } else {
    const Tensor copy = eager.empty({shard_}, DType::kFp32, TensorRole::kTemporary);
    master_ = eager.empty({shard_}, DType::kFp32, TensorRole::kMasterParameter);
  }
  eager.set_site("deepspeed.buckets", -1);
  bucket_ = eager.empty({state_.zero.reduce_bucket_size}, dtype, TensorRole::kCommunication);
  if (!state_.offloads_optimizer()) {
    gradient_shard_ = eager.empty({shard_}, dtype, TensorRole::kGradient);
  }
  adam_ = std::make_unique<FlatAdam>(state_, shard_);
}

void ZeroPartitions::fetch(std::int32_t layer) {
  torch::Eager& eager = state_.eager;
  const auto found = std::find_if(live_.begin(), live_.end(),
                                  [&](const Gathered& each) { return each.layer == layer; });
  if (found != live_.end()) {
    std::rotate(found, found + 1, live_.end());  // Most recently used last.
    return;
  }
  const std::int64_t elements = layer_elements(layer);
  if (elements == 0) {
    return;
  }
  std::int64_t live = elements;
  for (const Gathered& each : live_) {
    live += each.elements;
  }
  while (!live_.empty() && live > state_.zero.max_live_parameters) {
    live -= live_.front().elements;
    live_.erase(live_.begin());
  }
  eager.set_site("deepspeed.all_gather", layer);
  const DType dtype = state_.model.trainable.front().dtype();
  // The coalesced gather fills one buffer; each parameter is then built from its slices.
  Tensor gathered =
      eager.empty({align_up(elements, state_.plan.world)}, dtype, TensorRole::kCommunication);
  Tensor built = eager.empty({elements}, dtype, TensorRole::kParameter);
  gathered.reset();
  torch::count_collective(eager, {.operation = "all_gather",
                                  .ranks = state_.plan.world,
                                  .calls = 1,
                                  .bytes = bytes_of(elements, dtype).value()});
  live_.push_back({.layer = layer, .elements = elements, .memory = std::move(built)});
}

void ZeroPartitions::release_all() {
  live_.clear();
}

void ZeroPartitions::before_backward() {
  filled_ = 0;
}

void ZeroPartitions::arrived(const Tensor& parameter) {
  if (filled_ + parameter.elements() > state_.zero.reduce_bucket_size && !waiting_.empty()) {
    reduce_bucket();
  }
  filled_ += parameter.elements();
  waiting_.push_back(parameter);
  if (parameter.elements() <= state_.zero.reduce_bucket_size) {
    state_.eager.drop_grad(parameter);  // Copied into the bucket.
  }
}

void ZeroPartitions::reduce_bucket() {
  torch::Eager& eager = state_.eager;
  eager.set_site("deepspeed.reduce_scatter", -1);
  const DType dtype = state_.model.trainable.front().dtype();
  // reduce_scatter_coalesced concatenates the bucket once more and reduces into a slice of it.
  {
    const Tensor joined =
        eager.empty({align_up(filled_, state_.plan.world)}, dtype, TensorRole::kCommunication);
  }
  torch::count_collective(eager, {.operation = "reduce_scatter",
                                  .ranks = state_.plan.world,
                                  .calls = 1,
                                  .bytes = bytes_of(filled_, dtype).value()});
  for (const Tensor& parameter : waiting_) {
    eager.drop_grad(parameter);
  }
  waiting_.clear();
  filled_ = 0;
}

void ZeroPartitions::after_backward() {
  if (!waiting_.empty()) {
    reduce_bucket();
  }
  release_all();
}

void ZeroPartitions::step() {
  torch::Eager& eager = state_.eager;
  if (state_.offloads_optimizer()) {
    return;
  }
  eager.set_site("deepspeed.fp32_gradients", -1);
  // One sub-group after the other.
  const std::int64_t group = std::min(shard_, state_.zero.sub_group_size);
  const Tensor gradients = eager.empty({group}, DType::kFp32, TensorRole::kGradient);
  adam_->step();
}

}  // namespace headroom::ir::deepspeed
