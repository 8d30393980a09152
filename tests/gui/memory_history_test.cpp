#include "gui/charts/memory_history.h"

#include <numeric>

#include <doctest/doctest.h>

#include "tests/gui/real_answer.h"
#include "tests/support/random.h"

namespace headroom::gui {
namespace {

constexpr Bytes kNoBound{std::int64_t{1} << 60};

/// Two blocks that overlap for one event, in bytes that the allocator does not round.
ir::RankProgram two_blocks() {
  ir::RankProgram program;
  program.blocks = 2;
  program.events = {
      {.kind = ir::EventKind::kAllocate, .role = ir::TensorRole::kParameter, .bytes = 4 * kMiB},
      {.kind = ir::EventKind::kAllocate,
       .role = ir::TensorRole::kActivation,
       .block = 1,
       .bytes = 2 * kMiB},
      {.kind = ir::EventKind::kFree},
  };
  program.sites = {{}};
  return program;
}

}  // namespace

TEST_CASE("MemoryHistory: says what is live after each event, by role") {
  const MemoryHistory history(two_blocks(), {}, kNoBound);
  REQUIRE(history.size() == 3);
  CHECK(history.allocated(0) == Bytes{4 * kMiB});
  CHECK(history.allocated(1) == Bytes{6 * kMiB});
  CHECK(history.allocated(2) == Bytes{2 * kMiB});
  CHECK(history.whole().peak == 1);
  CHECK(history.whole().most == Bytes{6 * kMiB});
  CHECK(history.whole().least == Bytes{2 * kMiB});
  const cost::RoleBytes roles = history.roles(2);
  CHECK(roles.at(static_cast<std::size_t>(ir::TensorRole::kParameter)) == Bytes{0});
  CHECK(roles.at(static_cast<std::size_t>(ir::TensorRole::kActivation)) == Bytes{2 * kMiB});
}

TEST_CASE("MemoryHistory: ends before the event that runs out of memory") {
  const MemoryHistory history(two_blocks(), {}, Bytes{3 * kMiB});
  CHECK(history.empty());
}

TEST_CASE("MemoryHistory: a stopped replay is short") {
  std::stop_source stop;
  stop.request_stop();
  CHECK(MemoryHistory(two_blocks(), {}, kNoBound, stop.get_token()).empty());
}

TEST_CASE("property: MemoryHistory's summaries agree with a look at every event") {
  headroom::test::Random random = headroom::test::seeded_random();
  CAPTURE(random.seed());
  const MemoryHistory history(test::random_program(3'000, random.seed()), {}, kNoBound);
  REQUIRE(history.size() == 3'000);
  for (int i = 0; i < 200; ++i) {
    const auto begin = static_cast<std::size_t>(random.between(0, 2'999));
    const auto end =
        static_cast<std::size_t>(random.between(static_cast<std::int64_t>(begin) + 1, 3'000));
    CAPTURE(begin);
    CAPTURE(end);
    Bytes least = history.allocated(begin);
    Bytes most = history.allocated(begin);
    Bytes reserved = history.reserved(begin);
    std::size_t peak = begin;
    for (std::size_t event = begin; event < end; ++event) {
      least = std::min(least, history.allocated(event));
      reserved = std::max(reserved, history.reserved(event));
      if (history.allocated(event) > most) {
        most = history.allocated(event);
        peak = event;
      }
    }
    const MemoryHistory::Extremes found = history.over(begin, end);
    CHECK(found.least == least);
    CHECK(found.most == most);
    CHECK(found.reserved == reserved);
    CHECK(found.peak == peak);
    const cost::RoleBytes roles = history.roles(peak);
    CHECK(std::accumulate(roles.begin(), roles.end(), Bytes{0}) == most);
  }
}

TEST_CASE("MemoryHistory: agrees with the estimate's replay") {
  const auto data = test::small_timeline();
  CHECK(data->history.size() == data->estimate->program.events.size());
  CHECK(data->history.whole().most == data->estimate->peak_allocated);
  CHECK(data->history.whole().reserved == data->estimate->peak_reserved);
  CHECK(data->history.roles(data->history.whole().peak) == data->estimate->peak_by_role);
}

}  // namespace headroom::gui
