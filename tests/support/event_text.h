#pragma once

#include <string>
#include <string_view>

#include "model_ir/plan/rank_program.h"

namespace headroom::test {

/// The phase of that name; if several have it, the last one.
[[nodiscard]] inline const ir::Phase* find_phase(const ir::RankProgram& program,
                                                 std::string_view name) {
  const ir::Phase* found = nullptr;
  for (const ir::Phase& phase : program.phases) {
    found = to_text(phase.name) == name ? &phase : found;
  }
  return found;
}

/// The events of a phase in order, as text: "+BYTES#BLOCK" for an allocation, "-BLOCK" for a free.
[[nodiscard]] inline std::string events_of(const ir::RankProgram& program, std::string_view name) {
  const ir::Phase* const phase = find_phase(program, name);
  if (phase == nullptr) {
    return "no such phase";
  }
  std::string text;
  for (std::size_t i = phase->begin; i < phase->end; ++i) {
    const ir::Event& event = program.events[i];
    text += text.empty() ? "" : " ";
    text += event.kind == ir::EventKind::kAllocate
                ? "+" + std::to_string(event.bytes) + "#" + std::to_string(event.block)
                : "-" + std::to_string(event.block);
  }
  return text;
}

}  // namespace headroom::test
