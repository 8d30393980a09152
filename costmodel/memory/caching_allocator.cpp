#include "costmodel/memory/caching_allocator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "costmodel/memory/allocation_size.h"
#include "model_ir/base/check.h"

namespace headroom::cost {

CachingAllocator::CachingAllocator(const ir::AllocatorSettings& settings,
                                   const DeviceMemory& device, AllocatorTrace* trace)
    : settings_(settings),
      max_split_size_(settings.max_split_size ? settings.max_split_size->value()
                                              : std::numeric_limits<std::int64_t>::max()),
      capacity_(device.capacity.value()),
      trace_(trace) {
  if (device.allowed) {
    allowed_ = device.allowed->value();
  }
}

void CachingAllocator::serve_from(SegmentSource& source) {
  HEADROOM_ASSERT(reserved_ == 0 && !settings_.expandable_segments);
  source_ = &source;
}

std::int64_t CachingAllocator::address_of(ir::BlockId block) const {
  HEADROOM_ASSERT(block < live_.size() && live_[block] != kNone && live_[block] != kNothing);
  return at(live_[block]).address;
}

CachingAllocator::PoolId CachingAllocator::pool_for(std::int64_t size, ir::StreamId stream) {
  const std::size_t pool = std::size_t{2} * stream + (size <= kSmallRequest ? 0 : 1);
  if (pool >= pools_.size()) {
    pools_.resize(pool + 1);
  }
  return PoolId{static_cast<std::uint16_t>(pool)};
}

bool CachingAllocator::allocate(ir::BlockId block, Bytes requested, ir::StreamId stream) {
  if (block >= live_.size()) {
    live_.resize(std::max<std::size_t>(block + std::size_t{1}, 2 * live_.size()), kNone);
  }
  HEADROOM_ASSERT(live_[block] == kNone && requested >= Bytes{0});
  if (requested == Bytes{0}) {
    live_[block] = kNothing;
    return true;
  }
  if (requested.value() > kLargestRequest) {
    return false;
  }
  const std::int64_t size = block_size(requested.value(), settings_.roundup_power2_divisions);
  const PoolId pool = pool_for(size, stream);
  Index index = obtain(pool, size);
  if (index == kNone) {
    if (trace_ != nullptr) {
      trace_->push_back({TraceAction::kOutOfMemory, stream, block, capacity_ - reserved_, size});
    }
    return false;
  }
  if (should_split(at(index), size)) {
    index = split_front(index, size);
  }
  Block& found = at(index);
  found.live = true;
  found.requested = requested.value();
  found.owner = block;
  live_[block] = index;
  allocated_ += found.size;
  requested_ += found.requested;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  peak_requested_ = std::max(peak_requested_, requested_);
  record(TraceAction::kAllocate, found, found.address, found.requested);
  return true;
}

/// A free block of at least `size` bytes, removed from its free list; `kNone`: out of memory.
CachingAllocator::Index CachingAllocator::obtain(PoolId pool, std::int64_t size) {
  Index block = take_free(pool, size);
  if (block != kNone) {
    return block;
  }
  collect_garbage();
  block = open_segment(pool, size);
  if (block == kNone && release_oversize(pool, size)) {
    block = open_segment(pool, size);
  }
  if (block == kNone) {
    release_cached();
    ++retries_;
    block = open_segment(pool, size);
  }
  return block;
}

CachingAllocator::Index CachingAllocator::take_free(PoolId pool, std::int64_t size) {
  if (allowed_ && settings_.garbage_collection_threshold > 0) {
    ++searches_of(pool);
  }
  FreeList& free = pool_of(pool).free;
  FreeList::Position place = free.best_fit(size);
  if (place == free.end()) {
    return kNone;
  }
  if (settings_.expandable_segments) {
    // The block at the end of the mapped range counts with the room after it, so it is taken last.
    FreeList::Position next = free.next(place);
    while (next != free.end() &&
           expandable_size(free.at(next).block) < expandable_size(free.at(place).block)) {
      place = next;
      next = free.next(next);
    }
  }
  const FreeList::Entry entry = free.at(place);
  if (!may_serve(entry.size, size)) {
    return kNone;
  }
  free.erase(place);
  return entry.block;
}

bool CachingAllocator::may_serve(std::int64_t block, std::int64_t size) const {
  if (size < max_split_size_) {
    return block < max_split_size_;
  }
  return block - size < settings_.max_non_split_rounding.value();
}

bool CachingAllocator::should_split(const Block& block, std::int64_t size) const {
  const std::int64_t remaining = block.size - size;
  if (is_small(block.pool) || settings_.expandable_segments) {
    return remaining >= kMinBlock;
  }
  return size < max_split_size_ && remaining > kSmallRequest;
}

CachingAllocator::Index CachingAllocator::split_front(Index block, std::int64_t size) {
  const Block& whole = at(block);
  const Index front =
      new_block({.address = whole.address, .size = size, .pool = whole.pool, .mapped = true});
  Block& rest = at(block);  // `new_block` may have moved the block.
  rest.address += size;
  rest.size -= size;
  link(rest.previous, front, block);
  add_free(block);
  return front;
}

void CachingAllocator::free(ir::BlockId block) {
  HEADROOM_ASSERT(block < live_.size() && live_[block] != kNone);
  const Index index = live_[block];
  live_[block] = kNone;
  if (index == kNothing) {
    return;
  }
  Block& freed = at(index);
  record(TraceAction::kFree, freed, freed.address, freed.requested);
  allocated_ -= freed.size;
  requested_ -= freed.requested;
  freed.live = false;
  freed.requested = 0;
  merge(index, freed.previous);
  merge(index, freed.next);
  add_free(index);
}

/// Merges `neighbour` into `into` if both are free, and both mapped or both unmapped.
void CachingAllocator::merge(Index into, Index neighbour) {
  if (neighbour == kNone) {
    return;
  }
  Block& target = at(into);
  const Block& source = at(neighbour);
  if (source.live || source.mapped != target.mapped) {
    return;
  }
  if (source.mapped) {
    pool_of(source.pool).free.erase(source.size, source.address);
  } else {
    erase_unmapped(neighbour);
  }
  target.size += source.size;
  if (target.previous == neighbour) {
    target.address = source.address;
    link(source.previous, into, target.next);
  } else {
    link(target.previous, into, source.next);
  }
  drop_block(neighbour);
}

void CachingAllocator::add_free(Index block) {
  Block& freed = at(block);
  freed.age_base = searches_of(freed.pool);
  any_whole_free_ = any_whole_free_ || settings_.expandable_segments || !is_split(freed);
  pool_of(freed.pool).free.insert({.size = freed.size, .address = freed.address, .block = block});
}

CachingAllocator::Index CachingAllocator::new_block(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return Index{static_cast<std::uint32_t>(blocks_.size() - 1)};
  }
  const Index index = unused_.back();
  unused_.pop_back();
  at(index) = block;
  return index;
}

void CachingAllocator::drop_block(Index block) {
  at(block).size = 0;  // Marks it as unused.
  unused_.push_back(block);
}

void CachingAllocator::link(Index previous, Index index, Index next) {
  at(index).previous = previous;
  at(index).next = next;
  if (previous != kNone) {
    at(previous).next = index;
  }
  if (next != kNone) {
    at(next).previous = index;
  }
}

void CachingAllocator::reserve(std::int64_t bytes) {
  reserved_ += bytes;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
}

void CachingAllocator::record(TraceAction action, const Block& block, std::int64_t address,
                              std::int64_t size) {
  if (trace_ != nullptr) {
    trace_->push_back({.action = action,
                       .stream = stream_of(block.pool),
                       .block = block.owner,
                       .address = address,
                       .size = size});
  }
}

void CachingAllocator::empty_cache() {
  release_cached();
}

AllocatorState CachingAllocator::state() const {
  return {.allocated = Bytes{allocated_},
          .requested = Bytes{requested_},
          .reserved = Bytes{reserved_},
          .peak_allocated = Bytes{peak_allocated_},
          .peak_requested = Bytes{peak_requested_},
          .peak_reserved = Bytes{peak_reserved_},
          .retries = retries_};
}

Bytes CachingAllocator::size_of(ir::BlockId block) const {
  HEADROOM_ASSERT(block < live_.size() && live_[block] != kNone);
  const Index index = live_[block];
  return Bytes{index == kNothing ? 0 : at(index).size};
}

void CachingAllocator::reset_peaks() {
  peak_allocated_ = allocated_;
  peak_requested_ = requested_;
  peak_reserved_ = reserved_;
}

std::vector<SegmentView> CachingAllocator::segments() const {
  std::vector<SegmentView> found;
  for (const Block& head : blocks_) {
    const bool starts = head.previous == kNone || !at(head.previous).mapped;
    if (head.size == 0 || !head.mapped || !starts) {
      continue;
    }
    SegmentView segment{.address = head.address,
                        .size = 0,
                        .stream = stream_of(head.pool),
                        .small = is_small(head.pool),
                        .expandable = settings_.expandable_segments,
                        .blocks = {}};
    for (const Block* block = &head; block != nullptr && block->mapped;
         block = block->next == kNone ? nullptr : &at(block->next)) {
      segment.size += block->size;
      segment.blocks.push_back({block->address, block->size, block->requested, block->live,
                                block->live ? block->owner : ir::BlockId{0}});
    }
    found.push_back(std::move(segment));
  }
  std::ranges::sort(found, {}, &SegmentView::address);
  return found;
}

}  // namespace headroom::cost
