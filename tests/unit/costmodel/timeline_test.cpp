#include "costmodel/memory/timeline.h"

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/check.h"
#include "model_ir/base/units.h"

namespace headroom::cost {
namespace {

using ir::TensorRole;

ir::Event allocation(ir::BlockId block, std::int64_t bytes, TensorRole role,
                     std::uint32_t site = 0) {
  return {.kind = ir::EventKind::kAllocate,
          .role = role,
          .stream = 0,
          .reserved = 0,
          .block = block,
          .bytes = bytes,
          .site = site};
}
ir::Event release(ir::BlockId block) {
  ir::Event event;
  event.kind = ir::EventKind::kFree;
  event.block = block;
  return event;
}

/// Two weights, an activation that backward frees, a temporary in each direction:
///
///     event    0  1 | 2  3  4 | 5  6  7
///     phase    load | forward | backward
///     weights  === ========================   block 0: 16 MiB, block 1: 12 MiB
///     activation      ============x           block 2: 30 MiB, freed by event 6
///     temporary          ==x                  block 3: 14 MiB, freed by event 4
///     gradient                   =========    block 4: 18 MiB
///     the end                          =      block 5: 100 bytes
ir::RankProgram program_of_six_blocks() {
  ir::RankProgram program;
  program.events = {allocation(0, 16 * kMiB, TensorRole::kParameter),
                    allocation(1, 12 * kMiB, TensorRole::kParameter),
                    allocation(2, 30 * kMiB, TensorRole::kActivation, 5),
                    allocation(3, 14 * kMiB, TensorRole::kTemporary),
                    release(3),
                    allocation(4, 18 * kMiB, TensorRole::kGradient),
                    release(2),
                    allocation(5, 100, TensorRole::kWorkspace)};
  program.phases = {{ir::parse_phase_name("load"), 0, 2, {}},
                    {ir::parse_phase_name("forward"), 2, 5, {}},
                    {ir::parse_phase_name("backward"), 5, 8, {}}};
  program.blocks = 6;
  return program;
}

Bytes role_bytes(const RoleBytes& bytes, TensorRole role) {
  return bytes[static_cast<std::size_t>(role)];
}

}  // namespace

TEST_CASE("replay: bytes before, after and at the peak of each phase") {
  const MemoryTimeline timeline = replay(program_of_six_blocks(), {}, Bytes{kGiB});
  REQUIRE(timeline.phases.size() == 3);
  CHECK_FALSE(timeline.out_of_memory);
  const PhaseMemory& load = timeline.phases[0];
  CHECK(load.name.kind == ir::PhaseKind::kLoad);
  CHECK(load.allocated_before == Bytes{0});
  CHECK(load.allocated_after == Bytes{28 * kMiB});
  CHECK(load.peak_allocated == Bytes{28 * kMiB});
  CHECK(load.peak_event == 1);
  const PhaseMemory& forward = timeline.phases[1];
  CHECK(forward.allocated_before == Bytes{28 * kMiB});
  CHECK(forward.peak_allocated == Bytes{72 * kMiB});  // 28 + 30 + 14
  CHECK(forward.peak_event == 3);
  CHECK(forward.allocated_after == Bytes{58 * kMiB});
  CHECK(forward.reserved_after == Bytes{72 * kMiB});
  // Block 4 needs 18 MiB: the free 14 MiB are too few, so 18 more are reserved. At the end block 5
  // opens a small segment of 2 MiB and takes 512 bytes of it.
  const PhaseMemory& backward = timeline.phases[2];
  CHECK(backward.peak_allocated == Bytes{76 * kMiB});  // 28 + 30 + 18
  CHECK(backward.peak_event == 5);
  CHECK(backward.allocated_after == Bytes{46 * kMiB + 512});
  CHECK(backward.requested_after == Bytes{46 * kMiB + 100});
  CHECK(backward.peak_requested == Bytes{76 * kMiB});
  CHECK(backward.peak_reserved == Bytes{92 * kMiB});
  CHECK(timeline.peak_phase == 2);
}

TEST_CASE("replay: roles sum to the peak and to the end of each phase") {
  const MemoryTimeline timeline = replay(program_of_six_blocks(), {}, Bytes{kGiB});
  const PhaseMemory& forward = timeline.phases[1];
  CHECK(role_bytes(forward.at_peak, TensorRole::kParameter) == Bytes{28 * kMiB});
  CHECK(role_bytes(forward.at_peak, TensorRole::kActivation) == Bytes{30 * kMiB});
  CHECK(role_bytes(forward.at_peak, TensorRole::kTemporary) == Bytes{14 * kMiB});
  CHECK(role_bytes(forward.after, TensorRole::kTemporary) == Bytes{0});
  for (const PhaseMemory& phase : timeline.phases) {
    Bytes peak;
    Bytes after;
    for (std::size_t role = 0; role < phase.after.size(); ++role) {
      peak += phase.at_peak[role];
      after += phase.after[role];
    }
    CHECK(peak == phase.peak_allocated);
    CHECK(after == phase.allocated_after);
  }
}

TEST_CASE("replay: a phase that only frees peaks at its beginning") {
  ir::RankProgram program;
  program.events = {allocation(0, 16 * kMiB, TensorRole::kParameter), release(0)};
  program.phases = {{ir::parse_phase_name("load"), 0, 1, {}},
                    {ir::parse_phase_name("unload"), 1, 2, {}},
                    {ir::parse_phase_name("nothing"), 2, 2, {}}};
  program.blocks = 1;
  const MemoryTimeline timeline = replay(program, {}, Bytes{kGiB});
  CHECK(timeline.phases[1].peak_allocated == Bytes{16 * kMiB});
  CHECK(timeline.phases[1].peak_event == 0);  // It stood since event 0.
  CHECK(role_bytes(timeline.phases[1].at_peak, TensorRole::kParameter) == Bytes{16 * kMiB});
  CHECK(timeline.phases[2].peak_allocated == Bytes{0});
  CHECK(timeline.phases[2].peak_requested == Bytes{0});  // Each phase has peaks of its own.
  CHECK(timeline.phases[2].peak_event == 1);
  CHECK(timeline.peak_phase == 0);  // Equal peaks: the first phase is named.
}

TEST_CASE("replay: a peak that is reached twice is named by its first event") {
  ir::RankProgram program;
  program.events = {allocation(0, 512, TensorRole::kBuffer), release(0),
                    allocation(1, 512, TensorRole::kBuffer)};
  program.phases = {{ir::parse_phase_name("load"), 0, 3, {}}};
  program.blocks = 2;
  CHECK(replay(program, {}, Bytes{kGiB}).phases[0].peak_event == 0);
}

TEST_CASE("replay: out of memory names the event and stops there") {
  // 72 MiB hold the forward pass; the gradient then finds 14 MiB free, releases them, and 58 + 18
  // MiB are still 4 too many.
  const MemoryTimeline timeline = replay(program_of_six_blocks(), {}, Bytes{72 * kMiB});
  REQUIRE(timeline.out_of_memory);
  CHECK(timeline.out_of_memory->event == 5);
  CHECK(timeline.out_of_memory->phase == 2);
  CHECK(timeline.out_of_memory->requested == Bytes{18 * kMiB});
  CHECK(timeline.out_of_memory->allocated == Bytes{58 * kMiB});
  CHECK(timeline.out_of_memory->reserved == Bytes{58 * kMiB});
  REQUIRE(timeline.phases.size() == 3);
  CHECK(timeline.phases[1].retries == 0);
  CHECK(timeline.phases[2].retries == 1);
  CHECK(timeline.phases[2].peak_allocated == Bytes{58 * kMiB});
  // 58 + 18 and the last block's 2 are enough once the 14 MiB went back.
  const MemoryTimeline fits = replay(program_of_six_blocks(), {}, Bytes{78 * kMiB});
  CHECK_FALSE(fits.out_of_memory);
  CHECK(fits.phases[2].retries == 1);
}

TEST_CASE("replay: emptying the cache is an event") {
  ir::RankProgram program = program_of_six_blocks();
  ir::Event empty;
  empty.kind = ir::EventKind::kEmptyCache;
  program.events.push_back(empty);
  program.phases.push_back({ir::parse_phase_name("empty"), 8, 9, {}});
  const MemoryTimeline timeline = replay(program, {}, Bytes{kGiB});
  CHECK(timeline.phases[2].reserved_after == Bytes{92 * kMiB});
  CHECK(timeline.phases[3].reserved_after == Bytes{48 * kMiB});  // 16 + 12 + 18 + 2
  CHECK(timeline.phases[3].peak_reserved == Bytes{92 * kMiB});
}

TEST_CASE("live_blocks: what is alive after an event, largest first") {
  const ir::RankProgram program = program_of_six_blocks();
  const MemoryTimeline timeline = replay(program, {}, Bytes{kGiB});
  const std::vector<LiveBlock> live = live_blocks(program, timeline, 3);
  REQUIRE(live.size() == 4);
  CHECK(live[0].block == 2);
  CHECK(live[0].size == Bytes{30 * kMiB});
  CHECK(live[0].role == TensorRole::kActivation);
  CHECK(live[0].site == 5);
  CHECK(live[1].block == 0);
  CHECK(live[2].block == 3);
  CHECK(live[3].block == 1);
  CHECK(live_blocks(program, timeline, 4).size() == 3);
  // Beyond the last event: the end of the program.
  CHECK(live_blocks(program, timeline, 1'000).size() == 4);
}

TEST_CASE("live_blocks: stops before the allocation that could not be served") {
  const ir::RankProgram program = program_of_six_blocks();
  const MemoryTimeline timeline = replay(program, {}, Bytes{40 * kMiB});
  REQUIRE(timeline.out_of_memory);
  const std::size_t failed = timeline.out_of_memory->event;
  CHECK(live_blocks(program, timeline, 1'000) == live_blocks(program, timeline, failed - 1));
}

TEST_CASE("live_blocks: equal sizes come in the order of their numbers") {
  ir::RankProgram program;
  program.events = {allocation(1, 512, TensorRole::kBuffer),
                    allocation(0, 512, TensorRole::kBuffer),
                    allocation(2, 512, TensorRole::kBuffer)};
  program.phases = {{ir::parse_phase_name("load"), 0, 3, {}}};
  program.blocks = 3;
  const std::vector<LiveBlock> live = live_blocks(program, replay(program, {}, Bytes{kGiB}), 2);
  REQUIRE(live.size() == 3);
  CHECK(live[0].block == 0);
  CHECK(live[1].block == 1);
  CHECK(live[2].block == 2);
}

TEST_CASE("replay: a program that frees what is not live is a bug") {
  ir::RankProgram program;
  program.events = {release(0)};
  program.phases = {{ir::parse_phase_name("load"), 0, 1, {}}};
  program.blocks = 1;
  CHECK_THROWS_AS((void)replay(program, {}, Bytes{kGiB}), InternalError);
}

}  // namespace headroom::cost
