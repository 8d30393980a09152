#include "costmodel/live_groups.h"

#include <doctest/doctest.h>

#include "tests/support/programs.h"

namespace headroom::cost {

TEST_CASE("group_blocks: blocks of one role, operator and size are one line, largest sum first") {
  test::ProgramWriter writer;
  writer.phase("step1.forward").at(0, "silu");
  for (int count = 0; count < 3; ++count) {
    static_cast<void>(writer.allocate(2 * kMiB));
  }
  writer.at(-1, "parameters");
  static_cast<void>(writer.allocate(5 * kMiB, ir::TensorRole::kParameter));
  const ir::RankProgram program = writer.finish();
  const MemoryTimeline timeline = replay(program, ir::AllocatorSettings{}, Bytes{kGiB});
  const auto blocks = live_blocks(program, timeline, program.events.size() - 1);
  const std::vector<LiveGroup> groups = group_blocks(program, blocks);
  REQUIRE(groups.size() == 2);
  CHECK(groups[0] == LiveGroup{.role = ir::TensorRole::kActivation,
                               .operation = "silu",
                               .backward = false,
                               .each = Bytes{2 * kMiB},
                               .count = 3,
                               .total = Bytes{6 * kMiB}});
  CHECK(groups[1].operation == "parameters");
  CHECK(groups[1].total == Bytes{5 * kMiB});
}

TEST_CASE("group_blocks: nothing alive is no group") {
  CHECK(group_blocks(ir::RankProgram{}, {}).empty());
}

}  // namespace headroom::cost
