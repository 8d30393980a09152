#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "validators/snapshot/against.h"
#include "validators/snapshot/allocator_stats.h"
#include "validators/snapshot/gpu_log.h"
#include "validators/snapshot/growth.h"
#include "validators/snapshot/snapshot.h"
#include "validators/snapshot/stack_rules.h"
#include "validators/snapshot/summary.h"

namespace headroom::cli {

/// What one device of a snapshot did.
struct DeviceAnswer {
  check::DeviceSummary summary;
  check::Growth leaks;  ///< What grew from step to step within the history.
  std::optional<check::PeakComparison> comparison;  ///< With --against, for the first device.
};

/// All data of the answer of `snapshot` for one file.
struct SnapshotAnswer {
  std::string file;
  std::string against;  ///< The plan file of --against; empty: none.
  check::Snapshot snapshot;
  std::vector<DeviceAnswer> devices;
  std::vector<std::string> notes;
};

/// All data of the answer of `snapshot` for several files.
struct GrowthAnswer {
  check::Growth growth;
  std::vector<std::string> notes;
};

/// The answer of `snapshot` for torch.cuda.memory_summary() and memory_stats().
struct StatsAnswer {
  std::string file;
  std::vector<check::AllocatorStats> stats;  ///< At least one, in the order of the file.
  std::vector<std::string> notes;
};

/// The answer of `snapshot` for a log of nvidia-smi.
struct GpuLogAnswer {
  std::string file;
  check::GpuLog log;
  std::vector<std::string> notes;
};

/// The answers as JSON documents (`configs/schema/snapshot.schema.json`).
[[nodiscard]] std::string snapshot_json(const SnapshotAnswer& answer,
                                        const check::StackSorter& sorter);
[[nodiscard]] std::string growth_json(const GrowthAnswer& answer);
[[nodiscard]] std::string stats_json(const StatsAnswer& answer);
[[nodiscard]] std::string gpu_log_json(const GpuLogAnswer& answer);

/// The answers on one screen.
[[nodiscard]] std::string snapshot_text(const SnapshotAnswer& answer,
                                        const check::StackSorter& sorter, const Terminal& terminal);
[[nodiscard]] std::string growth_text(const GrowthAnswer& answer, const Terminal& terminal);
[[nodiscard]] std::string stats_text(const StatsAnswer& answer, const Terminal& terminal);
[[nodiscard]] std::string gpu_log_text(const GpuLogAnswer& answer, const Terminal& terminal);

}  // namespace headroom::cli
