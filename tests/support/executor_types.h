#pragma once

#include "model_ir/spec/dtype.h"
#include "validators/executor/context.h"

namespace headroom::test {

/// Parameters and gradients in `half`, with fp32 master copies and fp32 moments.
[[nodiscard]] inline exec::Types with_masters(ir::DType half) {
  return {.parameter = half,
          .compute = half,
          .gradient = half,
          .state = ir::DType::kFp32,
          .master = true};
}

/// Parameters in bf16 and moments in 8 bits, without master copies.
[[nodiscard]] inline exec::Types with_small_states(ir::DType gradient) {
  return {.parameter = ir::DType::kBf16,
          .compute = ir::DType::kBf16,
          .gradient = gradient,
          .state = ir::DType::kUInt8};
}

}  // namespace headroom::test
