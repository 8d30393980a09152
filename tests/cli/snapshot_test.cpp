#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "model_ir/base/units.h"
#include "tests/support/cli.h"
#include "tests/support/schema.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;

std::string recorded(const std::string& name) {
  return test::source_file("tests/golden/snapshots/" + name + ".pickle");
}

Document json_answer(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Answer answer = test::headroom_with(arguments);
  CAPTURE(answer.err);
  REQUIRE(answer.code == ExitCode::kYes);
  return Document(answer.out);
}

}  // namespace

TEST_CASE("snapshot: the answer has the peak, its blocks, what happened and what is free") {
  const Answer answer = test::headroom_with({"snapshot", recorded("out_of_memory")});
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("417 MiB allocated"));
  CHECK(answer.says("ran out of memory"));
  CHECK(answer.says("41 entries of history, from the first allocation on"));
  CHECK(answer.says("1 x    256 MiB  activations       train.py:28 forward"));
  CHECK(answer.says("out of memory at entry 21 of 41: 256 MiB asked for"));
  CHECK(answer.says("in unused"));
}

TEST_CASE("snapshot: several files answer what grows, with bytes per step") {
  const Answer answer =
      test::headroom_with({"snapshot", recorded("leak_1"), recorded("leak_3"), recorded("leak_5")});
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("1.00 MiB  other code        train.py:78 train"));
  const Document json = json_answer({"snapshot", recorded("leak_1"), recorded("leak_5")});
  CHECK(json.integer("growth/stacks/0/bytes_per_step") == 2'097'152);
  CHECK(json.text("growth/stacks/0/line") == "train.py:78 train");
}

TEST_CASE(
    "snapshot: a predicted timeline, written as a snapshot, agrees with its plan to the byte") {
  const test::TemporaryFolder folder;
  const std::string plan = folder.path() + "/plan.json";
  const std::string timeline = folder.path() + "/timeline.pickle";
  REQUIRE(test::headroom_with({"plan", "gpt2", "--gpu", "h100", "--runtime", "transformers",
                               "--global-batch", "2", "--seq", "128", "--output", plan})
              .code == ExitCode::kYes);
  REQUIRE(
      test::headroom_with({"timeline", "--plan", plan, "--format", "pickle", "--output", timeline})
          .code == ExitCode::kYes);
  const Document json = json_answer({"snapshot", timeline, "--against", plan});
  const std::string at = "devices/0/comparison/";
  CHECK(json.integer(at + "predicted_bytes") == json.integer(at + "measured_bytes"));
  CHECK(json.array(at + "only_predicted").empty());
  CHECK(json.array(at + "only_measured").empty());
  for (const char* const use : {"parameters", "gradients", "optimizer_states", "activations",
                                "temporaries", "communication", "workspaces"}) {
    CAPTURE(use);
    CHECK(json.integer(at + "predicted_by_use/" + use) ==
          json.integer(at + "measured_by_use/" + use));
  }
}

TEST_CASE("snapshot: a run of transformers peaks where its prediction does, to the byte") {
  const test::TemporaryFolder folder;
  const Answer fit =
      test::headroom_with({"fit", test::source_file("tests/golden/snapshots/llama.json"), "--gpu",
                           "h100", "--micro-batch", "2", "--seq", "512", "--json"});
  REQUIRE(fit.code == ExitCode::kYes);
  const std::string plan = folder.write("fit.json", fit.out);
  const Document json = json_answer({"snapshot", recorded("llama"), "--against", plan});
  const std::string at = "devices/0/comparison/";
  CHECK(json.integer(at + "predicted_bytes") == json.integer(at + "measured_bytes"));
  CHECK(json.integer(at + "predicted_by_use/optimizer_states") ==
        json.integer(at + "measured_by_use/optimizer_states"));
  // Flash attention's state of random numbers alone is asked for in another size: 16 bytes, and the
  // block has 512 in both.
  CHECK(json.array(at + "only_predicted").size() == 1);
  CHECK(json.array(at + "only_measured").size() == 1);
  CHECK(json.integer(at + "only_measured/0/requested_bytes") == 16);
  CHECK(json.integer(at + "matched") == 67);
}

TEST_CASE("snapshot: blocks that the prediction lacks are named with their lines") {
  const test::TemporaryFolder folder;
  const std::string plan = folder.path() + "/plan.json";
  REQUIRE(test::headroom_with({"plan", "gpt2", "--gpu", "h100", "--runtime", "transformers",
                               "--global-batch", "2", "--seq", "128", "--output", plan})
              .code == ExitCode::kYes);
  const Answer answer =
      test::headroom_with({"snapshot", recorded("two_layers"), "--against", plan});
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("only in the snapshot"));
  CHECK(answer.says("9.00 MiB  parameters        train.py:68 train"));
}

TEST_CASE("snapshot: tables of memory_summary are read out of a log") {
  const std::string log = test::source_file("tests/golden/snapshots/memory_summary.txt");
  const Answer answer = test::headroom_with({"snapshot", log});
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("peak 1.89 GiB"));
  CHECK(answer.says("204 MiB of the peak of reserved memory"));
  CHECK(test::headroom_with({"snapshot", log, "--against", "plan.json"}).code == ExitCode::kUsage);
}

TEST_CASE("snapshot: a log of nvidia-smi has its peaks and what grows") {
  const test::TemporaryFolder folder;
  const std::string log = folder.write("use.csv",
                                       "timestamp, index, memory.used [MiB], memory.total [MiB]\n"
                                       "2026/05/01 12:00:00.000, 0, 1000 MiB, 81559 MiB\n"
                                       "2026/05/01 12:20:00.000, 0, 2000 MiB, 81559 MiB\n"
                                       "2026/05/01 12:40:00.000, 0, 3000 MiB, 81559 MiB\n"
                                       "2026/05/01 13:00:00.000, 0, 4000 MiB, 81559 MiB\n"
                                       "2026/05/01 13:00:00.000, 1, [N/A], 81559 MiB\n");
  const Answer answer = test::headroom_with({"snapshot", log});
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("GPU 0: peak 3.91 GiB of 79.6 GiB"));
  CHECK(answer.says("it grows"));
  CHECK(answer.complains("left out: 1"));
  const Document document = json_answer({"snapshot", log});
  CHECK(document.integer("use/gpus/0/peak_bytes") == 4'000 * kMiB);
  CHECK(document.number("use/gpus/0/bytes_per_hour") == doctest::Approx(3'000.0 * kMiB));
  for (const std::string& fault :
       test::SchemaCheck::faults(test::read_schema("snapshot.schema.json"), document.at(""))) {
    FAIL_CHECK(fault);
  }
  CHECK(test::headroom_with({"snapshot", log, "--against", "plan.json"}).code == ExitCode::kUsage);
}

TEST_CASE("snapshot: an export of Nsight Systems has what CUDA allocated, by process") {
  const std::string path = test::source_file("tests/golden/snapshots/nsight.sqlite");
  const Answer answer = test::headroom_with({"snapshot", path, "--json"});
  if (answer.complains("without SQLite")) {
    CHECK(answer.code == ExitCode::kEnvironment);
    return;
  }
  REQUIRE(answer.code == ExitCode::kYes);
  const Document document(answer.out);
  // 20 + 2 + 1,024 MiB, then 20 MiB less; pinned memory does not count. The last event adds 200.
  CHECK(document.integer("use/gpus/0/peak_bytes") == (2 + 1'024 + 200) * kMiB);
  CHECK(document.text("use/gpus/0/name") == "NVIDIA H100 80GB HBM3");
  CHECK(document.integer("use/gpus/0/readings") == 5);
  CHECK(document.integer("use/processes/0/process") == 4'321);
  CHECK(document.text("use/processes/0/name") == "python3");
  const test::TemporaryFolder folder;
  const std::string bytes = read_file(path).value();
  const Answer cut = test::headroom_with(
      {"snapshot", folder.write("cut.sqlite", bytes.substr(0, bytes.size() / 2))});
  CHECK(cut.code == ExitCode::kBadInput);
  CHECK(cut.complains("nsys export"));
}

TEST_CASE("snapshot: views in an export of Nsight Systems cannot make texts without end") {
  const Answer names = test::headroom_with(
      {"snapshot", test::source_file("tests/golden/snapshots/nsight_views.sqlite"), "--json"});
  if (names.complains("without SQLite")) {
    return;
  }
  REQUIRE(names.code == ExitCode::kYes);  // The names are left out.
  CHECK(names.out.size() < 100'000);
  CHECK(Document(names.out).integer("use/gpus/0/readings") == 5);
  const Answer events = test::headroom_with(
      {"snapshot", test::source_file("tests/golden/snapshots/nsight_events.sqlite")});
  CHECK(events.code == ExitCode::kBadInput);
  CHECK(events.complains("too big"));
}

TEST_CASE("snapshot: answers and rules are what their schemas say") {
  const test::TemporaryFolder folder;
  const std::string plan = folder.path() + "/plan.json";
  REQUIRE(test::headroom_with({"plan", "gpt2", "--gpu", "h100", "--runtime", "transformers",
                               "--global-batch", "2", "--seq", "128", "--output", plan})
              .code == ExitCode::kYes);
  const std::vector<std::vector<std::string>> lines = {
      {"snapshot", recorded("out_of_memory")},
      {"snapshot", recorded("leak_5")},
      {"snapshot", recorded("leak_1"), recorded("leak_5")},
      {"snapshot", recorded("two_layers"), "--against", plan},
      {"snapshot", test::source_file("tests/golden/snapshots/memory_stats.json")}};
  const ir::JsonValue schema = test::read_schema("snapshot.schema.json");
  for (const std::vector<std::string>& line : lines) {
    for (const std::string& fault : test::SchemaCheck::faults(schema, json_answer(line).at(""))) {
      FAIL_CHECK(fault);
    }
  }
  const std::string rules = read_file(test::source_file("configs/snapshot/stacks.json")).value();
  for (const std::string& fault :
       test::SchemaCheck::faults(test::read_schema("stacks.schema.json"), Document(rules).at(""))) {
    FAIL_CHECK(fault);
  }
}

TEST_CASE("snapshot: wrong files and wrong use are refused in a sentence") {
  const test::TemporaryFolder folder;
  CHECK(test::headroom("snapshot").code == ExitCode::kUsage);
  CHECK(test::headroom("snapshot ./no/such.pickle").code == ExitCode::kEnvironment);
  const std::string objects = folder.write("model.pt",
                                           "\x80\x04"
                                           "ctorch\nTensor\n.");
  const Answer refused = test::headroom_with({"snapshot", objects});
  CHECK(refused.code == ExitCode::kBadInput);
  CHECK(refused.complains("the operation GLOBAL of torch.Tensor"));
  CHECK(refused.complains("checkpoint"));
  const Answer several = test::headroom_with(
      {"snapshot", recorded("leak_1"), recorded("leak_3"), "--against", "plan.json"});
  CHECK(several.code == ExitCode::kUsage);
  const std::string log = folder.write("gpu.csv", "index, memory.used [MiB]\n0, 1024 MiB\n");
  CHECK(test::headroom_with({"snapshot", log}).code == ExitCode::kYes);
  const Answer mixed = test::headroom_with({"snapshot", recorded("leak_1"), log});
  CHECK(mixed.code == ExitCode::kUsage);
  CHECK(mixed.complains("give this file alone"));
}

TEST_CASE("snapshot: the example of the help runs") {
  const Answer help = test::headroom("snapshot --help");
  CHECK(help.code == ExitCode::kYes);
  CHECK(help.says("example: headroom snapshot dump_snapshot.pickle"));
  CHECK(test::headroom_with({"snapshot", recorded("two_layers")}).code == ExitCode::kYes);
}

}  // namespace headroom::cli
