#include "runtimes/torch/tensor.h"

#include <algorithm>

#include "model_ir/base/check.h"

namespace headroom::ir::torch {

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  HEADROOM_ASSERT(rank_ <= kMaxRank);
  std::copy(dims.begin(), dims.end(), dims_.begin());
  count();
}

void Shape::count() {
  elements_ = 1;
  for (int i = 0; i < rank_; ++i) {
    elements_ *= dims_[static_cast<std::size_t>(i)];
  }
}

Shape Shape::with(int index, std::int64_t size) const {
  Shape copy = *this;
  copy.dims_[static_cast<std::size_t>(index < 0 ? rank_ + index : index)] = size;
  copy.count();
  return copy;
}

}  // namespace headroom::ir::torch
