#include "gui/whatif/scenario.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "runtimes/registry.h"

namespace headroom::gui {
ModelSource model_source(std::string_view text) {
  const std::filesystem::path path(text);
  std::error_code fault;
  const bool spelt_as_path = text.ends_with(".json") || text.ends_with(".gguf") ||
                             text.ends_with(".safetensors") || text.starts_with('.') ||
                             text.starts_with('/');
  // A Hugging Face id contains a slash, too.
  const bool there = text.find('/') != std::string_view::npos && exists(path, fault);
  if (!spelt_as_path && !there) {
    return {.kind = ModelSource::Kind::kCatalogue, .text = std::string(text)};
  }
  // Weights say sizes, and the config.json beside them says how they are computed with.
  const bool weights = text.ends_with(".safetensors") || text.ends_with(".safetensors.index.json");
  if (weights) {
    return {.kind = ModelSource::Kind::kFile,
            .text = (path.parent_path() / "config.json").string()};
  }
  const bool folder = is_directory(path, fault);
  return {.kind = ModelSource::Kind::kFile,
          .text = folder ? (path / "config.json").string() : std::string(text)};
}

Scenario default_scenario() {
  return settled({.model = {.kind = ModelSource::Kind::kCatalogue, .text = "llama-3.1-8b"},
                  .gpu = "a100-80gb",
                  .plan = {},
                  .budget = Bytes{0}});
}

Scenario settled(Scenario scenario) {
  ir::ParallelPlan& plan = scenario.plan;
  if (const ir::Runtime* const runtime = ir::find_runtime(plan.runtime)) {
    runtime->complete(plan);
  }
  if (!plan.lora) {
    plan.quant.reset();
  }
  return scenario;
}

Scenario moved_to(Scenario scenario, const std::string& runtime) {
  ir::ParallelPlan& plan = scenario.plan;
  plan.runtime = runtime;
  plan.runtime_version.clear();
  plan.rank.reset();
  const ir::Runtime& target = ir::runtime_of(plan);
  target.settle(plan);
  plan.precision = ir::nearest_precision(plan.precision, target.precisions());
  return settled(std::move(scenario));
}

}  // namespace headroom::gui
