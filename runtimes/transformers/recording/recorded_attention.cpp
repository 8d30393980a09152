#include "runtimes/transformers/recording/recorded_attention.h"

#include <cstdint>

#include "runtimes/torch/functions.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Tensor;

Tensor recorded_attention(Eager& eager, const Model& model, const AttentionCall& call) {
  const Instruction& instruction = call.recorded;
  const std::span<const Tensor> inputs = call.inputs;
  for (std::size_t i = 0; i < instruction.rows_first.size(); ++i) {
    inputs[i]->layout =
        instruction.rows_first[i] ? torch::Layout::kSwapped : torch::Layout::kContiguous;
  }
  const bool padded = call.padding.defined();
  torch::SdpaOptions options{
      .dropout = model.training ? instruction.dropout : 0,
      .causal = instruction.causal && !padded,
      .mask = {},
      .broadcast = !instruction.groups && inputs[1].shape()[1] == 1 && inputs[0].shape()[1] > 1,
      .cudnn = model.plan->attention == AttentionKind::kSdpa};
  if (padded) {
    options.mask = call.padding;
  } else if (inputs.size() > 3 && inputs[3].defined()) {
    options.mask = inputs[3];
    if (instruction.mask_strided) {
      inputs[3]->layout = torch::Layout::kSwapped;
    }
  }
  const std::int64_t groups = inputs[0].shape()[1] / inputs[1].shape()[1];
  if (padded && groups > 1 && !options.broadcast) {
    return torch::sdpa(eager, inputs[0], torch::repeat_heads(eager, inputs[1], groups),
                       torch::repeat_heads(eager, inputs[2], groups), options);
  }
  return torch::sdpa(eager, inputs[0], inputs[1], inputs[2], options);
}

}  // namespace headroom::ir::transformers
