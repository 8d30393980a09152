#pragma once

#include <cstdint>

#include "model_ir/base/device_traits.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

/// Operators for mixtures of experts: choosing rows, sorting and gathering them, and one product
/// per row group. Sizes never depend on the values, so they do not depend on how many tokens an
/// expert gets. Shape letters: T tokens, k experts per token, E experts.
namespace headroom::ir::torch {

/// Bytes that the arguments of one group of a grouped product take: three pointers, three strides
/// and a shape of three 32-bit numbers, which a kernel of their own writes.
/// Source: pytorch/pytorch aten/src/ATen/native/cuda/GroupMM.cu.
inline constexpr std::int64_t kGroupArgumentBytes = 3 * 8 + 3 * 8 + 3 * 4;

/// Temporary storage of a radix sort of 64-bit keys with 64-bit values; the lowest `bits` of the
/// keys are compared.
///
/// Model:  one tile: 1 byte; otherwise per 8 bits a histogram of 256 64-bit counters and a 32-bit
///         ticket; 256 32-bit look-back slots per tile; a second copy of keys and values if there
///         are several passes; each rounded to 256 bytes, and 255 to align the first.
/// Source: NVIDIA/cccl cub/cub/device/dispatch/dispatch_radix_sort.cuh, invoke_onesweep; tile
///         sizes in tuning/tuning_radix_sort.cuh, observed on PyTorch 2.11.
[[nodiscard]] std::int64_t radix_sort_bytes(std::int64_t items, int bits,
                                            const DeviceTraits& device);

/// `torch.sort` of a vector of int64.
struct Sorted {
  Tensor values;
  Tensor indices;
};
[[nodiscard]] Sorted sort_ids(Eager& eager, const Tensor& ids);

/// `input[index]` over the first dim. Backward sums the rows into a zero tensor (index_put_ with
/// accumulation, which sorts the indices). Indices of int32 are widened each time they are used.
/// Source: aten/src/ATen/native/cuda/Indexing.cu, index_put_with_sort_kernel.
[[nodiscard]] Tensor gather_rows(Eager& eager, const Tensor& input, const Tensor& index);

/// `input[row, token]` over the first two dims, N pairs: [B, S, X] -> [N, X], [B, S] -> [N].
/// Backward is that of `gather_rows`.
[[nodiscard]] Tensor gather_tokens(Eager& eager, const Tensor& input, const Tensor& row,
                                   const Tensor& token);

/// `input.gather(-1, index)`; backward scatters into a zero tensor.
[[nodiscard]] Tensor gather_last(Eager& eager, const Tensor& input, const Tensor& index);

/// The largest `k` of the last dim.
struct TopK {
  Tensor values;
  Tensor indices;
};
[[nodiscard]] TopK top_k(Eager& eager, const Tensor& input, std::int64_t k);

/// `input.masked_fill(mask, value)`.
[[nodiscard]] Tensor masked_fill(Eager& eager, const Tensor& input, const Tensor& mask);
/// The same in place: the result has the storage of `input`.
[[nodiscard]] Tensor masked_fill_in_place(Eager& eager, const Tensor& input, const Tensor& mask);

/// `input /= divisor` in place, with a divisor per row.
[[nodiscard]] Tensor divide_in_place(Eager& eager, const Tensor& input, const Tensor& divisor);

/// [.., n] -> [.., 1]: sum(dim=-1, keepdim=True) over a few elements. Autocast sums in fp32.
[[nodiscard]] Tensor sum_rows(Eager& eager, const Tensor& input);
/// [.., n] -> [..]: sum(dim=-1).
[[nodiscard]] Tensor sum_last_dim(Eager& eager, const Tensor& input);
/// [T*k, H] -> [T, H]: view(T, k, H).sum(dim=1).
[[nodiscard]] Tensor sum_groups(Eager& eager, const Tensor& input, std::int64_t k);

/// `target[index] = values` over the first dim, in place; `target` itself requires no gradient. The
/// result has the storage of `target`. Source: derivatives.yaml, index_put_.
[[nodiscard]] Tensor put_rows(Eager& eager, const Tensor& target, const Tensor& index,
                              const Tensor& values);

/// torch.vstack((input, zeros(H))): [T, H] -> [T+1, H].
[[nodiscard]] Tensor append_zero_row(Eager& eager, const Tensor& input);
/// input[:rows], a view. Backward fills a zero tensor of the whole shape.
[[nodiscard]] Tensor first_rows(Eager& eager, const Tensor& input, std::int64_t rows);

/// `input / divisor`, with a divisor per row.
[[nodiscard]] Tensor divide(Eager& eager, const Tensor& input, const Tensor& divisor);

/// torch.histc of int64 ids: counts per bin, for `bins` bins.
[[nodiscard]] Tensor histogram(Eager& eager, const Tensor& ids, std::int64_t bins);

/// `torch.cumsum` of a vector of int32, or of int64 counts into int32.
[[nodiscard]] Tensor cumulative_counts(Eager& eager, const Tensor& counts);
/// `torch.cumsum` of a vector of integers: int64. Those of int32 are widened first.
[[nodiscard]] Tensor cumulative_sum(Eager& eager, const Tensor& counts);

/// A view with other dims in another order, such as a transposed one; its gradient is copied back.
[[nodiscard]] Tensor permuted(Eager& eager, const Tensor& input, const Shape& seen_as);

/// baddbmm: `base` [E, out, in] plus the product of `left` [E, out, r], which is permuted in memory
/// and copied first, and `right` [E, r, in].
[[nodiscard]] Tensor add_products(Eager& eager, const Tensor& base, const Tensor& left,
                                  const Tensor& right);

/// Layout of the weights of a grouped product.
enum class GroupedWeight {
  kOutIn,  ///< [E, out, in], transposed for the product.
  kInOut,  ///< [E, in, out]
};

/// `grouped_mm` of rows [S, in], sorted by expert, with one weight per expert; `offsets` [E] are
/// the ends of the experts' rows.
///
/// Model:  bf16 on compute capability 9.0 and 10.0 runs one CUTLASS kernel: 60 bytes of arguments
///         per expert and a workspace per multiprocessor. Otherwise, one product per expert writes
///         into the output, without additional memory.
/// Source: pytorch/pytorch 2.11 aten/src/ATen/native/cuda/GroupMM.cu and
///         aten/src/ATen/native/GroupedMMUtils.h; workspace bytes observed.
[[nodiscard]] Tensor grouped_mm(Eager& eager, const Tensor& input, const Tensor& weight,
                                const Tensor& offsets, GroupedWeight layout);

}  // namespace headroom::ir::torch
