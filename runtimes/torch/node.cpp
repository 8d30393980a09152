#include "runtimes/torch/node.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace headroom::ir::torch {

Tensor SavedTensor::unpack(Eager& eager) {
  return hooks_ ? hooks_->unpack(eager, slot_) : tensor_;
}

void SavedTensor::reset() {
  tensor_.reset();
  if (hooks_) {
    hooks_->forget(slot_);
    hooks_.reset();
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

namespace {

/// A pool of dead nodes. Their vectors keep their memory for new nodes: every step of a program
/// makes as many again, and allocating them took a third of the time of a prediction.
class NodePool {
 public:
  NodePool() = default;
  NodePool(const NodePool&) = delete;
  NodePool& operator=(const NodePool&) = delete;
  /// A node that lives on may need what its thread no longer has: its chunk is left alone.
  ~NodePool() {
    if (idle_.size() < kChunk * chunks_.size()) {
      for (std::unique_ptr<Node[]>& chunk : chunks_) {
        static_cast<void>(chunk.release());
      }
    }
  }

  Node* take() {
    if (idle_.empty()) {
      add_nodes();
    }
    Node* const node = idle_.back();
    idle_.pop_back();
    return node;
  }

  /// Nodes to which dead nodes pointed.
  [[nodiscard]] std::vector<Node*>& pending() { return pending_; }

  void give(Node* node) {
    node->sequence = 0;
    node->layer = -1;
    node->inputs = 1;
    node->next.clear();
    node->saved.clear();
    node->input_shapes.clear();
    node->input_dtypes.clear();
    node->apply.reset();
    node->leaf = nullptr;
    node->leaf_owner.reset();
    node->stream = 0;
    node->distributed = false;
    node->run = 0;
    node->before_apply = nullptr;
    node->after_accumulate = nullptr;
    idle_.push_back(node);
  }

 private:
  static constexpr std::size_t kChunk = 64;

  /// Makes nodes that lie next to each other, the first of them to be taken first.
  void add_nodes() {
    Node* const first = chunks_.emplace_back(std::make_unique<Node[]>(kChunk)).get();
    idle_.reserve(chunks_.size() * kChunk);
    for (std::size_t i = kChunk; i > 0; --i) {
      idle_.push_back(first + i - 1);
    }
  }

  std::vector<std::unique_ptr<Node[]>> chunks_;
  std::vector<Node*> idle_;
  std::vector<Node*> pending_;
};

NodePool& node_pool() {
  thread_local NodePool pool;
  return pool;
}

}  // namespace

Node* make_node() {
  return node_pool().take();
}

void add_use(Node* node) {
  if (node != nullptr) {
    ++node->uses;
  }
}

void drop_use(Node* node) {
  if (node == nullptr || --node->uses > 0) {
    return;
  }
  // Graphs are deep: the nodes that a dead node points to are collected in a list instead of
  // recursing. The saved tensors of a dead node can end other graphs, which use the list above
  // what is on it.
  std::vector<Node*>& pending = node_pool().pending();
  const std::size_t base = pending.size();
  const auto bury = [&pending](Node* dead) {
    for (const Edge& edge : dead->next) {
      pending.push_back(edge.node);
    }
    dead->next.clear();
    dead->release_saved();
    if (dead->leaf_owner.defined()) {
      dead->leaf->accumulator = nullptr;
    }
    node_pool().give(dead);
  };
  bury(node);
  while (pending.size() > base) {
    Node* const each = pending.back();
    pending.pop_back();
    if (each != nullptr && --each->uses == 0) {
      bury(each);
    }
  }
}

}  // namespace headroom::ir::torch
