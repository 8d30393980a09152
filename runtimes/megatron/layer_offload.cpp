#include "runtimes/megatron/layer_offload.h"

#include <algorithm>
#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/megatron/streams.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/stream_scope.h"
#include "runtimes/torch/work_recorder.h"

namespace headroom::ir::megatron {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

/// Source: _check_if_offload; _check_if_offload_base_tensor.
bool OffloadedLayer::leaves(const Tensor& tensor) const {
  if (tensor->leaf_parameter) {
    return false;
  }
  switch (form_) {
    case SavedForm::kTensors:
      return tensor->storage->bytes == torch::bytes_of(tensor);
    case SavedForm::kWhole:
    case SavedForm::kPieces:
      return true;
    case SavedForm::kStaying:
      break;
  }
  return false;
}

std::vector<Shape> OffloadedLayer::pieces_of(const Tensor& tensor) const {
  if (form_ == SavedForm::kPieces) {
    std::vector<Shape> pieces;
    for (const std::int64_t rows : rows_) {
      pieces.push_back(tensor.shape().with(0, rows));
    }
    return pieces;
  }
  if (tensor->storage->bytes == torch::bytes_of(tensor)) {
    return {tensor.shape()};
  }
  return {Shape{tensor->storage->bytes / bytes_of(1, tensor.dtype()).value()}};
}

void OffloadedLayer::save_as(SavedForm form, std::vector<std::int64_t> rows) {
  form_ = form;
  rows_ = std::move(rows);
}

std::size_t OffloadedLayer::pack(Eager& eager, const Tensor& tensor, Tensor& kept) {
  eager.mark_saved(tensor);
  if (!leaves(tensor)) {
    kept = tensor;
    return 0;
  }
  const auto same = std::ranges::find_if(parts_, [&](const Part& part) {
    return form_ != SavedForm::kPieces && part.pieces.size() == 1 &&
           part.tensors.front()->storage == tensor->storage;
  });
  const auto part = static_cast<std::size_t>(same - parts_.begin());
  if (same == parts_.end()) {
    parts_.push_back({.tensors = {tensor},
                      .pieces = pieces_of(tensor),
                      .dtype = tensor.dtype(),
                      .mark = eager.record_mark(eager.stream())});
  }
  slots_.push_back({.part = part,
                    .shape = tensor.shape(),
                    .dtype = tensor.dtype(),
                    .layout = tensor->layout,
                    .requires_grad = tensor.requires_grad()});
  return slots_.size() - 1;
}

/// Source: pop_tensor; pytorch/pytorch torch/csrc/autograd/saved_variable.cpp, unpack. A tensor
///         that requires a gradient is returned as a new tensor on the same storage, because others
///         hold it.
Tensor OffloadedLayer::unpack(Eager& eager, std::size_t slot) {
  const Slot& wanted = slots_.at(slot);
  const Part& part = parts_[wanted.part];
  HEADROOM_ASSERT(!part.tensors.empty());
  if (back_) {
    eager.wait_mark(eager.stream(), part.mark);
  }
  const Tensor& held = part.tensors.front();
  if (!wanted.requires_grad && wanted.shape == held.shape()) {
    return held;
  }
  Tensor tensor = eager.alias(held, wanted.shape, true);
  tensor->dtype = wanted.dtype;
  tensor->layout = wanted.layout;
  tensor->requires_grad = wanted.requires_grad;
  return tensor;
}

void OffloadedLayer::send() {
  Eager& eager = context_.eager;
  const torch::StreamScope copies(eager, kOffloadStream);
  for (Part& part : parts_) {
    eager.wait_mark(kOffloadStream, part.mark);
    for (const Shape& piece : part.pieces) {
      const std::int64_t bytes = bytes_of(piece.elements(), part.dtype).value();
      pinned_.take(bytes);
      eager.run(CopyShape{.kind = CopyKind::kDeviceToHost, .bytes = bytes});
    }
    part.pinned = true;
  }
  left_ = eager.record_mark(kOffloadStream);
}

/// Python lists free their elements from the end.
void OffloadedLayer::drop_device_memory() {
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    while (!part->tensors.empty()) {
      part->tensors.pop_back();
    }
  }
}

void OffloadedLayer::release() {
  Eager& eager = context_.eager;
  eager.wait_mark(eager.stream(), left_);
  drop_device_memory();
}

void OffloadedLayer::fetch() {
  Eager& eager = context_.eager;
  for (Part& part : parts_) {
    for (const Shape& piece : part.pieces) {
      const Tensor& tensor =
          part.tensors.emplace_back(eager.empty(piece, part.dtype, TensorRole::kActivation));
      eager.wait_stream(kOffloadStream, eager.stream());
      const torch::StreamScope copies(eager, kOffloadStream);
      eager.run(CopyShape{.kind = CopyKind::kHostToDevice, .bytes = torch::bytes_of(tensor)});
      part.mark = eager.record_mark(kOffloadStream);
    }
  }
  back_ = true;
}

void OffloadedLayer::clear() {
  drop_device_memory();
  for (const Part& part : parts_) {
    for (std::size_t i = 0; part.pinned && i < part.pieces.size(); ++i) {
      pinned_.give_back(bytes_of(part.pieces[i].elements(), part.dtype).value());
    }
  }
  parts_.clear();
  slots_.clear();
  back_ = false;
}

LayerOffload::LayerOffload(const Context& context)
    : context_(context),
      pinned_(context.eager),
      offloaded_(static_cast<std::size_t>(context.megatron.offloaded_layers)) {
  for (std::size_t i = 0; enabled() && i < context.spec.layers.size(); ++i) {
    layers_.push_back(std::make_shared<OffloadedLayer>(context_, pinned_));
  }
}

/// Source: fwd_step; finish_offload_map.
torch::SavedTensorHooks* LayerOffload::begin_forward() {
  if (!enabled()) {
    return nullptr;
  }
  if (next_ == layers_.size()) {
    next_ = 0;
  }
  if (next_ == 0) {
    context_.eager.recorder().name_stream(kOffloadStream, "offload");
    for (const auto& layer : layers_) {
      layer->clear();
    }
  }
  if (next_ > 0 && next_ - 1 < offloaded_) {
    layers_[next_ - 1]->send();
  }
  const std::size_t staying = layers_.size() - offloaded_;
  if (next_ >= staying) {
    layers_[next_ - staying]->release();
  }
  inside_ = true;
  return layers_[next_].get();
}

void LayerOffload::finish_forward(const Tensor& output) {
  if (!enabled()) {
    return;
  }
  HEADROOM_ASSERT(!output->grad_fn->before_apply);
  output->grad_fn->before_apply = [this, layer = next_](Eager&) { begin_backward(layer); };
  ++next_;
  inside_ = false;
}

/// Source: bwd_step; start_reload_map.
void LayerOffload::begin_backward(std::size_t layer) {
  finish_backward();
  last_ = layers_[layer].get();
  const std::size_t staying = layers_.size() - offloaded_;
  if (layer + 1 >= staying && layer + 1 - staying < offloaded_) {
    layers_[layer + 1 - staying]->fetch();
  }
}

/// Source: finish_part_of_bwd.
void LayerOffload::finish_backward() {
  if (last_ != nullptr) {
    last_->clear();
    last_ = nullptr;
  }
}

void LayerOffload::save_as(SavedForm form, std::vector<std::int64_t> rows) {
  if (inside_) {
    layers_[next_]->save_as(form, std::move(rows));
  }
}

void LayerOffload::hold(const Tensor& tensor) {
  if (inside_ && tensor.defined()) {
    Tensor kept;
    layers_[next_]->pack(context_.eager, tensor, kept);
  }
}

}  // namespace headroom::ir::megatron
