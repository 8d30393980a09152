#pragma once

#include <string>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/result.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/device_work.h"

namespace headroom::cost {

/// How GEMMs run. The rates are those of the whole device with every multiprocessor busy on full
/// tiles of a long k; `kernel_time.h` describes how the other figures are used.
struct GemmPerformance {
  FlopsPerSecond fp32;
  FlopsPerSecond half;
  FlopsPerSecond fp8;
  double tile_loss = 0;     ///< In elements. One element of a tile [a, b] takes longer by the
                            ///< factor 1 + tile_loss (1/a + 1/b), relative to a tile of [256, 128].
  double k_overhead = 0;    ///< Start and end of one tile, in elements of k.
  double wave_loss = 0;     ///< The share of an unfilled last wave's idle time that is lost.
  double overlap_loss = 0;  ///< Exposed share of the shorter of computation and traffic.
  Seconds floor;            ///< The shortest product.
  double input_gradient = 1;   ///< Time of the NN layout relative to TN.
  double weight_gradient = 1;  ///< Time of the NT layout relative to TN.
  double together = 1;         ///< Rate while the run's other devices work, relative to that alone.
  double uneven_rows = 1;      ///< Rate if rows are no multiple of 16 bytes, relative to others.
  double odd_rows = 1;         ///< The same if rows have an odd number of elements.
  double micro_scaled = 1;     ///< Time with micro-scaled operands relative to 8-bit ones with a
                               ///< scale per tensor.
  double series = 1;           ///< Time of a series (`ir::GemmBatch`) relative to its waves' time.
  double accumulate_loss = 0;  ///< Exposed share of the traffic of a series' accumulated results.
  Seconds series_call;         ///< Host time for each product of a series.
};

/// Rates of fused attention by head size: up to 64, at 128, and above; interpolated between 64 and
/// 128. FLOPs are counted as computed: half of them with a causal mask.
struct AttentionRates {
  FlopsPerSecond forward_64;
  FlopsPerSecond forward_128;
  FlopsPerSecond backward_64;
  FlopsPerSecond backward_128;
  FlopsPerSecond forward_wide;
  FlopsPerSecond backward_wide;
};

/// How fused attention runs.
struct AttentionPerformance {
  AttentionRates native;     ///< Kernels of the GPU's own generation.
  AttentionRates flash2;     ///< FlashAttention-2; `native` where that is the own generation's.
  AttentionRates efficient;  ///< PyTorch's memory-efficient kernels; as `flash2` if not measured.
  AttentionRates executor;   ///< Kernels of headroom's executor, whose programs have
                             ///< FlashAttention-2 in their place; as `flash2` if not measured.
  double key_overhead = 0;   ///< Start and end of one block of queries, in keys.
  Seconds floor;
};

/// Multiplies every rate of `attention` by `factor`.
void scale_attention(AttentionPerformance& attention, double factor);

/// Kernels that only move memory.
struct MemoryPerformance {
  BytesPerSecond rate;         ///< Bytes read and written per second.
  Seconds floor;               ///< The shortest kernel, up to the next one's start on its stream.
  BytesPerSecond permutation;  ///< Rates of kernels of these kinds (`ir::TrafficKind`).
  BytesPerSecond cross_entropy;
  double elements = 0;  ///< Elements per second of kernels with one per thread; 0: no limit.
  bool wide = false;    ///< Only kernels of kind kOneByOne have that limit.
  /// Seconds per element of a list in addition to its bytes, by kind of kernel.
  double list_element = 0;
  double fused_step_element = 0;
  double quantised_step_element = 0;
  Bytes cache;            ///< The last cache before the device memory.
  BytesPerSecond cached;  ///< Rate of data that is still in the cache.
};

/// Host time to launch one kernel.
struct LaunchPerformance {
  Seconds eager;     ///< An operator of PyTorch.
  Seconds module;    ///< Modules of Transformer Engine and Megatron, which run more Python.
  Seconds exchange;  ///< A dispatch or combine of HybridEP.
  Seconds tensor;    ///< Each tensor made by a loop of Transformer Engine, besides its launches.
  Seconds compiled;  ///< torch.compile without graphs.
  Seconds graph;     ///< A CUDA graph.
  Seconds driver;    ///< The driver alone, as headroom's executor calls it; as `graph` if unknown.
};

/// Copies over the link to the host, and work done there.
struct HostPerformance {
  BytesPerSecond to_device;  ///< Pinned memory, one direction.
  BytesPerSecond to_host;
  Seconds latency;      ///< Latency of one copy.
  BytesPerSecond work;  ///< Bytes of host memory that CPU Adam reads and writes per second.
  /// Bytes that drives read or write per second. Samsung 980 PRO datasheet, 2020: 5 GB/s of
  /// sequential writes, 7 of reads; one such drive is assumed where nothing is known.
  BytesPerSecond nvme{5e9};
};

/// What one GPU achieves, as opposed to its datasheet.
struct DevicePerformance {
  std::string device;      ///< Catalogue name.
  std::string file;        ///< The file that the figures come from.
  std::string note;        ///< Empty if the figures were fitted to this device; otherwise names the
                           ///< device they come from.
  bool estimated = false;  ///< Nothing was measured on devices of this family: datasheet rates.
  int multiprocessors = 1;
  GemmPerformance gemm;
  AttentionPerformance attention;
  MemoryPerformance memory;
  LaunchPerformance launch;
  HostPerformance host;
};

/// The performance of `device`: the member "performance" of the file that it was read from
/// (`DeviceSpec::performance_file`); or its own file in `configs/performance`, or the file of its
/// family (`families.json` there, by device, capability or architecture). The family's shares then
/// apply to the device's datasheet rates, lowered if it has less power for them; `note` says so.
///
/// Errors:  kInvalidInput with every fault of the file; kInvalidArgument for a device of a family
///          without measurements; those of `load_link` for its link to the host.
[[nodiscard]] Result<DevicePerformance> performance_of(const std::string& config_dir,
                                                       const DeviceSpec& device);

/// An estimate for a device of a family without measurements: the shares of the measured device
/// that `families.json` names under "datasheet-" and the architecture, applied to the datasheet
/// rates of `device`. `estimated` is set, and `note` says so.
///
/// Errors:  as `performance_of`; kInvalidArgument if there is no such entry.
[[nodiscard]] Result<DevicePerformance> performance_from_datasheet(const std::string& config_dir,
                                                                   const DeviceSpec& device);

/// The same from the user's own file, measured on the user's GPU, in the form of
/// `configs/schema/performance.schema.json`.
///
/// Errors:  kEnvironment if it cannot be read; kInvalidInput with every fault: an unknown key, a
///          share or a time that is zero or negative, a figure without a source.
[[nodiscard]] Result<DevicePerformance> read_performance(const std::string& path,
                                                         const DeviceSpec& device,
                                                         const LinkSpec& host_link);

}  // namespace headroom::cost
