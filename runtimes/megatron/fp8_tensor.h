#pragma once

#include <cstddef>
#include <cstdint>

#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::megatron {

/// The scales of a product's operands, swizzled to the order that its kernel reads. The copies live
/// while the product runs.
/// Source: pytorch/csrc/util.cpp, swizzle_scaling_factors.
struct ReadScales {
  torch::Tensor first;
  torch::Tensor second;
};

/// The products for which a matrix is cast: those that read it row-wise, column-wise, or both.
enum class Fp8Use : std::uint8_t { kRows, kColumns, kBoth };

/// What is cast. Block scales of a weight are two-dimensional. Those of an operand that is gathered
/// afterwards are in row order.
enum class Fp8Operand : std::uint8_t { kActivation, kGathered, kWeight };

/// Whether each tensor has one scale, as with delayed and current scaling.
[[nodiscard]] bool scales_whole_tensor(const Runner& run);

/// is_non_tn_fp8_gemm_supported: whether products need no transposed copy.
/// Source: transformer_engine/common/gemm/cublaslt_gemm.cu, nvte_is_non_tn_fp8_gemm_supported.
[[nodiscard]] bool reads_both_ways(const Runner& run);

/// The quantizer's create_tensor: allocates a matrix of `shape`.
/// Source: pytorch/csrc/quantizer.cpp.
[[nodiscard]] Fp8Tensor empty_fp8(const Runner& run, const torch::Shape& shape, Fp8Use use,
                                  Fp8Operand operand);
/// Bytes of the row-wise or column-wise scales of a matrix with block scales.
[[nodiscard]] std::int64_t fp8_scale_bytes(const Runner& run, const torch::Shape& shape,
                                           Fp8Use side, Fp8Operand operand);
/// The kernels that cast `input` into `result`. `known`: the absolute maximum (amax) is already
/// known.
void launch_cast(const Runner& run, const torch::Tensor& input, const Fp8Tensor& result,
                 Fp8Operand operand, bool known);
/// quantizer(input).
[[nodiscard]] Fp8Tensor cast_to_fp8(const Runner& run, const torch::Tensor& input, Fp8Use use,
                                    Fp8Operand operand);

/// Records which parts of a cast tensor an operator has saved, one after the other.
class SavedFp8 {
 public:
  SavedFp8() = default;
  SavedFp8(torch::Record& record, const Fp8Tensor& tensor);
  /// Restores the parts from index `next` of what backward unpacks; advances `next` past them.
  [[nodiscard]] Fp8Tensor restore(const torch::Unpacked& saved, std::size_t& next) const;

 private:
  bool rows_ = false;
  bool row_scales_ = false;
  bool columns_ = false;
  bool column_scales_ = false;
};

/// update_usage(rowwise_usage=False): frees the data that only row-wise products read.
void keep_columns(Fp8Tensor& tensor);
/// clear_tensor_data: frees the memory even if others still hold the tensor.
void clear(const Runner& run, const Fp8Tensor& tensor);

enum class Beside : std::uint8_t;  // te_gemm.h

/// gather_along_first_dim of a tensor that was cast for `use`; `beside`: how the gather overlaps
/// the next product.
/// Source: pytorch/distributed.py, _all_gather_fp8, _all_gather_fp8_blockwise, _all_gather_mxfp8.
[[nodiscard]] Fp8Tensor gather_fp8(const Runner& run, const Fp8Tensor& part, Fp8Use use,
                                   Beside beside);

/// Called when the gather is complete: transposes the columns if products need that.
void finish_gather(const Runner& run, Fp8Tensor& whole);

/// get_weight_workspace: an FP8 weight, which the first micro-batch of a step casts and the others
/// reuse. If it has only row-wise data and both are needed, it is cast again or, with 128 x 128
/// blocks, transposed in backward. A weight that is stored only in FP8 serves both products as it
/// is.
/// Source: pytorch/module/base.py.
[[nodiscard]] Fp8Tensor fp8_weight(const Runner& run, const torch::Tensor& weight, Fp8Use use);
/// Called when a weight that is stored in FP8 has changed. Makes its column-wise data again or,
/// under mxfp8, both from the 16-bit weights that were gathered.
/// Source: pytorch/tensor/utils.py, post_all_gather_processing.
void refresh_weight(const Runner& run, const torch::Tensor& weight);
/// The products for which a layer without a norm casts its weight. A forward that will be
/// recomputed also casts for both, unless whole layers are recomputed: their checkpoints begin
/// before FP8 is enabled.
/// Source: pytorch/distributed.py, activation_recompute_forward; module/linear.py.
[[nodiscard]] Fp8Use weight_use(const Runner& run);
/// update_usage(columnwise_usage=True) in backward: with block scales, column-wise data are made
/// from row-wise data.
[[nodiscard]] Fp8Tensor weight_with_columns(const Runner& run, const torch::Tensor& weight,
                                            const Fp8Tensor& kept);

}  // namespace headroom::ir::megatron
