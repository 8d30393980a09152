#pragma once

#include <cstddef>
#include <cstdint>

#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::megatron {

/// The scales of a product's operands in the order that its kernel reads: copies while it runs.
/// Source: pytorch/csrc/util.cpp, swizzle_scaling_factors.
struct ReadScales {
  torch::Tensor first;
  torch::Tensor second;
};

/// For which products a matrix is cast.
enum class Fp8Use : std::uint8_t { kRows, kColumns, kBoth };

/// What is cast: blocks of scales of a weight are square, those of what is gathered afterwards lie
/// in the order of the rows.
enum class Fp8Operand : std::uint8_t { kActivation, kGathered, kWeight };

/// Whether each tensor has one scale: delayed and current scaling.
[[nodiscard]] bool scales_whole_tensor(const Runner& run);

/// is_non_tn_fp8_gemm_supported: no product wants a transposed copy.
/// Source: transformer_engine/common/gemm/cublaslt_gemm.cu, nvte_is_non_tn_fp8_gemm_supported.
[[nodiscard]] bool reads_both_ways(const Runner& run);

/// The quantizer's create_tensor: memory for a matrix of `shape`.
/// Source: pytorch/csrc/quantizer.cpp.
[[nodiscard]] Fp8Tensor empty_fp8(const Runner& run, const torch::Shape& shape, Fp8Use use,
                                  Fp8Operand operand);
/// Bytes of the scales for products along rows, or columns, of a matrix with blocks of scales.
[[nodiscard]] std::int64_t fp8_scale_bytes(const Runner& run, const torch::Shape& shape,
                                           Fp8Use side, Fp8Operand operand);
/// The work of casting `input` into `result`; `known`: its largest value has been found before.
void launch_cast(const Runner& run, const torch::Tensor& input, const Fp8Tensor& result,
                 Fp8Operand operand, bool known);
/// quantizer(input)
[[nodiscard]] Fp8Tensor cast_to_fp8(const Runner& run, const torch::Tensor& input, Fp8Use use,
                                    Fp8Operand operand);

/// Which parts of a cast tensor an operator has saved, one after the other.
class SavedFp8 {
 public:
  SavedFp8() = default;
  SavedFp8(torch::Record& record, const Fp8Tensor& tensor);
  /// The parts from number `next` on of what backward unpacks; counts `next` on.
  [[nodiscard]] Fp8Tensor restore(const torch::Unpacked& saved, std::size_t& next) const;

 private:
  bool rows_ = false;
  bool row_scales_ = false;
  bool columns_ = false;
  bool column_scales_ = false;
};

/// update_usage(rowwise_usage=False): what only products along rows read goes.
void keep_columns(Fp8Tensor& tensor);
/// clear_tensor_data: frees the memory even if others still hold the tensor.
void clear(const Runner& run, const Fp8Tensor& tensor);

enum class Beside : std::uint8_t;  // te_gemm.h

/// gather_along_first_dim of what has been cast for `use`, `beside` the next product.
/// Source: pytorch/distributed.py, _all_gather_fp8, _all_gather_fp8_blockwise, _all_gather_mxfp8.
[[nodiscard]] Fp8Tensor gather_fp8(const Runner& run, const Fp8Tensor& part, Fp8Use use,
                                   Beside beside);

/// Called when the gather is complete: transposes the columns if products need that.
void finish_gather(const Runner& run, Fp8Tensor& whole);

/// get_weight_workspace: a weight in 8 bits, cast with the first micro-batch of a step and kept.
/// What has rows alone is cast again where both are wanted or, with square blocks, turned in
/// backward. What is held in 8 bits alone serves both products as it is.
/// Source: pytorch/module/base.py.
[[nodiscard]] Fp8Tensor fp8_weight(const Runner& run, const torch::Tensor& weight, Fp8Use use);
/// What follows where a weight that is held in 8 bits has changed: its columns are made anew or,
/// under mxfp8, both, of what has been gathered in 16 bits.
/// Source: pytorch/tensor/utils.py, post_all_gather_processing.
void refresh_weight(const Runner& run, const torch::Tensor& weight);
/// For what a layer without a norm casts its weight: for both products also where it runs to be run
/// again, unless whole layers are, whose checkpoints begin before 8 bits are switched on.
/// Source: pytorch/distributed.py, activation_recompute_forward; module/linear.py.
[[nodiscard]] Fp8Use weight_use(const Runner& run);
/// update_usage(columnwise_usage=True) in backward: blocks of scales let columns be made of rows.
[[nodiscard]] Fp8Tensor weight_with_columns(const Runner& run, const torch::Tensor& weight,
                                            const Fp8Tensor& kept);

}  // namespace headroom::ir::megatron
