#include "model_ir/graph/recorded.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "model_ir/spec/recording/recording.h"

namespace headroom::ir {
namespace {

/// A linear layer outside the layers that makes a number for each word.
bool is_head(const ModelSpec& model, const RecordedModule& module) {
  const RecordedParameter& weight = model.recording->parameters[module.linear.front()];
  return module.layer < 0 && weight.dims.size() == 2 && model.vocabulary > 0 &&
         weight.dims[0] == model.vocabulary;
}

/// Adds linear layers as operators; each reads the ids, as what they really read is not known here.
class LinearWriter {
 public:
  LinearWriter(const ModelSpec& model, const BatchShape& shape, Graph& graph)
      : model_(model),
        shape_(shape),
        graph_(graph),
        ids_(graph.add_tensor({.name = "input_ids",
                               .kind = ValueKind::kInput,
                               .dims = {shape.batch, shape.sequence}})) {}

  [[nodiscard]] TensorId ids() const { return ids_; }

  TensorId add(const RecordedModule& module) {
    const RecordedParameter& weight = model_.recording->parameters[module.linear.front()];
    const TensorId output =
        graph_.add_tensor({.name = module.path,
                           .kind = ValueKind::kActivation,
                           .dims = {shape_.batch, shape_.sequence, weight.dims.front()},
                           .layer = module.layer});
    std::vector<TensorId> parameters;
    for (const std::uint32_t index : module.linear) {
      parameters.push_back(TensorId{index});
    }
    graph_.add_op({.kind = OpKind::kLinear,
                   .role = is_head(model_, module) ? OpRole::kHead : OpRole::kNone,
                   .layer = module.layer,
                   .inputs = {ids_},
                   .parameters = std::move(parameters),
                   .outputs = {output}});
    return output;
  }

  /// Stands for a layer that has no linear layer.
  TensorId add_other(std::int32_t layer) {
    const TensorId output = graph_.add_tensor({.name = "layer",
                                               .kind = ValueKind::kActivation,
                                               .dims = {shape_.batch, shape_.sequence},
                                               .layer = layer});
    graph_.add_op({.kind = OpKind::kScale, .layer = layer, .inputs = {ids_}, .outputs = {output}});
    return output;
  }

 private:
  const ModelSpec& model_;
  const BatchShape& shape_;
  Graph& graph_;
  TensorId ids_;
};

}  // namespace

Graph recorded_graph(const ModelSpec& model, const BatchShape& shape) {
  const Recording& recording = *model.recording;
  Graph graph;
  for (const RecordedParameter& parameter : recording.parameters) {
    graph.add_tensor({.name = parameter.name,
                      .kind = ValueKind::kParameter,
                      .dims = parameter.dims,
                      .layer = parameter.layer});
  }
  LinearWriter writer(model, shape, graph);
  const auto add_all = [&](std::int32_t layer) {
    std::optional<TensorId> last;
    for (const RecordedModule& module : recording.modules) {
      if (module.layer == layer && !module.linear.empty()) {
        last = writer.add(module);
      }
    }
    return last;
  };
  for (std::int32_t layer = 0; layer < static_cast<std::int32_t>(model.layers.size()); ++layer) {
    graph.begin_layer(layer, writer.ids());
    const std::optional<TensorId> last = add_all(layer);
    graph.end_layer(last ? *last : writer.add_other(layer));
  }
  add_all(-1);
  return graph;
}

}  // namespace headroom::ir
