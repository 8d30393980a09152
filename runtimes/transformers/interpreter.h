#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/attention.h"
#include "runtimes/transformers/experts.h"
#include "runtimes/transformers/latent_attention.h"
#include "runtimes/transformers/library_version.h"
#include "runtimes/transformers/model.h"
#include "runtimes/transformers/modeling.h"

namespace headroom::ir::transformers {

/// Tensors made once per forward and read by every layer.
struct Shared {
  torch::Tensor position_ids;
  torch::Tensor cache_positions;       ///< [S], if positions are counted along a mask (4.x).
  torch::Tensor token_rows;            ///< `inputs_embeds`
  torch::Tensor position_rows;         ///< Learned positions.
  torch::Tensor cos, sin;              ///< [1, S, rotated D] in the stream's type.
  torch::Tensor local_cos, local_sin;  ///< Gemma 3: for the windowed layers.
  torch::Tensor padding;               ///< [B, S], if the model makes one or receives one.
  torch::Tensor alibi;                 ///< [B*A, 1, S]
  torch::Tensor token_type_ids;        ///< [B, S]
  torch::Tensor token_type_rows;
  torch::Tensor position_bias;      ///< T5: of the current layer's stack; its first layer makes it.
  torch::Tensor cross_bias;         ///< The same for cross-attention.
  torch::Tensor cross_mask;         ///< [B, 1, 1, S'], from which `cross_bias` is made until 4.57.
  torch::Tensor mask, window_mask;  ///< Attention's masks; undefined: causal by flag.
};

/// The operator after `id`.
[[nodiscard]] inline NodeId next(NodeId id) {
  return NodeId{static_cast<std::uint32_t>(index_of(id) + 1)};
}

/// Runs the operators of a graph one by one. Values live as long as the Python names that hold
/// them: until their last reader has run. A module's arguments, as well as queries, keys and
/// values, live until the module returns.
class Interpreter {
 public:
  Interpreter(torch::Eager& eager, Model& model);

  [[nodiscard]] Shared& shared() { return shared_; }

  void set(TensorId id, torch::Tensor value) { values_[index_of(id)] = std::move(value); }
  [[nodiscard]] torch::Tensor take(TensorId id) { return std::move(values_[index_of(id)]); }
  [[nodiscard]] const torch::Tensor& peek(TensorId id) const { return values_[index_of(id)]; }
  void run(NodeId first, NodeId last);
  /// Releases what the loop over the layers held.
  void leave_layers() { returned_weights_.reset(); }
  /// The routers' logits so far, if the model returns them.
  [[nodiscard]] std::vector<torch::Tensor> take_router_logits() {
    return std::exchange(router_logits_, {});
  }
  /// `weights` replaces what the previous layer returned in addition to its hidden states.
  [[nodiscard]] torch::Tensor exchange_weights(torch::Tensor weights) {
    return std::exchange(returned_weights_, std::move(weights));
  }
  [[nodiscard]] torch::Tensor run_layer(const LayerRange& range, const torch::Tensor& input,
                                        const torch::Tensor& mask);

 private:
  class UnwoundNames;
  void run_op(NodeId id);
  void drop_inputs(NodeId id);
  void leave_module();
  /// Hooks around attention and MLP; `first`: the block's first operator.
  void enter_block(const Op& first);
  void leave_block();
  /// A hooked module within a layer, and its caller's names for the values passed to it.
  struct NestedCall {
    ModuleCall call;
    std::vector<std::pair<TensorId, torch::Tensor>> given;
  };
  /// Hooks around the modules of encoders that contain a part of a block, or a block and more.
  void enter_parts(NodeId id);
  void leave_parts(const Op& op);
  void enter_nested(const ModuleCall& call, const std::vector<TensorId>& inputs);
  void leave_nested(std::initializer_list<torch::Tensor*> outputs);
  /// The name that holds an operator's input after its last reader has run.
  enum class Holder : std::uint8_t { kNobody, kModule, kCaller, kAddition, kNorm, kLayer };
  [[nodiscard]] Holder holder_of(const Op& op, TensorId input) const;
  [[nodiscard]] std::optional<Holder> bidirectional_holder(const Op& op, TensorId input) const;
  [[nodiscard]] bool made_here(TensorId id, std::int32_t layer, OpKind kind) const;
  [[nodiscard]] bool adds_in_place(const Op& op) const;
  [[nodiscard]] bool is_reassigned(const Op& op, TensorId input) const;
  /// Views the input of `op` as [B*S, H], for its later readers, too.
  void flatten(const Op& op);
  void clear(const LayerRange& range);
  [[nodiscard]] const torch::Tensor& value(const Op& op, std::size_t index) const;
  [[nodiscard]] torch::Tensor parameter(const Op& op, std::size_t index) const;
  [[nodiscard]] torch::Tensor run_linear(const Op& op);
  [[nodiscard]] torch::Tensor run_embedding(const Op& op);
  [[nodiscard]] torch::Tensor run_head(const Op& op);
  [[nodiscard]] torch::Tensor run_scale(const Op& op);
  [[nodiscard]] torch::Tensor run_norm(const Op& op, const torch::Tensor& input);
  [[nodiscard]] torch::Tensor run_activation(const Op& op);
  [[nodiscard]] torch::Tensor run_dropout(const Op& op);
  [[nodiscard]] torch::Tensor run_head_norm(const Op& op);
  [[nodiscard]] torch::Tensor as_heads(const Op& op, torch::Tensor projected);
  void run_rope(const Op& op);
  void keep_finite(const Op& op);
  [[nodiscard]] torch::Tensor position_bias(const Op& op, const torch::Tensor& q,
                                            const torch::Tensor& k);
  void run_attention(const Op& op);
  void run_biased_attention(const Op& op, const AttentionInput& input);
  void run_split_qkv(const Op& op);
  void run_split_gate_up(const Op& op);
  [[nodiscard]] torch::Tensor run_latent_norm(const Op& op);
  void run_latent_qkv(const Op& op);
  /// The same if the latents are expanded before the rotation.
  void run_expanded_qkv(const Op& op);
  void disturb(const Op& op);
  void run_router(const Op& op);
  void run_experts(const Op& op);
  /// The router as a separate module, or run by the block itself; and linear layers of experts.
  [[nodiscard]] Routing route_apart(const Op& op);
  [[nodiscard]] Routing route_within(const Op& op);
  [[nodiscard]] torch::Tensor run_linear_of(const Op& op, const torch::Tensor& input);
  [[nodiscard]] torch::Tensor run_expert(const Op& op, std::int64_t expert,
                                         const torch::Tensor& rows);
  [[nodiscard]] torch::Tensor group_experts(const Op& op);
  [[nodiscard]] torch::Tensor loop_over_experts(const Op& op);
  [[nodiscard]] torch::Tensor run_shared_gate(const Op& op);
  /// The input of a sparse block viewed as [T, H]; all its readers share one view.
  [[nodiscard]] const torch::Tensor& rows(const Op& op);
  [[nodiscard]] bool reads_rows(const Op& op) const;
  /// Whether the open module has a name, until it returns, for the value that `op` reads.
  [[nodiscard]] bool is_local(const Op& op, TensorId input) const;

  torch::Eager& eager_;
  Model& model_;
  Modeling modeling_;
  LibraryTraits library_;
  Shared shared_;
  std::vector<torch::Tensor> values_;
  std::vector<std::optional<NodeId>> producers_;  ///< Producers of the values made so far.
  std::vector<bool> entered_;         ///< Values that were alive when the open module was entered.
  std::vector<TensorId> locals_;      ///< Names of the open module, released when it returns.
  std::vector<TensorId> arguments_;   ///< Its arguments, released just after.
  std::vector<torch::Tensor> frame_;  ///< Names of the open module inside operators.
  std::vector<torch::Tensor> until_addition_;  ///< Released by the next residual addition.
  std::vector<torch::Tensor> until_norm_;      ///< Released when the next norm has run.
  std::vector<torch::Tensor> layer_names_;     ///< Released when the current layer returns.
  torch::Tensor
      returned_weights_;  ///< From the previous layer, if the model keeps its output tuple.
  torch::Tensor attention_weights_;  ///< From the current layer.
  torch::Tensor earlier_weights_;    ///< From its first attention, until the second one's addition.
  torch::Tensor layer_mask_;         ///< The current layer's mask argument.
  torch::Tensor rows_;               ///< Input rows of the open sparse block.
  std::vector<torch::Tensor> router_logits_;
  std::vector<torch::Tensor> block_names_;  ///< Names of that block that no operator reads again.
  LatentFrame latent_;                      ///< Of the open attention module.
  torch::Tensor latent_query_;              ///< Rotated, until its keys are made.
  Module module_ = Module::kNone;
  const Op* block_ = nullptr;       ///< First operator of the current hooked block.
  TensorId block_output_{};         ///< The last output.
  std::vector<NestedCall> nested_;  ///< Open modules, the innermost last.
};

}  // namespace headroom::ir::transformers
