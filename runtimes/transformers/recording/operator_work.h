#pragma once

#include <cstdint>
#include <span>

#include "model_ir/spec/recording/recording.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"
#include "runtimes/transformers/recording/operator_launches.h"

namespace headroom::ir::transformers {

/// The engine's own knowledge about an ATen operator, by its name.
struct OperatorTraits {
  enum class Work : std::uint8_t {
    kNothing,        ///< Launches no kernel.
    kTraffic,        ///< Reads its inputs and writes its outputs once.
    kProduct,        ///< Of inputs 0 and 1.
    kBiasedProduct,  ///< Of inputs 1 and 2.
    kGrouped,
    kConvolution,
    kAttention,
    kAttentionBackward,
  };
  enum class Workspace : std::uint8_t { kNone, kCublas, kCublasOfBias };

  Work work = Work::kTraffic;
  Workspace workspace = Workspace::kNone;
  LaunchRule launches = LaunchRule::kOnce;
  bool gathers = false;     ///< Reads as many elements of its first input as it writes.
  bool efficient = false;   ///< The memory-efficient kernel of attention.
  bool transposes = false;  ///< torch.transpose
  bool attends = false;     ///< scaled_dot_product_attention as a whole, which is no operator.
  bool keeps = false;       ///< No operator either: a module keeps a tensor for its next call.
  bool sums_rows = false;   ///< The gradient of a table, which sorts where many rows were read.
  bool drops = false;       ///< Dropout, which returns its input in evaluation mode.
  bool casts = false;       ///< torch.Tensor.to, which returns an input of the right type.
  bool typed_temporaries = false;  ///< Temporaries have the type of the first output.
};
[[nodiscard]] OperatorTraits traits_of(const Instruction& instruction);

/// Allocates the workspaces that the libraries behind an operator take at their first call.
void touch_workspaces(torch::Eager& eager, const OperatorTraits& traits,
                      std::span<const torch::Tensor> inputs);

/// Gives the device what an ATen operator computes: a matrix product, attention, or traffic.
/// Operators that are not known by name count as kernels that read their inputs and write their
/// outputs once.
void give_work(torch::Eager& eager, const OperatorTraits& traits, const Instruction& instruction,
               std::span<const torch::Tensor> inputs, std::span<const torch::Tensor> outputs);

}  // namespace headroom::ir::transformers
