#include "costmodel/memory/caching_allocator.h"

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/memory/allocation_size.h"
#include "model_ir/base/check.h"
#include "model_ir/base/units.h"

namespace headroom::cost {
namespace {

constexpr Bytes kPlenty{std::int64_t{1} << 40};

ir::AllocatorSettings expandable() {
  ir::AllocatorSettings settings;
  settings.expandable_segments = true;
  return settings;
}
ir::AllocatorSettings splitting_below(std::int64_t max_split_size) {
  ir::AllocatorSettings settings;
  settings.max_split_size = Bytes{max_split_size};
  return settings;
}
ir::AllocatorSettings collecting_above(double threshold) {
  ir::AllocatorSettings settings;
  settings.garbage_collection_threshold = threshold;
  return settings;
}

CachingAllocator allocator_on(Bytes capacity, const ir::AllocatorSettings& settings = {},
                              AllocatorTrace* trace = nullptr) {
  return CachingAllocator(settings, DeviceMemory{.capacity = capacity}, trace);
}

/// Allocates on stream 0 and demands success.
void serve(CachingAllocator& allocator, ir::BlockId block, std::int64_t bytes,
           ir::StreamId stream = 0) {
  REQUIRE(allocator.allocate(block, Bytes{bytes}, stream));
}

std::int64_t allocated(const CachingAllocator& allocator) {
  return allocator.state().allocated.value();
}
std::int64_t reserved(const CachingAllocator& allocator) {
  return allocator.state().reserved.value();
}

/// Address of a live block; -1 if it is not live.
std::int64_t address_of(const CachingAllocator& allocator, ir::BlockId block) {
  for (const SegmentView& segment : allocator.segments()) {
    for (const BlockView& piece : segment.blocks) {
      if (piece.live && piece.block == block) {
        return piece.address;
      }
    }
  }
  return -1;
}

}  // namespace

TEST_CASE("block_size: requests are rounded up to 512 bytes") {
  CHECK(block_size(1, 0) == 512);
  CHECK(block_size(511, 0) == 512);
  CHECK(block_size(512, 0) == 512);
  CHECK(block_size(513, 0) == 1024);
  CHECK(block_size(kMiB + 1, 0) == kMiB + 512);
  CHECK(block_size(kMiB + 1, 1) == kMiB + 512);  // One division is none.
}

TEST_CASE("block_size: roundup_power2_divisions rounds to equal steps between powers of two") {
  // 4 divisions act above 4 * 512 bytes. 4,096..8,192 is cut at 5,120, 6,144 and 7,168.
  CHECK(block_size(2'048, 4) == 2'048);
  CHECK(block_size(2'049, 4) == 2'560);
  CHECK(block_size(4'096, 4) == 4'096);
  CHECK(block_size(4'097, 4) == 5'120);
  CHECK(block_size(7'169, 4) == 8'192);
  // 8 steps of 1 GiB between 8 and 16 GiB.
  CHECK(block_size(9 * kGiB + 1, 8) == 10 * kGiB);
}

TEST_CASE("segment_size: 2 MiB, 20 MiB, then multiples of 2 MiB") {
  CHECK(segment_size(512) == 2 * kMiB);
  CHECK(segment_size(kMiB) == 2 * kMiB);
  CHECK(segment_size(kMiB + 512) == 20 * kMiB);
  CHECK(segment_size(10 * kMiB - 512) == 20 * kMiB);
  CHECK(segment_size(10 * kMiB) == 10 * kMiB);
  CHECK(segment_size(10 * kMiB + 512) == 12 * kMiB);
}

TEST_CASE("caching_allocator: small requests share 2 MiB segments") {
  CachingAllocator allocator = allocator_on(kPlenty);
  // Three of 700,000 bytes, each 700,416 after rounding: 2 * 700,416 = 1,400,832, and the 696,320
  // bytes behind them are too few for the third, which opens a second segment. 3 * 700,416 =
  // 2,101,248.
  serve(allocator, 0, 700'000);
  serve(allocator, 1, 700'000);
  CHECK(reserved(allocator) == 2 * kMiB);
  serve(allocator, 2, 700'000);
  CHECK(allocator.state() == AllocatorState{.allocated = Bytes{2'101'248},
                                            .requested = Bytes{2'100'000},
                                            .reserved = Bytes{4 * kMiB},
                                            .peak_allocated = Bytes{2'101'248},
                                            .peak_requested = Bytes{2'100'000},
                                            .peak_reserved = Bytes{4 * kMiB},
                                            .retries = 0});
}

TEST_CASE("caching_allocator: a large block keeps a tail of at most 1 MiB") {
  CachingAllocator allocator = allocator_on(kPlenty);
  serve(allocator, 0, 3 * kMiB / 2);  // Opens 20 MiB and leaves 18.5 MiB.
  CHECK(reserved(allocator) == 20 * kMiB);
  serve(allocator, 1, 18 * kMiB);  // Fits there; the 0.5 MiB left are not split off.
  CHECK(reserved(allocator) == 20 * kMiB);
  CHECK(allocated(allocator) == 20 * kMiB);
  CHECK(allocator.size_of(1) == Bytes{37 * kMiB / 2});
  CHECK(allocator.state().requested == Bytes{39 * kMiB / 2});
}

TEST_CASE("caching_allocator: a remainder of more than 1 MiB is split off") {
  CachingAllocator allocator = allocator_on(kPlenty);
  serve(allocator, 0, 20 * kMiB);
  allocator.free(0);
  serve(allocator, 1, 19 * kMiB - 512);  // 1 MiB + 512 bytes remain.
  CHECK(allocated(allocator) == 19 * kMiB - 512);
  serve(allocator, 2, kMiB + 512);
  CHECK(reserved(allocator) == 20 * kMiB);
}

TEST_CASE("caching_allocator: the best fit is the smallest block, then the lowest address") {
  CachingAllocator allocator = allocator_on(kPlenty);
  serve(allocator, 0, 16 * kMiB);
  serve(allocator, 1, 12 * kMiB);
  serve(allocator, 2, 12 * kMiB);
  const std::int64_t lower = address_of(allocator, 1);
  for (const ir::BlockId block : {2U, 0U, 1U}) {  // The order of the frees must not matter.
    allocator.free(block);
  }
  serve(allocator, 3, 12 * kMiB);
  CHECK(address_of(allocator, 3) == lower);
}

TEST_CASE("caching_allocator: free neighbours become one block, whatever the order") {
  const std::vector<std::vector<ir::BlockId>> orders = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}};
  for (const std::vector<ir::BlockId>& order : orders) {
    CachingAllocator allocator = allocator_on(kPlenty);
    for (ir::BlockId block = 0; block < 3; ++block) {
      serve(allocator, block, 6 * kMiB);  // 6 + 6 + 6 of one 20 MiB segment, 2 MiB behind.
    }
    for (const ir::BlockId block : order) {
      allocator.free(block);
    }
    REQUIRE(allocator.segments().size() == 1);
    CHECK(allocator.segments()[0].blocks.size() == 1);
    serve(allocator, 9, 20 * kMiB);
    CHECK(reserved(allocator) == 20 * kMiB);
  }
}

TEST_CASE("caching_allocator: streams and pools do not share memory") {
  CachingAllocator allocator = allocator_on(kPlenty);
  serve(allocator, 0, 10 * kMiB);
  allocator.free(0);
  serve(allocator, 1, 10 * kMiB, 1);
  CHECK(reserved(allocator) == 20 * kMiB);
  serve(allocator, 2, 512);  // The free 10 MiB belong to the large pool.
  CHECK(reserved(allocator) == 22 * kMiB);
  serve(allocator, 3, 10 * kMiB, 0);
  CHECK(reserved(allocator) == 22 * kMiB);
}

TEST_CASE("caching_allocator: empty_cache returns whole free segments only") {
  CachingAllocator allocator = allocator_on(kPlenty);
  serve(allocator, 0, 30 * kMiB);
  serve(allocator, 1, 2 * kMiB);
  serve(allocator, 2, 2 * kMiB);  // Beside block 1, in the same 20 MiB segment.
  allocator.free(0);
  allocator.free(2);
  allocator.empty_cache();
  CHECK(reserved(allocator) == 20 * kMiB);
  CHECK(allocator.state().retries == 0);
  allocator.free(1);
  allocator.empty_cache();
  CHECK(reserved(allocator) == 0);
  CHECK(allocator.segments().empty());
}

TEST_CASE("caching_allocator: a full device makes it release its cache and try once more") {
  CachingAllocator allocator = allocator_on(Bytes{30 * kMiB});
  serve(allocator, 0, 20 * kMiB);
  allocator.free(0);
  serve(allocator, 1, 24 * kMiB);  // 20 cached + 24 > 30: the cache goes back first.
  CHECK(reserved(allocator) == 24 * kMiB);
  CHECK(allocator.state().retries == 1);
  CHECK_FALSE(allocator.allocate(2, Bytes{8 * kMiB}, 0));  // 24 + 20 > 30 (8 MiB need a segment).
  CHECK(allocator.state().retries == 2);
  CHECK(allocated(allocator) == 24 * kMiB);
  serve(allocator, 3, kMiB);  // Small: 24 + 2 <= 30.
  CHECK(reserved(allocator) == 26 * kMiB);
  CHECK(allocator.state().peak_reserved == Bytes{26 * kMiB});
}

TEST_CASE("caching_allocator: a device is full to the last byte and not beyond") {
  CachingAllocator exact = allocator_on(Bytes{20 * kMiB});
  CHECK(exact.allocate(0, Bytes{20 * kMiB}, 0));
  CachingAllocator short_by_one = allocator_on(Bytes{20 * kMiB - 1});
  CHECK_FALSE(short_by_one.allocate(0, Bytes{20 * kMiB}, 0));
}

TEST_CASE("caching_allocator: max_split_size keeps oversize blocks whole") {
  const ir::AllocatorSettings settings = splitting_below(64 * kMiB);
  CachingAllocator allocator = allocator_on(kPlenty, settings);
  serve(allocator, 0, 100 * kMiB);
  allocator.free(0);
  serve(allocator, 1, 30 * kMiB);  // Below 64 MiB: must not take the oversize block.
  CHECK(reserved(allocator) == 130 * kMiB);
  serve(allocator, 2, 80 * kMiB);  // 100 >= 80 + 20 (max_non_split_rounding): not that one either.
  CHECK(reserved(allocator) == 210 * kMiB);
  serve(allocator, 3, 81 * kMiB);  // 100 < 81 + 20: taken whole.
  CHECK(reserved(allocator) == 210 * kMiB);
  CHECK(allocator.size_of(3) == Bytes{100 * kMiB});
}

TEST_CASE("caching_allocator: with max_split_size a full device costs oversize blocks first") {
  const ir::AllocatorSettings settings = splitting_below(64 * kMiB);
  CachingAllocator allocator = allocator_on(Bytes{300 * kMiB}, settings);
  serve(allocator, 0, 100 * kMiB);
  serve(allocator, 1, 90 * kMiB);
  serve(allocator, 2, 60 * kMiB);
  for (const ir::BlockId block : {0U, 1U, 2U}) {
    allocator.free(block);
  }
  serve(allocator, 3, 62 * kMiB);  // 250 + 62 > 300: the 90 MiB block is the best fit for 64 MiB.
  CHECK(reserved(allocator) == (250 - 90 + 62) * kMiB);
  CHECK(allocator.state().retries == 0);
  serve(allocator, 4, 150 * kMiB);  // One oversize block is not enough, nor are all: a full retry.
  CHECK(reserved(allocator) == (62 + 150) * kMiB);
  CHECK(allocator.state().retries == 1);
}

TEST_CASE("caching_allocator: expandable segments grow by pages and split to 512 bytes") {
  const ir::AllocatorSettings settings = expandable();
  CachingAllocator allocator = allocator_on(kPlenty, settings);
  serve(allocator, 0, 15 * kMiB);
  CHECK(reserved(allocator) == 20 * kMiB);
  serve(allocator, 1, 15 * kMiB);  // 5 MiB are left: one page more.
  CHECK(reserved(allocator) == 40 * kMiB);
  CHECK(allocated(allocator) == 30 * kMiB);
  serve(allocator, 2, 10 * kMiB - 512);
  CHECK(allocated(allocator) == 40 * kMiB - 512);  // No tail is lost.
  serve(allocator, 3, 512);
  CHECK(reserved(allocator) == 42 * kMiB);  // The small pool's pages are 2 MiB.
  REQUIRE(allocator.segments().size() == 2);
  CHECK(address_of(allocator, 1) == address_of(allocator, 0) + 15 * kMiB);
}

TEST_CASE("caching_allocator: a hole is preferred to the expandable end of the range") {
  const ir::AllocatorSettings settings = expandable();
  CachingAllocator allocator = allocator_on(kPlenty, settings);
  serve(allocator, 0, 12 * kMiB);
  serve(allocator, 1, 2 * kMiB);  // 6 MiB are free at the end of the first page.
  const std::int64_t hole = address_of(allocator, 0);
  allocator.free(0);
  // The end (6 MiB) is the smaller block but counts with all the room behind it.
  serve(allocator, 2, 5 * kMiB);
  CHECK(address_of(allocator, 2) == hole);
}

TEST_CASE("caching_allocator: expandable segments give back whole free pages") {
  const ir::AllocatorSettings settings = expandable();
  CachingAllocator allocator = allocator_on(kPlenty, settings);
  // Pages:  |0 ........ 20|20 ....... 40|40 ....... 60|
  // Blocks: |0: 15 |1: 30                |2: 10 | free |
  serve(allocator, 0, 15 * kMiB);
  serve(allocator, 1, 30 * kMiB);
  serve(allocator, 2, 10 * kMiB);
  CHECK(reserved(allocator) == 60 * kMiB);
  allocator.free(1);  // 15..45 is free: only 20..40 is a whole page.
  allocator.empty_cache();
  CHECK(reserved(allocator) == 40 * kMiB);
  CHECK(allocator.segments().size() == 2);
  serve(allocator, 3, 28 * kMiB);  // 5 MiB free + the page mapped again + 5 MiB free.
  CHECK(reserved(allocator) == 60 * kMiB);
  CHECK(address_of(allocator, 3) == address_of(allocator, 0) + 15 * kMiB);
  for (const ir::BlockId block : {0U, 2U, 3U}) {
    allocator.free(block);
  }
  allocator.empty_cache();
  CHECK(reserved(allocator) == 0);
  CHECK(allocator.segments().empty());
}

TEST_CASE("caching_allocator: expandable segments unmap and retry on a full device") {
  const ir::AllocatorSettings settings = expandable();
  CachingAllocator allocator = allocator_on(Bytes{100 * kMiB}, settings);
  serve(allocator, 0, 60 * kMiB, 1);
  allocator.free(0);
  serve(allocator, 1, 70 * kMiB, 0);  // Four pages do not fit beside stream 1's three.
  CHECK(reserved(allocator) == 80 * kMiB);
  CHECK(allocator.state().retries == 1);
  CHECK_FALSE(allocator.allocate(2, Bytes{31 * kMiB}, 0));
}

TEST_CASE("caching_allocator: a memory fraction limits what is reserved") {
  CachingAllocator allocator(
      {}, DeviceMemory{.capacity = Bytes{100 * kMiB}, .allowed = Bytes{50 * kMiB}}, nullptr);
  serve(allocator, 0, 30 * kMiB);
  CHECK_FALSE(allocator.allocate(1, Bytes{22 * kMiB}, 0));
  CHECK(allocator.allocate(2, Bytes{20 * kMiB}, 0));
}

TEST_CASE("caching_allocator: garbage collection takes what was free for longer than average") {
  const ir::AllocatorSettings settings = collecting_above(0.5);
  const DeviceMemory device{.capacity = kPlenty, .allowed = Bytes{1'000 * kMiB}};
  CachingAllocator allocator(settings, device, nullptr);
  serve(allocator, 0, 70 * kMiB);
  serve(allocator, 1, 60 * kMiB);
  allocator.free(0);  // After 2 searches.
  serve(allocator, 2, 150 * kMiB);
  allocator.free(1);  // After 3 searches.
  serve(allocator, 3, 250 * kMiB);
  CHECK(reserved(allocator) == 530 * kMiB);
  // Search 5, and 530 > 0.5 * 1,000: ages 3 and 2, on average 2.5. Only the older segment goes,
  // because its 70 MiB are more than the 30 that are too many.
  serve(allocator, 4, 100 * kMiB);
  CHECK(reserved(allocator) == (530 - 70 + 100) * kMiB);
  CHECK(allocator.state().retries == 0);
  allocator.free(4);
  // Search 6: 560 > 500, ages 3 (block 1's) and 1, on average 2: 60 MiB are enough.
  serve(allocator, 5, 200 * kMiB);
  CHECK(reserved(allocator) == (560 - 60 + 200) * kMiB);
}

TEST_CASE("caching_allocator: garbage collection needs a memory fraction") {
  const ir::AllocatorSettings settings = collecting_above(0.1);
  CachingAllocator allocator = allocator_on(Bytes{200 * kMiB}, settings);
  serve(allocator, 0, 50 * kMiB);
  allocator.free(0);
  serve(allocator, 1, 60 * kMiB);
  CHECK(reserved(allocator) == 110 * kMiB);
}

TEST_CASE("caching_allocator: a request for nothing takes nothing, an exabyte is out of memory") {
  CachingAllocator allocator = allocator_on(kPlenty);
  serve(allocator, 0, 0);
  CHECK(allocator.state() == AllocatorState{});
  CHECK(allocator.size_of(0) == Bytes{0});
  allocator.free(0);
  CHECK_FALSE(allocator.allocate(1, Bytes{std::int64_t{1} << 60}, 0));
  CHECK(allocator.state() == AllocatorState{});
}

TEST_CASE("caching_allocator: peaks start again where they are reset") {
  CachingAllocator allocator = allocator_on(kPlenty);
  serve(allocator, 0, 30 * kMiB);
  allocator.free(0);
  allocator.reset_peaks();
  CHECK(allocator.state().peak_allocated == Bytes{0});
  CHECK(allocator.state().peak_requested == Bytes{0});
  CHECK(allocator.state().peak_reserved == Bytes{30 * kMiB});
}

TEST_CASE("caching_allocator: freeing what is not live is a bug") {
  CachingAllocator allocator = allocator_on(kPlenty);
  CHECK_THROWS_AS(allocator.free(0), InternalError);
  serve(allocator, 0, 512);
  CHECK_THROWS_AS((void)allocator.allocate(0, Bytes{512}, 0), InternalError);
  allocator.free(0);
  CHECK_THROWS_AS(allocator.free(0), InternalError);
  CHECK_THROWS_AS((void)allocator.size_of(0), InternalError);
}

TEST_CASE("caching_allocator: the trace tells every step with its address") {
  AllocatorTrace trace;
  CachingAllocator allocator = allocator_on(Bytes{10 * kMiB}, {}, &trace);
  serve(allocator, 7, 1'000, 3);
  const std::int64_t address = address_of(allocator, 7);
  allocator.free(7);
  CHECK_FALSE(allocator.allocate(8, Bytes{12 * kMiB}, 3));
  REQUIRE(trace.size() == 5);
  CHECK(trace[0] == TraceEntry{TraceAction::kSegmentAllocate, 3, 0, address, 2 * kMiB});
  CHECK(trace[1] == TraceEntry{TraceAction::kAllocate, 3, 7, address, 1'000});
  CHECK(trace[2] == TraceEntry{TraceAction::kFree, 3, 7, address, 1'000});
  CHECK(trace[3].action == TraceAction::kSegmentFree);
  CHECK(trace[4] == TraceEntry{TraceAction::kOutOfMemory, 3, 8, 10 * kMiB, 12 * kMiB});
}

}  // namespace headroom::cost
