#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/spec/recording/recording.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::transformers {

/// The state that all recorded code of one call shares.
struct Replay {
  const Recording& recording;
  BatchSizes sizes;

  [[nodiscard]] torch::Shape shape_of(const RecordedShape& shape) const;
};

/// Allocates the outputs of a recorded operator in its order, with the temporaries inside, and
/// gives the device its work.
[[nodiscard]] std::vector<torch::Tensor> run_operator(torch::Eager& eager, const Replay& replay,
                                                      const Instruction& instruction,
                                                      const std::vector<torch::Tensor>& inputs);

/// The values of running code. A value that is dropped takes its views with it.
class Values {
 public:
  explicit Values(std::uint32_t count) : tensors_(count), roots_(count), next_(count, kNone) {}

  [[nodiscard]] const torch::Tensor& operator[](std::uint32_t value) const {
    return tensors_[value];
  }
  void set(std::uint32_t value, torch::Tensor tensor) {
    tensors_[value] = std::move(tensor);
    roots_[value] = value;
  }
  /// A tensor on the storage of `base`.
  void set_shared(std::uint32_t value, std::uint32_t base, torch::Tensor tensor);
  /// Puts the output of an instruction, which may share the storage of one of its inputs.
  void put(const Instruction& instruction, std::size_t output, torch::Tensor tensor);
  /// Another tensor on the same storage takes the place of a value.
  void replace(std::uint32_t value, torch::Tensor tensor) { tensors_[value] = std::move(tensor); }
  void drop(std::uint32_t value);
  [[nodiscard]] torch::Tensor take(std::uint32_t value) { return std::move(tensors_[value]); }

 private:
  std::vector<torch::Tensor> tensors_;
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::vector<std::uint32_t> roots_;  ///< The value that owns the storage.
  std::vector<std::uint32_t> next_;   ///< The next value on the same storage.
};

}  // namespace headroom::ir::transformers
