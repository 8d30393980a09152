#include "validators/measured/report.h"

#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "model_ir/json/json_value.h"
#include "validators/measured/accuracy.h"
#include "validators/measured/ranking.h"
#include "validators/measured/summary.h"
#include "validators/measured/text_table.h"

namespace headroom::check {
namespace {

Score score_of(const std::string& id, Metric metric, double predicted, double measured) {
  return {.id = id,
          .source = "ladder",
          .runtime = "transformers",
          .parallel = "none",
          .phase = "step1.backward",
          .metric = metric,
          .predicted = predicted,
          .measured = measured,
          .error = error_of(metric, predicted, measured)};
}

/// |error| of 0, 0, 0.001, 0.004, 0.1.
std::vector<Score> five_peaks() {
  std::vector<Score> scores;
  for (const double predicted : {1004.0, 1000.0, 1000.0, 999.0, 900.0}) {
    scores.push_back(
        score_of("row" + std::to_string(scores.size()), Metric::kPeakAllocated, predicted, 1000));
  }
  return scores;
}

Scoring some_scoring() {
  Scoring scoring{.scores = five_peaks(), .skipped = {}};
  scoring.scores.push_back(score_of("row0", Metric::kFits, 1, 1));
  scoring.skipped = {{.id = "f",
                      .source = "ladder",
                      .runtime = "fsdp",
                      .phase = std::nullopt,
                      .metric = std::nullopt,
                      .reason = "runtime fsdp: not modelled yet"},
                     {.id = "row0",
                      .source = "ladder",
                      .runtime = "transformers",
                      .phase = "peft",
                      .metric = std::nullopt,
                      .reason = "phase peft: not in the prediction"}};
  return scoring;
}

}  // namespace

TEST_CASE("summarise: shares and quantiles of the absolute error, by hand") {
  const auto lines = summarise(five_peaks());
  REQUIRE(lines.size() == 1);
  const SummaryLine& line = lines[0];
  CHECK(line.n == 5);
  CHECK(line.exact_share == doctest::Approx(0.4));
  CHECK(line.median == doctest::Approx(0.001));
  CHECK(line.p90 == doctest::Approx(0.1));  // ceil(0.9 * 5) = 5th of 5.
  CHECK(line.worst == doctest::Approx(0.1));
  CHECK(line.within[0] == doctest::Approx(0.6));
  CHECK(line.within[1] == doctest::Approx(0.8));
  CHECK(line.within[3] == doctest::Approx(0.8));
}

TEST_CASE(
    "summarise: an even count takes the mean of the middle two, ten values the ninth as p90") {
  std::vector<Score> scores;
  for (int i = 0; i < 10; ++i) {
    scores.push_back(score_of("r", Metric::kRetries, i, 0));
  }
  const SummaryLine line = summarise(scores).front();
  CHECK(line.median == 4.5);
  CHECK(line.p90 == 8);
  CHECK(line.worst == 9);
}

TEST_CASE("summarise: one sorted line for each source, runtime, spread and metric") {
  std::vector<Score> scores = five_peaks();
  scores.push_back(score_of("r", Metric::kAllocatedAfter, 1, 1));
  scores.push_back(score_of("r", Metric::kPeakAllocated, 1, 1));
  scores.back().parallel = "ddp";
  const auto lines = summarise(scores);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].parallel == "ddp");
  CHECK(lines[1].metric == Metric::kAllocatedAfter);
  CHECK(lines[2].n == 5);
  CHECK(summarise({}).empty());
}

TEST_CASE("report_json: the document of the contract, integers exact") {
  const auto document = ir::parse_json(report_json(some_scoring()), "report");
  REQUIRE(document);
  CHECK(document->find("schema_version")->as_integer() == 1);
  const ir::JsonValue& summary = document->find("summary")->as_array()->front();
  for (const char* key : {"source", "runtime", "parallel", "metric", "n", "exact_share", "median",
                          "p90", "worst", "within"}) {
    CAPTURE(key);
    CHECK(summary.find(key) != nullptr);
  }
  CHECK(summary.find("within")->as_object()->size() == 4);
  CHECK(summary.find("within")->find("0.005")->as_number() == doctest::Approx(0.8));
  const ir::JsonValue& score = document->find("scores")->as_array()->front();
  CHECK(ir::to_json(score) ==
        R"({"id": "row0", "source": "ladder", "runtime": "transformers", "parallel": "none", )"
        R"("phase": "step1.backward", "metric": "peak_allocated", "predicted": 1004, )"
        R"("measured": 1000, "error": 0.004})");
  const ir::JsonValue::Array& skipped = *document->find("skipped")->as_array();
  REQUIRE(skipped.size() == 2);
  CHECK(skipped[0].find("phase")->is_null());
  CHECK(*skipped[1].find("phase")->as_string() == "peft");
}

TEST_CASE("report_json: nothing compared is still one whole document") {
  const auto document = ir::parse_json(report_json({}), "report");
  REQUIRE(document);
  CHECK(document->find("summary")->as_array()->empty());
  CHECK(document->find("scores")->as_array()->empty());
}

TEST_CASE("report_text: summary, worst first with phase and bytes, skips with their counts") {
  Scoring scoring = some_scoring();
  scoring.skipped.push_back(scoring.skipped[0]);
  const std::string text = report_text(scoring);
  CHECK(text.find("peak_allocated  5  40.0 %") != std::string::npos);
  const std::size_t worst = text.find("-10.0 %  row4  step1.backward  peak_allocated");
  const std::size_t second = text.find("0.4 %  row0");
  CHECK(worst != std::string::npos);
  CHECK(second != std::string::npos);
  CHECK(worst < second);
  CHECK(text.find("      2  runtime fsdp: not modelled yet") != std::string::npos);
  CHECK(report_text({}) == "nothing could be compared\n");
}

TEST_CASE("report_text: no worst table when all is exact, ten rows at most otherwise") {
  Scoring exact{.scores = {score_of("r", Metric::kPeakAllocated, 5, 5)}, .skipped = {}};
  CHECK(report_text(exact).find("every score is exact") != std::string::npos);
  Scoring many;
  for (int i = 1; i <= 30; ++i) {
    many.scores.push_back(score_of("id" + std::to_string(i) + "!", Metric::kRetries, i, 0));
  }
  const std::string text = report_text(many);
  CHECK(text.find("id30!") != std::string::npos);
  CHECK(text.find("id21!") != std::string::npos);
  CHECK(text.find("id20!") == std::string::npos);
}

TEST_CASE("accuracy_markdown: rows by fate, each metric, each reason") {
  const std::string text = accuracy_markdown(some_scoring(), {}, {});
  CHECK(text.find("| ladder | transformers | 5 | 2 | 0 | 0 |") != std::string::npos);
  CHECK(text.find("| ladder | fsdp | 0 | 0 | 0 | 1 |") != std::string::npos);
  CHECK(text.find("| ladder | transformers | none | peak_allocated | 5 | 40.0 % |") !=
        std::string::npos);
  CHECK(text.find("- 1: runtime fsdp: not modelled yet") != std::string::npos);
}

TEST_CASE("percent: almost all never reads as all") {
  CHECK(percent(1) == "100 %");
  CHECK(percent(0) == "0 %");
  CHECK(percent(0.962) == "96.2 %");
  CHECK(percent(0.99995) == "99.995 %");
  CHECK(percent(1e-9) == "1.0e-07 %");
  CHECK(percent(-0.25) == "-25.0 %");
}

TEST_CASE("ranking: Kendall's tau over the runs of one model on one machine, ties set aside") {
  std::vector<Score> scores;
  const auto add = [&scores](const char* subject, double predicted, double measured) {
    scores.push_back(score_of("r", Metric::kStepTime, predicted, measured));
    scores.back().subject = subject;
  };
  // Pairs of (predicted, measured): one of three is reversed.
  add("a", 1, 10);
  add("a", 2, 30);
  add("a", 3, 20);
  add("b", 1, 1);
  add("b", 2, 2);  // Two runs order nothing.
  add("c", 1, 1);
  add("c", 1, 2);
  add("c", 2, 3);  // A tie among the predicted: 2 / sqrt(2 x 3).
  add("d", 3, 1);
  add("d", 3, 2);  // One configuration, measured twice, and predicted above the other.
  add("d", 2, 3);
  const std::vector<RankingLine> lines = rank_agreement(scores);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].subject == "a");
  CHECK(lines[0].tau == doctest::Approx(1.0 / 3));
  CHECK(lines[1].tau == doctest::Approx(2 / std::sqrt(6.0)));
  CHECK(lines[2].tau == doctest::Approx(-2 / std::sqrt(6.0)));
  // Where no prediction repeats, all pairs could agree; two runs of one cannot be told apart.
  CHECK(lines[0].attainable == doctest::Approx(1));
  CHECK(lines[1].attainable == doctest::Approx(2 / std::sqrt(6.0)));
  CHECK(lines[2].attainable == doctest::Approx(2 / std::sqrt(6.0)));
}

}  // namespace headroom::check
