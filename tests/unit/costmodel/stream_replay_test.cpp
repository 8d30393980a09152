#include "costmodel/time/stream_replay.h"

#include <doctest/doctest.h>

#include <random>
#include <utility>

namespace {

using namespace headroom;
using ir::WorkItem;
using Kind = WorkItem::Kind;

constexpr std::uint8_t kCompute = 0;
constexpr std::uint8_t kGather = 1;

/// Shapes 0, 1, ... of one launch each; their durations come with the replay.
ir::DeviceWork work_of(std::vector<WorkItem> items, std::size_t shapes, std::uint32_t marks = 4) {
  ir::DeviceWork work;
  work.items = std::move(items);
  work.shapes.assign(shapes, ir::TrafficShape{});
  work.marks = marks;
  return work;
}

WorkItem item(Kind kind, std::uint8_t stream, std::uint32_t index) {
  return {.kind = kind, .stream = stream, .index = index};
}

std::vector<Seconds> seconds(std::initializer_list<double> values) {
  std::vector<Seconds> out;
  for (const double value : values) {
    out.emplace_back(value);
  }
  return out;
}

double sum_of(const std::vector<cost::Stall>& stalls, std::uint32_t blocker) {
  double sum = 0;
  for (const cost::Stall& stall : stalls) {
    sum += stall.blocker == blocker ? stall.time.value() : 0;
  }
  return sum;
}

}  // namespace

TEST_CASE("stream replay: a stream waits for what another stream marks") {
  //   compute |--0 (4)--|          |2|       waits for the gather
  //   gather    |-----1 (8)--------|
  const ir::DeviceWork work = work_of(
      {item(Kind::kRun, kCompute, 0), item(Kind::kRun, kGather, 1), item(Kind::kRecord, kGather, 0),
       item(Kind::kWait, kCompute, 0), item(Kind::kRun, kCompute, 2)},
      3);
  const auto durations = seconds({4, 8, 1});
  const auto line = cost::replay_streams(work, {.durations = durations, .launch = Seconds{1}});
  CHECK(line.begin[0].value() == 1);
  CHECK(line.begin[1].value() == 2);
  CHECK(line.end[1].value() == 10);
  CHECK(line.begin[4].value() == 10);
  CHECK(line.total.value() == 11);
  CHECK(line.busy[kCompute].value() == 5);
  CHECK(line.busy[kGather].value() == 8);
  const auto stalls = cost::stalls_of(work, line, {0, work.items.size()});
  CHECK(sum_of(stalls, 1) == 5);  // From 5, when 0 ends, to 10.
  CHECK(sum_of(stalls, cost::StreamTimeline::kHost) == 1);
}

TEST_CASE("stream replay: small kernels are bound by the host that launches them") {
  std::vector<WorkItem> items(6, item(Kind::kRun, kCompute, 0));
  ir::DeviceWork work = work_of(items, 1);
  const auto durations = seconds({1});
  const auto line = cost::replay_streams(work, {.durations = durations, .launch = Seconds{3}});
  CHECK(line.total.value() == 6 * 3 + 1);
  CHECK(sum_of(cost::stalls_of(work, line, {0, 6}), cost::StreamTimeline::kHost) == 3 + 5 * 2);
  // Six launches as one item: the last cannot run before it is issued.
  work = work_of({item(Kind::kRun, kCompute, 0)}, 0);
  work.shapes = {ir::TrafficShape{.bytes = 0, .launches = 6}};
  const auto together = seconds({6});
  CHECK(cost::replay_streams(work, {.durations = together, .launch = Seconds{3}}).total.value() ==
        6 * 3 + 1);
}

TEST_CASE("stream replay: products of a series are handed over one by one") {
  ir::DeviceWork work = work_of({item(Kind::kRun, kCompute, 0)}, 0);
  work.shapes = {
      ir::GemmShape{.m = 1, .n = 1, .k = 1, .count = 6, .batch = ir::GemmBatch::kSeries}};
  const auto together = seconds({6});
  const cost::WorkCosts costs{.durations = together, .launch = Seconds{1}, .looped = Seconds{3}};
  CHECK(cost::replay_streams(work, costs).total.value() == 6 * 3 + 1);
  work.shapes = {ir::GemmShape{.m = 1, .n = 1, .k = 1, .count = 6}};  // One call.
  CHECK(cost::replay_streams(work, costs).total.value() == 1 + 6);
}

TEST_CASE("stream replay: modules, loops, exchanges of tokens and graphs take the host unlike") {
  ir::DeviceWork work = work_of(std::vector<WorkItem>(4, item(Kind::kRun, kCompute, 0)), 2);
  work.items[1].loop = 3;  // Two tensors, then its launch.
  work.items[2].index = 1;
  work.items[3].site = 1;
  work.shapes[1] = ir::CollectiveShape{.kind = ir::CollectiveKind::kTokenExchange, .group = {}};
  const auto durations = seconds({0, 0});
  cost::WorkCosts costs{.durations = durations,
                        .launch = Seconds{36},
                        .looped = Seconds{10},
                        .exchange = Seconds{180},
                        .tensor = Seconds{5},
                        .graph = Seconds{0.5},
                        .graphed = {false, true}};
  CHECK(cost::replay_streams(work, costs).total.value() == 36 + (2 * 5 + 10) + 180 + 0.5);
  costs = {.durations = durations, .launch = Seconds{36}};
  CHECK(cost::replay_streams(work, costs).total.value() == 4 * 36);
}

TEST_CASE("stream replay: a collective takes multiprocessors from the product beside it") {
  ir::DeviceWork work = work_of({item(Kind::kRun, kGather, 0), item(Kind::kRun, kCompute, 1)}, 0);
  work.shapes = {ir::CollectiveShape{}, ir::GemmShape{.m = 1, .n = 1, .k = 1}};
  const auto durations = seconds({10, 8});
  cost::WorkCosts costs{.durations = durations, .launch = Seconds{1}, .taken_ratio = 0.5};
  // gather   1 to 11
  // compute  from 2 on: 4.5 of 8 by 11, the rest alone
  CHECK(cost::replay_streams(work, costs).end[1].value() == 14.5);
  costs.taken_ratio = 0;
  CHECK(cost::replay_streams(work, costs).end[1].value() == 10);
  costs.taken_ratio = 0.5;
  work.shapes[1] = ir::TrafficShape{.bytes = 1};  // Bound by memory, not by multiprocessors.
  CHECK(cost::replay_streams(work, costs).end[1].value() == 10);
}

TEST_CASE("stream replay: a host that waits issues nothing, and what it waits for is named") {
  const ir::DeviceWork work =
      work_of({item(Kind::kRun, kGather, 0), item(Kind::kRecord, kGather, 0),
               item(Kind::kHost, kGather, 0), item(Kind::kRun, kCompute, 1)},
              2);
  const auto durations = seconds({10, 1});
  const auto line = cost::replay_streams(work, {.durations = durations, .launch = Seconds{1}});
  CHECK(line.begin[3].value() == 12);
  const auto stalls = cost::stalls_of(work, line, {0, 4});
  CHECK(sum_of(stalls, 0) == 10);
  CHECK(sum_of(stalls, cost::StreamTimeline::kHost) == 2);  // Its launch, and the last one.
}

TEST_CASE("stream replay: work on the host keeps the host") {
  ir::DeviceWork work = work_of({item(Kind::kRun, 2, 0), item(Kind::kRun, kCompute, 1)}, 0);
  work.shapes = {ir::CopyShape{.kind = ir::CopyKind::kHostWork, .bytes = 1}, ir::TrafficShape{}};
  const auto durations = seconds({10, 1});
  const auto line = cost::replay_streams(work, {.durations = durations, .launch = Seconds{1}});
  CHECK(line.begin[1].value() == 11);
}

TEST_CASE("stream replay: stalls and busy time make up the compute stream") {
  const unsigned seed = 7;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<WorkItem> items;
    const auto draw = [&random](int high) {
      return static_cast<std::uint32_t>(std::uniform_int_distribution<int>(0, high)(random));
    };
    for (int i = 0; i < 60; ++i) {
      const auto stream = static_cast<std::uint8_t>(draw(2));
      switch (draw(4)) {
        case 0:
          items.push_back(item(Kind::kRecord, stream, draw(3)));
          break;
        case 1:
          items.push_back(item(draw(5) == 0 ? Kind::kHost : Kind::kWait, stream, draw(3)));
          break;
        default:
          items.push_back(item(Kind::kRun, stream, draw(3)));
      }
    }
    items.push_back(item(Kind::kRun, kCompute, 0));
    const ir::DeviceWork work = work_of(items, 4);
    const auto durations = seconds({1, 2, 5, 9});
    const auto line = cost::replay_streams(work, {.durations = durations, .launch = Seconds{1}});
    double stalled = 0;
    for (const cost::Stall& stall : cost::stalls_of(work, line, {0, items.size()})) {
      CHECK(stall.time.value() > 0);
      stalled += stall.time.value();
    }
    CHECK(stalled + line.busy[kCompute].value() == doctest::Approx(line.end.back().value()));
    // Any part of the program tells the same stalls.
    const std::size_t half = items.size() / 2;
    double parts = 0;
    for (const auto range : {cost::ItemRange{0, half}, cost::ItemRange{half, items.size()}}) {
      for (const cost::Stall& stall : cost::stalls_of(work, line, range)) {
        parts += stall.time.value();
      }
    }
    CHECK(parts == doctest::Approx(stalled));
  }
}

TEST_CASE("stream replay: attention kernels of two streams share one device") {
  //   compute |--0--|          |--0--|
  //   context       |--0--|             begins with the first, has to wait
  constexpr std::uint8_t kContext = 2;
  ir::DeviceWork work = work_of({item(Kind::kRun, kCompute, 0), item(Kind::kRun, kContext, 0),
                                 item(Kind::kRun, kCompute, 0), item(Kind::kRun, kContext, 1)},
                                2);
  work.shapes[0] = ir::AttentionShape{};
  const auto durations = seconds({10, 3});
  const auto line = cost::replay_streams(work, {.durations = durations, .launch = Seconds{1}});
  CHECK(line.end[0].value() == 11);
  CHECK(line.begin[1].value() == 11);
  CHECK(line.begin[2].value() == 21);
  CHECK(line.begin[3].value() == 21);  // Bound by memory: beside the third.
  CHECK(line.total.value() == 31);
}
