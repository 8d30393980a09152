#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/units.h"
#include "model_ir/json/json_value.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

class RunReader;

/// The work that a harness counted when it recorded a run.
struct CountedWork {
  bool attention = true;  ///< False: a stub that launches nothing replaced attention.
  bool zeroing = true;    ///< False: gradients were zeroed before the count began.
  /// The GEMMs of the experts, one after the other. False: the host read zeros as their row counts.
  bool expert_series = false;
};

/// A recorded run in the terms of a prediction.
struct RunSetting {
  ModelSpec model;
  ParallelPlan plan;
  DeviceTraits traits;
  Bytes capacity;  ///< What PyTorch's allocator may take from the driver.
  Rank rank{0};
  CountedWork counted{};
};

/// Conditions of a published run that no plan states.
struct RunConditions {
  double attention_time = 1;   ///< Time of the kernels that ran, relative to those in the model.
  bool all_in_graphs = false;  ///< Whole layers, or the whole step, run in CUDA graphs.
  std::vector<std::string> graphed{};  ///< Otherwise: the layers' operators that run in CUDA
                                       ///< graphs.
};

/// How the authors of a figure count the FLOPs of a token.
struct FlopCount {
  bool masked_keys = true;  ///< Attention includes the keys that the causal mask hides.
  bool recomputed = false;  ///< Recomputed operators are included.
};

/// A published run in the terms of a prediction.
struct PublishedRun {
  ModelSpec model;
  ParallelPlan plan;
  RunConditions conditions;
  /// The rank whose allocator logged the figures; none: the rank with the highest peak.
  std::optional<Rank> rank;
  /// Another model's code stands in for the run's own: the FLOPs are the same, the bytes are not.
  bool stands_in = false;
  /// Not every batch reaches the sequence length. A successful run therefore does not prove that
  /// two full batches in a row fit.
  bool has_short_batches = false;
  std::string untimed;             ///< Why its time is not predicted; empty: it is predicted.
  std::optional<FlopCount> flops;  ///< None: it is not known how its authors count FLOPs.
};

/// Where a run was recorded.
enum class Recorder : std::uint8_t {
  kAccountingDevice,  ///< Counts allocations and runs no kernel.
  kGpu,
};

/// A program that our own harness ran, and the function that reads its rows.
struct RecordedFormat {
  std::string_view program;   ///< The row's `framework`: "transformers+ddp".
  std::string_view shown_as;  ///< The framework under which reports show the row.
  /// How a run was spread over GPUs, from the row's `case`: "none", "ddp", "zero2", "tp8pp2".
  std::string (*parallel)(const JsonValue& setting);
  /// Reads the row's `case`. Keys that are not understood stay noted in the reader.
  void (*read)(RunReader& row, Recorder recorder, RunSetting& run);
};

/// A program whose runs others published, and the function that reads its rows.
struct PublishedFormat {
  /// What the row's `framework` begins with; a version or a remark may follow after a space.
  std::string_view program;
  std::string_view shown_as;  ///< The framework under which reports show the row.
  /// Reads the row. Keys that are not understood stay noted in the reader. `gpu`: the catalogue's
  /// entry for the row's GPU.
  void (*read)(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);
};

/// The measured runs that a framework knows how to read.
struct MeasuredRuns {
  std::span<const RecordedFormat> recorded;
  std::span<const PublishedFormat> published;
};

}  // namespace headroom::ir
