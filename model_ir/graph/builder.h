#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/graph/graph.h"
#include "model_ir/graph/model_parameter.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// A graph being built. It knows the open layer and module, and finds parameters by role.
class GraphBuilder {
 public:
  /// Registers all parameters of `model`, which must outlive the builder.
  GraphBuilder(const ModelSpec& model, const BatchShape& shape, ExpertWeights experts);

  [[nodiscard]] const ModelSpec& model() const { return model_; }
  [[nodiscard]] const BatchShape& shape() const { return shape_; }
  [[nodiscard]] ExpertWeights experts() const { return experts_; }
  [[nodiscard]] Graph take() { return std::move(graph_); }

  void begin_layer(std::int32_t layer, TensorId input);
  void end_layer(TensorId output);
  void enter(Module module) { module_ = module; }
  void leave() { module_ = Module::kNone; }

  /// An input of integers, [B,S].
  TensorId input(std::string_view name);
  /// An input with a number for each sequence, [B].
  TensorId input_per_sequence(std::string_view name);
  /// An activation [B,S,width].
  TensorId activation(std::string_view name, std::int64_t width);
  /// An activation of any dims.
  TensorId tensor(std::string_view name, std::vector<std::int64_t> dims);

  /// Parameters of the open layer (or of none) with this role: weight, then bias.
  [[nodiscard]] std::vector<TensorId> parameters(OpRole role) const;
  [[nodiscard]] std::int64_t width(TensorId id) const { return graph_.tensor(id).dims.back(); }

  /// Adds `op` in the open module.
  void add(Op op);
  /// Adds an operator with one output as wide as its first input.
  TensorId same_width(std::string_view name, Op op);

  TensorId linear(OpRole role, std::string_view name, TensorId input);
  TensorId norm(OpRole role, TensorId input);
  TensorId head_norm(OpRole role, TensorId input);
  TensorId act(TensorId input);
  TensorId add_residual(TensorId residual, TensorId value);
  TensorId scale(OpRole role, TensorId input);
  /// Returns `input` itself if `probability` is 0.
  TensorId dropout(TensorId input, double probability);

 private:
  struct Entry {
    OpRole role;
    Module module;
    TensorId id;
  };
  void register_parameters();

  const ModelSpec& model_;
  BatchShape shape_;
  ExpertWeights experts_;
  Graph graph_;
  std::vector<std::vector<Entry>> entries_;  ///< By layer + 1.
  std::int32_t layer_ = -1;
  Module module_ = Module::kNone;
};

}  // namespace headroom::ir
