#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

struct FlashPackageOptions {
  double dropout = 0;
  bool causal = true;
};

/// `flash_attn_func` of q [B, A, S, D], k and v [B, K, S', D], 16 bits, viewed as [B, S, A, D], to
/// [B, A, S, D].
///
/// Model:   keeps queries, keys, values, output, the log-sum-exp of each row in fp32 and one tensor
///          of random state. Head sizes that are not a multiple of 8 are padded with zeros inside,
///          and the padded heads are kept. Outputs and gradients are cut to D without a copy.
/// Source:  Dao-AILab/flash-attention 2.8.3 flash_attn/flash_attn_interface.py, FlashAttnFunc.
[[nodiscard]] Tensor flash_package(Eager& eager, const Tensor& q, const Tensor& k, const Tensor& v,
                                   const FlashPackageOptions& options);

/// torch.nn.functional.pad of the last dim of heads, viewed so that rows have the order of
/// `layout`. It copies each row with zeros up to `dim`; its backward copies the original part.
/// Returns `heads` itself if no zeros are needed.
/// Source: pytorch/pytorch aten/src/ATen/native/PadNd.cpp, constant_pad_nd.
[[nodiscard]] Tensor pad_rows(Eager& eager, const Tensor& heads, std::int64_t dim, Layout layout);

/// The first `dim` elements of each row of heads, without a copy, so the memory is not dense.
[[nodiscard]] Tensor cut_rows(Eager& eager, const Tensor& heads, std::int64_t dim);

}  // namespace headroom::ir::torch
