#pragma once

#include <cstdint>

#include "model_ir/graph/op.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/expert_adapter.h"

namespace headroom::ir::transformers {

/// The result of a router.
struct Routing {
  torch::Tensor logits;   ///< [T, E]; the block's frame holds them, although nothing reads them.
  torch::Tensor weights;  ///< [T, k]
  torch::Tensor indices;  ///< [T, k], int64
  torch::Tensor weight;   ///< The weight that the router read; PEFT holds it until its return.
};

struct RouterInput {
  torch::Tensor rows;  ///< [T, H]
  RouterWeight weight;
  torch::Tensor bias;        ///< gpt-oss; otherwise undefined.
  torch::Tensor correction;  ///< DeepSeek-V3's e_score_correction_bias; otherwise undefined.
  /// As in 4.x: DeepSeek-V3 chooses experts in a separate method without gradients, and gpt-oss
  /// returns a weight for every expert [T, E].
  bool fourth = false;
};

/// The family's TopkRouter.forward. `T` tokens, `E` experts, `k` of them per token.
/// Source: huggingface/transformers 5.17 modeling_mixtral.py, modeling_qwen3_moe.py,
///         modeling_gpt_oss.py, modeling_deepseek_v2.py, modeling_deepseek_v3.py.
[[nodiscard]] Routing route(torch::Eager& eager, RouterForm form, const MoeSpec& moe,
                            const RouterInput& input);

struct ExpertsInput {
  torch::Tensor rows;  ///< [T, H]
  torch::Tensor weights;
  torch::Tensor indices;
  FoldedWeight gate_up;  ///< [E, 2F, H]; with biases [E, H, 2F]
  torch::Tensor gate_up_bias;
  FoldedWeight down;  ///< [E, H, F]; with biases [E, F, H]
  torch::Tensor down_bias;
  ExpertGate gate = ExpertGate::kHalves;
  Activation activation = Activation::kSilu;
};

/// grouped_mm_experts_forward: rows sorted by expert, two grouped products, rows put back and
/// summed per token. Returns [T, H]. No size depends on the routing. Source:
/// huggingface/transformers 5.17 integrations/moe.py.
[[nodiscard]] torch::Tensor run_experts(torch::Eager& eager, const ExpertsInput& input);

/// batched_mm_experts_forward, which `generate` uses to decode: the weights of each row's expert
/// are copied, one product per row. Without biases or adapters.
[[nodiscard]] torch::Tensor run_chosen_experts(torch::Eager& eager, const ExpertsInput& input);

}  // namespace headroom::ir::transformers
