#include "validators/oom/match.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "costmodel/memory/allocation_size.h"

namespace headroom::check {
namespace {

/// An allocation of the replay.
struct Request {
  std::size_t event = 0;
  Bytes segment;
  Bytes allocated;  ///< Before it.
};

std::vector<Request> requests_of(const cost::StepEstimate& estimate, std::int64_t divisions) {
  std::vector<Request> requests;
  const std::vector<Bytes>& sizes = estimate.timeline.block_sizes;
  std::vector<bool> counted(sizes.size(), false);
  Bytes allocated{0};
  const std::vector<ir::Event>& events = estimate.program.events;
  for (std::size_t at = 0; at < events.size(); ++at) {
    const ir::Event& event = events[at];
    const bool known = event.block < sizes.size();
    if (event.kind == ir::EventKind::kAllocate) {
      if (event.bytes > 0 && event.bytes <= cost::kLargestRequest) {
        const std::int64_t size = cost::block_size(event.bytes, divisions);
        requests.push_back(
            {.event = at, .segment = Bytes{cost::segment_size(size)}, .allocated = allocated});
      }
      if (known && !counted[event.block]) {
        counted[event.block] = true;
        allocated += sizes[event.block];
      }
    } else if (event.kind != ir::EventKind::kEmptyCache && known && counted[event.block]) {
      counted[event.block] = false;
      allocated -= sizes[event.block];
    }
  }
  return requests;
}

/// The request that fits best among those that `counts` names; null if there is none.
template <typename Counts>
const Request* best_of(const std::vector<Request>& requests, const OutOfMemoryMessage& message,
                       const Counts& counts) {
  const Request* best = nullptr;
  for (const Request& one : requests) {
    if (!counts(one)) {
      continue;
    }
    const auto distance = [&](const Request& request) {
      return message.allocated ? std::abs((request.allocated - message.allocated->bytes).value())
                               : -request.allocated.value();
    };
    if (best == nullptr || distance(one) < distance(*best)) {
      best = &one;
    }
  }
  return best;
}

ir::PhaseName phase_at(const ir::RankProgram& program, std::size_t event) {
  for (const ir::Phase& phase : program.phases) {
    if (event < phase.end) {
      return phase.name;
    }
  }
  return program.phases.empty() ? ir::PhaseName{} : program.phases.back().name;
}

}  // namespace

std::optional<OomMatch> match_of(const OutOfMemoryMessage& message,
                                 const cost::StepEstimate& estimate,
                                 const ir::AllocatorSettings& settings) {
  const std::vector<Request> requests = requests_of(estimate, settings.roundup_power2_divisions);
  const auto same = [&](const Request& one) { return message.asked.holds(one.segment); };
  const auto large = [&](const Request& one) { return 2 * one.segment >= message.asked.bytes; };
  const Request* best = best_of(requests, message, same);
  const bool same_size = best != nullptr;
  if (!same_size) {
    best = best_of(requests, message, large);
  }
  if (best == nullptr) {
    best = best_of(requests, message, [](const Request&) { return true; });
  }
  if (best == nullptr) {
    return std::nullopt;
  }
  const ir::Event& event = estimate.program.events[best->event];
  OomMatch match{.event = best->event,
                 .phase = phase_at(estimate.program, best->event),
                 .moment = {},
                 .site = cost::site_of(estimate.program, best->event),
                 .role = event.role,
                 .requested = Bytes{event.bytes},
                 .segment = best->segment,
                 .allocated = best->allocated,
                 .of_size = 0,
                 .off = std::nullopt,
                 .same_size = same_size};
  match.moment = cost::moment_text(match.phase, match.site);
  for (const Request& one : requests) {
    match.of_size += one.segment == best->segment ? 1U : 0U;
  }
  if (message.allocated) {
    match.off = best->allocated - message.allocated->bytes;
  }
  return match;
}

bool agrees(const OomMatch& match, const OutOfMemoryMessage& message) {
  constexpr double kClose = 0.02;
  return match.same_size && match.off && message.allocated &&
         std::abs(static_cast<double>(match.off->value())) <=
             kClose * static_cast<double>(message.allocated->bytes.value()) +
                 static_cast<double>(message.allocated->slack.value());
}

}  // namespace headroom::check
