#include "gui/whatif/scenario.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "runtimes/registry.h"
#include "validators/dryrun/recorded_replay.h"

namespace headroom::gui {
ModelSource model_source(std::string_view text) {
  const std::filesystem::path path(text);
  std::error_code fault;
  const bool spelt_as_path = text.ends_with(".json") || text.ends_with(".gguf") ||
                             text.ends_with(".safetensors") || text.ends_with(".gz") ||
                             text.starts_with('.') || text.starts_with('/');
  // A Hugging Face id contains a slash, too.
  const bool there = text.find('/') != std::string_view::npos && exists(path, fault);
  if (!spelt_as_path && !there) {
    return {.kind = ModelSource::Kind::kCatalogue, .text = std::string(text)};
  }
  if (text.ends_with(".gz") || is_program_file(std::string(text))) {
    return {.kind = ModelSource::Kind::kProgram, .text = std::string(text)};
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

bool is_program(const Scenario& scenario) {
  return scenario.model.kind == ModelSource::Kind::kProgram;
}

bool is_program_file(const std::string& path) {
  std::error_code fault;
  if (!std::filesystem::is_regular_file(path, fault)) {
    return false;
  }
  constexpr std::size_t kBeginning = 4096;
  std::array<char, kBeginning> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  const std::string_view text(bytes.data(), static_cast<std::size_t>(file.gcount()));
  // RFC 1952, 2.3.1: the first two bytes of a gzip file. Nothing else that is opened is compressed.
  return text.starts_with("\x1f\x8b") ||
         text.find("\"headroom_program\"") != std::string_view::npos;
}

ir::AllocatorSettings replayed_settings(const Scenario& scenario) {
  ir::AllocatorSettings settings = scenario.plan.allocator;
  if (is_program(scenario)) {
    settings.segments = check::standin_settings().segments;
  }
  return settings;
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
