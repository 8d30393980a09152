#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model_ir/spec/model_spec.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/experts.h"
#include "runtimes/transformers/library_version.h"

namespace headroom::ir::transformers {

/// Inputs of a loop over experts, before 5.0. Shape letters: T tokens, k experts per token, E
/// experts, H hidden.
struct ExpertLoopInput {
  torch::Tensor rows;  ///< [T, H]
  torch::Tensor weights;
  torch::Tensor indices;
  std::int64_t experts = 0;  ///< E
  ExpertLoop loop = ExpertLoop::kAll;
  /// Runs expert `expert`, a module, on its tokens.
  std::function<torch::Tensor(std::int64_t expert, const torch::Tensor& rows)> run;
};

/// Tokens that choose `expert` if routing is even: T*k/E; the first experts get the remainder.
[[nodiscard]] std::int64_t tokens_of(std::int64_t expert, std::int64_t selected,
                                     std::int64_t experts);

/// Positions of an expert's tokens: two views of the result of `torch.where`.
struct Found {
  torch::Tensor first, second;  ///< [N]
};
/// torch.where of an expert's part of a mask, of shape `dims`; `tokens` chose the expert. The part
/// is not contiguous, and neither is its copy.
[[nodiscard]] Found where(torch::Eager& eager, const torch::Shape& dims, std::int64_t tokens);

/// torch.greater(expert_mask.sum(dim=(-1, -2)), 0).nonzero(): `hit` of `classes` classes, which got
/// `selected` choices.
[[nodiscard]] torch::Tensor find_hit(torch::Eager& eager, std::int64_t classes,
                                     std::int64_t selected, std::int64_t hit);

/// The routing inside a block without a router module, from its logits [T, E]: probabilities and
/// the k largest, in the type of the block's rows.
/// Source: huggingface/transformers 4.44 to 4.57, models/mixtral/modeling_mixtral.py,
///         MixtralSparseMoeBlock.forward.
[[nodiscard]] Routing route_in_block(torch::Eager& eager, const MoeSpec& moe, torch::Tensor logits,
                                     DType dtype);

/// The loop of the same block; Qwen's are alike. Returns [T, H] in the rows' type; `names` get the
/// tensors that the block's frame holds until it returns.
[[nodiscard]] torch::Tensor run_expert_loop(torch::Eager& eager, const ExpertLoopInput& input,
                                            std::vector<torch::Tensor>& names);

/// Inputs of gpt-oss's experts: fused weights with biases, and a weight of each token for each
/// expert.
struct BiasedExpertsInput {
  torch::Tensor rows;                   ///< [T, H]
  torch::Tensor weights;                ///< [T, E]
  torch::Tensor indices;                ///< [T, k]
  torch::Tensor gate_up, gate_up_bias;  ///< [E, H, 2F], [E, 2F]
  torch::Tensor down, down_bias;        ///< [E, F, H], [E, H]
  bool spare_class = false;             ///< LibraryTraits::spare_class
};

/// The loop that gpt-oss runs in training. Source: huggingface/transformers 4.56 and 4.57,
/// models/gpt_oss/modeling_gpt_oss.py, GptOssExperts.forward.
[[nodiscard]] torch::Tensor run_biased_loop(torch::Eager& eager, const BiasedExpertsInput& input);
/// The same in evaluation: all experts on all tokens, [E, T, H], by batched products.
[[nodiscard]] torch::Tensor run_biased_batch(torch::Eager& eager, const BiasedExpertsInput& input);

/// A separate method, which sums in the type of the weights.
/// Source: huggingface/transformers 4.51 to 4.57, models/deepseek_v3/modeling_deepseek_v3.py,
///         DeepseekV3MoE.moe.
[[nodiscard]] torch::Tensor run_expert_method(torch::Eager& eager, const ExpertLoopInput& input);

}  // namespace headroom::ir::transformers
