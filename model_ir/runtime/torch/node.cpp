#include "model_ir/runtime/torch/node.h"

#include <utility>

#include "model_ir/runtime/torch/checkpoint.h"
#include "model_ir/runtime/torch/eager.h"

namespace headroom::ir::torch {

SavedTensor::SavedTensor(Eager& eager, const Tensor& tensor) {
  if (CheckpointFrame* const frame = eager.checkpoint()) {
    slot_ = frame->pack(eager, tensor, tensor_);
    if (!tensor_.defined()) {
      frame_ = frame->shared_from_this();
    }
    return;
  }
  tensor_ = tensor;
  eager.mark_saved(tensor);
}

Tensor SavedTensor::unpack(Eager& eager) {
  return frame_ ? frame_->unpack(eager, slot_) : tensor_;
}

void SavedTensor::reset() {
  tensor_.reset();
  if (frame_) {
    frame_->forget(slot_);
    frame_.reset();
  }
}

void Node::release_saved() {
  for (SavedTensor& each : saved) {
    each.reset();
  }
  saved.clear();
}

Unpacked::Unpacked(Eager& eager, Node& node) {
  tensors_.reserve(node.saved.size());
  for (SavedTensor& each : node.saved) {
    tensors_.push_back(each.unpack(eager));
  }
}

Unpacked::~Unpacked() {
  while (!tensors_.empty()) {
    tensors_.pop_back();
  }
}

void add_use(Node* node) {
  if (node != nullptr) {
    ++node->uses;
  }
}

void drop_use(Node* node) {
  // Graphs are deep: nodes that die are collected in a list instead of recursing along the edges.
  std::vector<Node*> pending{node};
  while (!pending.empty()) {
    Node* const each = pending.back();
    pending.pop_back();
    if (each == nullptr || --each->uses > 0) {
      continue;
    }
    for (const Edge& edge : each->next) {
      pending.push_back(edge.node);
    }
    each->next.clear();
    each->release_saved();
    if (each->leaf_owner.defined()) {
      each->leaf->accumulator = nullptr;
    }
    delete each;
  }
}

}  // namespace headroom::ir::torch
