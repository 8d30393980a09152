#pragma once

#include <string_view>
#include <unordered_set>

#include "model_ir/spec/recording/recording.h"

namespace headroom::ir {

/// "model.norm" of "model.norm.weight"; empty for a name without a dot.
[[nodiscard]] std::string_view parent_of(std::string_view path);

/// Whether a module is `outer` or inside it. Every module is inside "", the model itself.
[[nodiscard]] bool is_inside(std::string_view path, std::string_view outer);

/// The lists of modules in which the layers of a recording stand: "model.layers".
class LayerLists {
 public:
  explicit LayerLists(const Recording& recording);

  /// The path of the layer in which a module or a parameter stands, whether the layer runs or not;
  /// empty outside all lists.
  [[nodiscard]] std::string_view layer_of(std::string_view path) const;

 private:
  std::unordered_set<std::string_view> lists_;  ///< Parts of the recording's texts.
};

}  // namespace headroom::ir
