#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

#include "model_ir/base/check.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/dtype.h"

namespace headroom::ir::torch {

class Eager;
class Node;

/// Sizes of a tensor, outermost first; at most eight dims.
class Shape {
 public:
  static constexpr int kMaxRank = 8;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  [[nodiscard]] int rank() const { return rank_; }
  /// Size of dim `index`; negative counts from the end.
  [[nodiscard]] std::int64_t operator[](int index) const {
    const int at = index < 0 ? rank_ + index : index;
    HEADROOM_ASSERT(at >= 0 && at < rank_);
    return dims_[static_cast<std::size_t>(at)];
  }
  [[nodiscard]] std::int64_t elements() const { return elements_; }
  [[nodiscard]] Shape with(int index, std::int64_t size) const;  ///< A copy with one dim replaced.
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  void count();

  std::int64_t elements_ =
      1;  ///< Product of the dims: it is asked for more often than they change.
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// Device memory shared by the tensors that are views of one another.
struct Storage {
  BlockId block = 0;
  std::size_t event = 0;   ///< Index of its allocation in the program.
  std::int64_t bytes = 0;  ///< 0: resized to 0, or not on a device.
  int uses = 0;
  StreamId stream = 0;
  bool recorded = false;  ///< Another stream uses it: see `Eager::record_stream`.
};

/// Memory order of a tensor of shape [B, A, S, D]. All other tensors are contiguous.
enum class Layout : std::uint8_t {
  kContiguous,
  kSwapped,   ///< Memory order [B, S, A, D]: `view(B, S, A, D).transpose(1, 2)` of a projection.
  kRepeated,  ///< A part is viewed several times: `expand` over the head or the batch dim.
  kColumns,   ///< Memory order [B, A, D, S]: the gradient of transposed keys.
};

/// What PyTorch calls TensorImpl. Reference-counted by `Tensor`; owned by `Eager`.
struct TensorImpl {
  int uses = 0;
  DType dtype = DType::kFp32;
  bool requires_grad = false;
  bool leaf_parameter = false;
  /// Made by a view operator while autograd tracks views. The view keeps its base alive, so the
  /// storage never counts as unshared. Source: torch/csrc/autograd/variable.h, ViewInfo.
  bool tracked_view = false;
  Layout layout = Layout::kContiguous;
  int output_index = 0;
  Shape shape;
  Storage* storage = nullptr;
  Node* grad_fn = nullptr;      ///< Counted reference.
  TensorImpl* grad = nullptr;   ///< Counted; leaves only.
  Node* accumulator = nullptr;  ///< AccumulateGrad of a leaf; counted.
};

/// A counted reference to a tensor, as a Python name or a C++ local variable holds one. When the
/// last reference is dropped, the storage is freed at that point of the program.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Eager& eager, TensorImpl* impl) : eager_(&eager), impl_(impl) {
    if (impl_ != nullptr) {
      ++impl_->uses;
    }
  }
  Tensor(const Tensor& other) : eager_(other.eager_), impl_(other.impl_) {
    if (impl_ != nullptr) {
      ++impl_->uses;
    }
  }
  Tensor(Tensor&& other) noexcept
      : eager_(other.eager_), impl_(std::exchange(other.impl_, nullptr)) {}
  Tensor& operator=(const Tensor& other) {
    if (this != &other) {
      Tensor copy(other);
      *this = std::move(copy);
    }
    return *this;
  }
  Tensor& operator=(Tensor&& other) noexcept {
    if (this != &other) {
      reset();
      eager_ = other.eager_;
      impl_ = std::exchange(other.impl_, nullptr);
    }
    return *this;
  }
  ~Tensor() { reset(); }

  void reset() {
    if (impl_ != nullptr) {
      drop();
    }
  }
  [[nodiscard]] bool defined() const { return impl_ != nullptr; }
  explicit operator bool() const { return defined(); }
  [[nodiscard]] TensorImpl* impl() const { return impl_; }
  TensorImpl* operator->() const { return impl_; }
  [[nodiscard]] const Shape& shape() const { return impl_->shape; }
  [[nodiscard]] DType dtype() const { return impl_->dtype; }
  [[nodiscard]] std::int64_t elements() const { return impl_->shape.elements(); }
  [[nodiscard]] bool requires_grad() const { return impl_ != nullptr && impl_->requires_grad; }

 private:
  void drop();  ///< In eager.cpp: an unreferenced tensor returns to the process that owns it.

  Eager* eager_ = nullptr;
  TensorImpl* impl_ = nullptr;
};

}  // namespace headroom::ir::torch
