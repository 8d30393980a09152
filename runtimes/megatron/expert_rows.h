#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtimes/megatron/transformer_engine.h"

namespace headroom::ir::megatron {

/// The rows of each of `count` experts: even shares in multiples of `unit`; the last expert gets
/// the remainder. If `pad_experts` has padded the rows, pass its unit to get each expert's padded
/// rows.
///
/// Errors:  none; requires a multiple of `unit`.
[[nodiscard]] std::vector<std::int64_t> expert_rows(std::int64_t rows, std::size_t count,
                                                    std::int64_t unit = 1);
/// The multiple to which an expert's rows are padded.
/// Source: transformer_engine/pytorch/quantization.py, get_align_size_for_quantization.
[[nodiscard]] std::int64_t padded_unit(const Runner& run);
/// The rows of all experts after padding.
[[nodiscard]] std::int64_t padded_rows(const Runner& run, std::int64_t rows, std::size_t count);

/// Runs the products of `all.count` experts. Their rows together are `m`, or `k` for gradients of
/// weights. The rows are divided evenly, with the remainder on top.
void run_per_expert(torch::Eager& eager, GemmShape all);

}  // namespace headroom::ir::megatron
