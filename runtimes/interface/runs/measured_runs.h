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

/// Which of the work that a framework launches a harness counted when it recorded a run.
struct CountedWork {
  bool attention = true;  ///< False: a stand-in that launches nothing took attention's place.
  bool zeroing = true;    ///< False: gradients were zeroed before the count began.
  /// Products of experts, one after the other. False: the host read zeros as their rows.
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

/// What a published run did that no plan states.
struct RunConditions {
  double attention_time = 1;   ///< Of the kernels that ran, over that of those in the model.
  bool all_in_graphs = false;  ///< Whole layers, or the whole step, in CUDA graphs.
  std::vector<std::string> graphed{};  ///< Else: the operators of layers that are in CUDA graphs.
};

/// How the authors of a figure count the FLOPs of a token.
struct FlopCount {
  bool masked_keys = true;  ///< Attention counts the keys that the causal mask hides, too.
  bool recomputed = false;  ///< What backward runs again counts, too.
};

/// A published run in the terms of a prediction.
struct PublishedRun {
  ModelSpec model;
  ParallelPlan plan;
  RunConditions conditions;
  /// The rank whose allocator logged the figures; none: the rank that needs most.
  std::optional<Rank> rank;
  /// Another modelling code stands in for the run's own: FLOPs are the same, bytes are not.
  bool stands_in = false;
  /// Not every batch reaches the sequence length: that a run succeeded proves nothing about two
  /// full batches in a row.
  bool has_short_batches = false;
  std::string untimed;             ///< Why its time is not predicted; empty: it is.
  std::optional<FlopCount> flops;  ///< None: how its authors count them is not known.
};

/// Where a run was recorded.
enum class Recorder : std::uint8_t {
  kAccountingDevice,  ///< Keeps books of allocations and runs no kernel.
  kGpu,
};

/// A program that our own harness ran, and how its rows are read.
struct RecordedFormat {
  std::string_view program;   ///< The row's `framework`: "transformers+ddp".
  std::string_view shown_as;  ///< The framework under which reports show the row.
  /// How a run was spread over GPUs, from the row's `case`: "none", "ddp", "zero2", "tp8pp2".
  std::string (*parallel)(const JsonValue& setting);
  /// Reads the row's `case`. What cannot be followed is left in the reader.
  void (*read)(RunReader& row, Recorder recorder, RunSetting& run);
};

/// A program whose runs others published, and how its rows are read.
struct PublishedFormat {
  /// What the row's `framework` begins with; a version or a remark may follow after a space.
  std::string_view program;
  std::string_view shown_as;  ///< The framework under which reports show the row.
  /// Reads the row. What cannot be followed is left in the reader. `gpu`: what the catalogue knows
  /// of the row's GPU.
  void (*read)(RunReader& row, const std::optional<DeviceTraits>& gpu, PublishedRun& run);
};

/// The measured runs that a framework knows how to read.
struct MeasuredRuns {
  std::span<const RecordedFormat> recorded;
  std::span<const PublishedFormat> published;
};

}  // namespace headroom::ir
