#include "costmodel/time/pipeline_makespan.h"

#include <doctest/doctest.h>

namespace {

using namespace headroom;
using ir::PipelineKind;
using ir::PipelineShape;

/// Every pass takes one second: forward 1, backward 1 + 1.
cost::PipelineTimes equal_times(const PipelineShape& shape, double unit = 1) {
  cost::PipelineTimes times;
  times.stages.assign(static_cast<std::size_t>(shape.stages),
                      std::vector<cost::ChunkTimes>(static_cast<std::size_t>(ir::chunks_of(shape)),
                                                    {Seconds{unit}, Seconds{unit}, Seconds{unit}}));
  return times;
}

double total_of(const PipelineShape& shape) {
  return cost::pipeline_makespan(shape, equal_times(shape)).value().total.value();
}

}  // namespace

TEST_CASE("pipeline makespan: bubbles are those of the papers at equal costs") {
  for (const std::int64_t p : {2, 4, 8}) {
    const std::int64_t m = 4 * p;
    CAPTURE(p);
    const auto shape = [&](PipelineKind kind) {
      return PipelineShape{.kind = kind, .stages = p, .micro_batches = m, .chunks = 2};
    };
    const auto bubble = [&](PipelineKind kind, std::int64_t work) {
      return total_of(shape(kind)) - static_cast<double>(work);
    };
    // F = B = W = 1. GPipe, 1F1B: (p - 1)(F + B + W).
    CHECK(bubble(PipelineKind::kGPipe, 3 * m) == 3.0 * static_cast<double>(p - 1));
    CHECK(bubble(PipelineKind::kOneForwardOneBackward, 3 * m) == 3.0 * static_cast<double>(p - 1));
    // Chunks of the same time each: (p - 1)(F + B + W) of a chunk, 1 / v of the whole's.
    CHECK(bubble(PipelineKind::kInterleaved, 6 * m) == 3.0 * static_cast<double>(p - 1));
    // ZB-H1: (p - 1)(F + B - W), of a chunk where there are several.
    CHECK(bubble(PipelineKind::kZbH1, 6 * m) == static_cast<double>(p - 1));
    PipelineShape whole = shape(PipelineKind::kZbH1);
    whole.chunks = 1;
    CHECK(total_of(whole) - static_cast<double>(3 * m) == static_cast<double>(p - 1));
    // ZBV: every stage works without a gap.
    const PipelineShape v = shape(PipelineKind::kZbV);
    const auto line = cost::pipeline_makespan(v, equal_times(v)).value();
    for (std::size_t stage = 0; stage < line.stages.size(); ++stage) {
      const std::vector<cost::ActionSpan>& spans = line.stages[stage];
      CHECK(spans.back().end - spans.front().begin == line.busy[stage]);
    }
    // DualPipe: (p / 2 - 1)(F&B + B - 3W), where F&B = 3 and the whole backward B = 2; DualPipeV on
    // half the stages of that DualPipe, chunks being its stages.
    CHECK(bubble(PipelineKind::kDualPipeV, 6 * m) == 2.0 * static_cast<double>(p - 1));
  }
}

TEST_CASE("pipeline makespan: the slowest stage sets the pace") {
  // Two stages, 1F1B, four micro-batches; the second takes twice as long.
  //   stage 0  F0 F1 .. .. .. .. B0..
  const PipelineShape shape{.stages = 2, .micro_batches = 4};
  cost::PipelineTimes times = equal_times(shape);
  times.stages[1][0] = {Seconds{2}, Seconds{2}, Seconds{2}};
  const auto line = cost::pipeline_makespan(shape, times).value();
  // First forward 1, then 4 x 6 on the slow stage, then the last backward of the first stage 2.
  CHECK(line.total.value() == 1 + 4 * 6 + 2);
  CHECK(line.busy[0].value() == 12);
}

TEST_CASE("pipeline makespan: transfers delay who waits, and who sends if they block") {
  const PipelineShape shape{.stages = 2, .micro_batches = 1};
  cost::PipelineTimes times = equal_times(shape);
  times.transfer.time = Seconds{0.5};
  CHECK(cost::pipeline_makespan(shape, times).value().total.value() == 3 + 3 + 2 * 0.5);
  const PipelineShape two{.kind = PipelineKind::kGPipe, .stages = 2, .micro_batches = 2};
  times.transfer.blocking = true;
  // Forwards leave at 1.5 and 3, backwards on the second stage end at 6 and, half a second of
  // sending later, at 8.5; the first stage's last backward waits for 9.
  CHECK(cost::pipeline_makespan(two, times).value().total.value() == 11);
}

TEST_CASE("pipeline makespan: times of another pipeline are refused") {
  const PipelineShape shape{.stages = 2, .micro_batches = 4};
  cost::PipelineTimes times = equal_times(shape);
  times.stages.pop_back();
  CHECK(cost::pipeline_makespan(shape, times).error().key == "stage times");
}
