#pragma once

#include <cstdint>
#include <span>

#include "model_ir/base/device_traits.h"

/// Tables of addresses and block numbers, which the copies before and after a collective send to
/// the device.
namespace headroom::ir::fsdp {

/// Bytes of the table of `split_with_sizes_copy`, which copies a gathered buffer into the
/// parameters. `chunk_bytes`: the bytes of one rank's part of each parameter.
/// Source: pytorch/pytorch 2.11 aten/src/ATen/native/cuda/TensorShape.cu,
/// split_with_sizes_copy_out_cuda_contiguous_no_cast.
[[nodiscard]] std::int64_t split_copy_table_bytes(std::span<const std::int64_t> chunk_bytes,
                                                  std::int64_t ranks, const DeviceTraits& device);

/// Bytes of the table of `chunk_cat`, which lays out gradients for a reduce-scatter. `chunk_bytes`:
/// the bytes of one rank's part of each gradient in the type of the reduction.
/// Source: the same file, get_chunk_cat_metadata.
[[nodiscard]] std::int64_t chunk_cat_table_bytes(std::span<const std::int64_t> chunk_bytes);

}  // namespace headroom::ir::fsdp
