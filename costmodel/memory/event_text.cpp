#include "costmodel/memory/event_text.h"

#include <array>
#include <charconv>

#include "model_ir/base/check.h"

namespace headroom::cost {

std::string operator_name(const ir::RankProgram& program, std::uint32_t site) {
  if (site >= program.sites.size()) {
    return {};
  }
  const ir::Site& where = program.sites[site];
  if (where.operation >= program.operations.size()) {
    return {};
  }
  std::string name = program.operations[where.operation];
  if (where.backward) {
    name += ".backward";
  }
  return name;
}

std::optional<std::int32_t> layer_of(const ir::RankProgram& program, std::uint32_t site) {
  if (site >= program.sites.size() || program.sites[site].layer < 0) {
    return std::nullopt;
  }
  return program.sites[site].layer;
}

void append_number(std::string& out, std::int64_t value) {
  std::array<char, 24> digits{};
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
}

std::vector<EventSubject> subjects_of(const ir::RankProgram& program) {
  std::vector<EventSubject> blocks(program.blocks);
  std::vector<EventSubject> subjects;
  subjects.reserve(program.events.size());
  for (const ir::Event& event : program.events) {
    if (event.kind == ir::EventKind::kEmptyCache) {
      subjects.push_back({.site = event.site, .role = {}, .bytes = 0});
      continue;
    }
    HEADROOM_ASSERT(event.block < blocks.size());
    EventSubject& subject = blocks[event.block];
    if (event.kind == ir::EventKind::kAllocate) {
      subject = {.site = event.site, .role = event.role, .bytes = event.bytes};
    }
    subjects.push_back(subject);
  }
  return subjects;
}

}  // namespace headroom::cost
