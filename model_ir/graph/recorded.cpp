#include "model_ir/graph/recorded.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/spec/recording/recording.h"

namespace headroom::ir {
namespace {

/// Parameters of each linear layer by its module: the weight, then the bias.
std::map<std::uint32_t, std::vector<TensorId>> linear_layers(const Recording& recording) {
  std::map<std::uint32_t, std::vector<TensorId>> linears;
  for (std::size_t i = 0; i < recording.parameters.size(); ++i) {
    const RecordedParameter& parameter = recording.parameters[i];
    if (recording.modules[parameter.module].type == "Linear") {
      linears[parameter.module].push_back(TensorId{static_cast<std::uint32_t>(i)});
    }
  }
  return linears;
}

/// A linear layer outside the layers that makes a number for each word.
bool is_head(const ModelSpec& model, const RecordedParameter& weight) {
  return weight.layer < 0 && weight.dims.size() == 2 && model.vocabulary > 0 &&
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

  TensorId add(std::uint32_t module, const std::vector<TensorId>& parameters) {
    const RecordedParameter& weight = model_.recording->parameters[index_of(parameters.front())];
    const TensorId output = activation(model_.recording->modules[module].path, weight);
    graph_.add_op({.kind = OpKind::kLinear,
                   .role = is_head(model_, weight) ? OpRole::kHead : OpRole::kNone,
                   .layer = weight.layer,
                   .inputs = {ids_},
                   .parameters = parameters,
                   .outputs = {output}});
    return output;
  }

  /// Stands for a layer that has no linear layer.
  TensorId add_other(std::int32_t layer) {
    const TensorId output = graph_.add_tensor({.name = "layer",
                                               .kind = ValueKind::kActivation,
                                               .dims = {shape_.batch, shape_.sequence},
                                               .layer = layer});
    graph_.add_op(
        {.kind = OpKind::kScale, .layer = layer, .inputs = {ids_}, .outputs = {output}});
    return output;
  }

 private:
  TensorId activation(const std::string& name, const RecordedParameter& weight) {
    return graph_.add_tensor({.name = name,
                              .kind = ValueKind::kActivation,
                              .dims = {shape_.batch, shape_.sequence, weight.dims[0]},
                              .layer = weight.layer});
  }

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
  const auto linears = linear_layers(recording);
  const auto add_all = [&](std::int32_t layer) {
    std::optional<TensorId> last;
    for (const auto& [module, parameters] : linears) {
      if (recording.modules[module].layer == layer) {
        last = writer.add(module, parameters);
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
