#pragma once

#include <cstdint>
#include <optional>
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
    kProgram,    ///< `text` is the path of a program that `headroom dryrun --record` has kept.
  };
  Kind kind = Kind::kCatalogue;
  std::string text;
  friend bool operator==(const ModelSource&, const ModelSource&) = default;
};

/// Interprets `text` like the command line. It is a path if it ends in ".json", ".gguf" or ".gz",
/// starts with "." or "/", or contains a slash and exists. Otherwise it is a name of the catalogue.
/// A folder, and weights as safetensors, stand for the config.json in the folder.
[[nodiscard]] ModelSource model_source(std::string_view text);

/// The question that the window asks, and the only value that it edits. The number of GPUs is
/// `plan.world`.
struct Scenario {
  ModelSource model;
  std::string gpu;  ///< Catalogue name.
  ir::ParallelPlan plan;
  Bytes budget;  ///< Replaces the device's total; 0: the device's total.
  cost::HostRequest host{};
  std::optional<double> price{};   ///< Dollars per GPU and hour.
  std::optional<double> tokens{};  ///< Tokens of the whole training run.
  friend bool operator==(const Scenario&, const Scenario&) = default;
};

/// Whether the scenario asks about a recorded program instead of a plan. GPU, budget and the
/// settings of the allocator count then; the rest of the plan does not.
[[nodiscard]] bool is_program(const Scenario& scenario);

/// Whether the file is a recorded program, by its first bytes.
[[nodiscard]] bool is_program_file(const std::string& path);

/// The settings with which the scenario's allocations are replayed: those of the plan. Segments of
/// a recorded program lie where the stand-in of dry runs puts them.
[[nodiscard]] ir::AllocatorSettings replayed_settings(const Scenario& scenario);

/// The subject of an edit. Edits of one field can be one gesture.
enum class Field : std::uint8_t {
  kModel,
  kGpu,
  kGpus,
  kBudget,
  kHost,
  kCosts,
  kRuntime,
  kOption,      ///< A row of a table of options, which `Edit::control` names.
  kPart,        ///< A part of the plan that it may lack, such as adapters.
  kPlan,        ///< Another plan: a remedy, or a plan that a search found.
  kEverything,  ///< A plan file, or reset.
};

/// The scenario with which the window opens.
[[nodiscard]] Scenario default_scenario();

/// `scenario` with the parts that its framework always has, and quantisation only with LoRA. What
/// the framework refuses stays, so that the window can show the refusal. Idempotent.
[[nodiscard]] Scenario settled(Scenario scenario);

/// `scenario` with another framework: what both have stays, and what the new one does not support
/// is replaced (`ir::Runtime::settle`). Requires a framework of `ir::runtimes`.
[[nodiscard]] Scenario moved_to(Scenario scenario, const std::string& runtime);

}  // namespace headroom::gui
