#include "tests/support/schema.h"

#include <cstdlib>
#include <fstream>

#include <doctest/doctest.h>

#include "cli/option_page.h"
#include "model_ir/json/json_writer.h"
#include "runtimes/plan_json.h"
#include "runtimes/plan_schema.h"
#include "tests/support/random.h"
#include "tests/support/random_plan.h"

namespace headroom {

TEST_CASE("schema: what plans are written as is what the schema says") {
  const ir::JsonValue schema = test::read_schema("plan.schema.json");
  test::Random random = test::seeded_random(51);
  CAPTURE(random.seed());
  for (int round = 0; round < 100; ++round) {
    const ir::ParallelPlan plan = test::random_plan(random);
    for (const std::string& fault : test::SchemaCheck::faults(schema, ir::plan_to_json(plan))) {
      FAIL_CHECK(fault);
    }
  }
}

TEST_CASE("schema: the plan's schema is what the tables of options say") {
  // HEADROOM_UPDATE_GOLDEN=1 writes it anew.
  const std::string path = test::source_file("configs/schema/plan.schema.json");
  const std::string made = ir::to_pretty_json(ir::plan_schema()) + "\n";
  if (std::getenv("HEADROOM_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << made;
  }
  CHECK(read_file(path).value() == made);
}

TEST_CASE("schema: the plan file's schema is what the code says") {
  // HEADROOM_UPDATE_GOLDEN=1 writes it anew.
  const std::string path = test::source_file("configs/schema/plan_file.schema.json");
  const std::string made = ir::to_pretty_json(ir::plan_file_schema()) + "\n";
  if (std::getenv("HEADROOM_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << made;
  }
  CHECK(read_file(path).value() == made);
}

TEST_CASE("options: docs/options.md is what the tables of options say") {
  // HEADROOM_UPDATE_GOLDEN=1 writes it anew.
  const std::string path = test::source_file("docs/options.md");
  const std::string made = cli::options_page();
  if (std::getenv("HEADROOM_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << made;
  }
  CHECK(read_file(path).value() == made);
}

TEST_CASE("schema: what fit answers is what the schema says") {
  const ir::JsonValue schema = test::read_schema("fit.schema.json");
  for (const char* line :
       {"fit gpt2 --gpu h100", "fit llama-3.1-8b --gpu a100-40gb", "fit llama-3.1-70b --gpu h100",
        "fit llama-3.2-1b --gpu a100-80gb --gpus 4 --zero 3",
        "fit gpt2 --gpu mi300x",  // Nobody measured one: no time.
        "fit llama-3.2-1b --gpu h100 --gpus 4 --megatron pp=4 --accumulation 4 --price 2 --power "
        "900 "
        "--tokens 1e12 --faster"}) {
    CAPTURE(line);
    for (const std::string& fault : test::SchemaCheck::faults(schema, test::json_of(line).at(""))) {
      FAIL_CHECK(fault);
    }
  }
}

TEST_CASE("schema: the errors and explanations that come with the program keep their schemas") {
  for (const char* name : {"residuals", "explanations"}) {
    const ir::JsonValue schema = test::read_schema(std::string(name) + ".schema.json");
    const std::string path = test::source_file(std::string("configs/accuracy/") + name + ".json");
    const auto text = read_file(path);
    REQUIRE(text);
    const auto document = ir::parse_json(*text, path);
    REQUIRE(document);
    for (const std::string& fault : test::SchemaCheck::faults(schema, *document)) {
      FAIL_CHECK(fault);
    }
  }
}

TEST_CASE("schema: what plan answers is what the schema says") {
  const ir::JsonValue schema = test::read_schema("plan_answer.schema.json");
  for (const char* line :
       {"plan gpt2 --gpu a100-80gb --gpus 2 --runtime megatron --global-batch 8",
        "plan gpt2 --gpu a100-80gb --runtime transformers --global-batch 4 --seq 512",
        "plan gpt2 --gpu a100-80gb --gpus 2 --runtime megatron --global-batch 2 --budget 3GiB",
        "explain gpt2 --gpu a100-80gb --gpus 2 --runtime megatron --global-batch 64 "
        "--pp 2 --micro-batch 16 --budget 8GiB"}) {
    if (test::kSanitized &&
        std::string_view(line).starts_with("plan gpt2 --gpu a100-80gb --gpus")) {
      continue;
    }
    CAPTURE(line);
    for (const std::string& fault : test::SchemaCheck::faults(schema, test::json_of(line).at(""))) {
      FAIL_CHECK(fault);
    }
  }
}

}  // namespace headroom
