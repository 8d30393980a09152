#include "runtimes/torch/tensor.h"

#include <algorithm>

#include "model_ir/base/check.h"

namespace headroom::ir::torch {

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  HEADROOM_ASSERT(rank_ <= kMaxRank);
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

std::int64_t Shape::operator[](int index) const {
  const int at = index < 0 ? rank_ + index : index;
  HEADROOM_ASSERT(at >= 0 && at < rank_);
  return dims_[static_cast<std::size_t>(at)];
}

std::int64_t Shape::elements() const {
  std::int64_t product = 1;
  for (int i = 0; i < rank_; ++i) {
    product *= dims_[static_cast<std::size_t>(i)];
  }
  return product;
}

Shape Shape::with(int index, std::int64_t size) const {
  Shape copy = *this;
  copy.dims_[static_cast<std::size_t>(index < 0 ? rank_ + index : index)] = size;
  return copy;
}

Tensor::Tensor(Eager& eager, TensorImpl* impl) : eager_(&eager), impl_(impl) {
  if (impl_ != nullptr) {
    ++impl_->uses;
  }
}

Tensor::Tensor(const Tensor& other) : eager_(other.eager_), impl_(other.impl_) {
  if (impl_ != nullptr) {
    ++impl_->uses;
  }
}

Tensor& Tensor::operator=(const Tensor& other) {
  if (this != &other) {
    Tensor copy(other);
    *this = std::move(copy);
  }
  return *this;
}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this != &other) {
    reset();
    eager_ = other.eager_;
    impl_ = std::exchange(other.impl_, nullptr);
  }
  return *this;
}

}  // namespace headroom::ir::torch
