#pragma once

#include "costmodel/hardware/fit/samples.h"

namespace headroom::cost::fit {

/// Fits the rate of 16-bit products, the costs of tiles, waves and k, and the memory bandwidth.
void fit_gemm(DevicePerformance& device, const Samples<ir::GemmShape>& samples);

/// The same from the products of a training framework, whose layouts are fitted too; the memory
/// bandwidth stays as it is.
void fit_training_gemm(DevicePerformance& device, const Samples<ir::GemmShape>& samples);

/// Fits everything that products of one GPU determine if the memory's rate is known: the rate of
/// 16-bit products, the costs of tiles, waves and k, both layouts, and the shortest product.
void fit_measured_gemm(DevicePerformance& device, const Samples<ir::GemmShape>& samples);

/// Finds the value of one figure of `device` with which products take what was measured: a rate or
/// a factor above 0, which `figure` refers to.
void fit_gemm_figure(DevicePerformance& device, double GemmPerformance::*figure,
                     const Samples<ir::GemmShape>& samples);
void fit_gemm_figure(DevicePerformance& device, FlopsPerSecond GemmPerformance::*figure,
                     const Samples<ir::GemmShape>& samples);

/// Time of a series of products alone on the device: the host's time to launch them, if that is
/// longer.
[[nodiscard]] Seconds series_time(const DevicePerformance& device, const ir::GemmShape& shape);

/// Fits the costs of a series; everything else stays as it is.
void fit_series(DevicePerformance& device, const Samples<ir::GemmShape>& samples);

/// Fits forward rates by head size and the overhead of a block. Without measurements at head size
/// 64, its rate is set below that of 128 by the ratio that FlashAttention-2 has elsewhere.
void fit_attention(DevicePerformance& device, const Samples<ir::AttentionShape>& samples);

/// Sets the rate of 16-bit products such that the products of a training step of an 8B model at 8k
/// tokens together run at `rate`. A step runs at the clocks of the power limit; a single product
/// does not.
void set_products_in_step(DevicePerformance& device, FlopsPerSecond rate);

/// Fits forward and backward rates at head size 128 and above; the rates at 64 keep their ratio to
/// them.
void fit_training_attention(DevicePerformance& device, const Samples<ir::AttentionShape>& samples);

/// The same with rates of their own for forward and backward above head size 128.
void fit_wide_attention(DevicePerformance& device, const Samples<ir::AttentionShape>& samples);

/// Fits forward and backward rates at head sizes 64, 128 and above, from kernels of all these
/// sizes; with `overhead`, also the overhead of a block.
void fit_all_attention(DevicePerformance& device, const Samples<ir::AttentionShape>& samples,
                       bool overhead);

}  // namespace headroom::cost::fit
