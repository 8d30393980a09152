#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/cli.h"
#include "tests/support/schema.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;

}  // namespace

TEST_CASE("compare: every combination of the varied values has the figures of fit") {
  const std::string line =
      "compare llama-3.2-1b --gpu h100 --gpus 2 --seq 512 "
      "--vary checkpointing=none,full --vary zero=1,3";
  const Answer answer = test::headroom(line + " --json");
  REQUIRE(answer.code == ExitCode::kYes);
  const Document document(answer.out);
  REQUIRE(document.array("plans").size() == 4);
  REQUIRE(document.array("differences").size() == 2);
  CHECK(document.text("differences/0/option") == "checkpointing");
  CHECK(document.text("differences/1/option") == "zero");
  CHECK(document.text("differences/1/values/2") == "1");
  CHECK(document.text("plans/2/name") == "llama-3.2-1b checkpointing=full zero=1");
  const Document fit =
      test::json_of("fit llama-3.2-1b --gpu h100 --gpus 2 --seq 512 --checkpointing full --zero 1");
  CHECK(document.text("plans/2/verdict") == fit.text("verdict"));
  CHECK(document.integer("plans/2/peak_allocated_bytes") == fit.integer("peak/allocated_bytes"));
  CHECK(document.number("plans/2/step_seconds") == fit.number("time/step_seconds"));
  const ir::JsonValue schema = test::read_schema("compare.schema.json");
  for (const std::string& fault : test::SchemaCheck::faults(schema, document.at(""))) {
    FAIL_CHECK(fault);
  }
}

TEST_CASE("compare: the table fits the terminal") {
  const Answer answer = test::headroom(
      "compare llama-3.2-1b --gpu h100 --gpus 2 --seq 512 "
      "--vary checkpointing=none,full --vary zero=0,1,2,3");
  CHECK(answer.code == ExitCode::kYes);
  std::istringstream lines(answer.out);
  std::string line;
  int blocks = 0;
  while (std::getline(lines, line)) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
    blocks += line == "what differs" ? 1 : 0;
  }
  CHECK(blocks >= 2);
}

TEST_CASE("compare: models and plan files stand side by side") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("plan.json");
  REQUIRE(test::headroom("plan gpt2 --gpu a100-80gb --gpus 2 --runtime fsdp -o " + path).code ==
          ExitCode::kYes);
  const Answer answer = test::headroom("compare " + path + " gpt2 --gpu h100");
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("(1)  " + path + "\n(2)  gpt2\n"));
  CHECK(answer.says("  runtime  "));
  CHECK_FALSE(answer.says("fsdp orig-params"));  // As usual, and the other plan has none.
}

TEST_CASE("compare: what is refused is said, and no is the answer if nothing fits") {
  const Answer answer =
      test::headroom("compare gpt2 --gpu h100 --vary zero=none,3 --vary fsdp=none,version=2");
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("(4) is refused: --zero and --fsdp belong to different frameworks"));
  CHECK(test::headroom("compare llama-3.1-70b llama-3.1-405b --gpu t4").code == ExitCode::kNo);
}

TEST_CASE("compare: wrong use is refused with what to type") {
  const Answer one = test::headroom("compare gpt2 --gpu h100");
  CHECK(one.code == ExitCode::kUsage);
  CHECK(one.complains("--vary checkpointing=none,full"));
  const Answer unknown = test::headroom("compare gpt2 --gpu h100 --vary checkpontin=none,full");
  CHECK(unknown.code == ExitCode::kUsage);
  CHECK(unknown.complains("checkpointing"));
  CHECK(test::headroom("compare gpt2 --gpu h100 --vary liger=maybe,no").code == ExitCode::kUsage);
  CHECK(test::headroom("compare gpt2 --gpu h100 --vary checkpointing").code == ExitCode::kUsage);
}

}  // namespace headroom::cli
