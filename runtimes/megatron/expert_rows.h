#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtimes/megatron/transformer_engine.h"

namespace headroom::ir::megatron {

/// Rows of each of `count` experts: even shares in multiples of `unit`, what does not divide with
/// the last. Of rows that `pad_experts` has filled up, with its unit, those of each after it.
///
/// Errors:  none; requires a multiple of `unit`.
[[nodiscard]] std::vector<std::int64_t> expert_rows(std::int64_t rows, std::size_t count,
                                                    std::int64_t unit = 1);
/// What an expert's rows are filled up to a multiple of.
/// Source: transformer_engine/pytorch/quantization.py, get_align_size_for_quantization.
[[nodiscard]] std::int64_t padded_unit(const Runner& run);
/// All of them, filled up.
[[nodiscard]] std::int64_t padded_rows(const Runner& run, std::int64_t rows, std::size_t count);

/// Products of `all.count` experts whose rows together are `m`, or `k` for gradients of weights:
/// spread evenly, what does not divide on top.
void run_per_expert(torch::Eager& eager, GemmShape all);

}  // namespace headroom::ir::megatron
