#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/json/json_value.h"
#include "model_ir/json/json_writer.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/plan_file.h"
#include "tests/support/cli.h"
#include "tests/support/schema.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

/// Two layers of Llama with H 64, which the CPU trains in a moment.
constexpr const char* kTinyLlama =
    R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,)"
    R"( "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,)"
    R"( "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false})";

ir::ParallelPlan tiny_plan() {
  ir::ParallelPlan plan;
  plan.precision = ir::Precision::kFp32;
  plan.workload.sequence = 16;
  plan.workload.accumulation = 2;
  return plan;
}

/// The path of a plan file in `folder`.
std::string write_plan(const test::TemporaryFolder& folder, const ir::ParallelPlan& plan,
                       const std::string& config = kTinyLlama) {
  const ir::PlanFile file{.model = folder.write("config.json", config),
                          .device = "h100-80gb",
                          .assumptions = {},
                          .search = {},
                          .plan = plan};
  return folder.write("plan.json", to_pretty_json(ir::plan_file_to_json(file)));
}

test::Answer validated(std::vector<std::string> rest) {
  rest.insert(rest.begin(), "validate");
  return test::headroom_with(rest);
}

}  // namespace

TEST_CASE("validate PLAN.json: a small plan runs on the CPU as predicted, to the byte") {
  const test::TemporaryFolder folder;
  const std::string plan = write_plan(folder, tiny_plan());
  const test::Answer ran = validated({plan, "--device", "cpu"});
  CHECK(ran.code == ExitCode::kYes);
  CHECK(ran.out.find("the same to the byte") != std::string::npos);
  CHECK(ran.out.find("step2.2.backward") != std::string::npos);
  CHECK(ran.out.find("tokens per second") != std::string::npos);
}

TEST_CASE("validate PLAN.json: --json has losses, phases and what the driver lost") {
  const test::TemporaryFolder folder;
  ir::ParallelPlan plan = tiny_plan();
  plan.runtime = "deepspeed";
  plan.world = 4;
  plan.precision = ir::Precision::kBf16Master;
  plan.workload.accumulation = 1;
  ir::edit_zero(plan).stage = 3;
  const test::Answer ran = validated({write_plan(folder, plan), "--device", "cpu", "--json"});
  CHECK(ran.code == ExitCode::kYes);
  const Result<ir::JsonValue> document = ir::parse_json(ran.out, "out");
  REQUIRE(document);
  CHECK(*document->find("answer")->as_string() == "agrees");
  CHECK(*document->find("with")->as_string() == "executor");
  const ir::JsonValue& run = *document->find("run");
  CHECK(run.find("losses")->as_array()->size() == 2);
  CHECK(run.find("measured_driver_bytes")->as_integer() ==
        run.find("predicted_driver_bytes")->as_integer());
  CHECK(document->find("phases")->as_array()->size() == 1 + 2 * 3);
  const ir::JsonValue schema = test::read_schema("validation.schema.json");
  for (const std::string& fault : test::SchemaCheck::faults(schema, *document)) {
    FAIL_CHECK(fault);
  }
}

TEST_CASE("validate PLAN.json: on a small budget, both sides say that it does not fit") {
  const test::TemporaryFolder folder;
  const std::string plan = write_plan(folder, tiny_plan());
  const test::Answer ran = validated({plan, "--device", "cpu", "--budget", "33MiB"});
  CHECK(ran.code == ExitCode::kYes);
  CHECK(ran.out.find("both say that it does not fit") != std::string::npos);
  CHECK(ran.out.find("short, as predicted") != std::string::npos);
  // Both sides answer the same question, so that the answers can be compared.
  const test::Answer json = validated({plan, "--device", "cpu", "--budget", "33MiB", "--json"});
  const test::Document document(json.out);
  CHECK(document.integer("predicted/missing_at_failure_bytes") > 0);
  CHECK(document.integer("predicted/missing_at_failure_bytes") ==
        document.integer("measured/missing_at_failure_bytes"));
  CHECK(document.integer("predicted/margin_bytes") <=
        -document.integer("predicted/missing_at_failure_bytes"));
}

TEST_CASE("validate PLAN.json: a plan file alone, or an option of the executor, has its help") {
  for (const std::vector<std::string>& rest :
       {std::vector<std::string>{"plan.json", "--help"},
        std::vector<std::string>{"plan.json", "--output", "answer.json", "--help"},
        std::vector<std::string>{"--device", "cpu", "--help"}}) {
    const test::Answer help = validated(rest);
    CHECK(help.code == ExitCode::kYes);
    CHECK(help.says("--max-batch"));
    CHECK(help.says("PLAN.json --device DEVICE"));
  }
  const test::Answer measured = validated({"measured", "rows.jsonl", "--help"});
  CHECK(measured.says("--accuracy"));
  CHECK_FALSE(measured.says("--max-batch"));
  // The executor's options mean nothing for measured runs.
  const test::Answer mixed = validated({"measured", "rows.jsonl", "--output", "answer.json"});
  CHECK(mixed.code == ExitCode::kUsage);
  CHECK(mixed.complains("--output"));
  CHECK(mixed.complains("headroom validate --help lists those of validate"));
}

TEST_CASE("validate PLAN.json: --max-batch really grows the batch") {
  const test::TemporaryFolder folder;
  const std::string plan = write_plan(folder, tiny_plan());
  const test::Answer ran = validated({plan, "--device", "cpu", "--budget", "58MiB", "--max-batch"});
  CHECK(ran.code == ExitCode::kYes);
  CHECK(ran.out.find("largest micro-batch on cpu: predicted ") == 0);
  CHECK(ran.out.find("predicted 0") == std::string::npos);
  CHECK(ran.out.find("the search ends at") == std::string::npos);
}

TEST_CASE("validate PLAN.json: what the executor does not run is a wrong use that is named") {
  const test::TemporaryFolder folder;
  ir::ParallelPlan lora = tiny_plan();
  lora.lora = ir::LoraPlan{};
  const test::Answer adapter = validated({write_plan(folder, lora), "--device", "cpu"});
  CHECK(adapter.code == ExitCode::kUsage);
  CHECK(adapter.err.find("adapter") != std::string::npos);

  ir::ParallelPlan large = tiny_plan();
  large.workload.micro_batch = 10'000;
  large.workload.sequence = 64;
  const test::Answer work = validated({write_plan(folder, large), "--device", "cpu"});
  CHECK(work.code == ExitCode::kUsage);
  CHECK(work.err.find("small plan") != std::string::npos);

  const test::Answer device = validated({write_plan(folder, tiny_plan()), "--device", "tpu"});
  CHECK(device.code == ExitCode::kUsage);
  CHECK(device.err.find("cuda:N") != std::string::npos);
}

TEST_CASE("validate PLAN.json: no file is 4, no plan is 3") {
  const test::TemporaryFolder folder;
  CHECK(validated({folder.path("none.json"), "--device", "cpu"}).code == ExitCode::kEnvironment);
  CHECK(validated({folder.write("bad.json", "{\"plan\": 7}"), "--device", "cpu"}).code ==
        ExitCode::kBadInput);
}

}  // namespace headroom::cli
