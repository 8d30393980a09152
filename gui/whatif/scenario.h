#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "costmodel/hardware/host.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::gui {

/// The source of the model.
struct ModelSource {
  enum class Kind : std::uint8_t {
    kCatalogue,  ///< `text` is a name, an alias or a Hugging Face id.
    kFile,       ///< `text` is the path of a config.json or of a GGUF file.
  };
  Kind kind = Kind::kCatalogue;
  std::string text;
  friend bool operator==(const ModelSource&, const ModelSource&) = default;
};

/// Interprets `text` like the command line. It is a path if it ends in ".json" or ".gguf", starts
/// with "." or "/", or contains a slash and exists. Otherwise it is a name of the catalogue. A
/// folder stands for the config.json in it.
[[nodiscard]] ModelSource model_source(std::string_view text);

/// The question that the window asks, and the only value that it edits. The number of GPUs is
/// `plan.world`.
struct Scenario {
  ModelSource model;
  std::string gpu;  ///< Catalogue name.
  ir::ParallelPlan plan;
  Bytes budget;              ///< Replaces the device's total; 0: the device's total.
  cost::HostRequest host{};  ///< What a plan file says of the host; no control changes it.
  friend bool operator==(const Scenario&, const Scenario&) = default;
};

/// What an edit changes. It names the edit in the undo menu, and edits of one field can be one
/// gesture.
enum class Field : std::uint8_t {
  kModel,
  kGpu,
  kGpus,
  kBudget,
  kRuntime,
  kControl,  ///< A control of the framework, which `Edit::control` names.
  kPrecision,
  kOptimizer,
  kAttention,
  kCheckpointing,
  kCheckpointEvery,
  kMicroBatch,
  kSequence,
  kAccumulation,
  kLora,
  kLoraRank,
  kQuantization,
  kExpandableSegments,
  kEverything,  ///< Reset.
};

/// The scenario with which the window opens.
[[nodiscard]] Scenario default_scenario();

/// `scenario` after dependent choices have been made consistent: what the framework settles
/// (`ir::Runtime::settle`), a precision that it supports, and quantisation only with LoRA.
/// Idempotent. Requires a framework of `ir::runtimes`.
[[nodiscard]] Scenario settled(Scenario scenario);

}  // namespace headroom::gui
