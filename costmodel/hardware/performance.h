#pragma once

#include <string>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/result.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/device_work.h"

namespace headroom::cost {

/// How matrix products run. Rates are those of the whole device with every multiprocessor busy on
/// full tiles of a long k; `kernel_time.h` says how the other figures enter.
struct GemmPerformance {
  FlopsPerSecond fp32;
  FlopsPerSecond half;
  FlopsPerSecond fp8;
  double tile_loss = 0;     ///< Elements: a tile of [a, b] takes 1 + tile_loss (1/a + 1/b) times as
                            ///< long an element, against one of [256, 128].
  double k_overhead = 0;    ///< Elements of k that starting and ending one tile take.
  double wave_loss = 0;     ///< Share of what an unfilled last wave leaves idle that is lost.
  double overlap_loss = 0;  ///< Share of the shorter of computing and moving that shows.
  Seconds floor;            ///< The shortest product.
  double input_gradient = 1;   ///< Time of the NN layout over that of TN.
  double weight_gradient = 1;  ///< Time of the NT layout over that of TN.
  double together = 1;         ///< Rate with the run's other devices at work, over that alone.
  double uneven_rows = 1;      ///< Rate where rows are no multiple of 16 bytes, over the usual one.
  double odd_rows = 1;         ///< The same where they hold an odd number of elements.
  double series = 1;           ///< Time of a series (`ir::GemmBatch`) over its waves'.
  double accumulate_loss = 0;  ///< Share of what a series' accumulated results move that shows.
  Seconds series_call;         ///< What the host needs for each product of a series.
};

/// Rates of fused attention by head size: up to 64, and 128; between them in between; and above.
/// Flops are counted as computed: half of them for a causal mask.
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
  AttentionRates flash2;     ///< FlashAttention-2; the same where that is the own generation's.
  AttentionRates efficient;  ///< PyTorch's memory-efficient kernels; as flash2 where not measured.
  double key_overhead = 0;   ///< Keys that starting and ending one block of queries take.
  Seconds floor;
};

/// Every rate of `attention` times `factor`.
void scale_attention(AttentionPerformance& attention, double factor);

/// Kernels that only move memory.
struct MemoryPerformance {
  BytesPerSecond rate;         ///< Read and written together.
  Seconds floor;               ///< The shortest kernel, to the start of the next one on its stream.
  BytesPerSecond permutation;  ///< Of kernels of those kinds (`ir::TrafficKind`).
  BytesPerSecond cross_entropy;
  double elements = 0;  ///< A second, of kernels whose threads handle one each; 0: no limit.
  /// Seconds that an element of a list takes beside its bytes, by kind of kernel.
  double list_element = 0;
  double fused_step_element = 0;
  double quantised_step_element = 0;
  Bytes cache;            ///< The last cache before the device memory.
  BytesPerSecond cached;  ///< Of what the cache still holds.
};

/// What the host needs to hand over one kernel.
struct LaunchPerformance {
  Seconds eager;     ///< An operator of PyTorch.
  Seconds module;    ///< Transformer Engine's and Megatron's modules, which take Python longer.
  Seconds exchange;  ///< A dispatch or a combine of HybridEP.
  Seconds tensor;    ///< That a loop of Transformer Engine makes, beside what it launches.
  Seconds compiled;  ///< torch.compile without graphs.
  Seconds graph;     ///< A CUDA graph.
};

/// Copies over the link to the host, and work done there.
struct HostPerformance {
  BytesPerSecond to_device;  ///< Pinned memory, one direction.
  BytesPerSecond to_host;
  Seconds latency;      ///< Of one copy.
  BytesPerSecond work;  ///< Bytes of host memory that CPU Adam reads and writes in a second.
};

/// What one GPU achieves, as opposed to its datasheet.
struct DevicePerformance {
  std::string device;  ///< Catalogue name.
  std::string file;    ///< Where the figures come from.
  std::string note;    ///< Empty if they were fitted to this device; else whose they are.
  int multiprocessors = 1;
  GemmPerformance gemm;
  AttentionPerformance attention;
  MemoryPerformance memory;
  LaunchPerformance launch;
  HostPerformance host;
};

/// The performance of `device`: its own file of `configs/performance`, or else the file of its
/// family (`families.json` there, by device, capability or architecture), whose shares then apply
/// to the device's datasheet rates, less where it has less power for them; `note` states its use.
///
/// Errors:  kInvalidInput with every fault of the file; kInvalidArgument for a device of a family
///          without measurements; those of `load_link` for its link to the host.
[[nodiscard]] Result<DevicePerformance> performance_of(const std::string& config_dir,
                                                       const DeviceSpec& device);

/// The same from a file of one's own, measured on the user's GPU, in the form of
/// `configs/schema/performance.schema.json`.
///
/// Errors:  kEnvironment if it cannot be read; kInvalidInput with every fault: an unknown key, a
///          share or a time that is zero or negative, a figure without a source.
[[nodiscard]] Result<DevicePerformance> read_performance(const std::string& path,
                                                         const DeviceSpec& device,
                                                         const LinkSpec& host_link);

}  // namespace headroom::cost
