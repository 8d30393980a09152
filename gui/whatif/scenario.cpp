#include "gui/whatif/scenario.h"

#include <filesystem>
#include <system_error>

#include "runtimes/registry.h"

namespace headroom::gui {
ModelSource model_source(std::string_view text) {
  const std::filesystem::path path(text);
  std::error_code fault;
  const bool spelt_as_path = text.ends_with(".json") || text.ends_with(".gguf") ||
                             text.starts_with('.') || text.starts_with('/');
  // A Hugging Face id contains a slash, too.
  const bool there = text.find('/') != std::string_view::npos && exists(path, fault);
  if (!spelt_as_path && !there) {
    return {.kind = ModelSource::Kind::kCatalogue, .text = std::string(text)};
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
  const ir::Runtime& runtime = ir::runtime_of(plan);
  runtime.settle(plan);
  plan.precision = ir::nearest_precision(plan.precision, runtime.precisions());
  if (!plan.lora) {
    plan.quant.reset();
  }
  return scenario;
}

}  // namespace headroom::gui
