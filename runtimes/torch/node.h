#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

/// Who takes what operators save for backward, in place of their nodes.
/// Source: pytorch/pytorch torch/autograd/graph.py, saved_tensors_hooks.
class SavedTensorHooks : public std::enable_shared_from_this<SavedTensorHooks> {
 public:
  SavedTensorHooks() = default;
  virtual ~SavedTensorHooks() = default;
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;

  /// An operator saves `tensor`: returns where it can be asked for. What is put in `kept` stays
  /// with the operator's node, and nobody will ask.
  virtual std::size_t pack(Eager& eager, const Tensor& tensor, Tensor& kept) = 0;
  /// Backward wants the tensor.
  [[nodiscard]] virtual Tensor unpack(Eager& eager, std::size_t slot) = 0;
  /// The node has let go of it.
  virtual void forget(std::size_t slot) = 0;
};

/// What an operator keeps for backward: the tensor itself, or where the hooks in force have it.
class SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(Tensor tensor) : tensor_(std::move(tensor)) {}
  /// What `hooks` have taken under `slot`.
  SavedTensor(SavedTensorHooks& hooks, std::size_t slot)
      : hooks_(hooks.shared_from_this()), slot_(slot) {}
  /// The tensor. Hooks hand it out once.
  [[nodiscard]] Tensor unpack(Eager& eager);
  void reset();

 private:
  Tensor tensor_;
  std::shared_ptr<SavedTensorHooks> hooks_;
  std::size_t slot_ = 0;
};

struct Edge {
  Node* node = nullptr;  ///< Counted; null: no gradient wanted.
  int input_index = 0;
};

using Gradients = std::vector<Tensor>;

/// One backward step of an operator.
class Node {
 public:
  /// Gradients of the outputs in, gradients of the inputs out (undefined where none is wanted).
  using Apply = std::function<Gradients(Eager&, Gradients& grads, Node& node)>;

  std::uint64_t sequence = 0;
  int uses = 0;
  std::uint32_t site_operation = 0;
  std::int32_t layer = -1;
  StreamId stream = 0;       ///< On which it runs and gradients for it are added up.
  bool distributed = false;  ///< Gradients for it are DTensors, never added up in place.
  int inputs = 1;            ///< Gradients it waits for: outputs of the forward operator.
  std::vector<Edge> next;
  std::vector<SavedTensor> saved;
  std::vector<Shape> input_shapes;  ///< Of `next`: a wider gradient is summed down to it.
  std::vector<DType> input_dtypes;
  Apply apply;
  TensorImpl* leaf = nullptr;  ///< AccumulateGrad: the leaf (not counted).
  Tensor leaf_owner;           ///< AccumulateGrad of a leaf that is no parameter: keeps it.
  /// Runs when all gradients of the outputs are there (hooks of tensors).
  std::function<void(Eager&)> before_apply;
  /// Runs after a leaf's gradient has been accumulated (DDP, ZeRO).
  std::function<void(Eager&)> after_accumulate;

  [[nodiscard]] bool wants(std::size_t input) const { return next[input].node != nullptr; }
  void release_saved();
};

/// What a backward function unpacks: its local names, which go in reverse order when it returns.
class Unpacked {
 public:
  Unpacked(Eager& eager, Node& node);
  ~Unpacked();
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;
  [[nodiscard]] const Tensor& operator[](std::size_t index) const { return tensors_.at(index); }

 private:
  std::vector<Tensor> tensors_;
};

/// A fresh node without uses; it goes when `drop_use` takes the last one.
[[nodiscard]] Node* make_node();
void add_use(Node* node);
void drop_use(Node* node);

}  // namespace headroom::ir::torch
