#include "validators/measured/score.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "model_ir/base/check.h"
#include "runtimes/interface/runs/recorded_keys.h"
#include "validators/measured/measure.h"
#include "validators/measured/row_reader.h"

namespace headroom::check {
namespace {

constexpr const char* kCase =
    R"("case": {"config": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,)"
    R"( "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 256}})";

MeasuredRow row_of(const std::string& id, const std::string& rest) {
  const auto rows = parse_rows(
      R"({"id": ")" + id + R"(", "framework": "transformers", )" + kCase + ", " + rest + "}",
      "t.jsonl");
  REQUIRE(rows);
  return rows->front();
}

constexpr const char* kPhases =
    R"("phases": [{"phase": "load", "allocated_after": 1000, "peak_allocated": 2000,)"
    R"( "peak_reserved": 4000, "reserved_after": 4000, "peak_active": 2000, "retries": 2,)"
    R"( "work": {"gemm_flops": 0, "kernels": 10, "collectives": [["all_reduce", 2, 5, 50]]}},)"
    R"( {"phase": "peft", "allocated_after": 1}])";

Prediction fake_prediction() {
  return {.fits = true,
          .phases = {{ir::parse_phase_name("load"),
                      {{Metric::kAllocatedAfter, 1100},
                       {Metric::kPeakAllocated, 2000},
                       {Metric::kPeakReserved, 3000},
                       {Metric::kReservedAfter, 4000},
                       {Metric::kPeakActive, 2000},
                       {Metric::kRetries, 5},
                       {Metric::kGemmFlops, 3},
                       {Metric::kCollectiveBytes, 50},
                       {Metric::kCollectiveCalls, 4}}},
                     {{.kind = ir::PhaseKind::kForward, .at = {.step = 1}}, {}}}};
}

ScoreTools tools_with(Predictor predict) {
  ScoreTools tools;
  tools.predict = std::move(predict);
  return tools;
}

const Score& find_score(const Scoring& scoring, Metric metric) {
  for (const Score& score : scoring.scores) {
    if (score.metric == metric) {
      return score;
    }
  }
  FAIL("no score of " << name_of(metric));
  return scoring.scores.front();
}

}  // namespace

TEST_CASE("error_of: relative and signed, with the rules for zero, retries and fits") {
  CHECK(error_of(Metric::kPeakAllocated, 110, 100) == doctest::Approx(0.1));
  CHECK(error_of(Metric::kPeakAllocated, 90, 100) == doctest::Approx(-0.1));
  CHECK(error_of(Metric::kPeakAllocated, 0, 0) == 0);
  CHECK(error_of(Metric::kPeakAllocated, 5, 0) == 1);
  CHECK(error_of(Metric::kRetries, 5, 2) == 3);
  CHECK(error_of(Metric::kRetries, 0, 2) == -2);
  CHECK(error_of(Metric::kFits, 1, 1) == 0);
  CHECK(error_of(Metric::kFits, 1, 0) == 1);
  CHECK(error_of(Metric::kFits, 0, 1) == 1);
}

TEST_CASE("score_case: every metric of a phase that both have, and a skip for the rest") {
  const MeasuredRow row = row_of("r", kPhases);
  const Scoring scoring = score_case(row, labels_of(row), fake_prediction());
  CHECK(scoring.scores.size() == 10);  // fits, and nine of the ten metrics of "load".
  CHECK(find_score(scoring, Metric::kFits).phase == "run");
  CHECK(find_score(scoring, Metric::kFits).error == 0);
  const Score& after = find_score(scoring, Metric::kAllocatedAfter);
  CHECK(after.phase == "load");
  CHECK(after.predicted == 1100);
  CHECK(after.measured == 1000);
  CHECK(after.error == doctest::Approx(0.1));
  CHECK(find_score(scoring, Metric::kPeakReserved).error == doctest::Approx(-0.25));
  CHECK(find_score(scoring, Metric::kRetries).error == 3);
  CHECK(find_score(scoring, Metric::kGemmFlops).error == 1);  // Measured 0, predicted 3.
  CHECK(find_score(scoring, Metric::kCollectiveCalls).error == doctest::Approx(-0.2));
  REQUIRE(scoring.skipped.size() == 2);
  CHECK(scoring.skipped[0].reason == "metric kernels: not modelled");
  CHECK(scoring.skipped[0].phase == "load");
  CHECK(scoring.skipped[1].reason == "phase peft: not in the prediction");
  CHECK(scoring.skipped[1].phase == "peft");
}

TEST_CASE("score_case: a wrong verdict is the row's only score") {
  const MeasuredRow ran = row_of("ran", kPhases);
  Prediction prediction = fake_prediction();
  prediction.fits = false;
  const Scoring missed = score_case(ran, labels_of(ran), prediction);
  REQUIRE(missed.scores.size() == 1);
  CHECK(missed.scores[0].metric == Metric::kFits);
  CHECK(missed.scores[0].predicted == 0);
  CHECK(missed.scores[0].measured == 1);
  CHECK(missed.scores[0].error == 1);
  CHECK(missed.skipped.empty());

  const MeasuredRow failed = row_of("failed", R"("oom": "no room")");
  const Scoring hoped = score_case(failed, labels_of(failed), fake_prediction());
  REQUIRE(hoped.scores.size() == 1);
  CHECK(hoped.scores[0].error == 1);
  const Scoring right = score_case(failed, labels_of(failed), prediction);
  REQUIRE(right.scores.size() == 1);
  CHECK(right.scores[0].error == 0);
}

TEST_CASE("score_row: what the predictor refuses is a skip with its reason") {
  const MeasuredRow row = row_of("r", kPhases);
  const Scoring scoring =
      score_row(row, tools_with([](const ir::RunSetting&) -> Result<Prediction> {
                  return Error::invalid_argument("plan.lora", "dora", "lora");
                }));
  CHECK(scoring.scores.empty());
  REQUIRE(scoring.skipped.size() == 1);
  CHECK(scoring.skipped[0].reason == "plan.lora: got dora, expected lora");
  CHECK_FALSE(scoring.skipped[0].phase);
}

TEST_CASE("score_row: a runtime without a lowering is not modelled yet") {
  const MeasuredRow row = row_of("r", kPhases);
  const Scoring scoring =
      score_row(row, tools_with([](const ir::RunSetting&) -> Result<Prediction> {
                  return Error::invalid_argument("runtime", "deepspeed", "x");
                }));
  REQUIRE(scoring.skipped.size() == 1);
  CHECK(scoring.skipped[0].reason == "runtime deepspeed: not modelled yet");
}

TEST_CASE("score_row: the predictor gets the row's setting") {
  const MeasuredRow row = row_of("r", R"("oom": "x")");
  std::int64_t hidden = 0;
  const Scoring scoring = score_row(row, tools_with([&](const ir::RunSetting& setting) {
                                      hidden = setting.model.hidden;
                                      return Result<Prediction>(Prediction{});
                                    }));
  CHECK(hidden == 64);
  CHECK(scoring.scores.size() == 1);
}

TEST_CASE("score_rows: the same order and content at any number of threads") {
  std::vector<MeasuredRow> rows;
  for (int i = 0; i < 50; ++i) {
    rows.push_back(row_of("row" + std::to_string(i), kPhases));
  }
  const ScoreTools tools =
      tools_with([](const ir::RunSetting&) -> Result<Prediction> { return fake_prediction(); });
  const Scoring one = score_rows(rows, tools, {}, 1);
  const Scoring four = score_rows(rows, tools, {}, 4);
  REQUIRE(one.scores.size() == 500);
  REQUIRE(four.scores.size() == 500);
  for (std::size_t i = 0; i < one.scores.size(); ++i) {
    CHECK(one.scores[i].id == "row" + std::to_string(i / 10));
    CHECK(four.scores[i].id == one.scores[i].id);
    CHECK(four.scores[i].metric == one.scores[i].metric);
  }
  CHECK(four.skipped.size() == one.skipped.size());
}

TEST_CASE("score_rows: filters by source, runtime and metric") {
  const std::vector<MeasuredRow> rows{row_of("r", kPhases)};
  const ScoreTools tools =
      tools_with([](const ir::RunSetting&) -> Result<Prediction> { return fake_prediction(); });
  ScoreFilter filter;
  filter.metric = Metric::kPeakReserved;
  const Scoring peaks = score_rows(rows, tools, filter, 1);
  REQUIRE(peaks.scores.size() == 1);
  CHECK(peaks.scores[0].metric == Metric::kPeakReserved);
  CHECK(peaks.skipped.size() == 1);  // The phase, which lacks every metric; not the kernels.
  filter = {};
  filter.source = "other";
  CHECK(score_rows(rows, tools, filter, 1).scores.empty());
  filter.source = "t";
  filter.runtime = "deepspeed";
  CHECK(score_rows(rows, tools, filter, 1).skipped.empty());
  filter.runtime = "transformers";
  CHECK(score_rows(rows, tools, filter, 1).scores.size() == 10);
}

TEST_CASE("score_rows: a broken invariant costs its row only") {
  const std::vector<MeasuredRow> rows{row_of("bad", kPhases), row_of("good", kPhases)};
  int calls = 0;
  const Scoring scoring =
      score_rows(rows, tools_with([&calls](const ir::RunSetting&) -> Result<Prediction> {
                   HEADROOM_ASSERT(calls++ != 0);
                   return fake_prediction();
                 }),
                 {}, 1);
  CHECK(scoring.scores.size() == 10);
  REQUIRE(scoring.skipped.size() == 3);
  CHECK(scoring.skipped[0].id == "bad");
  CHECK(scoring.skipped[0].reason.starts_with("internal error: "));
}

TEST_CASE("prediction_of: memory by phase, work only where the program counts it") {
  ir::RankProgram program;
  program.blocks = 1;
  program.events = {{.kind = ir::EventKind::kAllocate, .block = 0, .bytes = 100, .site = 0}};
  program.phases = {{.name = ir::parse_phase_name("load"), .begin = 0, .end = 1, .work = {}}};
  program.phases[0].work.gemm_flops = 7;
  program.phases[0].work.collectives = {
      {.kind = ir::CollectiveKind::kAllReduce, .ranks = 2, .calls = 3, .bytes = 40}};
  program.sites.resize(1);
  program.operations = {"op"};
  const Prediction prediction =
      prediction_of(program, cost::replay(program, ir::AllocatorSettings{}, ir::kUnnamedDevice));
  CHECK(prediction.fits);
  REQUIRE(prediction.phases.size() == 1);
  const PredictedPhase& load = prediction.phases[0];
  CHECK(load.find(Metric::kAllocatedAfter) == 512);  // Rounded up by the allocator.
  CHECK(load.find(Metric::kPeakActive) == 512);
  CHECK(load.find(Metric::kReservedAfter) == 2 * kMiB);
  CHECK(load.find(Metric::kRetries) == 0);
  CHECK(load.find(Metric::kGemmFlops) == 7);
  CHECK_FALSE(load.find(Metric::kKernels));  // Counted nowhere: not modelled, not zero.
  CHECK(load.find(Metric::kCollectiveCalls) == 3);
  CHECK(load.find(Metric::kCollectiveBytes) == 40);
}

TEST_CASE("prediction_of: kernels are counted where a phase has passes forward, by its kind") {
  const auto counts_kernels = [](ir::PhaseName name) {
    ir::RankProgram program;
    program.phases = {{.name = std::move(name), .begin = 0, .end = 0, .work = {}}};
    program.phases[0].work.kernels = 3;
    program.phases[0].work.gemms = 1;
    const Prediction prediction =
        prediction_of(program, cost::replay(program, ir::AllocatorSettings{}, ir::kUnnamedDevice));
    return prediction.phases.at(0).find(Metric::kKernels) == 3;
  };
  const ir::StepPosition step{.step = 1};
  CHECK(counts_kernels({.kind = ir::PhaseKind::kForward, .at = step}));
  CHECK(counts_kernels({.kind = ir::PhaseKind::kForwardBackward, .at = step}));
  CHECK_FALSE(counts_kernels({.kind = ir::PhaseKind::kBackward, .at = step}));
  CHECK_FALSE(counts_kernels({.kind = ir::PhaseKind::kOther, .at = step, .other = "my.forward"}));
}

TEST_CASE("metric_named: every name of a report, and the closest one for a slip") {
  CHECK(metric_named("peak_allocated").value() == Metric::kPeakAllocated);
  CHECK(metric_named("tflops_per_gpu").value() == Metric::kTflops);
  const auto slip = metric_named("peak_alocated");
  REQUIRE_FALSE(slip);
  CHECK(slip.error().fix == "did you mean peak_allocated?");
}

TEST_CASE("score: the last step's seconds of a timed case are held against the time model") {
  const std::string timed =
      R"("gpu": "NVIDIA H200", "phases": [{"phase": "load", "seconds": 9},)"
      R"( {"phase": "step1.forward", "seconds": 5}, {"phase": "step1.optimizer", "seconds": 1},)"
      R"( {"phase": "step2.forward", "seconds": 0.3}, {"phase": "step2.optimizer", "seconds": 0.1}])";
  const MeasuredRow row = row_of("timed", timed);
  CHECK(last_step_seconds(row) == doctest::Approx(0.4));
  ScoreTools tools = tools_with([](const ir::RunSetting&) { return fake_prediction(); });
  tools.find_device = [](const std::string& name) -> Result<cost::DeviceSpec> {
    cost::DeviceSpec device;
    device.name = name;
    return device;
  };
  tools.step_time = [](const ir::RunSetting&, const cost::DeviceSpec& device) -> Result<Seconds> {
    return Seconds{device.name == "h200" ? 0.5 : 0};
  };
  const Scoring scoring = score_row(row, tools);
  const Score& step = find_score(scoring, Metric::kStepTime);
  CHECK(step.phase == "run");
  CHECK(step.error == doctest::Approx(0.25));
}

TEST_CASE("score: a step timed by itself stands before the seconds of phases") {
  const std::string timed =
      R"("step_seconds": 0.25, "phases": [{"phase": "step1.forward", "seconds": 5}])";
  CHECK(last_step_seconds(row_of("timed", timed)) == doctest::Approx(0.25));
  const std::string zero = R"("step_seconds": 0, "phases": [{"phase": "step1.forward"}])";
  CHECK_FALSE(parse_rows(
      R"({"id": "zero", "framework": "transformers", )" + std::string(kCase) + ", " + zero + "}",
      "t.jsonl"));
}

TEST_CASE("score: a case with a phase that was not timed says nothing of its step") {
  const std::string half =
      R"("gpu": "NVIDIA H200", "phases": [{"phase": "step1.forward", "seconds": 5},)"
      R"( {"phase": "step1.optimizer"}])";
  CHECK(last_step_seconds(row_of("half", half)) == 0);
  const std::string zero = R"("phases": [{"phase": "step1.forward", "seconds": 0}])";
  CHECK_FALSE(parse_rows(
      R"({"id": "zero", "framework": "transformers", )" + std::string(kCase) + ", " + zero + "}",
      "t.jsonl"));
}

}  // namespace headroom::check
