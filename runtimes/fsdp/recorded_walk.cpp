#include "runtimes/fsdp/recorded_walk.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace headroom::ir::fsdp {

namespace {

/// "model.norm" of "model.norm.weight".
std::string_view parent_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

/// Indices of modules, each after the modules inside it. `modules` has each before them.
std::vector<std::size_t> children_before_parents(const std::vector<RecordedModule>& modules) {
  std::vector<std::size_t> order;
  std::vector<std::size_t> open;
  const auto is_inside = [&](std::string_view path, std::size_t of) {
    const std::string& outer = modules[of].path;
    return outer.empty() ||
           (path.size() > outer.size() && path.starts_with(outer) && path[outer.size()] == '.');
  };
  for (std::size_t i = 0; i < modules.size(); ++i) {
    for (; !open.empty() && !is_inside(modules[i].path, open.back()); open.pop_back()) {
      order.push_back(open.back());
    }
    open.push_back(i);
  }
  order.insert(order.end(), open.rbegin(), open.rend());
  return order;
}

}  // namespace

std::string shared_by_layers(const Recording& recording) {
  std::unordered_set<std::string_view> lists;
  for (const RecordedLayer& layer : recording.variants.front().layers) {
    lists.insert(parent_of(recording.modules[layer.module].path));
  }
  // The layer in which a name stands, whether it runs or not; empty outside all layers.
  const auto layer_of = [&](std::string_view name) {
    for (std::string_view path = name; !path.empty(); path = parent_of(path)) {
      const std::string_view entry = path.substr(parent_of(path).size());
      if (lists.contains(parent_of(path)) &&
          entry.find_first_not_of("0123456789", 1) == std::string_view::npos) {
        return path;
      }
    }
    return std::string_view();
  };
  for (const RecordedParameter& parameter : recording.parameters) {
    for (const std::string& name : parameter.other_names) {
      if (layer_of(name) != layer_of(parameter.name)) {
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
    const bool copy = named[i].name.find(".modules_to_save.") != std::string::npos;
    for (const std::string& name : named[i].adapter || copy
                                       ? std::vector<std::string>()
                                       : recording.parameters[index_of(named[i].id)].other_names) {
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
