#include "runtimes/plan_file.h"

#include <doctest/doctest.h>

#include "model_ir/json/json_writer.h"
#include "runtimes/plan_json.h"
#include "tests/support/random_plan.h"

namespace headroom::ir {

TEST_CASE("property: a plan file reads back the same, alone and in a document") {
  test::Random random = test::seeded_random(43);
  CAPTURE(random.seed());
  for (int round = 0; round < 100; ++round) {
    PlanFile file{.model = random.chance(1, 2) ? "gpt2" : "",
                  .device = random.chance(1, 2) ? "h100-80gb" : "",
                  .assumptions = {},
                  .search = {},
                  .plan = test::random_plan(random)};
    if (random.chance(1, 2)) {
      file.assumptions = {{.option = "node", .value = "dgx-h100"},
                          {.option = "ignored", .value = ""}};
    }
    if (random.chance(1, 2)) {
      file.search.emplace();
      file.search->push_back({.option = "tp", .value = "1,2"});
    }
    const JsonValue alone = plan_file_to_json(file);
    JsonFields document;
    document.add("schema_version", 1);
    document.add("verdict", "fits");
    document.add("plan_file", alone);
    for (const JsonValue& form : {alone, std::move(document).finish()}) {
      const std::string text = to_pretty_json(form);
      CAPTURE(text);
      const Result<PlanFile> again = parse_plan_file(text, "plan.json");
      REQUIRE(again);
      CHECK(*again == file);
      CHECK(is_plan_file(text));
    }
    const Result<PlanFile> plan = parse_plan_file(to_json(plan_to_json(file.plan)), "plan.json");
    REQUIRE(plan);
    CHECK(plan->plan == file.plan);
  }
}

TEST_CASE("PlanText: one parsed text is read over several plans") {
  const Result<PlanText> text =
      PlanText::parse(R"({"schema_version": 1, "model": "gpt2", "plan": {"schema_version": 1,
                          "micro_batch": 3}})",
                      "plan.json");
  REQUIRE(text);
  CHECK(text->file() == "plan.json");
  for (const std::int64_t sequence : {64, 128}) {
    ParallelPlan base;
    base.workload.sequence = sequence;
    const Result<PlanFile> file = text->read(base);
    REQUIRE(file);
    CHECK(file->model == "gpt2");
    CHECK(file->plan.workload.sequence == sequence);
    CHECK(file->plan.workload.micro_batch == 3);
  }
  CHECK_FALSE(PlanText::parse("[1]", "plan.json"));
  CHECK_FALSE(PlanText::parse(R"({"model_type": "gpt2"})", "config.json")->read());
}

TEST_CASE("is_plan_file: the configuration of a model is none") {
  CHECK_FALSE(is_plan_file(R"({"model_type": "gpt2", "n_layer": 12})"));
  CHECK_FALSE(is_plan_file("[1]"));
  CHECK(is_plan_file(R"({"model": "gpt2", "plan": {"runtime": "megatron"}})"));
  CHECK_FALSE(is_plan_file("no JSON"));
}

}  // namespace headroom::ir
