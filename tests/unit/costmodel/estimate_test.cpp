#include "costmodel/estimate.h"

#include <doctest/doctest.h>

#include "model_ir/spec/hf_config.h"
#include "tests/support/programs.h"

namespace headroom::cost {
namespace {

const Bytes kGib{kGiB};

/// Parameters of 4 GiB, then a forward that adds `extra` GiB for a moment.
ir::RankProgram four_gib_and(std::int64_t extra) {
  test::ProgramWriter writer;
  writer.phase("load").at(-1, "parameters");
  static_cast<void>(writer.allocate(4 * kGiB, ir::TensorRole::kParameter));
  writer.phase("step1.forward").at(31, "silu");
  const ir::BlockId block = writer.allocate(extra * kGiB, ir::TensorRole::kActivation);
  writer.free(block);
  return writer.finish();
}

OutsideTerm term(Bytes bytes) {
  return {
      .name = "context", .bytes = bytes, .bound = bytes, .basis = Basis::kAssumed, .source = {}};
}

StepEstimate judged(std::int64_t extra, Bytes total, Bytes outside = Bytes{0}) {
  return judge(four_gib_and(extra), ir::AllocatorSettings{}, total, {term(outside)});
}

}  // namespace

TEST_CASE("judge: room to spare is a fit, with the margin to the byte") {
  const StepEstimate estimate = judged(2, 10 * kGib, kGib);
  CHECK(estimate.verdict == Verdict::kFits);
  CHECK(estimate.capacity == 9 * kGib);
  CHECK(estimate.peak_allocated == 6 * kGib);
  CHECK(estimate.peak_reserved == 6 * kGib);
  CHECK(estimate.margin == 3 * kGib);
  CHECK_FALSE(estimate.out_of_memory);
  CHECK_FALSE(estimate.failure.has_value());
}

TEST_CASE("judge: less than a twentieth of the device to spare is tight") {
  // 6 GiB needed. Of 6.25 GiB, 0.25 is 4 %; of 7 GiB, 1 is 14 %.
  CHECK(judged(2, Bytes{6 * kGiB + kGiB / 4}).verdict == Verdict::kTight);
  CHECK(judged(2, 7 * kGib).verdict == Verdict::kFits);
}

TEST_CASE("judge: what lies outside the allocator decides, too") {
  CHECK(judged(2, 8 * kGib).verdict == Verdict::kFits);
  CHECK(judged(2, 8 * kGib, 3 * kGib).verdict == Verdict::kDoesNotFit);
}

TEST_CASE("judge: a plan that does not fit is replayed to its end, and says where it failed") {
  const StepEstimate estimate = judged(8, 10 * kGib);
  CHECK(estimate.verdict == Verdict::kDoesNotFit);
  CHECK(estimate.out_of_memory);
  REQUIRE(estimate.failure.has_value());
  CHECK(estimate.failure->requested == 8 * kGib);
  CHECK(estimate.failure->phase == 1);
  CHECK(estimate.timeline.phases.size() == 2);
  CHECK(estimate.peak_allocated == 12 * kGib);
  CHECK(estimate.margin == Bytes{-2 * kGiB});
}

TEST_CASE("judge: the outside terms may be larger than the device") {
  const StepEstimate estimate = judged(2, kGib, 2 * kGib);
  CHECK(estimate.verdict == Verdict::kDoesNotFit);
  CHECK(estimate.capacity == Bytes{0});
}

TEST_CASE("judge: fitting only after the cache was given back is tight") {
  // 3 GiB freed stay cached, a request of 4 GiB cannot use them: 3 + 4 > 6.9.
  test::ProgramWriter writer;
  writer.phase("step1.forward");
  writer.free(writer.allocate(3 * kGiB));
  static_cast<void>(writer.allocate(4 * kGiB));
  const StepEstimate estimate =
      judge(writer.finish(), ir::AllocatorSettings{}, Bytes{6 * kGiB + 900 * kMiB}, {});
  CHECK(estimate.retries == 1);
  CHECK_FALSE(estimate.out_of_memory);
  CHECK(estimate.margin > Bytes{kGiB});
  CHECK(estimate.verdict == Verdict::kTight);
}

TEST_CASE("judge: the peak has a name, a layer and its bytes by role") {
  const StepEstimate estimate = judged(2, 10 * kGib);
  CHECK(to_text(estimate.peak_phase) == "step1.forward");
  CHECK(estimate.peak_moment == "step 1, forward, layer 31: silu");
  CHECK(estimate.peak_site.layer == 31);
  CHECK(estimate.peak_site.operation == "silu");
  CHECK(estimate.peak_by_role[static_cast<std::size_t>(ir::TensorRole::kParameter)] == 4 * kGib);
  CHECK(estimate.peak_by_role[static_cast<std::size_t>(ir::TensorRole::kActivation)] == 2 * kGib);
}

TEST_CASE("judge: an empty program needs nothing") {
  const StepEstimate estimate = judge({}, ir::AllocatorSettings{}, kGib, {});
  CHECK(estimate.verdict == Verdict::kFits);
  CHECK(estimate.peak_allocated == Bytes{0});
  CHECK(estimate.peak_moment.empty());
}

TEST_CASE("moment_text: phases of steps and micro-steps are worded, others stay") {
  const PeakSite nowhere;
  CHECK(moment_text(ir::parse_phase_name("step2.backward"), nowhere) == "step 2, backward");
  CHECK(moment_text(ir::parse_phase_name("step12.3.forward"), nowhere) ==
        "step 12, micro-step 3, forward");
  CHECK(moment_text(ir::parse_phase_name("deepspeed.initialize"), nowhere) ==
        "deepspeed.initialize");
  CHECK(moment_text(ir::parse_phase_name("load"),
                    {.event = 0, .layer = 7, .operation = "linear", .backward = false}) ==
        "load, layer 7: linear");
}

TEST_CASE("estimate: accumulation beyond the steady state changes nothing") {
  const ir::ModelSpec model =
      ir::parse_hf_config(R"({"model_type": "llama", "hidden_size": 64, "vocab_size": 1000,
          "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 2, "max_position_embeddings": 128})",
                          "tiny")
          .value();
  DeviceSpec device;
  device.total = kGib;
  ir::ParallelPlan plan;
  plan.workload.sequence = 32;
  plan.workload.accumulation = 4;
  const StepEstimate four = estimate(model, plan, device).value();
  plan.workload.accumulation = 1'000'000;
  const StepEstimate many = estimate(model, plan, device).value();
  CHECK(many.peak_allocated == four.peak_allocated);
  CHECK(many.peak_reserved == four.peak_reserved);
}

TEST_CASE("estimate: a plan that cannot be is refused by its option") {
  ir::ModelSpec model;
  model.position = ir::PositionKind::kLearned;
  model.max_positions = 128;
  ir::ParallelPlan plan;
  plan.workload.sequence = 129;
  const auto refused = estimate(model, plan, DeviceSpec{});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().key == "seq");
}

}  // namespace headroom::cost
