#include "validators/measured/intervals.h"

#include <doctest/doctest.h>

#include "model_ir/json/json_value.h"
#include "tests/support/temporary_folder.h"
#include "validators/measured/accuracy.h"
#include "validators/measured/report.h"
#include "validators/measured/row_reader.h"

namespace headroom::check {
namespace {

Score peak(const std::string& source, const std::string& id, const std::string& phase,
           double predicted, double measured) {
  return {.id = id,
          .source = source,
          .runtime = "fsdp",
          .parallel = "none",
          .phase = phase,
          .on_gpu = true,
          .metric = Metric::kPeakReserved,
          .predicted = predicted,
          .measured = measured,
          .error = error_of(Metric::kPeakReserved, predicted, measured)};
}

}  // namespace

TEST_CASE("residuals_of: a run counts once, its greatest peak against the greatest predicted one") {
  const Scoring scoring{
      .scores = {peak("a", "x", "forward", 100, 130), peak("a", "x", "backward", 200, 210),
                 peak("a", "y", "forward", 100, 90)},
      .skipped = {}};
  const auto sets = residuals_of(scoring, {});
  REQUIRE(sets.size() == 1);
  CHECK(sets[0].on_gpu);
  REQUIRE(sets[0].errors.size() == 2);
  CHECK(sets[0].errors[0] == doctest::Approx(-0.1));
  CHECK(sets[0].errors[1] == doctest::Approx(0.05));
}

TEST_CASE("residuals_of: rates count as times, and one step has one time") {
  Score rate = peak("a", "x", "run", 50, 40);
  rate.metric = Metric::kTokensPerSecond;
  Score flops = rate;
  flops.metric = Metric::kTflops;
  const auto sets = residuals_of({.scores = {rate, flops}, .skipped = {}}, {});
  REQUIRE(sets.size() == 1);
  CHECK(sets[0].measurand == cost::Measurand::kStepTime);
  REQUIRE(sets[0].errors.size() == 1);
  CHECK(sets[0].errors[0] == doctest::Approx(0.25));  // A quarter slower than predicted.
}

TEST_CASE("residuals_of: runs whose recording is explained otherwise are left out") {
  const Scoring scoring{
      .scores = {peak("a", "x", "run", 100, 200), peak("a", "y", "run", 100, 101)}, .skipped = {}};
  const Explanation cold{.source = "a",
                         .rows = {"x"},
                         .metrics = {Metric::kPeakReserved},
                         .why = "cold",
                         .of_recording = true};
  const auto sets = residuals_of(scoring, {cold});
  REQUIRE(sets.size() == 1);
  CHECK(sets[0].errors.size() == 1);
}

TEST_CASE("coverage_of: a source's own errors do not make its interval") {
  const Scoring scoring{
      .scores = {peak("a", "x", "run", 100, 110), peak("b", "y", "run", 100, 105)}, .skipped = {}};
  const auto coverage = coverage_of(scoring, residuals_of(scoring, {}));
  REQUIRE(coverage.size() == 2);
  CHECK(coverage[0].runs == 1);
  CHECK(coverage[0].inside == 0);  // 10 % beside an interval of 5 to 5 %.
  CHECK(coverage[1].inside == 0);
  Scoring wider = scoring;
  wider.scores.push_back(peak("b", "z", "run", 100, 120));
  CHECK(coverage_of(wider, residuals_of(wider, {}))[0].inside == 1);
}

TEST_CASE("IntervalFinder: intervals of rates turn around") {
  const std::vector<cost::ResidualSet> sets = {{.source = "b",
                                                .runtime = "fsdp",
                                                .measurand = cost::Measurand::kStepTime,
                                                .on_gpu = true,
                                                .errors = {-0.2, 0.25}}};
  Score rate = peak("a", "x", "run", 100, 100);
  rate.metric = Metric::kTokensPerSecond;
  IntervalFinder finder(sets);
  const auto interval = finder.find(rate);
  REQUIRE(interval);
  CHECK(interval->low == doctest::Approx(80));
  CHECK(interval->high == doctest::Approx(125));
  rate.metric = Metric::kGemmFlops;
  CHECK_FALSE(finder.find(rate));
}

TEST_CASE("report: --json has the interval of a peak where other sources give one") {
  const Scoring scoring{.scores = {peak("a", "x", "run", 100, 110)}, .skipped = {}};
  const std::vector<cost::ResidualSet> sets = {{.source = "b",
                                                .runtime = "fsdp",
                                                .measurand = cost::Measurand::kPeakReserved,
                                                .on_gpu = true,
                                                .errors = {0.5}}};
  const auto document = ir::parse_json(report_json(scoring, sets), "report");
  REQUIRE(document);
  const ir::JsonValue& score = (*document->find("scores")->as_array())[0];
  CHECK((*score.find("interval")->as_array())[1].as_number() == doctest::Approx(150));
  const auto bare = ir::parse_json(report_json(scoring), "report");
  CHECK((*bare->find("scores")->as_array())[0].find("interval") == nullptr);
}

TEST_CASE("accuracy: the worst rows are named with why, or as not explained") {
  const Scoring scoring{
      .scores = {peak("a", "x", "run", 100, 110), peak("a", "y", "run", 100, 120)}, .skipped = {}};
  const Explanation known{
      .source = "a", .rows = {"y"}, .metrics = {}, .why = "its padding", .of_recording = false};
  const std::string text = accuracy_markdown(scoring, {known}, {});
  CHECK(text.find("| a | y | none | run | peak_reserved | -16.7 % | its padding |") !=
        std::string::npos);
  CHECK(text.find("| a | x | none | run | peak_reserved | -9.1 % | not explained |") !=
        std::string::npos);
}

TEST_CASE("explanations: read by place, an unknown metric is refused") {
  const test::TemporaryFolder folder;
  const auto read = read_explanations(folder.write(
      "explanations.json",
      R"({"explanations": [{"source": "a", "rows": ["x"], "why": "w", "of_recording": true}]})"));
  REQUIRE(read);
  CHECK(is_about((*read)[0], peak("a", "x", "run", 1, 1)));
  CHECK_FALSE(is_about((*read)[0], peak("b", "x", "run", 1, 1)));
  const auto bad = read_explanations(folder.write(
      "bad.json",
      R"({"explanations": [{"source": "a", "rows": ["x"], "why": "w", "metrics": ["peek"]}]})"));
  REQUIRE_FALSE(bad);
  CHECK(bad.error().pointer == "/explanations/0/metrics");
}

TEST_CASE("read_rows: a case row says where it was measured, a published row was on a GPU") {
  const auto rows = parse_rows(
      R"({"id": "a", "framework": "megatron", "measured_on": "gpu", "case": {}, "phases": []})"
      "\n"
      R"({"id": "b", "framework": "megatron", "case": {}, "phases": []})"
      "\n"
      R"({"id": "c", "framework": "megatron", "measured": {}})",
      "rows.jsonl");
  REQUIRE(rows);
  CHECK((*rows)[0].on_gpu);
  CHECK_FALSE((*rows)[1].on_gpu);
  CHECK((*rows)[2].on_gpu);
}

}  // namespace headroom::check
