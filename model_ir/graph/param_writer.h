#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/graph/model_parameter.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir {

/// The size of a Linear: weight [out, in] and, if there is one, bias [out].
struct LinearSize {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = false;
};

/// The index of a layer: in its names (every stack counts from 0) and in the model.
struct LayerPlace {
  std::int64_t in_stack = 0;
  std::int32_t in_model = 0;
};

/// Appends parameters to a table, in the order of the calls.
class ParameterWriter {
 public:
  ParameterWriter(const ModelSpec& model, ExpertWeights experts);

  /// The names that follow, up to `leave_layer`, begin with `stack`, the layer's number and a dot.
  void enter_layer(std::string_view stack, LayerPlace place);
  void leave_layer();
  void set_module(Module module) { module_ = module; }

  /// A bare parameter, whose name has no ".weight".
  void bare(OpRole role, std::string_view name, std::vector<std::int64_t> dims,
            ParameterPart part = ParameterPart::kWeight);
  void embedding(OpRole role, std::string_view name, std::int64_t rows, std::int64_t width);
  void linear(OpRole role, std::string_view name, LinearSize size);
  /// GPT-2's Conv1D: weight [in, out], always with a bias.
  void conv1d(OpRole role, std::string_view name, LinearSize size);
  /// A norm of the model's kind: a weight and, for LayerNorm, a bias.
  void norm(OpRole role, std::string_view name, std::int64_t width);
  /// A weight of any shape, without a bias.
  void weight(OpRole role, std::string_view name, std::vector<std::int64_t> dims);
  /// Writes the head of a model that classifies. Returns false, and writes nothing, for other
  /// tasks.
  bool classifier();
  void mark_last_unused() { table_.back().info.unused = true; }

  [[nodiscard]] const ModelSpec& model() const { return model_; }
  [[nodiscard]] ExpertWeights experts() const { return experts_; }
  [[nodiscard]] std::vector<ModelParameter> take() { return std::move(table_); }

 private:
  [[nodiscard]] std::string full_name(std::string_view name, std::string_view ending) const;
  void append(ModelParameter parameter);

  const ModelSpec& model_;
  ExpertWeights experts_;
  std::vector<ModelParameter> table_;
  std::string prefix_;
  std::int32_t layer_ = -1;
  Module module_ = Module::kNone;
};

/// The families whose layers follow Llama's: `model.layers.N`, then `model.norm` and `lm_head`.
void write_llama_like(ParameterWriter& writer);
void write_gpt2(ParameterWriter& writer);
void write_gpt_neox(ParameterWriter& writer);
void write_opt(ParameterWriter& writer);
void write_bloom(ParameterWriter& writer);
void write_falcon(ParameterWriter& writer);
void write_bert(ParameterWriter& writer);
void write_t5(ParameterWriter& writer);

}  // namespace headroom::ir
