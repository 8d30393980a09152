#include "costmodel/memory/free_list.h"

#include <cstdint>
#include <utility>

#include "model_ir/base/check.h"

namespace headroom::cost {
namespace {

/// Size and address as one number, since comparing two in turn would take a branch that cannot be
/// predicted, or three comparisons.
__extension__ using SizeAndAddress = __int128;

SizeAndAddress size_and_address(std::int64_t size, std::int64_t address) {
  return (static_cast<SizeAndAddress>(size) << 64) | static_cast<std::uint64_t>(address);
}

bool precedes(const FreeList::Entry& entry, SizeAndAddress key) {
  return size_and_address(entry.size, entry.address) < key;
}

/// Number of the `count` > 0 ordered items at `first` that come before the wanted place: as
/// std::partition_point, but with conditional moves instead of branches.
template <typename Item, typename Before>
std::size_t count_before(const Item* first, std::size_t count, Before before) {
  const Item* base = first;
  while (count > 1) {
    const std::size_t half = count / 2;
    base += before(base[half - 1]) ? half : 0;
    count -= half;
  }
  return static_cast<std::size_t>(base - first) + (before(*base) ? 1 : 0);
}

}  // namespace

FreeList::Position FreeList::lower_bound(std::int64_t size, std::int64_t address) const {
  if (runs_.empty()) {
    return end();
  }
  const SizeAndAddress key = size_and_address(size, address);
  const std::size_t run = count_before(runs_.data(), runs_.size(), [&](const Run& candidate) {
    return precedes(candidate.back(), key);
  });
  if (run == runs_.size()) {
    return end();
  }
  const Run& found = runs_[run];
  return {.run = run,
          .index = count_before(found.data(), found.size(),
                                [&](const Entry& candidate) { return precedes(candidate, key); })};
}

/// An empty run with room for `kRun` entries; one that was emptied before, if there is one.
FreeList::Run FreeList::empty_run() {
  Run run;
  if (!spare_.empty()) {
    run = std::move(spare_.back());
    spare_.pop_back();
  }
  run.reserve(kRun);
  return run;
}

void FreeList::insert(const Entry& entry) {
  Position place = lower_bound(entry.size, entry.address);
  if (place == end()) {
    if (runs_.empty()) {
      runs_.push_back(empty_run());
    }
    place = {.run = runs_.size() - 1, .index = runs_.back().size()};
  }
  if (runs_[place.run].size() == kRun) {  // Full: its upper half becomes a run of its own.
    Run upper = empty_run();
    Run& lower = runs_[place.run];
    upper.assign(lower.begin() + kRun / 2, lower.end());
    lower.resize(kRun / 2);
    runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(place.run) + 1, std::move(upper));
    if (place.index > kRun / 2) {
      place = {.run = place.run + 1, .index = place.index - kRun / 2};
    }
  }
  Run& run = runs_[place.run];
  run.insert(run.begin() + static_cast<std::ptrdiff_t>(place.index), entry);
}

void FreeList::erase(std::int64_t size, std::int64_t address) {
  const Position place = lower_bound(size, address);
  HEADROOM_ASSERT(place != end() && at(place).size == size && at(place).address == address);
  erase(place);
}

void FreeList::erase(Position position) {
  Run& run = runs_[position.run];
  run.erase(run.begin() + static_cast<std::ptrdiff_t>(position.index));
  if (run.empty()) {
    spare_.push_back(std::move(run));
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(position.run));
  }
}

FreeList::Position FreeList::best_fit(std::int64_t size) const {
  return lower_bound(size, 0);  // No address is less.
}

FreeList::Position FreeList::next(Position position) const {
  if (position.index + 1 < runs_[position.run].size()) {
    return {.run = position.run, .index = position.index + 1};
  }
  return {.run = position.run + 1, .index = 0};
}

std::vector<FreeList::Entry> FreeList::entries() const {
  std::vector<Entry> all;
  for (const Run& run : runs_) {
    all.insert(all.end(), run.begin(), run.end());
  }
  return all;
}

}  // namespace headroom::cost
