#include "model_ir/plan/pipeline_schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <tuple>
#include <vector>

namespace {

using namespace headroom;
using ir::PipelineKind;
using ir::PipelineShape;
using ir::PipelineWork;

constexpr std::array kKinds = {PipelineKind::kGPipe,       PipelineKind::kOneForwardOneBackward,
                               PipelineKind::kInterleaved, PipelineKind::kZbH1,
                               PipelineKind::kZbV,         PipelineKind::kDualPipeV};

PipelineShape random_shape(std::mt19937& random, PipelineKind kind) {
  const auto draw = [&random](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  PipelineShape shape{.kind = kind, .stages = draw(1, 9), .micro_batches = draw(1, 24)};
  if (kind == PipelineKind::kInterleaved || (kind == PipelineKind::kZbH1 && draw(0, 1) == 1)) {
    shape.chunks = draw(2, 4);
    shape.micro_batches = shape.stages * draw(1, 4);
  }
  if (kind == PipelineKind::kDualPipeV) {
    shape.micro_batches = 2 * shape.stages + draw(0, 9);
  }
  return shape;
}

/// The largest number of forward passes, of any chunk, whose activations a stage holds at once. A
/// pass holds them from its forward to the end of its backward, weight gradients included.
std::int64_t peak_in_flight(const std::vector<ir::PipelineAction>& actions) {
  std::int64_t now = 0;
  std::int64_t peak = 0;
  for (const ir::PipelineAction& action : actions) {
    if (action.work == PipelineWork::kForward) {
      peak = std::max(peak, ++now);
    } else if (action.work != PipelineWork::kBackwardInput) {
      --now;
    }
  }
  return peak;
}

}  // namespace

TEST_CASE("pipeline schedule: every micro-batch passes every chunk once, in order") {
  const unsigned seed = 20261121;
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 400; ++i) {
    const PipelineShape shape =
        random_shape(random, kKinds.at(static_cast<std::size_t>(i) % kKinds.size()));
    CAPTURE(name_of(shape.kind));
    CAPTURE(shape.stages);
    CAPTURE(shape.micro_batches);
    REQUIRE(ir::check_pipeline(shape));
    for (std::int64_t stage = 0; stage < shape.stages; ++stage) {
      std::map<std::tuple<std::int32_t, std::int32_t>, std::array<int, 3>> seen;
      for (const ir::PipelineAction& action : ir::actions_of_stage(shape, stage)) {
        auto& [forward, input, weight] = seen[{action.chunk, action.micro_batch}];
        switch (action.work) {
          case PipelineWork::kForward:
            CHECK(++forward == 1);
            break;
          case PipelineWork::kBackward:
            CHECK(forward == 1);
            CHECK(++input == 1);
            CHECK(++weight == 1);
            break;
          case PipelineWork::kBackwardInput:
            CHECK(forward == 1);
            CHECK(++input == 1);
            break;
          case PipelineWork::kBackwardWeight:
            CHECK(input == 1);
            CHECK(++weight == 1);
            break;
        }
      }
      CHECK(static_cast<std::int64_t>(seen.size()) == ir::chunks_of(shape) * shape.micro_batches);
      for (const auto& [key, counts] : seen) {
        CHECK(counts == std::array<int, 3>{1, 1, 1});
      }
    }
  }
}

TEST_CASE("pipeline schedule: places form lines from the first layer to the last") {
  for (const PipelineKind kind : kKinds) {
    const PipelineShape shape{.kind = kind, .stages = 6, .micro_batches = 12, .chunks = 3};
    CAPTURE(name_of(kind));
    const std::int64_t chunks = ir::chunks_of(shape);
    int starts = 0;
    int visited = 0;
    for (std::int64_t stage = 0; stage < shape.stages; ++stage) {
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        std::optional<ir::PipelinePlace> place = ir::PipelinePlace{stage, chunk};
        if (ir::place_before(shape, *place)) {
          continue;
        }
        ++starts;
        while (place) {
          ++visited;
          const std::optional<ir::PipelinePlace> next = ir::place_after(shape, *place);
          if (next) {
            CHECK(ir::place_before(shape, *next) == place);
          }
          place = next;
        }
      }
    }
    CHECK(starts == 1);
    CHECK(visited == shape.stages * chunks);
  }
}

TEST_CASE("pipeline schedule: micro-batches in flight are those of the papers") {
  const std::int64_t p = 8;
  const std::int64_t m = 40;
  for (std::int64_t stage = 0; stage < p; ++stage) {
    CAPTURE(stage);
    const auto peak = [&](PipelineKind kind, std::int64_t chunks = 1) {
      return peak_in_flight(ir::actions_of_stage(
          {.kind = kind, .stages = p, .micro_batches = m, .chunks = chunks}, stage));
    };
    CHECK(peak(PipelineKind::kGPipe) == m);
    CHECK(peak(PipelineKind::kOneForwardOneBackward) == p - stage);
    // Megatron-LM: warm-up 2 (p - stage - 1) + (v - 1) p chunks, and the one under way.
    CHECK(peak(PipelineKind::kInterleaved, 3) == 2 * (p - stage - 1) + 2 * p + 1);
    CHECK(peak(PipelineKind::kZbH1) == p);     // arXiv:2401.10241: as 1F1B's first stage.
    CHECK(peak(PipelineKind::kZbV) == 2 * p);  // Halves of a stage: p stages' worth.
    CHECK(peak(PipelineKind::kDualPipeV) == 2 * p + 1);
  }
}

TEST_CASE("pipeline schedule: what cannot be scheduled is named") {
  const auto key_of = [](const PipelineShape& shape) { return check_pipeline(shape).error().key; };
  CHECK(key_of({.stages = 0}) == "pipeline stages");
  CHECK(key_of({.stages = 2, .micro_batches = 0}) == "micro-batches");
  CHECK(key_of({.kind = PipelineKind::kDualPipeV, .stages = 4, .micro_batches = 7}) ==
        "micro-batches");
}
