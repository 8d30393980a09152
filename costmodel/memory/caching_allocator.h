#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "costmodel/memory/allocator_state.h"
#include "costmodel/memory/driver_addresses.h"
#include "costmodel/memory/free_list.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::cost {

/// PyTorch's native caching allocator.
///
/// Model:   512-byte rounding; small (<= 1 MiB) and large pools per stream; 2 and 20 MiB segments;
///          best fit by size, then by address; splitting; merging with free neighbours;
///          max_split_size, roundup_power2_divisions, garbage_collection_threshold,
///          expandable_segments; release of cached segments and one retry before out of memory.
///          Segments lie where the driver puts them (`DriverAddresses`), or above one another.
///          A request for no bytes succeeds and takes nothing.
/// Ignores: frees delayed by cross-stream events; private pools of CUDA graphs.
/// Source:  pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp, c10/core/AllocatorConfig.h, 2.11.
///
/// Blocks live in one flat array and are linked to their neighbours in the segment:
///
///     segment     | live 3 MiB | free 9 MiB | live 1.5 MiB | free 6.5 MiB |
///                      <-> previous / next <->
///
/// Free mapped blocks are also in the free list of their (stream, pool). An expandable segment is
/// one range of addresses; parts without physical memory are unmapped blocks.
class CachingAllocator {
 public:
  CachingAllocator(const ir::AllocatorSettings& settings, const DeviceMemory& device,
                   AllocatorTrace* trace = nullptr);

  /// From now on, segments are backed by memory of `source`, which must outlive the allocator.
  /// Requires that no segment is open and that segments are not expandable.
  void serve_from(SegmentSource& source);

  /// Serves `requested` bytes on `stream` under the name `block`; false: out of memory.
  [[nodiscard]] bool allocate(ir::BlockId block, Bytes requested, ir::StreamId stream);
  void free(ir::BlockId block);
  void empty_cache();
  [[nodiscard]] AllocatorState state() const;
  /// Size of the live block as `allocated` counts it.
  [[nodiscard]] Bytes size_of(ir::BlockId block) const;
  void reset_peaks();
  /// Address of a live block of more than 0 bytes, as the allocator counts addresses.
  [[nodiscard]] std::int64_t address_of(ir::BlockId block) const;

  /// Every segment with its blocks, by address.
  [[nodiscard]] std::vector<SegmentView> segments() const;

 private:
  using Index = BlockIndex;  ///< Into `blocks_`.
  static constexpr Index kNone{0xffff'ffff};
  static constexpr Index kNothing{0xffff'fffe};  ///< A live request of zero bytes.
  /// Index into `pools_`: 2 * stream for the small pool, 2 * stream + 1 for the large one.
  enum class PoolId : std::uint16_t {};

  struct Block {
    std::int64_t address = 0;
    std::int64_t size = 0;
    std::int64_t requested = 0;
    std::int64_t age_base = 0;  ///< The pool's search count when the block became free.
    Index previous = kNone;     ///< Neighbours in the segment.
    Index next = kNone;
    ir::BlockId owner = 0;
    PoolId pool{0};
    bool live = false;
    bool mapped = true;
  };
  struct Pool {
    FreeList free;
    std::vector<Index> unmapped;  ///< By address.
  };

  [[nodiscard]] Block& at(Index block) { return blocks_[static_cast<std::size_t>(block)]; }
  [[nodiscard]] const Block& at(Index block) const {
    return blocks_[static_cast<std::size_t>(block)];
  }
  [[nodiscard]] Pool& pool_of(PoolId pool) { return pools_[static_cast<std::size_t>(pool)]; }
  [[nodiscard]] static bool is_small(PoolId pool) { return static_cast<unsigned>(pool) % 2 == 0; }
  [[nodiscard]] static ir::StreamId stream_of(PoolId pool) {
    return static_cast<ir::StreamId>(static_cast<unsigned>(pool) / 2);
  }
  [[nodiscard]] static std::int64_t page_size(PoolId pool);
  [[nodiscard]] PoolId pool_for(std::int64_t size, ir::StreamId stream);
  [[nodiscard]] static bool is_split(const Block& block) {
    return block.previous != kNone || block.next != kNone;
  }
  [[nodiscard]] std::int64_t& searches_of(PoolId pool) {
    return is_small(pool) ? small_searches_ : large_searches_;
  }

  // caching_allocator.cpp
  [[nodiscard]] Index obtain(PoolId pool, std::int64_t size);
  [[nodiscard]] Index take_free(PoolId pool, std::int64_t size);
  [[nodiscard]] bool may_serve(std::int64_t block, std::int64_t size) const;
  [[nodiscard]] bool should_split(const Block& block, std::int64_t size) const;
  [[nodiscard]] Index split_front(Index block, std::int64_t size);
  void merge(Index into, Index neighbour);
  void add_free(Index block);
  [[nodiscard]] Index new_block(const Block& block);
  void drop_block(Index block);
  void link(Index previous, Index index, Index next);
  void reserve(std::int64_t bytes);
  void record(TraceAction action, const Block& block, std::int64_t address, std::int64_t size);

  // allocator_segments.cpp
  [[nodiscard]] Index open_segment(PoolId pool, std::int64_t size);
  [[nodiscard]] Index malloc_segment(PoolId pool, std::int64_t bytes);
  [[nodiscard]] std::int64_t take_addresses(std::int64_t bytes);
  void give_addresses_back(std::int64_t address);
  void release_segment(Index block);
  [[nodiscard]] bool release_oversize(PoolId pool, std::int64_t size);
  void release_cached();
  void release_pool(PoolId pool);
  void collect_garbage();
  [[nodiscard]] std::vector<Index> whole_free_large() const;

  // allocator_expandable.cpp
  [[nodiscard]] std::int64_t expandable_size(Index block) const;
  [[nodiscard]] Index expand(PoolId pool, std::int64_t size);
  [[nodiscard]] Index find_room(PoolId pool, std::int64_t size);
  [[nodiscard]] bool has_room(Index block, std::int64_t size) const;
  [[nodiscard]] Index reserve_addresses(PoolId pool);
  [[nodiscard]] bool map(Index block, std::int64_t size);
  void unmap(Index block);
  void insert_unmapped(Index block);
  void erase_unmapped(Index block);

  ir::AllocatorSettings settings_;
  std::int64_t max_split_size_;  ///< The largest number when not set.
  std::int64_t capacity_;
  std::optional<std::int64_t> allowed_;
  AllocatorTrace* trace_;
  SegmentSource* source_ = nullptr;

  std::vector<Block> blocks_;
  std::vector<Index> unused_;  ///< Of `blocks_`.
  std::vector<Index> live_;    ///< By `BlockId`.
  std::vector<Pool> pools_;
  std::int64_t next_address_ = kSegmentStart;  ///< For ranges and for segments at rising addresses.
  DriverAddresses driver_;                     ///< For segments at the driver's addresses.
  /// Whether there may be free memory to give back: no search is needed for any where nothing was
  /// freed since the last.
  bool any_whole_free_ = false;
  std::int64_t small_searches_ = 0;
  std::int64_t large_searches_ = 0;

  std::int64_t allocated_ = 0;
  std::int64_t requested_ = 0;
  std::int64_t reserved_ = 0;
  std::int64_t peak_allocated_ = 0;
  std::int64_t peak_requested_ = 0;
  std::int64_t peak_reserved_ = 0;
  std::int64_t retries_ = 0;

  /// No block may be at address 0, because a viewer takes that for no address.
  static constexpr std::int64_t kSegmentStart = std::int64_t{1} << 32;
};

}  // namespace headroom::cost
