#pragma once

#include <cstddef>
#include <vector>

#include <QString>

#include "costmodel/estimate.h"

namespace headroom::gui {

/// A tensor that is alive at a moment.
struct AliveTensor {
  ir::BlockId block = 0;
  Bytes size;  ///< The allocated size, rounding included.
  Bytes requested;
  ir::TensorRole role = ir::TensorRole::kTemporary;
  std::uint32_t site = 0;
  std::size_t born = 0;  ///< The event that allocated it.
};

/// The tensors of more than 0 bytes that are alive just after `event`, largest first, ties by
/// block. Requires that `estimate.timeline` is the whole replay of its program.
[[nodiscard]] std::vector<AliveTensor> alive_tensors(const cost::StepEstimate& estimate,
                                                     std::size_t event);

/// "silu", "silu (backward)"; "other" if the program does not name the operator.
[[nodiscard]] QString operator_text(const ir::RankProgram& program, std::uint32_t site);
/// "layer 31", or "outside the layers".
[[nodiscard]] QString layer_text(const ir::RankProgram& program, std::uint32_t site);

/// A line about an event: "step 2, backward, layer 31: silu allocates 12.0 MiB of
/// activations".
[[nodiscard]] QString event_text(const cost::StepEstimate& estimate, std::size_t event);

}  // namespace headroom::gui
