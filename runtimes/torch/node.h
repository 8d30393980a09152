#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <boost/container/small_vector.hpp>

#include "runtimes/torch/backward_function.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

/// Hooks that take the tensors that operators save for backward, instead of the nodes.
/// Source: pytorch/pytorch torch/autograd/graph.py, saved_tensors_hooks.
class SavedTensorHooks : public std::enable_shared_from_this<SavedTensorHooks> {
 public:
  SavedTensorHooks() = default;
  virtual ~SavedTensorHooks() = default;
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;

  /// Called when an operator saves `tensor`. Returns the slot for `unpack`. If `kept` is set, the
  /// operator's node stores that tensor itself and never calls `unpack`.
  virtual std::size_t pack(Eager& eager, const Tensor& tensor, Tensor& kept) = 0;
  /// Called when backward needs the tensor.
  [[nodiscard]] virtual Tensor unpack(Eager& eager, std::size_t slot) = 0;
  /// Called when the node releases the tensor.
  virtual void forget(std::size_t slot) = 0;
};

/// What an operator saves for backward: the tensor itself, or the slot in which the active hooks
/// have it.
class SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(Tensor tensor) : tensor_(std::move(tensor)) {}
  /// The slot `slot` of `hooks`.
  SavedTensor(SavedTensorHooks& hooks, std::size_t slot)
      : hooks_(hooks.shared_from_this()), slot_(slot) {}
  /// The tensor. Hooks return it only once.
  [[nodiscard]] Tensor unpack(Eager& eager);
  void reset();

 private:
  Tensor tensor_;
  std::shared_ptr<SavedTensorHooks> hooks_;
  std::size_t slot_ = 0;
};

struct Edge {
  Node* node = nullptr;  ///< Counted reference; null: no gradient is needed.
  int input_index = 0;
};

/// One backward step of an operator. Most operators have up to three inputs, whose edges lie in the
/// node itself: the engine visits graphs of thousands of nodes, and each place in memory counts.
class Node {
 public:
  using Apply = BackwardFunction;

  std::uint64_t run = 0;    ///< The run of the engine that reached it last. 0: no run has.
  std::uint32_t place = 0;  ///< The place of what it waits for in that run.
  int uses = 0;
  int inputs = 1;            ///< Number of gradients it waits for: outputs of the forward operator.
  StreamId stream = 0;       ///< The stream on which it runs and gradients for it are summed.
  bool unfused = false;      ///< `Eager::unfused`, of its forward operator.
  bool distributed = false;  ///< Gradients for it are DTensors, which are never summed in place.
  boost::container::small_vector<Edge, 3> next;
  TensorImpl* leaf = nullptr;  ///< AccumulateGrad: the leaf (not counted).
  std::uint64_t sequence = 0;
  std::uint32_t site_operation = 0;
  std::int32_t layer = -1;
  Apply apply;
  boost::container::small_vector<SavedTensor, 2> saved;
  boost::container::small_vector<DType, 4> input_dtypes;
  /// The shapes of the inputs in `next`: a wider gradient is summed to its input's shape.
  boost::container::small_vector<Shape, 3> input_shapes;
  Tensor leaf_owner;  ///< AccumulateGrad of a leaf that is no parameter: keeps it alive.
  /// Runs when all gradients of the outputs have arrived (hooks of tensors).
  std::function<void(Eager&)> before_apply;
  /// Runs after a leaf's gradient has been accumulated (DDP, ZeRO).
  std::function<void(Eager&)> after_accumulate;

  [[nodiscard]] bool wants(std::size_t input) const { return next[input].node != nullptr; }
  void release_saved();
};

/// The tensors that a backward function unpacks. They are its local variables, which are released
/// in reverse order when it returns.
class Unpacked {
 public:
  Unpacked(Eager& eager, Node& node);
  ~Unpacked();
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;
  [[nodiscard]] const Tensor& operator[](std::size_t index) const { return tensors_.at(index); }

 private:
  boost::container::small_vector<Tensor, 6> tensors_;
};

/// A new node without references; it dies when `drop_use` drops the last one.
[[nodiscard]] Node* make_node();
void add_use(Node* node);
void drop_use(Node* node);

}  // namespace headroom::ir::torch
