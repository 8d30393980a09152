#pragma once

#include <initializer_list>
#include <span>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/node.h"

namespace headroom::ir::torch {

/// The AccumulateGrad node of a leaf, made at its first use. It runs as soon as possible, because
/// it has the highest sequence number.
/// Source: pytorch/pytorch torch/csrc/autograd/functions/accumulate_grad.cpp.
[[nodiscard]] Node* accumulator_of(Eager& eager, TensorImpl* leaf);

/// Builds the backward node of one operator call. Inactive when no gradient can flow.
///
///   Record record(eager, {&a, &b});       // decides whether a node is needed
///   record.save(a);                       // inputs first, as generated autograd code does
///   Tensor out = eager.empty(...);
///   record.finish(out, apply);            // out.grad_fn = node
class Record {
 public:
  Record(Eager& eager, std::initializer_list<const Tensor*> inputs);
  Record(Eager& eager, std::span<const Tensor> inputs);
  ~Record();
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  [[nodiscard]] bool active() const { return node_ != nullptr; }
  /// Whether input `index` needs a gradient.
  [[nodiscard]] bool wants(std::size_t index) const { return active() && node_->wants(index); }
  void save(const Tensor& tensor);
  /// Saves an output of this operator: the same memory without the node, which would otherwise keep
  /// itself alive if backward never comes to it.
  /// Source: torch/csrc/autograd/saved_variable.cpp, SavedVariable (is_output).
  void save_output(const Tensor& output);
  void finish(Tensor& output, Node::Apply apply);
  /// For operators with several differentiable outputs; undefined ones are ignored.
  void finish(std::span<Tensor* const> outputs, Node::Apply apply);

 private:
  [[nodiscard]] bool begin(bool wanted);
  void add_edge(const Tensor& input);

  Eager& eager_;
  Node* node_ = nullptr;
};

}  // namespace headroom::ir::torch
