#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// Parameters in the order in which the constructors make them or, if `loads`, in which they are
/// read, which is the order of registration. The two differ for the bias of BERT's head and
/// gpt-oss's sinks, which their modules make last and register first. Source:
/// huggingface/transformers modeling_bert.py, BertLMPredictionHead; modeling_gpt_oss.py,
///         GptOssAttention.
[[nodiscard]] std::vector<TensorId> construction_order(const Graph& graph, bool loads);

/// What the constructors of masked and encoder-decoder models make in addition to the graph's
/// parameters: BERT's id buffers, tables and heads that tying then releases, and biases that are
/// padded. Does nothing for other models. Source: huggingface/transformers modeling_bert.py,
/// modeling_t5.py and modeling_utils.py, tie_weights and _adjust_bias.
class ConstructorExtras {
 public:
  /// `created` sees the tables and heads as it sees parameters in `load_model`.
  ConstructorExtras(torch::Eager& eager, Model& model,
                    const std::function<void(const torch::Tensor&)>& created);

  /// Called before each parameter, in the order of construction.
  void before(TensorId parameter);
  /// Called after the last parameter: ties the weights. Weights that will be quantised are read
  /// into a model without memory.
  void finish();

 private:
  void before_masked(TensorId parameter);
  void finish_masked();
  /// A module with a table of the vocabulary; `biased`: with `decoder_bias_` as well.
  void add_table(bool biased);
  void finish_loaded();
  void add_ids();

  torch::Eager& eager_;
  Model& model_;
  const std::function<void(const torch::Tensor&)>& created_;
  std::vector<torch::Tensor> copies_;  ///< Tables and heads that tying releases.
  torch::Tensor decoder_bias_;         ///< BERT: the decoder's bias, until it is tied.
  bool fourth_;                        ///< Release before 5.0.
  std::int32_t layer_ = -1;            ///< Layer of the previous parameter.
  bool encoder_made_ = false;          ///< BertModel's constructor has returned.
};

}  // namespace headroom::ir::transformers
