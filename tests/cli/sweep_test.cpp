#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "model_ir/json/json_writer.h"
#include "tests/support/cli.h"
#include "tests/support/temporary_folder.h"

namespace headroom {
namespace {

constexpr const char* kSweep =
    "sweep gpt2 llama-3.2-1b --gpu a100-80gb --gpus 1,2 --runtime megatron --tp 1 --micro-batch 1";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  return text;
}

std::string sweep_into(const std::string& path, const std::string& more = "") {
  const test::Answer answer = test::headroom(std::string(kSweep) + more + " --output " + path);
  REQUIRE(answer.code == cli::ExitCode::kYes);
  CHECK(answer.out.empty());
  return read_file(path).value();
}

}  // namespace

TEST_CASE("sweep: a rerun adds what is missing, in the order of the items") {
  const test::TemporaryFolder folder;
  for (const std::string form : {"jsonl", "csv"}) {
    CAPTURE(form);
    const std::string option = " --format " + form;
    const std::string whole = test::headroom(kSweep + option).out;
    std::vector<std::string> lines = lines_of(whole);
    const std::size_t first = form == "csv" ? 1 : 0;
    REQUIRE(lines.size() == first + 4);
    CHECK(sweep_into(folder.path("new." + form), option) == whole);

    // Killed: the first process within its second line, another after its only one.
    const std::string path = folder.write(
        "killed." + form,
        joined({lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(first) + 1}) +
            lines[first + 2].substr(0, lines[first + 2].size() - 1));
    folder.write("killed." + form + ".rank1", lines[first + 1] + "\n");
    CHECK(sweep_into(path, option) == whole);
    CHECK(!std::filesystem::exists(path + ".rank1"));
  }
}

TEST_CASE("sweep: --json prints one document, of the answers or of the file that has them") {
  const test::TemporaryFolder folder;
  const std::vector<std::string> lines = lines_of(test::headroom(kSweep).out);
  const test::Document all(test::headroom(std::string(kSweep) + " --json").out);
  REQUIRE(all.array("answers").size() == lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    CHECK(ir::to_json(all.array("answers")[i]) == ir::to_json(test::Document(lines[i]).at("")));
  }
  CHECK(all.array("notes").empty());
  const std::string path = folder.path("sweep.csv");
  const std::string csv = std::string(kSweep) + " --json --format csv";
  const test::Document file(test::headroom(csv + " --output " + path).out);
  CHECK(file.text("output") == path);
  CHECK(file.integer("items") == 4);
  CHECK(lines_of(read_file(path).value()).size() == 5);
  const test::Answer refused = test::headroom(csv);
  CHECK(refused.code == cli::ExitCode::kUsage);
  CHECK(test::Document(refused.out).text("error/message").find("--output") != std::string::npos);
}

TEST_CASE("sweep: what the file has already is not done again") {
  const test::TemporaryFolder folder;
  const std::string mark =
      R"({"model":"gpt2","gpu":"a100-80gb","gpus":"2","options":"--runtime megatron --tp 1 )"
      R"(--micro-batch 1","status":"from elsewhere"})";
  // The same with other options is another question.
  const std::string other =
      R"({"model":"gpt2","gpu":"a100-80gb","gpus":"1","options":"--tp 2","status":"kept"})";
  const std::string path = folder.write("old.jsonl", mark + "\n" + other + "\n");
  const std::vector<std::string> lines = lines_of(sweep_into(path));
  REQUIRE(lines.size() == 5);
  CHECK(lines[0] == other);
  CHECK(lines[2] == mark);
}

TEST_CASE("sweep: every item is read before the first is worked on") {
  const test::TemporaryFolder folder;
  const test::Answer answer = test::headroom("sweep gpt2 no-such-model --gpu a100-80gb --output " +
                                             folder.path("none.jsonl"));
  CHECK(answer.code != cli::ExitCode::kYes);
  CHECK(answer.complains("no-such-model"));
  CHECK(!std::filesystem::exists(folder.path("none.jsonl")));
  CHECK(test::headroom("sweep gpt2 --gpu a100-80gb --format xml").complains("jsonl or csv"));
}

}  // namespace headroom
