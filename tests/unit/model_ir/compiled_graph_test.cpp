#include "runtimes/torch/compiled_graph.h"

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/event_text.h"

namespace headroom::ir::torch {
namespace {

using Id = CompiledGraph::Id;
constexpr std::int64_t kBytes = 4096;

/// Runs a graph in a phase of its own and writes down what it allocates and frees.
template <class Build>
std::string events_of_graph(Build build) {
  Eager eager{DeviceTraits{}};
  eager.begin_phase(parse_phase_name("graph"));
  {
    CompiledGraph graph(eager);
    build(graph, eager);
    graph.run();
  }
  eager.end_phase();
  return test::events_of(eager.finish(), "graph");
}

CompiledGraph::Made made(std::int64_t bytes, std::vector<Id> over = {}) {
  return {{bytes / 2}, DType::kBf16, std::move(over)};
}

}  // namespace

TEST_CASE("compiled graph: a kernel writes over an operand of its size that dies there") {
  // Block 0 is donated; the second kernel's result lies in it, the third's needs another size.
  CHECK(events_of_graph([](CompiledGraph& graph, Eager& eager) {
          const Id input = graph.taken(eager.empty({kBytes / 2}, DType::kBf16), true);
          const Id sum = graph.kernel_of({input}, made(kBytes, {input}));
          graph.keep(graph.kernel_of({sum}, made(2 * kBytes, {sum})));
        }) == "+4096#0 +8192#1 -0 -1");
}

TEST_CASE("compiled graph: what the caller still holds is not written over") {
  CHECK(events_of_graph([](CompiledGraph& graph, Eager& eager) {
          const Tensor held = eager.empty({kBytes / 2}, DType::kBf16);
          const Id input = graph.argument(held);
          graph.keep(graph.kernel_of({input}, made(kBytes, {input})));
        }) == "+4096#0 +4096#1 -0 -1");
}

TEST_CASE("compiled graph: memory that died in the step before is taken at once") {
  // a -> b -> c: a dies where b is made, so c of a's size lies in it.
  CHECK(events_of_graph([](CompiledGraph& graph, Eager& eager) {
          static_cast<void>(eager);
          const Id a = graph.kernel_of({}, made(kBytes));
          const Id b = graph.kernel_of({a}, made(2 * kBytes));
          graph.keep(graph.kernel_of({b}, made(kBytes)));
        }) == "+4096#0 +8192#1 -1 -0");
}

TEST_CASE("compiled graph: what only the kernel that makes it reads has no memory") {
  // Sums and their quotient are one kernel; the sums, read again by a later one, are written.
  const auto build = [](bool again) {
    return [again](CompiledGraph& graph, Eager& eager) {
      const Id input = graph.argument(eager.empty({kBytes / 2}, DType::kBf16));
      const Id sums = graph.kernel_of({input}, made(2 * kBytes));
      const Id quotient = graph.kernel_of({input, sums}, made(kBytes));
      graph.fuse({sums, quotient});
      graph.keep(quotient);
      if (again) {
        graph.keep(graph.kernel_of({sums}, made(4 * kBytes)));
      }
      graph.schedule();
    };
  };
  CHECK(events_of_graph(build(false)) == "+4096#0 +4096#1 -0 -1");
  CHECK(events_of_graph(build(true)) == "+4096#0 +8192#1 +4096#2 -0 +16384#3 -1 -2 -3");
}

TEST_CASE("compiled graph: scheduled, steps stand where they hold the least memory") {
  // Listed as a, b, then what takes the place of each: scheduled, b is made behind a's reader.
  const auto build = [](bool scheduled) {
    return [scheduled](CompiledGraph& graph, Eager& eager) {
      static_cast<void>(eager);
      const Id a = graph.kernel_of({}, made(8 * kBytes));
      const Id b = graph.kernel_of({}, made(8 * kBytes));
      const Id c = graph.kernel_of({a}, made(kBytes));
      const Id d = graph.kernel_of({b}, made(kBytes));
      graph.keep(graph.kernel_of({c, d}, made(2 * kBytes)));
      if (scheduled) {
        graph.schedule();
      }
    };
  };
  CHECK(events_of_graph(build(false)) ==
        "+32768#0 +32768#1 +4096#2 -0 +4096#3 -1 +8192#4 -2 -3 -4");
  CHECK(events_of_graph(build(true)) == "+32768#0 +4096#1 +4096#2 -0 +8192#3 -1 -2 -3");
}

TEST_CASE("compiled graph: memory is not held over a step that makes the peak") {
  // Between a's death and d lies the step that makes c of b: holding a would raise the peak.
  const auto build = [](std::int64_t last) {
    return [last](CompiledGraph& graph, Eager& eager) {
      static_cast<void>(eager);
      const Id first = graph.kernel_of({}, made(16 * kBytes));
      const Id a = graph.kernel_of({first}, made(kBytes));
      const Id b = graph.kernel_of({a}, made(4 * kBytes));
      const Id c = graph.kernel_of({b}, made(last));
      graph.keep(graph.kernel_of({c}, made(kBytes)));
    };
  };
  CHECK(events_of_graph(build(32 * kBytes)) ==
        "+65536#0 +4096#1 -0 +16384#2 -1 +131072#3 -2 +4096#4 -3 -4");
  // With a small c the peak is at the first two, and a is held.
  CHECK(events_of_graph(build(kBytes / 2)) == "+65536#0 +4096#1 -0 +16384#2 +2048#3 -2 -3 -1");
}

TEST_CASE("compiled graph: sums over many rows are split, short ones are not") {
  CHECK(parts_of_sum(132, 32, 1024) == 1);
  CHECK(parts_of_sum(132, 1024, 1024) == 8);  // Four rows of 32 a thread.
  CHECK(parts_of_sum(132, 1024, 132 * 64) == 1);
}

}  // namespace headroom::ir::torch
