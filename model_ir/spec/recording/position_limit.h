#pragma once

#include <cstdint>
#include <optional>

#include "model_ir/spec/recording/recording.h"

namespace headroom::ir {

/// Keys of a configuration about the positions of tokens.
struct PositionKeys {
  std::int64_t positions = 0;  ///< `max_position_embeddings` or its like; 0: it says nothing.
  std::int64_t padding = 1;    ///< `pad_token_id`
};

/// The longest sequence for which a recorded model has positions: that of the shortest table of
/// positions that its forward pass reads outside the layers. Nothing if it reads none, or limits
/// what it reads itself (ProphetNet).
///
/// Model:   RoBERTa and its like count positions from the one behind that of padding; tables of
///          BART have two more rows than positions.
/// Source:  huggingface/transformers 5.17 modeling_roberta.py, create_position_ids_from_input_ids;
///          modeling_bart.py, BartLearnedPositionalEmbedding.
[[nodiscard]] std::optional<std::int64_t> position_limit(const Recording& recording,
                                                         const PositionKeys& keys);

}  // namespace headroom::ir
