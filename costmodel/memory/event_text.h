#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/plan/rank_program.h"

namespace headroom::cost {

/// "silu", "silu.backward"; empty where the program does not say.
[[nodiscard]] std::string operator_name(const ir::RankProgram& program, std::uint32_t site);

/// The layer a site belongs to; nothing outside the layers.
[[nodiscard]] std::optional<std::int32_t> layer_of(const ir::RankProgram& program,
                                                   std::uint32_t site);

/// Appends the decimal digits of `value`.
void append_number(std::string& out, std::int64_t value);

/// What an event is about: its own site, role and bytes, or those of the block it frees.
struct EventSubject {
  std::uint32_t site = 0;
  std::optional<ir::TensorRole> role;  ///< Nothing when no block is concerned.
  std::int64_t bytes = 0;              ///< Requested.
};
/// Of every event of the program.
[[nodiscard]] std::vector<EventSubject> subjects_of(const ir::RankProgram& program);

}  // namespace headroom::cost
