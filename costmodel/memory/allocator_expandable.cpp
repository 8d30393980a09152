// Expandable segments: ranges of addresses that are mapped page by page.
//
//     | live | free | live | unmapped | live | free | unmapped ....................... |
//     0                    pages wholly free      ^ grows here                  range end

#include <algorithm>

#include "costmodel/memory/allocation_size.h"
#include "costmodel/memory/caching_allocator.h"
#include "model_ir/base/check.h"
#include "model_ir/base/units.h"

namespace headroom::cost {
namespace {

/// Largest range of addresses: 8 PiB, so that a replay without a limit can have hundreds.
constexpr std::int64_t kLargestRange = std::int64_t{1} << 53;

}  // namespace

std::int64_t CachingAllocator::page_size(PoolId pool) {
  return is_small(pool) ? kSmallSegment : kLargeSegment;
}

/// Size of a free block plus the unmapped room directly after it.
std::int64_t CachingAllocator::expandable_size(Index block) const {
  const Block& free = at(block);
  const bool unmapped_behind = free.next != kNone && !at(free.next).mapped;
  return free.size + (unmapped_behind ? at(free.next).size : 0);
}

/// A free block of `size` bytes at the lowest address with enough room, mapped as far as needed.
CachingAllocator::Index CachingAllocator::expand(PoolId pool, std::int64_t size) {
  Index block = find_room(pool, size);
  if (!at(block).mapped && !map(block, std::min(at(block).size, size))) {
    return kNone;
  }
  while (at(block).size < size) {
    const Index behind = at(block).next;
    if (behind == kNone) {
      return kNone;  // Larger than the range, which is larger than the device.
    }
    const std::int64_t missing = size - at(block).size;
    if (!map(behind, std::min(missing, at(behind).size))) {
      return kNone;
    }
    block = behind;  // It merged with the block before it.
  }
  pool_of(pool).free.erase(at(block).size, at(block).address);
  return block;
}

CachingAllocator::Index CachingAllocator::find_room(PoolId pool, std::int64_t size) {
  for (Index candidate : pool_of(pool).unmapped) {
    const Index before = at(candidate).previous;
    if (before != kNone && !at(before).live) {
      candidate = before;
    }
    if (has_room(candidate, size)) {
      return candidate;
    }
  }
  return reserve_addresses(pool);
}

bool CachingAllocator::has_room(Index block, std::int64_t size) const {
  std::int64_t room = 0;
  while (room < size && block != kNone && !at(block).live) {
    room += at(block).size;
    block = at(block).next;
  }
  return room >= size;
}

/// A new range of 1.125 times the device's memory, all of it unmapped.
CachingAllocator::Index CachingAllocator::reserve_addresses(PoolId pool) {
  const std::int64_t device = std::min(capacity_, kLargestRange);
  const std::int64_t range = align_up(device + device / 8, page_size(pool));
  next_address_ = align_up(next_address_, kLargeSegment);  // A whole page of either pool.
  const Index block =
      new_block({.address = next_address_, .size = range, .pool = pool, .mapped = false});
  HEADROOM_ASSERT(!__builtin_add_overflow(next_address_, range, &next_address_));
  insert_unmapped(block);
  return block;
}

/// Maps pages from the start of the unmapped `block` until `size` bytes are covered.
bool CachingAllocator::map(Index block, std::int64_t size) {
  const PoolId pool = at(block).pool;
  const std::int64_t bytes = align_up(size, page_size(pool));
  if (bytes > capacity_ - reserved_) {
    return false;
  }
  erase_unmapped(block);
  at(block).mapped = true;
  if (bytes < at(block).size) {
    const Block& whole = at(block);
    const Index rest = new_block({.address = whole.address + bytes,
                                  .size = whole.size - bytes,
                                  .pool = pool,
                                  .mapped = false});
    at(block).size = bytes;
    link(block, rest, at(block).next);
    insert_unmapped(rest);
  }
  reserve(bytes);
  record(TraceAction::kSegmentMap, at(block), at(block).address, bytes);
  merge(block, at(block).previous);
  merge(block, at(block).next);
  add_free(block);
  return true;
}

/// Gives the pages that lie wholly inside the free `block` back to the driver.
void CachingAllocator::unmap(Index block) {
  const Block whole = at(block);
  const std::int64_t page = page_size(whole.pool);
  const std::int64_t begin = align_up(whole.address, page);  // Ranges start at whole pages.
  const std::int64_t end = (whole.address + whole.size) / page * page;
  if (begin >= end) {
    return;
  }
  pool_of(whole.pool).free.erase(whole.size, whole.address);
  if (begin > whole.address) {
    const Index before =
        new_block({.address = whole.address, .size = begin - whole.address, .pool = whole.pool});
    link(at(block).previous, before, block);
    add_free(before);
  }
  if (end < whole.address + whole.size) {
    const Index after =
        new_block({.address = end, .size = whole.address + whole.size - end, .pool = whole.pool});
    link(block, after, at(block).next);
    add_free(after);
  }
  Block& unmapped = at(block);
  unmapped.address = begin;
  unmapped.size = end - begin;
  unmapped.mapped = false;
  reserved_ -= end - begin;
  record(TraceAction::kSegmentUnmap, unmapped, begin, end - begin);
  merge(block, unmapped.previous);
  merge(block, unmapped.next);
  if (is_split(at(block))) {
    insert_unmapped(block);
  } else {
    drop_block(block);  // The whole range is empty: its addresses go back too.
  }
}

void CachingAllocator::insert_unmapped(Index block) {
  std::vector<Index>& unmapped = pool_of(at(block).pool).unmapped;
  const auto place = std::ranges::lower_bound(
      unmapped, at(block).address, {}, [this](Index candidate) { return at(candidate).address; });
  unmapped.insert(place, block);
}

void CachingAllocator::erase_unmapped(Index block) {
  std::erase(pool_of(at(block).pool).unmapped, block);
}

}  // namespace headroom::cost
