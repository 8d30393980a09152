#pragma once

#include <vector>

#include "model_ir/runtime/torch/eager.h"
#include "model_ir/runtime/transformers/model.h"

namespace headroom::ir::transformers {

/// What a call of the model returns.
struct ModelOutput {
  torch::Tensor loss;
  torch::Tensor logits;
};

/// Tensors made once per forward and read by every layer.
struct Shared {
  torch::Tensor position_ids;
  torch::Tensor token_rows;            ///< `inputs_embeds`
  torch::Tensor position_rows;         ///< Learned positions.
  torch::Tensor cos, sin;              ///< [1, S, rotated D] in the stream's type.
  torch::Tensor local_cos, local_sin;  ///< Gemma 3: of the windowed layers.
  torch::Tensor mask, window_mask;     ///< Additive masks where an attention needs one.
};

/// One call of the model on a micro-batch of ids (labels are the ids).
[[nodiscard]] ModelOutput forward(torch::Eager& eager, Model& model, const torch::Tensor& ids);

/// Runs the operators of a graph one by one. Values live as long as the Python names that hold
/// them: until their last reader has run, or, for what a module was given and for queries, keys
/// and values, until that module returns.
class Interpreter {
 public:
  Interpreter(torch::Eager& eager, Model& model);

  /// Whether operators of this kind are modelled.
  [[nodiscard]] static bool runs(OpKind kind);

  [[nodiscard]] Shared& shared() { return shared_; }

  void set(TensorId id, torch::Tensor value) { values_[index_of(id)] = std::move(value); }
  [[nodiscard]] torch::Tensor take(TensorId id) { return std::move(values_[index_of(id)]); }
  [[nodiscard]] const torch::Tensor& peek(TensorId id) const { return values_[index_of(id)]; }
  void run(NodeId first, NodeId last);
  [[nodiscard]] torch::Tensor run_layer(const LayerRange& range, const torch::Tensor& input);

 private:
  void run_op(NodeId id);
  void drop_inputs(NodeId id);
  void leave_module();
  void clear(const LayerRange& range);
  [[nodiscard]] const torch::Tensor& value(const Op& op, std::size_t index) const;
  [[nodiscard]] torch::Tensor parameter(const Op& op, std::size_t index) const;
  [[nodiscard]] torch::Tensor run_linear(const Op& op);
  [[nodiscard]] torch::Tensor run_head_norm(const Op& op);
  [[nodiscard]] torch::Tensor as_heads(const Op& op, torch::Tensor projected);
  void run_rope(const Op& op);
  void run_attention(const Op& op);
  void run_split_qkv(const Op& op);
  void run_split_gate_up(const Op& op);

  torch::Eager& eager_;
  Model& model_;
  Shared shared_;
  std::vector<torch::Tensor> values_;
  std::vector<bool> entered_;        ///< Values that were alive when the open module was entered.
  std::vector<TensorId> locals_;     ///< Names of the open module, let go when it returns.
  std::vector<TensorId> arguments_;  ///< What it was given, let go just after.
  std::vector<torch::Tensor> layer_names_;  ///< Let go when the layer under way returns.
  torch::Tensor attention_weights_;         ///< Of the layer under way.
  Module module_ = Module::kNone;
};

}  // namespace headroom::ir::transformers
