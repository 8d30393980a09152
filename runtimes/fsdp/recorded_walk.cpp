#include "runtimes/fsdp/recorded_walk.h"

#include <string>
#include <string_view>
#include <unordered_map>

#include "model_ir/spec/recording/module_path.h"

namespace headroom::ir::fsdp {

namespace {

/// Indices of modules, each after the modules inside it. `modules` has each before them.
std::vector<std::size_t> children_before_parents(const std::vector<RecordedModule>& modules) {
  std::vector<std::size_t> order;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    for (; !open.empty() && !is_inside(modules[i].path, modules[open.back()].path);
         open.pop_back()) {
      order.push_back(open.back());
    }
    open.push_back(i);
  }
  order.insert(order.end(), open.rbegin(), open.rend());
  return order;
}

}  // namespace

std::string shared_by_layers(const Recording& recording) {
  const LayerLists lists(recording);
  for (const RecordedParameter& parameter : recording.parameters) {
    for (const std::string& name : parameter.other_names) {
      if (lists.layer_of(name) != lists.layer_of(parameter.name)) {
        return parameter.name;
      }
    }
  }
  return {};
}

std::vector<WalkStep> walk_of(const Recording& recording, std::span<const NamedParameter> named) {
  std::unordered_map<std::string_view, std::size_t> module_at;
  for (std::size_t i = 0; i < recording.modules.size(); ++i) {
    module_at.emplace(recording.modules[i].path, i);
  }
  std::vector<std::vector<WalkStep>> parameters(recording.modules.size());
  for (std::size_t i = 0; i < named.size(); ++i) {
    const RecordedParameter& parameter = recording.parameters[index_of(named[i].id)];
    parameters[parameter.module].push_back({WalkStep::Kind::kParameter, i});
  }
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (named[i].adapter || named[i].name.find(".modules_to_save.") != std::string::npos) {
      continue;  // PEFT's parameters are not shared.
    }
    for (const std::string& name : recording.parameters[index_of(named[i].id)].other_names) {
      const auto module = module_at.find(parent_of(name));
      if (module == module_at.end()) {
        continue;
      }
      std::vector<WalkStep>& steps = parameters[module->second];
      steps.insert(name.ends_with(".weight") ? steps.begin() : steps.end(),
                   {WalkStep::Kind::kAgain, i});
    }
  }
  std::vector<std::vector<WalkStep>> buffers(recording.modules.size());
  for (std::size_t i = 0; i < recording.buffers.size(); ++i) {
    const auto module = module_at.find(parent_of(recording.buffers[i].name));
    buffers[module == module_at.end() ? 0 : module->second].push_back({WalkStep::Kind::kBuffer, i});
  }
  std::vector<WalkStep> result;
  std::vector<bool> seen(named.size(), false);
  for (const std::size_t module : children_before_parents(recording.modules)) {
    for (const WalkStep& step : parameters[module]) {
      const bool again = seen[step.index];
      seen[step.index] = true;
      result.push_back({again ? WalkStep::Kind::kAgain : WalkStep::Kind::kParameter, step.index});
    }
    result.insert(result.end(), buffers[module].begin(), buffers[module].end());
  }
  return result;
}

}  // namespace headroom::ir::fsdp
