#pragma once

#include <cstdint>

#include "model_ir/base/device_traits.h"
#include "model_ir/plan/parallel_plan.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

/// Frozen linear layers as bitsandbytes stores and runs them.
/// Source: bitsandbytes 0.50.2, bitsandbytes/{functional.py,nn/modules.py,autograd/_functions.py},
///         bitsandbytes/backends/cuda/ops.py.
namespace headroom::ir::transformers {

/// A quantised weight. 4 bits (NF4 and FP4 alike): two codes per byte and a factor per 64 elements.
/// Double quantisation stores these factors as bytes, with one factor per 256 of them. 8 bits: one
/// byte per element and an fp32 factor per row.
struct QuantisedWeight {
  torch::Shape shape;             ///< [out, in] of the layer.
  int bits = 4;                   ///< 4 or 8.
  DType stored = DType::kBf16;    ///< Type of the weight before it was quantised.
  DType computed = DType::kBf16;  ///< 4 bits: type of the products.
  torch::Tensor packed;           ///< The codes.
  torch::Tensor factors;          ///< fp32, or uint8 under double quantisation.
  torch::Tensor codes;            ///< 4 bits: the 16 values. 8 bits: the weight, as `state.CB`.
  torch::Tensor offset;           ///< Double quantisation: mean of the factors.
  torch::Tensor outer_factors;    ///< Double quantisation: fp32 factors of the factors.
  torch::Tensor outer_codes;      ///< Double quantisation: the 256 values.
};

/// Largest number of input rows for which a 4-bit product reads the packed weight itself. With more
/// rows, the whole weight is dequantised first and takes memory.
/// Source: backends/cuda/ops.py, _gemm_4bit_use_custom_cuda, for 16-bit inputs on compute
/// capability 8.0 and newer.
[[nodiscard]] std::int64_t fused_rows(std::int64_t out, std::int64_t in,
                                      const DeviceTraits& device);

/// bnb_4bit_compute_dtype: the type in which 4-bit layers of `plan` compute.
[[nodiscard]] DType four_bit_arithmetic(const ParallelPlan& plan);

/// Quantises a weight of `dtype` on its way to the device, which briefly holds the full weight.
/// `plan` has quantised weights; `storage` is the type in which 4-bit codes are stored
/// (bnb_4bit_quant_storage); `dynamic_codes` is the table that all double quantisation shares, made
/// when first needed.
[[nodiscard]] QuantisedWeight quantise(torch::Eager& eager, const ParallelPlan& plan,
                                       const torch::Tensor& weight, DType storage,
                                       torch::Tensor& dynamic_codes);

/// The whole weight in the type it was quantised from.
[[nodiscard]] torch::Tensor dequantise(torch::Eager& eager, const QuantisedWeight& weight);

/// Linear4bit or Linear8bitLt. `bias` may be undefined. A bias whose type differs from the
/// product's is cast permanently, as the modules do at their first call.
[[nodiscard]] torch::Tensor quantised_linear(torch::Eager& eager, const QuantisedWeight& weight,
                                             const torch::Tensor& input, const torch::Tensor& bias);

}  // namespace headroom::ir::transformers
