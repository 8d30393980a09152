#include "planner/evaluate/live_bytes.h"

#include <algorithm>
#include <utility>

#include "costmodel/memory/allocation_size.h"

namespace headroom::plan {

std::vector<std::int64_t> live_curve(const ir::RankProgram& program,
                                     const ir::AllocatorSettings& settings) {
  std::vector<std::int64_t> sizes(program.blocks, 0);
  std::vector<std::int64_t> curve;
  curve.reserve(program.events.size());
  std::int64_t live = 0;
  for (const ir::Event& event : program.events) {
    switch (event.kind) {
      case ir::EventKind::kAllocate:
        if (event.bytes > 0) {
          sizes[event.block] = cost::block_size(std::min(event.bytes, cost::kLargestRequest),
                                                settings.roundup_power2_divisions);
          live += sizes[event.block];
        }
        break;
      case ir::EventKind::kLetGo:
      case ir::EventKind::kFree:
        live -= std::exchange(sizes[event.block], 0);
        break;
      case ir::EventKind::kEmptyCache:
        break;
    }
    curve.push_back(live);
  }
  return curve;
}

std::int64_t live_peak(const ir::RankProgram& program, const ir::AllocatorSettings& settings) {
  const std::vector<std::int64_t> curve = live_curve(program, settings);
  return curve.empty() ? 0 : std::max<std::int64_t>(0, std::ranges::max(curve));
}

}  // namespace headroom::plan
