#pragma once

#include <cstdint>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/dtype.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/torch/tensor.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {

/// Sizes of a block.
struct Sizes {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  DType dtype = DType::kBf16;
  /// Qwen3: queries and keys are normed, and rotated with cosines and sines.
  bool norms_heads = false;
  Float8Recipe float8 = Float8Recipe::kNone;  ///< Recipe of the products.
  bool float8_weights = false;                ///< The weights are gathered in FP8.

  [[nodiscard]] std::int64_t rows() const { return batch * sequence; }
  [[nodiscard]] torch::Shape wide(std::int64_t width) const { return {batch, sequence, width}; }
  [[nodiscard]] torch::Shape by_head(std::int64_t count) const {
    return {batch, count, sequence, head_dim};
  }
  [[nodiscard]] std::int64_t queries() const { return heads * head_dim; }
  [[nodiscard]] std::int64_t keys() const { return kv_heads * head_dim; }
};

/// Whether rotary tables hold cosines and sines (Qwen3) instead of complex numbers.
[[nodiscard]] inline bool has_cosine_table(const ModelSpec& spec) {
  return spec.qk_norm == QkNorm::kPerHead;
}

}  // namespace headroom::ir::torchtitan
