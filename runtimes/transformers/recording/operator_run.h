#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model_ir/spec/recording/recording.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"
#include "runtimes/transformers/recording/prepared_code.h"

namespace headroom::ir::transformers {

/// Allocates the outputs of a recorded operator in its order, with the temporaries inside, and
/// gives the device its work. `outputs` has as many undefined tensors as the operator has outputs.
void run_operator(torch::Eager& eager, const PreparedInstruction& instruction,
                  std::span<const torch::Tensor> inputs, std::span<torch::Tensor> outputs);

/// Whether the operator makes nothing and returns its input, as PyTorch's `to` does if the input
/// has the type already, and `contiguous` if it has the order.
[[nodiscard]] bool returns_input(const PreparedInstruction& instruction,
                                 std::span<const torch::Tensor> inputs);

/// The values of running code. A value that is dropped takes its views with it.
class Values {
 public:
  explicit Values(std::uint32_t count) : slots_(count) {}

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(slots_.size()); }
  [[nodiscard]] const torch::Tensor& operator[](std::uint32_t value) const {
    return slots_[value].tensor;
  }
  void set(std::uint32_t value, torch::Tensor tensor) {
    slots_[value].tensor = std::move(tensor);
    slots_[value].root = value;
  }
  /// A tensor on the storage of `base`.
  void set_shared(std::uint32_t value, std::uint32_t base, torch::Tensor tensor);
  /// Puts the output of an instruction, which may share the storage of one of its inputs.
  void put(const Instruction& instruction, std::size_t output, torch::Tensor tensor);
  /// Another tensor on the same storage takes the place of a value.
  void replace(std::uint32_t value, torch::Tensor tensor) {
    slots_[value].tensor = std::move(tensor);
    slots_[value].root = slots_[value].root == kNone ? value : slots_[value].root;
  }
  void drop(std::uint32_t value);
  /// Drops all values on the storage of `tensor`.
  void forget(const torch::Tensor& tensor);

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Slot {
    torch::Tensor tensor;
    std::uint32_t root = kNone;  ///< The value that owns the storage; kNone: not made.
    std::uint32_t next = kNone;  ///< The next value on the same storage.
  };
  std::vector<Slot> slots_;
};

}  // namespace headroom::ir::transformers
