#pragma once

#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

struct FlashPackageOptions {
  double dropout = 0;
  bool causal = true;
};

/// `flash_attn_func` of q [B, A, S, D], k and v [B, K, S', D], 16 bits, seen as [B, S, A, D], to
/// [B, A, S, D].
///
/// Model:   keeps queries, keys, values, output, the log-sum-exp of each row in fp32 and one tensor
///          of random state. Heads that are no multiple of 8 are padded with zeros inside, the
///          padded ones are kept, and what comes out is cut to D without a copy; gradients are cut
///          so, too.
/// Source:  Dao-AILab/flash-attention 2.8.3 flash_attn/flash_attn_interface.py, FlashAttnFunc.
[[nodiscard]] Tensor flash_package(Eager& eager, const Tensor& q, const Tensor& k, const Tensor& v,
                                   const FlashPackageOptions& options);

/// torch.nn.functional.pad of the last dim of heads, which are seen so that their rows lie as
/// `layout` says: a copy with zeros behind each row up to `dim`, whose backward copies what was
/// there before. Themselves where no zeros are missing.
/// Source: pytorch/pytorch aten/src/ATen/native/PadNd.cpp, constant_pad_nd.
[[nodiscard]] Tensor pad_rows(Eager& eager, const Tensor& heads, std::int64_t dim, Layout layout);

/// The first `dim` elements of each row of heads, without a copy: no dense memory.
[[nodiscard]] Tensor cut_rows(Eager& eager, const Tensor& heads, std::int64_t dim);

}  // namespace headroom::ir::torch
