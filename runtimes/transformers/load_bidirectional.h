#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// Parameters in the order in which the constructors make them, or, where `loads`, in which they
/// are read: that of registration. The former differs for the bias of BERT's head and gpt-oss's
/// sinks, which their modules make last and register first. Source: huggingface/transformers
/// modeling_bert.py, BertLMPredictionHead; modeling_gpt_oss.py,
///         GptOssAttention.
[[nodiscard]] std::vector<TensorId> construction_order(const Graph& graph, bool loads);

/// What the constructors of masked and encoder-decoder models make besides the parameters of the
/// graph: BERT's id buffers, the tables and heads that tying then lets go, biases padded on the
/// way. Does nothing for other models. Source: huggingface/transformers modeling_bert.py,
/// modeling_t5.py and modeling_utils.py, tie_weights and _adjust_bias.
class ConstructorExtras {
 public:
  /// `created` sees the tables and heads as `load_model` has it of parameters.
  ConstructorExtras(torch::Eager& eager, Model& model,
                    const std::function<void(const torch::Tensor&)>& created);

  /// Called before each parameter, in the order of construction.
  void before(TensorId parameter);
  /// Called after the last one: the weights are tied. Those that are to be quantised are read into
  /// a model without memory.
  void finish();

 private:
  void before_masked(TensorId parameter);
  void finish_masked();
  /// A module with a table of the vocabulary; `biased`: with `decoder_bias_`, too.
  void add_table(bool biased);
  void finish_loaded();
  void add_ids();

  torch::Eager& eager_;
  Model& model_;
  const std::function<void(const torch::Tensor&)>& created_;
  std::vector<torch::Tensor> copies_;  ///< Tables and heads that tying lets go.
  torch::Tensor decoder_bias_;         ///< BERT: of the decoder, until it is tied.
  bool fourth_;                        ///< As releases before 5.0.
  std::int32_t layer_ = -1;            ///< Of the parameter before.
  bool encoder_made_ = false;          ///< BertModel's constructor has returned.
};

}  // namespace headroom::ir::transformers
