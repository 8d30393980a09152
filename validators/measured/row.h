#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/json/json_value.h"
#include "model_ir/plan/phase_name.h"

namespace headroom::check {

/// What can be compared between a measured and a predicted run. Units are bytes if not stated.
enum class Metric : std::uint8_t {
  kAllocatedAfter,
  kPeakAllocated,
  kPeakReserved,
  kReservedAfter,
  kPeakActive,
  kPeakDriver,       ///< All memory that the driver has handed out, as in nvidia-smi.
  kRetries,          ///< Count since the start of the run.
  kFits,             ///< 1: it ran, 0: out of memory.
  kGemmFlops,        ///< Count.
  kKernels,          ///< Count.
  kCollectiveBytes,  ///< Bytes of the full (gathered, unsharded) buffers.
  kCollectiveCalls,  ///< Count.
  kStepTime,         ///< Milliseconds.
  kTokensPerSecond,  ///< Per GPU.
  kTflops,           ///< Per GPU, 1e12 per second.
};
inline constexpr int kMetricCount = 15;
[[nodiscard]] std::string_view name_of(Metric metric);
/// Whether the metric says how fast a run was (a time or a rate).
[[nodiscard]] bool is_time(Metric metric);

/// A measured or predicted value of one metric.
struct MetricValue {
  Metric metric = Metric::kAllocatedAfter;
  double value = 0;  ///< Exact: counts and bytes stay below 2^53.
  friend bool operator==(const MetricValue&, const MetricValue&) = default;
};

/// The measurements of one phase.
struct MeasuredPhase {
  ir::PhaseName name;
  std::vector<MetricValue> values;
  double seconds = 0;  ///< From one synchronisation to the next; 0: not timed.
};

enum class RowForm : std::uint8_t {
  kCase,       ///< A case, with the allocator's statistics after each phase.
  kPublished,  ///< A run that its authors describe, partly in prose.
};

/// One measured run.
struct MeasuredRow {
  std::string source;  ///< The file's name without extensions.
  std::string id;
  RowForm form = RowForm::kCase;
  std::string framework;
  bool on_gpu = false;    ///< Measured on a GPU; otherwise on the accounting device.
  std::string gpu;        ///< kCase: the driver's name of that GPU; empty: not stated.
  ir::JsonValue setting;  ///< kCase: the value of "case"; kPublished: the row without "measured".
  ir::JsonValue measured_raw;         ///< kPublished: the value of "measured"; else null.
  std::vector<MeasuredPhase> phases;  ///< kCase; empty when the run ran out of memory.
  double step_seconds = 0;            ///< kCase: time of one of many steps; 0: not timed.
  bool out_of_memory = false;         ///< kCase.
  std::string failure;                ///< kCase: another reason why the run stopped; else empty.
};

/// The time of one of many steps if the case states it, otherwise the sum over all phases of its
/// last step. 0 if one of these was not timed.
///
/// Units:   seconds.
[[nodiscard]] double last_step_seconds(const MeasuredRow& row);

/// "Llama 3 8B on 8 x NVIDIA H100" for a published row; empty for a case.
[[nodiscard]] std::string subject_of(const MeasuredRow& row);

}  // namespace headroom::check
