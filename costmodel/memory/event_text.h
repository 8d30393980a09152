#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/plan/rank_program.h"

namespace headroom::cost {

/// "silu", "silu.backward"; empty if the program does not name one.
[[nodiscard]] std::string operator_name(const ir::RankProgram& program, std::uint32_t site);

/// The layer a site belongs to; nothing outside the layers.
[[nodiscard]] std::optional<std::int32_t> layer_of(const ir::RankProgram& program,
                                                   std::uint32_t site);

/// Appends the decimal digits of `value`.
void append_number(std::string& out, std::int64_t value);

/// Site, role and bytes of an event: its own, or those of the block that it frees.
struct EventSubject {
  std::uint32_t site = 0;
  std::optional<ir::TensorRole> role;  ///< Nothing if the event has no block.
  std::int64_t bytes = 0;              ///< Requested.
};
/// The subject of every event of the program.
[[nodiscard]] std::vector<EventSubject> subjects_of(const ir::RankProgram& program);

}  // namespace headroom::cost
