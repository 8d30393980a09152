#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "runtimes/torch/tensor.h"

namespace headroom::ir::transformers {

/// The tensors that one operator reads or makes. They are released in their order.
class TensorList {
 public:
  explicit TensorList(std::size_t count) : count_(count) {
    if (count > few_.size()) {
      many_.resize(count);
    }
  }
  ~TensorList() { clear(); }
  TensorList(const TensorList&) = delete;
  TensorList& operator=(const TensorList&) = delete;

  [[nodiscard]] std::span<torch::Tensor> all() {
    return {many_.empty() ? few_.data() : many_.data(), count_};
  }
  [[nodiscard]] torch::Tensor& operator[](std::size_t index) { return all()[index]; }
  [[nodiscard]] std::size_t size() const { return count_; }
  void clear() {
    for (torch::Tensor& tensor : all()) {
      tensor.reset();
    }
  }

 private:
  std::array<torch::Tensor, 6> few_;
  std::vector<torch::Tensor> many_;  ///< In place of `few_` if these are not enough.
  std::size_t count_;
};

}  // namespace headroom::ir::transformers
