#pragma once

#include <cstdint>
#include <vector>

#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/megatron/weights.h"

namespace headroom::ir::megatron {

/// Rows of the word embedding, padded so that all ranks hold the same number of rows.
/// Source: megatron/training/tokenizer, _vocab_size_with_padding.
[[nodiscard]] std::int64_t padded_vocabulary(const ModelSpec& spec, const ParallelPlan& plan);

/// The chunks of this rank's stage. Parameters are allocated in the order of the constructors.
[[nodiscard]] std::vector<Chunk> build_chunks(const Runner& run,
                                              const std::vector<LayerModules>& modules);

}  // namespace headroom::ir::megatron
