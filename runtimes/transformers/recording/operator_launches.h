#pragma once

#include <cstdint>
#include <span>

#include "model_ir/spec/recording/recording.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::transformers {

/// The rule by which operators of one kind launch kernels; products and attention have none.
enum class LaunchRule : std::uint8_t {
  kOnce,
  kAfterFill,     ///< Fills the output with zeros first: gradients of slices, padding.
  kNormGradient,  ///< A second kernel for gradients of weights.
  kTwice,
  kThrice,
  kConcatenation,
  kScan,
  kSort,
  kTopK,
  kIndexPut,
  kEmbeddingGradient,
  kPower,
  kRepeat,
  kSum,
  kCopy,  ///< By a copy engine where the order of elements stays.
};
[[nodiscard]] LaunchRule launch_rule_of(const Instruction& instruction);

/// Kernels that an operator launches; 0 where a copy engine does its work. Tensors whose offsets
/// need more than 32 bits are halved until they fit. `gathers`: the first input is read in part
/// only.
/// Source: pytorch/pytorch 2.11, aten/src/ATen/native/cuda: Shape.cu (cat), ScanKernels.cpp and
/// ScanUtils.cuh (cumsum), Sort.cpp and Sort.cu (should_use_small_sort), TensorTopK.cpp,
/// Indexing.cu (index_put_with_sort_kernel), Embedding.cu (embedding_dense_backward_cuda),
/// layer_norm_kernel.cu, PowKernel.cu; the numbers are those that the operators launch in a dry
/// run.
[[nodiscard]] std::int64_t launches_of(LaunchRule rule, const Instruction& instruction,
                                       std::span<const torch::Tensor> inputs,
                                       std::span<const torch::Tensor> outputs, bool gathers);

}  // namespace headroom::ir::transformers
