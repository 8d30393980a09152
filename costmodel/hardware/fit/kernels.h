#pragma once

#include "costmodel/hardware/fit/samples.h"

namespace headroom::cost::fit {

/// Fits the rate of 16-bit products, what tiles, waves and k cost, and the memory's rate.
void fit_gemm(DevicePerformance& device, const Samples<ir::GemmShape>& samples);

/// The same from the products of a training framework, whose layouts are fitted too; the memory's
/// rate stays.
void fit_training_gemm(DevicePerformance& device, const Samples<ir::GemmShape>& samples);

/// A series of products alone on the device: as long as the host needs to hand them over, if that
/// is longer.
[[nodiscard]] Seconds series_time(const DevicePerformance& device, const ir::GemmShape& shape);

/// Fits what a series costs, with all else as it is.
void fit_series(DevicePerformance& device, const Samples<ir::GemmShape>& samples);

/// Fits forward rates by head size and the overhead of a block. Where nothing was measured at head
/// size 64, it is as far below 128 as FlashAttention-2 was elsewhere.
void fit_attention(DevicePerformance& device, const Samples<ir::AttentionShape>& samples);

/// Sets the rate of 16-bit products such that those of a training step of an 8B model at 8k tokens
/// run at `rate` together: a step keeps the power limit, a lone product does not.
void set_products_in_step(DevicePerformance& device, FlopsPerSecond rate);

/// Fits forward and backward rates at head size 128 and above; those at 64 keep their ratio to
/// them.
void fit_training_attention(DevicePerformance& device, const Samples<ir::AttentionShape>& samples);

/// Fits forward and backward rates at head sizes 64, 128 and above, from kernels of all these
/// sizes; with `overhead` that of a block, too.
void fit_all_attention(DevicePerformance& device, const Samples<ir::AttentionShape>& samples,
                       bool overhead);

}  // namespace headroom::cost::fit
