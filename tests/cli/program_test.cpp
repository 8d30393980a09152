// Recorded programs of real dry runs (tests/golden/programs), replayed for the recording's GPU, for
// others, and with other settings.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "tests/support/cli.h"
#include "tests/support/schema.h"
#include "tests/support/temporary_folder.h"
#include "validators/measured/file_bytes.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;

std::string program_file(const std::string& name) {
  return test::source_file("tests/golden/programs/" + name + ".program.gz");
}

Answer fit_program(const std::string& name, const std::string& options = {}) {
  std::vector<std::string> line = {"fit", "--program", program_file(name)};
  for (std::string& word : test::words(options)) {
    line.push_back(std::move(word));
  }
  return test::headroom_with(line);
}

}  // namespace

TEST_CASE("program: a recording is replayed to the byte on its own GPU and settings") {
  for (const char* const name :
       {"blocks", "emptied", "streams", "tight", "wide", "expandable", "split"}) {
    CAPTURE(name);
    const Answer answer = fit_program(name, "--json");
    CHECK(answer.code == ExitCode::kYes);
    CHECK(Document(answer.out).at("recording/replayed_to_the_byte").as_bool() == true);
    const ir::JsonValue schema = test::read_schema("program_answer.schema.json");
    for (const std::string& fault :
         test::SchemaCheck::faults(schema, Document(answer.out).at(""))) {
      FAIL_CHECK(fault);
    }
  }
}

TEST_CASE("program: what another setting reserves is what a dry run with it reserved") {
  const Document replayed(
      fit_program("blocks", "--json --alloc-conf expandable_segments:True").out);
  const Document recorded(fit_program("expandable", "--json").out);
  CHECK(replayed.integer("peak_reserved_bytes") == recorded.integer("peak_reserved_bytes"));
  CHECK(replayed.at("recording/replayed_to_the_byte").is_null());
  const Document split(fit_program("blocks", "--json --alloc-conf max_split_size_mb:21").out);
  CHECK(split.integer("peak_reserved_bytes") ==
        Document(fit_program("split", "--json").out).integer("peak_reserved_bytes"));
}

TEST_CASE("program: a budget in which PyTorch empties its cache is replayed as the dry run went") {
  const Document replayed(fit_program("wide", "--json --budget 2400MiB").out);
  const Document recorded(fit_program("tight", "--json").out);
  CHECK(replayed.integer("retries") == 2);
  CHECK(recorded.integer("retries") == 2);
  CHECK(replayed.integer("peak_reserved_bytes") == recorded.integer("peak_reserved_bytes"));
  CHECK(replayed.text("verdict") == "tight");
  // Expandable segments keep the cache in one piece.
  CHECK(replayed.text("settings/0/alloc_conf") == "expandable_segments:True");
  CHECK(replayed.text("settings/0/verdict") == "fits");
}

TEST_CASE("program: a budget below what a process takes without tensors is an answer") {
  const Answer answer = fit_program("blocks", "--budget 100MiB");
  CHECK(answer.code == ExitCode::kNo);
  CHECK(answer.says("does not fit"));
  CHECK(answer.err.empty());
}

TEST_CASE("program: too small a budget names the phase, the line and the settings that help") {
  const Answer answer = fit_program("blocks", "--budget 1050MiB");
  CHECK(answer.code == ExitCode::kNo);
  CHECK(answer.says("does not fit"));
  CHECK(answer.says("out of memory in "));
  CHECK(answer.says("train.py:"));
  CHECK(answer.says("smallest other GPUs"));
}

TEST_CASE("program: another GPU is judged, with a note about where it was recorded") {
  const Answer answer = fit_program("blocks", "--gpu a100-40gb --json");
  CHECK(answer.code == ExitCode::kYes);
  CHECK(Document(answer.out).text("device/name") == "a100-40gb");
  CHECK(answer.complains("the program was recorded on h100-80gb (132 multiprocessors)"));
  CHECK(Document(answer.out).text("next").find("--gpu a100-40gb") != std::string::npos);
}

TEST_CASE("program: the timeline in each format") {
  const std::string file = program_file("streams");
  const Answer csv = test::headroom_with({"timeline", "--program", file});
  CHECK(csv.code == ExitCode::kYes);
  CHECK(csv.out.starts_with("event,phase,step,kind,"));
  CHECK(csv.says("train.py:"));
  const Answer chrome = test::headroom_with({"timeline", "--program", file, "--format", "chrome"});
  CHECK(ir::parse_json(chrome.out, "chrome").has_value());
  const test::TemporaryFolder folder;
  const std::string pickle = folder.path("p.pickle");
  CHECK(
      test::headroom_with({"timeline", "--program", file, "--format", "pickle", "--output", pickle})
          .code == ExitCode::kYes);
  CHECK(test::headroom_with({"snapshot", pickle}).code == ExitCode::kYes);
}

TEST_CASE("program: wrong use and damaged files have one clear error") {
  CHECK(test::headroom_with({"fit", "gpt2", "--program", program_file("blocks")}).code ==
        ExitCode::kUsage);
  CHECK(fit_program("blocks", "--gpu mi300x").code == ExitCode::kUsage);
  CHECK(fit_program("blocks", "--alloc-conf nothing:1").code == ExitCode::kUsage);
  const Answer option = fit_program("blocks", "--checkpointing full");
  CHECK(option.code == ExitCode::kUsage);
  CHECK(option.complains("--checkpointing does not go together with --program"));
  CHECK(fit_program("missing").code == ExitCode::kEnvironment);
  const test::TemporaryFolder folder;
  const std::string whole = read_file(program_file("blocks")).value();
  const Answer cut = test::headroom_with(
      {"fit", "--program", folder.write("cut.gz", whole.substr(0, whole.size() / 2))});
  CHECK(cut.code == ExitCode::kBadInput);
  CHECK(cut.complains("the end of the file inside gzip data"));
  const Answer other =
      test::headroom_with({"fit", "--program", folder.write("plan.json", R"({"plan": {}})")});
  CHECK(other.code == ExitCode::kBadInput);
  CHECK(other.complains("headroom_program"));
  CHECK(other.out.empty());
}

}  // namespace headroom::cli
