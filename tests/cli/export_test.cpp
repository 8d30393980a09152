#include <algorithm>
#include <fstream>
#include <iterator>

#include <doctest/doctest.h>

#include "tests/support/cli.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("timeline: CSV has a line for each event and agrees with fit's peak") {
  const Answer answer = test::headroom("timeline gpt2 --gpu h100 --seq 128");
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.out.substr(0, 12) == "event,phase,");
  std::istringstream lines(answer.out);
  std::string line;
  std::getline(lines, line);
  std::int64_t peak = 0;
  while (std::getline(lines, line)) {
    const std::size_t last = line.rfind(',');
    const std::size_t before = line.rfind(',', last - 1);
    peak = std::max(peak, std::int64_t{std::stoll(line.substr(before + 1, last - before - 1))});
  }
  CHECK(peak == test::json_of("fit gpt2 --gpu h100 --seq 128").integer("peak/allocated_bytes"));
}

TEST_CASE("timeline: a Chrome trace is one JSON document, a pickle starts like one") {
  const Document trace(test::headroom("timeline gpt2 --gpu h100 --seq 64 --format chrome").out);
  CHECK(trace.array("traceEvents").size() > 100);
  const std::string pickle =
      test::headroom("timeline gpt2 --gpu h100 --seq 64 --format pickle").out;
  CHECK(pickle.substr(0, 2) == "\x80\x02");  // Protocol 2.
  CHECK(pickle.back() == '.');
}

TEST_CASE("timeline: a Chrome trace has a row for every stream and every stage") {
  const Document trace(
      test::headroom("timeline llama-3.2-1b --gpu h100 --gpus 2 --megatron pp=2 --accumulation 3 "
                     "--seq 64 --format chrome")
          .out);
  std::vector<std::string> rows;
  std::size_t forwards = 0;
  for (const ir::JsonValue& event : trace.array("traceEvents")) {
    const std::string* name = event.find("name")->as_string();
    const std::int64_t process = event.find("pid")->as_integer().value_or(0);
    if (*name == "thread_name" && process > 1) {
      rows.push_back(*event.find("args")->find("name")->as_string());
    }
    if (process == 3 && name->starts_with("forward ")) {
      ++forwards;
    }
  }
  for (const char* const row : {"compute", "stage 0", "stage 1"}) {
    CAPTURE(row);
    CHECK(std::count(rows.begin(), rows.end(), row) == 1);
  }
  CHECK(forwards == 2 * 3);  // Every micro-batch on both stages.
}

TEST_CASE("timeline: --output writes the whole file, and --json tells about it") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("t.csv");
  const Answer answer = test::headroom_with(
      {"timeline", "gpt2", "--gpu", "h100", "--seq", "64", "--output", path, "--json"});
  CHECK(answer.code == ExitCode::kYes);
  const Document summary(answer.out);
  CHECK(summary.text("format") == "csv");
  CHECK(summary.integer("bytes") == static_cast<std::int64_t>(content_of(path).size()));
  CHECK(content_of(path) == test::headroom("timeline gpt2 --gpu h100 --seq 64").out);
}

TEST_CASE("timeline: a folder that is not there leaves nothing behind") {
  const test::TemporaryFolder folder;
  const Answer answer = test::headroom_with({"timeline", "gpt2", "--gpu", "h100", "--seq", "64",
                                             "--output", folder.path("no/such/t.csv")});
  CHECK(answer.code == ExitCode::kEnvironment);
  CHECK(answer.out.empty());
}

TEST_CASE("timeline: a run out of memory ends there unless it may go on") {
  const Answer ends = test::headroom("timeline llama-3.1-8b --gpu rtx-4090 --seq 64");
  CHECK(ends.complains("--no-limit"));
  CHECK(ends.says("out_of_memory"));
  const Answer whole = test::headroom("timeline llama-3.1-8b --gpu rtx-4090 --seq 64 --no-limit");
  CHECK(whole.out.size() > ends.out.size());
  CHECK_FALSE(whole.says("out_of_memory"));
}

TEST_CASE("timeline: what is no JSON goes to standard output only without --json") {
  CHECK(test::headroom("timeline gpt2 --gpu h100 --seq 64 --json").code == ExitCode::kUsage);
  CHECK(test::headroom("timeline gpt2 --gpu h100 --format svg").code == ExitCode::kUsage);
}

TEST_CASE("graph: Graphviz text of one layer, of each kind, or of all") {
  const Answer one = test::headroom("graph gpt2 --layer 0 --seq 16");
  CHECK(one.code == ExitCode::kYes);
  CHECK(one.out.substr(0, 7) == "digraph");
  CHECK(one.says("attention"));
  const Answer all = test::headroom("graph gpt2 --all-layers --seq 16");
  CHECK(all.out.size() > 5 * one.out.size());
  CHECK(test::headroom("graph gpt2 --layer 12").code == ExitCode::kUsage);
  CHECK(test::headroom("graph gpt2 --seq 1025").code == ExitCode::kUsage);
}

TEST_CASE("emit deepspeed: the configuration reads back through fit") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("ds.json");
  const std::string options =
      "llama-3.2-1b --gpus 4 --zero 3 --micro-batch 2 --accumulation 3 --clip-norm 0.5";
  CHECK(test::headroom("emit deepspeed " + options + " --output " + path).code == ExitCode::kYes);
  const Document direct = test::json_of("fit " + options + " --gpu a100-80gb");
  const Document back =
      test::json_of("fit llama-3.2-1b --gpus 4 --gpu a100-80gb --deepspeed " + path);
  CHECK(ir::to_json(back.at("phases")) == ir::to_json(direct.at("phases")));
  CHECK(back.integer("plan/accumulation") == 3);
}

TEST_CASE(
    "emit deepspeed: a note names what the file does not hold, and with it the plan is whole") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("ds.json");
  const std::string model = "llama-3.2-1b --gpus 4 ";
  const std::string rest =
      "--seq 1024 --checkpointing every-3 --alloc-conf expandable_segments:True";
  const Answer written =
      test::headroom("emit deepspeed " + model + "--zero 2 " + rest + " --output " + path);
  REQUIRE(written.code == ExitCode::kYes);
  for (const char* option :
       {"--seq 1024", "--checkpointing every-3", "expandable_segments:True", "--deepspeed FILE"}) {
    CAPTURE(option);
    CHECK(written.err.find(option) != std::string::npos);
  }
  for (const char* option : {"--optimizer adamw-8bit", "--attention eager", "--loss chunked",
                             "--liger", "--lora r=8", "--qlora r=8", "--evaluation", "--resume",
                             "--steps 3", "--keep-logits", "--decay-groups"}) {
    CAPTURE(option);
    const std::string line = "emit deepspeed " + model + "--zero 2 " + option;
    const Answer one = test::headroom(line + " --output " + path);
    REQUIRE(one.code == ExitCode::kYes);
    const std::string words(option);
    CHECK(one.err.find(words.substr(0, words.find(' '))) != std::string::npos);
  }
  REQUIRE(
      test::headroom("emit deepspeed " + model + "--zero 2 " + rest + " --output " + path).code ==
      ExitCode::kYes);
  const std::string gpu = " --gpu a100-80gb";
  const Document direct = test::json_of("fit " + model + "--zero 2 " + rest + gpu);
  const Document back = test::json_of("fit " + model + "--deepspeed " + path + " " + rest + gpu);
  CHECK(ir::to_json(back.at("phases")) == ir::to_json(direct.at("phases")));
}

TEST_CASE("emit: only deepspeed, and only plans of deepspeed") {
  CHECK(test::headroom("emit megatron gpt2").code == ExitCode::kUsage);
  CHECK(test::headroom("emit").code == ExitCode::kUsage);
  const Answer answer = test::headroom("emit deepspeed gpt2");
  CHECK(answer.code == ExitCode::kUsage);
  CHECK(answer.complains("--zero"));
}

TEST_CASE("catalog: lists, filters, and says which catalogue it is") {
  const Answer gpus = test::headroom("catalog gpus --filter h100");
  CHECK(gpus.code == ExitCode::kYes);
  CHECK(gpus.says("h100-80gb"));
  CHECK_FALSE(gpus.says("a100"));
  CHECK(gpus.says("gpus from "));
  const Document models = test::json_of("catalog models");
  CHECK(models.array("models").size() >= 60);
  const Document families = test::json_of("catalog families");
  CHECK(families.array("families").size() >= 40);
  const Answer smollm = test::headroom("catalog families --filter smollm3");
  CHECK(smollm.says("recorded code  transformers, fsdp, deepspeed"));
  CHECK(smollm.says("1 families from "));
  CHECK(test::headroom("catalog families --filter distilbert --json").says("token-classification"));
  CHECK(test::json_of("catalog gpus").array("gpus").size() >= 35);
  CHECK_FALSE(test::json_of("catalog nodes").array("nodes").empty());
  CHECK_FALSE(test::json_of("catalog links").array("links").empty());
  CHECK(test::headroom("catalog cpus").code == ExitCode::kUsage);
  CHECK(test::headroom("catalog").code == ExitCode::kUsage);
  CHECK(test::headroom("catalog models gpt2").code == ExitCode::kUsage);
}

TEST_CASE("catalog: a filter that nothing holds is an empty list, not a fault") {
  const Answer answer = test::headroom("catalog models --filter zzzz");
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("0 models"));
}

}  // namespace headroom::cli
