#pragma once

#include "model_ir/spec/recording/recording.h"

namespace headroom::ir::transformers {

/// Whether code that was recorded in bf16 is the same under torch.autocast to bf16: with 16-bit
/// weights, autocast then has nothing to cast.
///
/// Model:   no operator that autocast runs in fp32 reads 16 bits, and none that autocast runs in 16
///          bits reads fp32, but for those of which the code that was recorded under autocast has
///          as many: transformers switches autocast off there (rotary embeddings).
/// Requires `variant` to be one of `recording`'s, with parameters in bf16 and without autocast.
/// Source:  pytorch/pytorch 2.11 aten/src/ATen/autocast_mode.h, AT_FORALL_LOWER_PRECISION_FP,
///          AT_FORALL_FP32 and AT_FORALL_FP32_SET_OPT_DTYPE, as the operators below autograd that
///          they end in. A grouped product is in none of these lists; its code under autocast was
///          recorded with its casts inside.
[[nodiscard]] bool unchanged_by_autocast(const Recording& recording,
                                         const RecordedVariant& variant);

}  // namespace headroom::ir::transformers
