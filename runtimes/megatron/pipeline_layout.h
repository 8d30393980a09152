#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"

/// Which layers each chunk of a pipeline holds, as --pipeline-model-parallel-layout writes it:
/// "Et*4|(t*4|)*14tmL" are sixteen chunks, the first with the embedding and four layers, the last
/// with one layer, one of multi-token prediction and the loss. `x*3` stands for xxx, `(..)*3` for
/// three times what is in parentheses; commas mean nothing.
/// Source: megatron/core/transformer/pipeline_parallel_layer_layout.py.
namespace headroom::ir {

struct PipelineLayout {
  std::vector<std::int64_t> layers;  ///< Of each chunk, in the order of the model.
  std::int64_t mtp_layers = 0;       ///< Of multi-token prediction, in the last chunk.
};

/// Errors:  kInvalidArgument naming "pipeline-layout": a letter that means nothing, parentheses in
///          parentheses, an embedding that is not first, a loss that is not last, layers of
///          multi-token prediction elsewhere than beside the loss.
[[nodiscard]] Result<PipelineLayout> parse_pipeline_layout(std::string_view text);

}  // namespace headroom::ir
