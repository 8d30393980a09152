#include "planner/search/lowered_bounds.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "planner/space/titan_space.h"

namespace headroom::plan {
namespace {

/// All of a choice but how many layers run again.
using Group = std::tuple<ir::PipelineKind, std::int64_t, std::int64_t, bool, bool, bool>;

Group group_of(const TitanChoice& choice) {
  return {choice.schedule, choice.stage_layers, choice.runs,
          choice.reshards, choice.compiled,     choice.selective};
}

/// Whether `a` runs fewer layers again than `b` on every rank; where a rank has several chunks, no
/// layer that b does not. Which layers of a chunk these are makes no difference: all take the same.
bool is_lighter(const TitanChoice& a, const TitanChoice& b) {
  const bool chunks = b.schedule == ir::PipelineKind::kInterleaved;
  return b.every > 0 &&
         (a.every == 0 || (a.every > b.every && (!chunks || a.every % b.every == 0)));
}

}  // namespace

LoweredBounds::LoweredBounds(const SearchState& state, const BoundedCell& cell,
                             const Choices& choices)
    : state_(state), cell_(cell), choices_(choices), lighter_(cell.cell.choices) {
  if (!is_titan(cell.cell.plan) || !state.question.pruning.dominance) {
    return;
  }
  const std::vector<TitanChoice> all = titan_choices(state.question.space, cell.cell.plan);
  std::map<Group, std::vector<std::uint64_t>> groups;
  for (std::uint64_t i = 0; i < all.size(); ++i) {
    groups[group_of(all[i])].push_back(i);
  }
  for (const auto& [group, members] : groups) {
    for (const std::uint64_t one : members) {
      for (const std::uint64_t other : members) {
        if (is_lighter(all[other], all[one])) {
          lighter_[one].push_back(other);
        }
      }
    }
  }
}

double LoweredBounds::seconds(std::uint64_t index) const {
  return state_.lowered.least_step(choices_.recomputations[index]).value();
}

double LoweredBounds::seconds_now(std::uint64_t index) const {
  double least = seconds(index);
  for (const std::uint64_t other : lighter_[index]) {
    if (const auto known = state_.lowered.known(cell_.first_number + other)) {
      least = std::max(least, known->time.total().value());
    }
  }
  return least;
}

Result<bool> LoweredBounds::is_above(std::uint64_t index, Bytes ceiling) const {
  const ir::ParallelPlan& plan = choices_.recomputations[index];
  if (state_.lowered.floor(plan) > ceiling) {
    return true;
  }
  if (!is_titan(plan)) {
    return false;
  }
  const Result<Bytes> sampled = state_.lowered.sampled_floor(plan);
  return sampled ? Result<bool>(*sampled > ceiling) : Result<bool>(sampled.error());
}

}  // namespace headroom::plan
