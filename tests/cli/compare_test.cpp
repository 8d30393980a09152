#include <cstdint>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/json/json_writer.h"
#include "tests/support/cli.h"
#include "tests/support/schema.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;

/// Options about a plan that neither surely fits nor surely does not: budgets around its need.
std::vector<std::string> budgets_around(const std::string& question) {
  const Document fit = test::json_of("fit " + question);
  const std::int64_t need = fit.integer("peak/reserved_bytes") + fit.integer("outside_bytes");
  std::vector<std::string> budgets;
  for (const std::int64_t percent : {90, 98, 100, 102, 105, 110, 130}) {
    budgets.push_back(" --budget " + std::to_string(need / 100 * percent) + "B");
  }
  return budgets;
}

/// The verdict of two equal plans must be that of `fit`. Returns it.
std::string compared_verdict(const std::string& question) {
  CAPTURE(question);
  const Answer fit = test::headroom("fit " + question + " --json");
  const std::string model = question.substr(0, question.find(' '));
  const Answer compared = test::headroom("compare " + model + " " + question + " --json");
  CHECK(compared.code == fit.code);
  const Document one(fit.out);
  const Document both(compared.out);
  CHECK(both.text("plans/1/verdict") == one.text("verdict"));
  CHECK(both.number("plans/1/fits_probability") == one.number("confidence/fits_probability"));
  CHECK(ir::to_json(both.at("plans/1/host")) == ir::to_json(one.at("host")));
  CHECK(both.integer("plans/1/margin_bytes") == one.integer("margin_bytes"));
  CHECK(both.array("notes").size() == one.array("notes").size());
  return one.text("verdict") + (fit.code == ExitCode::kYes ? ", yes" : ", no");
}

}  // namespace

TEST_CASE("property: compare has the verdict, the chance and the exit code of fit") {
  std::set<std::string> verdicts;
  for (const std::string question :
       {"gpt2 --gpu a100-80gb --seq 128", "gpt2 --gpu h100 --gpus 2 --zero 2 --seq 128",
        "gpt2 --gpu h100 --gpus 2 --tp 2 --seq 128"}) {
    for (const std::string& budget : budgets_around(question)) {
      verdicts.insert(compared_verdict(question + budget));
    }
  }
  CHECK(verdicts ==
        std::set<std::string>{"does not fit, no", "fits, yes", "tight, no", "tight, yes"});
}

TEST_CASE("property: compare judges with the runs of --calibrate-from as fit does") {
  const test::TemporaryFolder folder;
  const std::string question = "gpt2 --gpu a100-80gb --seq 128";
  const std::int64_t measured =
      test::json_of("fit " + question).integer("peak/reserved_bytes") / 100 * 108;
  const std::string runs =
      folder.write("runs.json", R"({"runs": [{"model": "gpt2", "gpu": "a100-80gb", "plan": )"
                                R"({"schema_version": 1, "sequence": 128}, "peak_reserved": )" +
                                    std::to_string(measured) + "}]}");
  for (const std::string& budget : budgets_around(question)) {
    compared_verdict(question + budget + " --calibrate-from " + runs);
  }
}

TEST_CASE("compare: two plans stand side by side, what communication means below them") {
  const Answer answer = test::headroom(
      "compare llama-3.1-8b --gpu h100-80gb --gpus 8 --checkpointing full --vary zero=1,3");
  CHECK(answer.says("\nstep, ms\n"));
  CHECK(answer.says("\ncommunication: the time in which the GPU waits for it\n"));
  CHECK(std::regex_search(answer.out, std::regex("\n +\\(1\\) +\\(2\\)\n")));
}

TEST_CASE("compare: the chance to fit and the host's memory have rows") {
  const Answer answer = test::headroom(
      "compare llama-3.2-1b --gpu rtx-4090 --zero 2 --checkpointing full --vary "
      "offload=none,optimizer=cpu --vary host-memory=8GiB,64GiB");
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("\n  chance to fit  "));
  CHECK(answer.says("\n  host, of the node  "));
  CHECK(answer.says("\n    the node has  "));
  CHECK(answer.says("\n  host-memory  "));
  CHECK(answer.says("\n(3) does not fit: the host needs "));
  CHECK(answer.says(", the node has 8.00 GiB\n"));
  CHECK_FALSE(answer.says("(4) does not fit"));
}

TEST_CASE("compare: notes stand once, with the numbers of their plans") {
  const Answer answer = test::headroom(
      "compare gpt2 --gpu t4 --vary precision=bf16,fp16 --vary micro-batch=1,2 --json");
  const Document document(answer.out);
  REQUIRE_FALSE(document.array("notes").empty());
  CHECK(document.text("notes/0").starts_with("(1) (2) PyTorch emulates bf16"));
  CHECK(answer.complains("note: (1) (2) PyTorch emulates bf16"));
  const test::TemporaryFolder folder;
  const std::string path = folder.path("plan.json");
  REQUIRE(test::headroom("plan gpt2 --gpu a100-80gb --runtime fsdp --gpus 2 -o " + path).code ==
          ExitCode::kYes);
  const Answer typed = test::headroom("compare gpt2 " + path + " --gpu h100");
  CHECK(typed.complains("note: (2) " + path + " has --gpu a100-80gb, the command line --gpu h100"));
}

TEST_CASE("compare: --vary takes the other names of options and values") {
  const auto differs = [](const std::string& line) {
    CAPTURE(line);
    const Answer answer = test::headroom("compare gpt2 --gpu h100 --seq 128 " + line + " --json");
    CAPTURE(answer.err);
    REQUIRE(answer.code == ExitCode::kYes);
    std::string text;
    const Document document(answer.out);
    for (const ir::JsonValue& row : document.array("differences")) {
      text += *row.find("option")->as_string();
      for (const ir::JsonValue& value : *row.find("values")->as_array()) {
        text += " " + *value.as_string();
      }
      text += "\n";
    }
    return text;
  };
  CHECK(differs("--vary optimizer=adamw_8bit,adamw") == "optimizer adamw-8bit adamw\n");
  CHECK(differs("--vary batch-size=1,2") == "micro-batch 1 2\n");
  CHECK(differs("--batch-size 4 --vary micro-batch-size=1,2") == "micro-batch 1 2\n");
  CHECK(differs("--micro-batch 4 --vary per-device-train-batch-size=1,2") == "micro-batch 1 2\n");
  CHECK(differs("--vary gradient-checkpointing=yes,no") == "checkpointing full none\n");
  CHECK(differs("--gpus 2 --vary tp=1,2") == "megatron tp 1 2\n");
  CHECK(differs("--gpus 2 --megatron tp=2 --vary tp=1,2") == "megatron tp 1 2\n");
  CHECK(differs("--gpus 2 --megatron sequence-parallel,tp=2 --vary "
                "tensor-model-parallel-size=1,2") == "megatron tp 1 2\n");
  CHECK(differs("--gpus 2 --tp 2 --vary tp=1,2") == "megatron tp 1 2\n");
  CHECK(differs("--vary precision=bf16,bfloat16,fp16,float16") == "precision bf16 fp16\n");
  CHECK(test::headroom("compare gpt2 --gpu h100 --vary precision=bf16,bfloat16")
            .complains("from 2 to 64 plans to compare"));
  const Answer wrong = test::headroom("compare gpt2 --gpu h100 --vary batch-size=0,-1");
  CHECK(wrong.complains("--batch-size"));
}

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
  for (const char* more : {"- gpt2 --vary zero=1,2", "- --vary zero=1,2", "- -"}) {
    const Answer input = test::headroom(std::string("compare --gpu h100 ") + more);
    CHECK(input.code == ExitCode::kUsage);
    CHECK(input.complains("-, for 2 of the plans"));
    CHECK(input.complains("write the configuration into a file"));
  }
}

}  // namespace headroom::cli
