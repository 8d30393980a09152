#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"

/// The layers of each pipeline chunk in the notation of --pipeline-model-parallel-layout.
/// "Et*4|(t*4|)*14tmL" stands for sixteen chunks: the first has the embedding and four layers; the
/// last has one layer, one multi-token prediction layer and the loss. `x*3` stands for xxx, and
/// `(..)*3` repeats the part in parentheses three times. Commas have no meaning.
/// Source: megatron/core/transformer/pipeline_parallel_layer_layout.py.
namespace headroom::ir {

struct PipelineLayout {
  std::vector<std::int64_t> layers;  ///< Layers of each chunk, in the order of the model.
  std::int64_t mtp_layers = 0;       ///< Multi-token prediction layers, in the last chunk.
};

/// Errors:  kInvalidArgument naming "pipeline-layout": an unknown letter, nested parentheses, an
///          embedding that is not first, a loss that is not last, or multi-token prediction layers
///          that are not next to the loss.
[[nodiscard]] Result<PipelineLayout> parse_pipeline_layout(std::string_view text);

}  // namespace headroom::ir
