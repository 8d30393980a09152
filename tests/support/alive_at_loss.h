#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/plan/rank_program.h"

namespace headroom::test {

/// Live bytes when the first logits are allocated: what the forward pass of one micro-batch keeps,
/// without weights, gradients and optimizer states.
inline std::int64_t alive_at_loss(const ir::RankProgram& program) {
  std::vector<std::int64_t> sizes(program.blocks, 0);
  std::int64_t bytes = 0;
  for (const ir::Event& event : program.events) {
    if (event.kind == ir::EventKind::kAllocate && event.role == ir::TensorRole::kLogits) {
      break;
    }
    if (event.kind == ir::EventKind::kAllocate) {
      sizes[event.block] = event.bytes;
      bytes += event.bytes;
    } else if (event.kind == ir::EventKind::kFree) {
      bytes -= sizes[event.block];
    }
  }
  return bytes;
}

}  // namespace headroom::test
