#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::gui {

/// Where the model comes from.
struct ModelSource {
  enum class Kind : std::uint8_t {
    kCatalogue,  ///< `text` is a name, an alias or a Hugging Face id.
    kFile,       ///< `text` is the path of a config.json or of a GGUF file.
  };
  Kind kind = Kind::kCatalogue;
  std::string text;
  friend bool operator==(const ModelSource&, const ModelSource&) = default;
};

/// What `text` means, as the command line reads it: a path if it ends in ".json" or ".gguf", starts
/// with "." or "/", or holds a slash and exists; a name of the catalogue otherwise. A folder stands
/// for the config.json in it.
[[nodiscard]] ModelSource model_source(std::string_view text);

/// The question that the window asks, and the one value it edits. The number of GPUs is
/// `plan.world`.
struct Scenario {
  ModelSource model;
  std::string gpu;  ///< Catalogue name.
  ir::ParallelPlan plan;
  Bytes budget;  ///< Judged against instead of the device's total; 0: the device's.
  friend bool operator==(const Scenario&, const Scenario&) = default;
};

/// What an edit changed: names it in the undo menu and says which edits are one gesture.
enum class Field : std::uint8_t {
  kModel,
  kGpu,
  kGpus,
  kBudget,
  kRuntime,
  kControl,  ///< A choice of the framework's own; `Edit::control` says which.
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

/// What the window opens with.
[[nodiscard]] Scenario default_scenario();

/// `scenario` with the choices that hang on others brought in line: what the framework settles
/// (`ir::Runtime::settle`), a precision that it runs, quantisation only under LoRA. Idempotent.
/// Requires a framework of `ir::runtimes`.
[[nodiscard]] Scenario settled(Scenario scenario);

}  // namespace headroom::gui
