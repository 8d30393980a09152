#include "runtimes/megatron/schedule_node.h"

#include "runtimes/torch/stream_scope.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Tensor;

/// `tensor.detach()` as a leaf that collects a gradient.
Tensor leaf_of(Eager& eager, const Tensor& tensor) {
  Tensor leaf = eager.alias(tensor, tensor.shape(), false);
  leaf->layout = tensor->layout;
  leaf->requires_grad = tensor.requires_grad();
  return leaf;
}

/// The gradients that leaves have collected.
ScheduleNode::Tensors gradients_of(Eager& eager, const ScheduleNode::Tensors& leaves) {
  ScheduleNode::Tensors gradients;
  gradients.reserve(leaves.size());
  for (const Tensor& leaf : leaves) {
    gradients.emplace_back(leaf.defined() ? Tensor(eager, leaf->grad) : Tensor{});
  }
  return gradients;
}

}  // namespace

ScheduleNode::Tensors ScheduleNode::forward(const Tensors& inputs, const Function& function) {
  Eager& eager = run_.eager();
  event_->wait(place_.stream);
  {
    const torch::StreamScope scope(eager, place_.stream);
    for (const Tensor& input : inputs) {
      inputs_.push_back(input.defined() ? leaf_of(eager, input) : Tensor{});
    }
    outputs_ = function(*this, inputs_);
  }
  event_->record(place_.stream);
  for (const Tensor& input : inputs) {
    if (place_.frees_inputs && input.defined()) {
      record_stream(input);
      eager.drain_storage(input);
    }
  }
  return outputs_;
}

ScheduleNode::Tensors ScheduleNode::backward(const Tensors& gradients) {
  Eager& eager = run_.eager();
  Tensors seeds = gradients;
  event_->wait(place_.stream);
  {
    const torch::StreamScope scope(eager, place_.stream);
    for (Tensor& gradient : gradients_of(eager, detached_)) {
      seeds.push_back(std::move(gradient));
    }
    Tensors roots = outputs_;
    roots.insert(roots.end(), before_detached_.begin(), before_detached_.end());
    Process::Owed* const before = run_.process.exchange_owed(place_.owes ? &owed_ : nullptr);
    eager.backward(roots, seeds);
    run_.process.exchange_owed(before);
  }
  if (run_.context.megatron.delayed_weight_gradients) {
    owed_gradients_ = seeds;
  }
  event_->record(place_.stream);
  for (const Tensor& gradient : seeds) {
    if (gradient.defined()) {
      record_stream(gradient);
    }
  }
  Tensors result = gradients_of(eager, inputs_);
  inputs_.clear();
  outputs_.clear();
  return result;
}

void ScheduleNode::run_owed() {
  for (std::function<void()>& product : owed_) {
    product();
    product = {};
  }
  owed_.clear();
  owed_gradients_.clear();
}

Tensor ScheduleNode::detach(const Tensor& tensor) {
  before_detached_.push_back(tensor);
  return detached_.emplace_back(leaf_of(run_.eager(), tensor));
}

/// `tensor.record_stream`: without effect on the stream that allocated it.
void ScheduleNode::record_stream(const Tensor& tensor) const {
  if (tensor->storage != nullptr && tensor->storage->bytes > 0 &&
      tensor->storage->stream != place_.stream) {
    run_.eager().record_stream(tensor);
  }
}

}  // namespace headroom::ir::megatron
