#include "runtimes/plan_json.h"
#include "runtimes/deepspeed/plan.h"

#include <doctest/doctest.h>

#include "model_ir/json/json_writer.h"
#include "tests/support/random_plan.h"
#include "tests/support/temporary_folder.h"

namespace headroom::ir {

TEST_CASE("property: a plan written as JSON reads back the same") {
  test::Random random = test::seeded_random(41);
  CAPTURE(random.seed());
  for (int round = 0; round < 300; ++round) {
    const ParallelPlan plan = test::random_plan(random);
    const std::string text = to_pretty_json(plan_to_json(plan));
    CAPTURE(text);
    const Result<ParallelPlan> again = parse_plan(text, "plan.json");
    REQUIRE(again);
    CHECK(*again == plan);
  }
}

TEST_CASE("parse_plan: what a short file leaves out keeps the base's value") {
  ParallelPlan base;
  base.workload.sequence = 777;
  edit_zero(base) = ZeroPlan{};
  edit_zero(base).stage = 2;
  base.runtime = "deepspeed";
  const ParallelPlan plan =
      parse_plan(R"({"schema_version": 1, "micro_batch": 3, "zero": {"stage": 3}})", "p", base)
          .value();
  CHECK(plan.workload.micro_batch == 3);
  CHECK(plan.workload.sequence == 777);
  CHECK(zero_of(plan).stage == 3);
  CHECK(zero_of(plan).reduce_bucket_size == 500'000'000);
  CHECK_FALSE(has_zero(*parse_plan(R"({"schema_version": 1, "zero": null})", "p", base)));
}

TEST_CASE("parse_plan: an unknown key is refused with the closest one") {
  const auto plan = parse_plan(R"({"schema_version": 1, "micro_batchs": 3})", "plan.json");
  REQUIRE_FALSE(plan);
  CHECK(plan.error().code == ErrorCode::kInvalidInput);
  CHECK(plan.error().pointer == "/micro_batchs");
  CHECK(to_text(plan.error()).find("micro_batch") != std::string::npos);
}

TEST_CASE("parse_plan: wrong words, types and ranges are all reported at once") {
  const auto plan = parse_plan(
      R"({"schema_version": 1, "precision": "bf61", "micro_batch": 0, "zero": {"stage": 4}})",
      "plan.json");
  REQUIRE_FALSE(plan);
  const std::string text = to_text(plan.error());
  for (const char* part : {"/precision", "/micro_batch", "/zero/stage", "bf16"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("parse_plan: another schema version is refused") {
  CHECK_FALSE(parse_plan(R"({"schema_version": 2})", "plan.json"));
  CHECK_FALSE(parse_plan("{}", "plan.json"));
}

TEST_CASE("read_plan: a file that is not there is the environment's fault") {
  const auto plan = read_plan("no/such/plan.json");
  REQUIRE_FALSE(plan);
  CHECK(plan.error().code == ErrorCode::kEnvironment);
}

}  // namespace headroom::ir
