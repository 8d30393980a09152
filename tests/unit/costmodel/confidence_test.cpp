#include "costmodel/confidence.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/programs.h"
#include "tests/support/random.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cost {
namespace {

ResidualSet set_of(const std::string& source, const std::string& runtime, bool on_gpu,
                   std::vector<double> errors, Measurand measurand = Measurand::kPeakReserved) {
  std::ranges::sort(errors);
  return {.source = source,
          .runtime = runtime,
          .measurand = measurand,
          .on_gpu = on_gpu,
          .errors = std::move(errors)};
}

/// A program of `gib` GiB on a device of `total` GiB, of which 1 to 2 GiB lie outside.
StepEstimate judged_filling(std::int64_t gib, std::int64_t total) {
  test::ProgramWriter writer;
  writer.phase("step1.forward").at(0, "silu");
  writer.free(writer.allocate(gib * kGiB, ir::TensorRole::kActivation));
  return judge(writer.finish(), {}, Bytes{total * kGiB},
               {{.name = "context",
                 .bytes = Bytes{kGiB},
                 .bound = Bytes{2 * kGiB},
                 .basis = Basis::kDerived,
                 .source = "none"}});
}

/// A program that takes and frees `first` GiB, then `second` GiB.
ir::RankProgram filling_twice(std::int64_t first, std::int64_t second) {
  test::ProgramWriter writer;
  writer.phase("step1.forward").at(0, "silu");
  writer.free(writer.allocate(first * kGiB, ir::TensorRole::kActivation));
  writer.free(writer.allocate(second * kGiB, ir::TensorRole::kActivation));
  return writer.finish();
}

}  // namespace

TEST_CASE("error_model: few runs give their extremes, many the ranks of split conformal") {
  const std::vector<ResidualSet> few = {set_of("a", "fsdp", true, {0.03, -0.02, 0.01}),
                                        set_of("b", "fsdp", true, {0.0, 0.02})};
  CHECK(error_model(few, "fsdp", Measurand::kPeakReserved).range == ErrorRange{-0.02, 0.03});
  std::vector<double> many;
  for (int i = 0; i < 199; ++i) {
    many.push_back(i);
  }
  // (199 + 1) x 0.025 = 5: the fifth from either end.
  const ErrorRange range =
      error_model(std::vector{set_of("a", "fsdp", true, many)}, "fsdp", Measurand::kPeakReserved)
          .range;
  CHECK(range == ErrorRange{4, 194});
}

TEST_CASE("error_model: a runtime borrows until two sources on GPUs have runs enough") {
  const ResidualSet lender = set_of("far", "megatron", true, {0.2}, Measurand::kPeakAllocated);
  const ResidualSet books = set_of("books", "megatron", false, {0.9});
  const ErrorModel one = error_model(std::vector{set_of("a", "fsdp", true, {0.01}), lender, books},
                                     "fsdp", Measurand::kPeakReserved);
  CHECK(one.borrowed);
  CHECK(one.range == ErrorRange{0.01, 0.2});
  CHECK(one.runs == 2);
  const std::vector<double> enough(kRunsOfSource, 0.01);
  const ErrorModel few = error_model(std::vector{set_of("a", "fsdp", true, enough),
                                                 set_of("b", "fsdp", true, {0.02}), lender, books},
                                     "fsdp", Measurand::kPeakReserved);
  CHECK(few.borrowed);
  const std::vector<double> others(kRunsOfSource, 0.02);
  const ErrorModel two = error_model(std::vector{set_of("a", "fsdp", true, enough),
                                                 set_of("b", "fsdp", true, others), lender, books},
                                     "fsdp", Measurand::kPeakReserved);
  CHECK_FALSE(two.borrowed);
  CHECK(two.range == ErrorRange{0.01, 0.02});
}

TEST_CASE("judge_by: what is kept between estimates changes no verdict") {
  const std::vector<ResidualSet> sets = {set_of("a", "transformers", true, {-0.04, 0.0, 0.03}),
                                         set_of("b", "fsdp", true, {0.10, 0.20})};
  const Judge judge = judge_by(sets);
  for (const std::string runtime : {"transformers", "fsdp", "transformers", "fsdp"}) {
    for (const std::int64_t gib : {20, 40, 60}) {
      CAPTURE(runtime);
      CAPTURE(gib);
      ir::ParallelPlan plan;
      plan.runtime = runtime;
      StepEstimate once;
      once.device_total = Bytes{42 * kGiB};
      once.peak_allocated = once.peak_reserved = Bytes{gib * kGiB};
      StepEstimate kept = once;
      settle_verdict(once, confidence_of(once, plan, sets));
      judge(plan, kept);
      CHECK(kept.chance == once.chance);
      CHECK(kept.verdict == once.verdict);
    }
  }
}

TEST_CASE("error_model: step times borrow step times alone") {
  const std::vector<ResidualSet> sets = {
      set_of("a", "fsdp", true, {0.5}), set_of("b", "megatron", true, {0.1}, Measurand::kStepTime)};
  CHECK(error_model(sets, "fsdp", Measurand::kStepTime).range == ErrorRange{0.1, 0.1});
}

TEST_CASE("error_model: each source has the same weight, accounting devices none beside GPUs") {
  const ErrorModel model = error_model(
      std::vector{set_of("a", "fsdp", true, {0.1}), set_of("b", "fsdp", true, {0.0, 0.0, 0.0}),
                  set_of("c", "fsdp", false, {0.7})},
      "fsdp", Measurand::kPeakReserved);
  double of_a = 0;
  double total = 0;
  for (const ErrorModel::Sample& sample : model.samples) {
    of_a += sample.error == 0.1 ? sample.weight : 0;
    total += sample.weight;
    CHECK(sample.error != 0.7);
  }
  CHECK(of_a == doctest::Approx(0.5));
  CHECK(total == doctest::Approx(1));
}

TEST_CASE("error_model: a run of one's own moves the centre and drops what sources differ by") {
  // Two sources, each narrow, far apart: without a run of one's own the hull spans both.
  const std::vector<ResidualSet> sets = {set_of("a", "fsdp", true, {0.100, 0.101, 0.102}),
                                         set_of("b", "fsdp", true, {-0.100, -0.101, -0.102})};
  const ErrorModel wide = error_model(sets, "fsdp", Measurand::kPeakReserved);
  const ErrorModel tight = error_model(sets, "fsdp", Measurand::kPeakReserved,
                                       {.allocated = {}, .reserved = {0.05}, .step_time = {}});
  CHECK(wide.range == ErrorRange{-0.102, 0.102});
  CHECK(tight.range.low == doctest::Approx(0.048));
  CHECK(tight.range.high == doctest::Approx(0.052));
  CHECK(tight.own_runs == 1);
}

TEST_CASE("property: a conformal interval holds a next run of the same kind as often as it says") {
  test::Random random = test::seeded_random();  // The seed is printed when a check fails.
  int inside = 0;
  constexpr int kTrials = 2'000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> errors;
    for (int i = 0; i < 200; ++i) {
      errors.push_back(static_cast<double>(random.between(-1'000'000, 1'000'000)) / 1e7);
    }
    const double next = static_cast<double>(random.between(-1'000'000, 1'000'000)) / 1e7;
    inside += error_model(std::vector{set_of("a", "fsdp", true, errors)}, "fsdp",
                          Measurand::kPeakReserved)
                      .range.holds(next)
                  ? 1
                  : 0;
  }
  // 95 % of 2,000 with a standard deviation of 10.
  CHECK(inside > 1'850);
  CHECK(inside < 1'950);
}

TEST_CASE("confidence_of: far from the device's edge it is certain, between the bounds it is not") {
  const std::vector<ResidualSet> exact = {set_of("a", "transformers", true, {0.0}),
                                          set_of("b", "transformers", true, {0.0})};
  const ir::ParallelPlan plan;
  CHECK(confidence_of(judged_filling(4, 16), plan, exact).chances.fits == 1);
  CHECK(confidence_of(judged_filling(40, 16), plan, exact).chances.fits == 0);
  // 4 GiB and 1 to 2 GiB in 5.5 GiB: half of what may lie outside leaves room.
  StepEstimate edge = judged_filling(4, 16);
  edge.device_total = Bytes{5 * kGiB + kGiB / 2};
  CHECK(confidence_of(edge, plan, exact).chances.fits == doctest::Approx(0.5));
}

TEST_CASE("confidence_of: errors widen the interval of what they are errors of") {
  const std::vector<double> exact(kRunsOfSource, 0.0);
  std::vector<double> missed = exact;
  missed.front() = -0.1;
  missed.back() = 0.25;
  const std::vector<ResidualSet> sets = {
      set_of("a", "transformers", true, missed), set_of("b", "transformers", true, exact),
      set_of("a", "transformers", true, exact, Measurand::kPeakAllocated),
      set_of("b", "transformers", true, exact, Measurand::kPeakAllocated)};
  const Confidence sure = confidence_of(judged_filling(4, 16), {}, sets);
  CHECK(sure.allocated.low == Bytes{4 * kGiB});
  CHECK(sure.allocated.high == Bytes{4 * kGiB});
  CHECK(sure.reserved.low == Bytes{3'865'470'566});  // 0.9 x 4 GiB.
  CHECK(sure.reserved.high == Bytes{5 * kGiB});
}

TEST_CASE("residuals: what is written is read again, exact runs as a count") {
  const std::vector<ResidualSet> sets = {
      set_of("a", "fsdp", true, {-0.015625, 0.0, 0.0, 0.25}),
      set_of("b", "megatron", false, {0.0}, Measurand::kStepTime)};
  const test::TemporaryFolder folder;
  const std::string text = ir::to_json(residuals_to_json(sets));
  CHECK(text.find(R"("exact": 2)") != std::string::npos);
  const auto read = read_residuals(folder.write("residuals.json", text));
  REQUIRE(read);
  CHECK(*read == sets);
}

TEST_CASE("residuals: an unknown measurand and an empty set are refused by place") {
  const test::TemporaryFolder folder;
  const auto read = read_residuals(folder.write(
      "residuals.json", R"({"schema_version": 1, "sets": [{"source": "a", "runtime": "fsdp",
                            "measurand": "colour", "on_gpu": true, "errors": []}]})"));
  REQUIRE_FALSE(read);
  CHECK(read.error().pointer == "/sets/0/measurand");
  CHECK(read.error().wanted == "peak_allocated, peak_reserved or step_time");
  CHECK_FALSE(read.error().notes.empty());
}

TEST_CASE("residual_runtime: a modelling code with rows of its own stands for itself") {
  ir::ParallelPlan plan;
  CHECK(residual_runtime(plan) == "transformers");
  plan.runtime = "litgpt";
  CHECK(residual_runtime(plan) == "litgpt");
  plan.runtime = "megatron";
  CHECK(residual_runtime(plan) == "megatron");
}

TEST_CASE("verdict_of: the verdict follows the chance to fit") {
  CHECK(verdict_of(1) == Verdict::kFits);
  CHECK(verdict_of(0.95) == Verdict::kFits);
  CHECK(verdict_of(0.94) == Verdict::kTight);
  CHECK(verdict_of(0.06) == Verdict::kTight);
  CHECK(verdict_of(0.04) == Verdict::kDoesNotFit);
}

TEST_CASE("confidence_of: a smaller budget never has a better chance to fit") {
  // A cached block of 3 GiB that nothing takes again: 8 GiB are reserved, and 5 suffice.
  const std::vector<ResidualSet> sets = {
      set_of("a", "transformers", true, {-0.05, 0.0, 0.02, 0.06}),
      set_of("b", "transformers", true, {-0.1, 0.0, 0.1})};
  const ir::RankProgram program = filling_twice(3, 5);
  double before = 0;
  bool emptied = false;
  for (std::int64_t quarters = 16; quarters <= 48; ++quarters) {
    CAPTURE(quarters);
    StepEstimate estimate = judge(program, {}, Bytes{quarters * kGiB / 4}, {});
    const Confidence confidence = confidence_of(estimate, ir::ParallelPlan{}, sets);
    CHECK(confidence.chances.fits >= before);
    CHECK(confidence.chances.fits >= confidence.chances.at_once);
    settle_verdict(estimate, confidence);
    const bool at_once = confidence.chances.at_once >= kConfidenceLevel;
    CHECK((at_once || estimate.verdict != Verdict::kFits));
    if (estimate.retries > 0 && !estimate.out_of_memory) {
      CHECK(confidence.reserved.high <= estimate.capacity);
    }
    emptied = emptied || (confidence.chances.fits == 1 && confidence.chances.at_once == 0);
    before = confidence.chances.fits;
  }
  CHECK(before == 1);
  CHECK(emptied);
}

TEST_CASE("settle_verdict: errors change the verdict of the replay, and the host's stays") {
  const std::vector<ResidualSet> sets = {set_of("a", "transformers", true, {0.0}),
                                         set_of("b", "transformers", true, {0.3})};
  // 8 GiB in 11, of which 1 to 2 are outside: with an error of 30 % they are 10.4.
  StepEstimate half = judged_filling(8, 11);
  CHECK(half.verdict == Verdict::kFits);
  CHECK_FALSE(half.chance);
  judge_by(sets)(ir::ParallelPlan{}, half);
  CHECK(*half.chance == doctest::Approx(0.5));
  CHECK(half.verdict == Verdict::kTight);
  StepEstimate none = judged_filling(8, 11);
  judge_by({})(ir::ParallelPlan{}, none);
  CHECK(none.verdict == Verdict::kFits);
  StepEstimate sure = judged_filling(8, 16);
  judge_by(sets)(ir::ParallelPlan{}, sure);
  CHECK(sure.verdict == Verdict::kFits);
  sure.host_verdict = Verdict::kDoesNotFit;
  judge_by(sets)(ir::ParallelPlan{}, sure);
  CHECK(sure.verdict == Verdict::kDoesNotFit);
}

TEST_CASE("room_for: a plan that needs so much fits with the chance that was asked for") {
  const std::vector<ResidualSet> sets = {
      set_of("a", "transformers", true, {-0.02, 0.0, 0.01, 0.05}),
      set_of("b", "transformers", true, {0.0, 0.03, 0.1})};
  const ErrorModel errors = error_model(sets, "transformers", Measurand::kPeakReserved);
  const std::vector<OutsideTerm> outside = judged_filling(1, 11).outside;
  const Bytes total{80 * kGiB};
  CHECK(room_for(0.9, total, outside, ErrorModel{}) == Bytes{79 * kGiB});
  Bytes before{80 * kGiB};
  for (const double chance : {0.5, 0.9, 0.99}) {
    const Bytes room = room_for(chance, total, outside, errors);
    CHECK(room < before);
    CHECK(room_by(sets, chance)(ir::ParallelPlan{}, total, outside) == room);
    const auto chance_with = [&](Bytes need) {
      StepEstimate estimate = judged_filling(1, 80);
      estimate.peak_reserved = estimate.peak_allocated = need;
      return confidence_of(estimate, ir::ParallelPlan{}, sets).chances.fits;
    };
    CHECK(chance_with(room) >= chance);
    CHECK(chance_with(room + Bytes{2 * kMiB}) < chance);
    before = room;
  }
}

}  // namespace headroom::cost
