// How the caching allocator obtains memory from the driver and gives it back.

#include <algorithm>
#include <utility>

#include "costmodel/memory/allocation_size.h"
#include "costmodel/memory/caching_allocator.h"
#include "model_ir/base/check.h"

namespace headroom::cost {

/// Gets memory for a block of `size` bytes from the driver; `kNone` if the driver has too little.
CachingAllocator::Index CachingAllocator::open_segment(PoolId pool, std::int64_t size) {
  const std::int64_t bytes = segment_size(size);
  if (allowed_ && bytes > *allowed_ - reserved_) {
    return kNone;
  }
  return settings_.expandable_segments ? expand(pool, size) : malloc_segment(pool, bytes);
}

CachingAllocator::Index CachingAllocator::malloc_segment(PoolId pool, std::int64_t bytes) {
  if (bytes > capacity_ - reserved_) {
    return kNone;
  }
  const std::int64_t address = take_addresses(bytes);
  if (source_ != nullptr && !source_->open(address, Bytes{bytes})) {
    give_addresses_back(address);
    return kNone;
  }
  const Index block = new_block({.address = address, .size = bytes, .pool = pool});
  reserve(bytes);
  record(TraceAction::kSegmentAllocate, at(block), at(block).address, bytes);
  return block;
}

/// Address of the next segment. Rising addresses are never reused.
std::int64_t CachingAllocator::take_addresses(std::int64_t bytes) {
  if (settings_.segments == ir::SegmentPlaces::kDriver) {
    return driver_.take(bytes);
  }
  const std::int64_t address = next_address_;
  HEADROOM_ASSERT(!__builtin_add_overflow(next_address_, bytes, &next_address_));
  return address;
}

void CachingAllocator::give_addresses_back(std::int64_t address) {
  if (settings_.segments == ir::SegmentPlaces::kDriver) {
    driver_.give_back(address);
  }
}

/// Gives a whole free segment back to the driver.
void CachingAllocator::release_segment(Index block) {
  const Block& segment = at(block);
  record(TraceAction::kSegmentFree, segment, segment.address, segment.size);
  reserved_ -= segment.size;
  if (source_ != nullptr) {
    source_->close(segment.address);
  }
  give_addresses_back(segment.address);
  pool_of(segment.pool).free.erase(segment.size, segment.address);
  drop_block(block);
}

/// With max_split_size: releases oversize free blocks of the pool, either the one that fits or the
/// largest ones until they add up to enough. True if a retry may succeed. (A free block of enough
/// bytes is oversize here, because a smaller one would have served.)
bool CachingAllocator::release_oversize(PoolId pool, std::int64_t size) {
  if (!settings_.max_split_size || settings_.expandable_segments) {
    return false;
  }
  const FreeList& free = pool_of(pool).free;
  const FreeList::Position fit = free.best_fit(size);
  if (fit != free.end()) {
    release_segment(free.at(fit).block);
    return true;
  }
  std::vector<FreeList::Entry> entries = free.entries();
  std::ranges::reverse(entries);
  std::int64_t released = 0;
  for (const FreeList::Entry& entry : entries) {
    if (released >= size || entry.size < max_split_size_) {
      break;
    }
    released += entry.size;
    release_segment(entry.block);
  }
  return released >= size;
}

/// Releases everything that is wholly free; large pools first, as in PyTorch.
void CachingAllocator::release_cached() {
  if (!any_whole_free_) {
    return;
  }
  any_whole_free_ = false;
  for (const std::size_t first : {std::size_t{1}, std::size_t{0}}) {
    for (std::size_t pool = first; pool < pools_.size(); pool += 2) {
      release_pool(PoolId{static_cast<std::uint16_t>(pool)});
    }
  }
}

/// Releases whole free segments, or whole free pages of expandable segments.
void CachingAllocator::release_pool(PoolId pool) {
  for (const FreeList::Entry& entry : pool_of(pool).free.entries()) {
    if (settings_.expandable_segments) {
      unmap(entry.block);
    } else if (!is_split(at(entry.block))) {
      release_segment(entry.block);
    }
  }
}

/// Releases unsplit large blocks that were free for longer than the average, until the used share
/// of the allowed bytes is below the threshold or nothing is left to release.
void CachingAllocator::collect_garbage() {
  if (!allowed_ || settings_.garbage_collection_threshold <= 0) {
    return;
  }
  // The share is a floating-point number; PyTorch rounds down in the same way.
  const auto threshold = static_cast<std::int64_t>(settings_.garbage_collection_threshold *
                                                   static_cast<double>(*allowed_));
  const std::int64_t target = reserved_ - threshold;
  if (target <= 0) {
    return;
  }
  std::vector<Index> candidates = whole_free_large();
  const auto age = [this](Index block) { return large_searches_ - at(block).age_base; };
  std::int64_t total_age = 0;
  for (const Index block : candidates) {
    total_age += age(block);
  }
  std::int64_t reclaimed = 0;
  bool released = true;
  while (reclaimed < target && released && !candidates.empty()) {
    const double average = static_cast<double>(total_age) / static_cast<double>(candidates.size());
    released = false;
    std::vector<Index> younger;
    for (const Index block : candidates) {
      if (settings_.expandable_segments || static_cast<double>(age(block)) < average) {
        younger.push_back(block);
        continue;
      }
      released = true;
      reclaimed += at(block).size;
      total_age -= age(block);
      release_segment(block);
    }
    candidates = std::move(younger);
  }
}

std::vector<CachingAllocator::Index> CachingAllocator::whole_free_large() const {
  std::vector<Index> found;
  for (std::size_t pool = 1; pool < pools_.size(); pool += 2) {
    for (const FreeList::Entry& entry : pools_[pool].free.entries()) {
      if (!is_split(at(entry.block))) {
        found.push_back(entry.block);
      }
    }
  }
  return found;
}

}  // namespace headroom::cost
