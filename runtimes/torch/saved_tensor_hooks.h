#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "runtimes/torch/eager.h"
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

/// Puts hooks in force for a scope; none where `hooks` is null.
class SavedTensorScope {
 public:
  SavedTensorScope(Eager& eager, SavedTensorHooks* hooks)
      : eager_(eager), before_(eager.exchange_saved_tensor_hooks(hooks)) {}
  ~SavedTensorScope() { eager_.exchange_saved_tensor_hooks(before_); }
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  Eager& eager_;
  SavedTensorHooks* before_;
};

}  // namespace headroom::ir::torch
