#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/base/units.h"

namespace headroom::check {

/// Used memory at one moment.
struct UseSample {
  std::size_t reading = 0;        ///< Number of the row or table in the log, from 0.
  std::optional<double> seconds;  ///< Seconds since some moment, if the log has times.
  Bytes used;
};

/// The memory of a GPU, or of one process on it, over a log.
struct MemoryUse {
  std::string gpu;   ///< Index, UUID or bus address, as the log names it.
  std::string name;  ///< Name of the GPU or of the process; empty: not said.
  std::optional<std::int64_t> process{};
  std::optional<Bytes> total{};  ///< Memory of a GPU; none for a process.
  std::vector<UseSample> samples;
};

/// The uses of GPU memory in a monitor's log.
struct GpuLog {
  std::string source;  ///< "nvidia-smi --query-gpu", "nvidia-smi", "nvidia-smi dmon"
  std::vector<MemoryUse> gpus;
  std::vector<MemoryUse> processes;
  std::size_t skipped = 0;  ///< Rows that could not be read, such as a cut last line.
};

inline constexpr std::size_t kMostUseSamples = 4'000'000;
inline constexpr std::size_t kMostUses = 4'096;

/// The change of a use over its log.
struct UseTrend {
  UseSample peak;  ///< The first of the highest ones.
  Bytes first;
  Bytes last;
  std::array<Bytes, 4> quarters{};  ///< Peaks of four equal parts of the samples.
  /// Bytes per hour from the first to the last sample; nothing without times.
  std::optional<double> per_hour;
  bool grows = false;  ///< Whether each quarter's peak is above that of the quarter before.
};
/// Requires at least one sample.
[[nodiscard]] UseTrend trend_of(const MemoryUse& use);

}  // namespace headroom::check
