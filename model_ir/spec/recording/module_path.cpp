#include "model_ir/spec/recording/module_path.h"

namespace headroom::ir {

std::string_view parent_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

bool is_inside(std::string_view path, std::string_view outer) {
  return outer.empty() || path == outer ||
         (path.size() > outer.size() && path.starts_with(outer) && path[outer.size()] == '.');
}

LayerLists::LayerLists(const Recording& recording) {
  for (const RecordedLayer& layer : recording.variants.front().layers) {
    lists_.insert(parent_of(recording.modules[layer.module].path));
  }
}

std::string_view LayerLists::layer_of(std::string_view path) const {
  for (; !path.empty(); path = parent_of(path)) {
    const std::string_view entry = path.substr(path.rfind('.') + 1);
    if (entry.find_first_not_of("0123456789") == std::string_view::npos &&
        lists_.contains(parent_of(path))) {
      return path;
    }
  }
  return path;
}

}  // namespace headroom::ir
