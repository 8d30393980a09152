#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/memory/allocation_size.h"
#include "costmodel/memory/caching_allocator.h"
#include "costmodel/memory/timeline.h"
#include "model_ir/base/units.h"
#include "tests/property/naive_allocator.h"
#include "tests/support/random.h"

namespace headroom::cost {
namespace {

using test::Random;

/// A device and an allocator configuration.
struct Setup {
  ir::AllocatorSettings settings;
  DeviceMemory device;
};

Setup random_setup(Random& random) {
  Setup setup;
  setup.settings.expandable_segments = random.chance(1, 3);
  setup.settings.segments = ir::SegmentPlaces::kRising;  // As the naive allocator has them.
  if (random.chance(1, 3)) {
    setup.settings.max_split_size = Bytes{random.between(20, 200) * kMiB};
    setup.settings.max_non_split_rounding = Bytes{random.between(1, 64) * kMiB};
  }
  setup.settings.roundup_power2_divisions = random.pick<std::int64_t>({0, 0, 0, 1, 4, 8});
  const std::int64_t capacity =
      random.pick<std::int64_t>({256 * kMiB + 12'345, kGiB, 4 * kGiB, std::int64_t{1} << 50});
  setup.device.capacity = Bytes{capacity};
  if (random.chance(1, 3)) {
    setup.device.allowed = Bytes{capacity / 10 * random.between(4, 9)};
    setup.settings.garbage_collection_threshold = static_cast<double>(random.between(0, 9)) / 10;
  }
  return setup;
}

std::int64_t random_size(Random& random) {
  switch (random.between(0, 5)) {
    case 0:
      return random.between(1, 2'000);
    case 1:
      return random.between(1, kMiB + 600);
    case 2:
      return random.between(kMiB - 10, 11 * kMiB);
    case 3:
      return random.between(10 * kMiB - 600, 80 * kMiB);
    case 4:
      return std::int64_t{1} << random.between(0, 27);
    default:
      return kMiB * random.between(1, 40);
  }
}

struct ProgramShape {
  std::int64_t events = 400;
  std::int64_t live = 20;  ///< About how many blocks are alive.
};

/// A program that frees in random order, returns to sizes it used before and sometimes empties the
/// cache.
ir::RankProgram random_program(Random& random, const ProgramShape& shape) {
  ir::RankProgram program;
  std::vector<ir::BlockId> live;
  std::vector<std::int64_t> sizes;
  for (std::int64_t index = 0; index < shape.events; ++index) {
    ir::Event event;
    const auto alive = static_cast<std::int64_t>(live.size());
    if (random.chance(1, 150)) {
      event.kind = ir::EventKind::kEmptyCache;
    } else if (alive > 0 && random.chance(alive, 2 * shape.live)) {
      const auto which = static_cast<std::size_t>(random.between(0, alive - 1));
      event.kind = ir::EventKind::kFree;
      event.block = live[which];
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      event.block = program.blocks++;
      event.bytes =
          !sizes.empty() && random.chance(1, 2) ? random.pick(sizes) : random_size(random);
      event.stream = static_cast<ir::StreamId>(random.between(0, 2));
      event.role = static_cast<ir::TensorRole>(random.between(0, ir::kTensorRoleCount - 1));
      sizes.push_back(event.bytes);
      live.push_back(event.block);
    }
    program.events.push_back(event);
  }
  program.phases = {{ir::parse_phase_name("all"), 0, program.events.size(), {}}};
  return program;
}

/// Serves `program`; blocks that could not be had are skipped when their turn to be freed comes.
/// Calls `after(event, served)` behind each event.
template <typename Allocator, typename After>
void serve(Allocator& allocator, const ir::RankProgram& program, After after) {
  std::vector<bool> live(program.blocks, false);
  for (const ir::Event& event : program.events) {
    bool served = true;
    switch (event.kind) {
      case ir::EventKind::kAllocate:
        served = allocator.allocate(event.block, Bytes{event.bytes}, event.stream);
        live[event.block] = served;
        break;
      case ir::EventKind::kFree:
        if (live[event.block]) {
          allocator.free(event.block);
          live[event.block] = false;
        }
        break;
      case ir::EventKind::kLetGo:
        break;  // The allocator still holds the block.
      case ir::EventKind::kEmptyCache:
        allocator.empty_cache();
        break;
    }
    after(event, served);
  }
}

/// Adapts the naive allocator to the calls of `serve`.
struct Naive {
  test::NaiveAllocator allocator;
  bool allocate(ir::BlockId block, Bytes bytes, ir::StreamId stream) {
    return allocator.allocate(block, bytes.value(), stream);
  }
  void free(ir::BlockId block) { allocator.free(block); }
  void empty_cache() { allocator.empty_cache(); }
};

struct Observation {
  bool served = false;
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;
  std::int64_t retries = 0;
  std::int64_t size = 0;  ///< Of the block just served.
  friend bool operator==(const Observation&, const Observation&) = default;
};

std::vector<Observation> observe(const Setup& setup, const ir::RankProgram& program) {
  CachingAllocator allocator(setup.settings, setup.device, nullptr);
  std::vector<Observation> seen;
  serve(allocator, program, [&](const ir::Event& event, bool served) {
    const AllocatorState state = allocator.state();
    const bool has_size = event.kind == ir::EventKind::kAllocate && served;
    seen.push_back({served, state.allocated.value(), state.reserved.value(), state.retries,
                    has_size ? allocator.size_of(event.block).value() : 0});
  });
  return seen;
}

std::vector<Observation> observe_naively(const Setup& setup, const ir::RankProgram& program) {
  std::optional<std::int64_t> allowed;
  if (setup.device.allowed) {
    allowed = setup.device.allowed->value();
  }
  Naive naive{test::NaiveAllocator(setup.settings, setup.device.capacity.value(), allowed)};
  std::vector<Observation> seen;
  serve(naive, program, [&](const ir::Event& event, bool served) {
    const bool has_size = event.kind == ir::EventKind::kAllocate && served;
    seen.push_back({served, naive.allocator.allocated(), naive.allocator.reserved(),
                    naive.allocator.retries(),
                    has_size ? naive.allocator.size_of(event.block) : 0});
  });
  return seen;
}

/// Index of the first difference; the length if there is none.
std::size_t first_difference(const std::vector<Observation>& a, const std::vector<Observation>& b) {
  std::size_t index = 0;
  while (index < a.size() && index < b.size() && a[index] == b[index]) {
    ++index;
  }
  return index;
}

/// Checks what must hold of the blocks between any two events; returns the first thing that does
/// not, in words.
std::string broken_rule(const CachingAllocator& allocator, const ir::AllocatorSettings& settings) {
  const AllocatorState state = allocator.state();
  std::int64_t live = 0;
  std::int64_t requested = 0;
  std::int64_t mapped = 0;
  std::int64_t end = 0;
  for (const SegmentView& segment : allocator.segments()) {
    const std::int64_t page =
        settings.expandable_segments && !segment.small ? kLargeSegment : kSmallSegment;
    if (segment.address < end) {
      return "segments overlap";
    }
    if (segment.size % page != 0) {
      return "a segment is no multiple of its page";
    }
    std::int64_t at = segment.address;
    bool free_before = false;
    for (const BlockView& block : segment.blocks) {
      if (block.address != at || block.size <= 0 || block.size % kMinBlock != 0) {
        return "blocks overlap, leave a gap or are no multiples of 512";
      }
      if (free_before && !block.live) {
        return "two free neighbours are not merged";
      }
      if (block.requested > block.size) {
        return "a block is smaller than what was asked for";
      }
      free_before = !block.live;
      at += block.size;
      live += block.live ? block.size : 0;
      requested += block.requested;
    }
    if (at != segment.address + segment.size) {
      return "blocks do not fill their segment";
    }
    end = at;
    mapped += segment.size;
  }
  if (Bytes{live} != state.allocated || Bytes{requested} != state.requested) {
    return "the live blocks do not sum to what is allocated";
  }
  if (Bytes{mapped} != state.reserved || state.reserved < state.allocated) {
    return "the segments do not sum to what is reserved";
  }
  return {};
}

}  // namespace

TEST_CASE("property: caching_allocator equals the naive allocator after every event") {
  for (std::uint64_t number = 0; number < 120; ++number) {
    Random random = test::seeded_random(number);
    CAPTURE(random.seed());
    const Setup setup = random_setup(random);
    const ir::RankProgram program =
        random_program(random, {.live = random.pick<std::int64_t>({6, 25})});
    const std::vector<Observation> seen = observe(setup, program);
    const std::vector<Observation> expected = observe_naively(setup, program);
    REQUIRE(first_difference(seen, expected) == program.events.size());
  }
}

TEST_CASE("property: blocks never overlap and always add up") {
  for (std::uint64_t number = 0; number < 40; ++number) {
    Random random = test::seeded_random(1'000 + number);
    CAPTURE(random.seed());
    const Setup setup = random_setup(random);
    const ir::RankProgram program = random_program(random, {});
    CachingAllocator allocator(setup.settings, setup.device, nullptr);
    std::string broken;
    serve(allocator, program, [&](const ir::Event&, bool) {
      if (broken.empty()) {
        broken = broken_rule(allocator, setup.settings);
      }
    });
    CHECK(broken == "");
    CHECK(allocator.state().peak_reserved <= setup.device.capacity);
  }
}

TEST_CASE("property: freeing everything and emptying the cache leaves nothing") {
  for (std::uint64_t number = 0; number < 60; ++number) {
    Random random = test::seeded_random(2'000 + number);
    CAPTURE(random.seed());
    const Setup setup = random_setup(random);
    const ir::RankProgram program = random_program(random, {.events = 300, .live = 30});
    CachingAllocator allocator(setup.settings, setup.device, nullptr);
    std::vector<ir::BlockId> live;
    serve(allocator, program, [&](const ir::Event& event, bool served) {
      if (event.kind == ir::EventKind::kFree) {
        std::erase(live, event.block);
      } else if (event.kind == ir::EventKind::kAllocate && served) {
        live.push_back(event.block);
      }
    });
    for (const ir::BlockId block : live) {
      allocator.free(block);
    }
    CHECK(allocator.state().allocated == Bytes{0});
    CHECK(allocator.state().requested == Bytes{0});
    allocator.empty_cache();
    CHECK(allocator.state().reserved == Bytes{0});
    CHECK(allocator.segments().empty());
  }
}

TEST_CASE("property: replay shows the allocator's peaks, and roles sum to them") {
  for (std::uint64_t number = 0; number < 40; ++number) {
    Random random = test::seeded_random(3'000 + number);
    CAPTURE(random.seed());
    Setup setup = random_setup(random);
    setup.device = {.capacity = Bytes{std::int64_t{1} << 50}};
    ir::RankProgram program = random_program(random, {});
    program.phases = {{ir::parse_phase_name("first"), 0, 150, {}},
                      {ir::parse_phase_name("second"), 150, 400, {}}};
    const MemoryTimeline timeline = replay(program, setup.settings, setup.device);
    const std::vector<Observation> seen = observe(setup, program);
    REQUIRE(timeline.phases.size() == 2);
    for (std::size_t phase = 0; phase < 2; ++phase) {
      const PhaseMemory& memory = timeline.phases[phase];
      std::int64_t peak = memory.allocated_before.value();
      for (std::size_t index = program.phases[phase].begin; index < program.phases[phase].end;
           ++index) {
        peak = std::max(peak, seen[index].allocated);
      }
      CHECK(memory.peak_allocated == Bytes{peak});
      CHECK(memory.allocated_after.value() == seen[program.phases[phase].end - 1].allocated);
      CHECK(memory.reserved_after.value() == seen[program.phases[phase].end - 1].reserved);
      Bytes roles;
      for (const Bytes bytes : memory.at_peak) {
        roles += bytes;
      }
      CHECK(roles == memory.peak_allocated);
      Bytes alive;
      for (const LiveBlock& block : live_blocks(program, timeline, memory.peak_event)) {
        alive += block.size;
      }
      CHECK(alive == memory.peak_allocated);
    }
  }
}

}  // namespace headroom::cost
