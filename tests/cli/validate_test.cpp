#include "cli/commands/verbs.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/app.h"
#include "model_ir/json/json_value.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

struct Ran {
  ExitCode code;
  std::string out;
  std::string err;
};

Ran run_validate(const std::vector<std::string>& rest) {
  std::vector<std::string> arguments{"validate"};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  std::ostringstream out;
  std::ostringstream err;
  const ExitCode code = run(arguments, out, err);
  return {code, out.str(), err.str()};
}

/// A tiny Llama whose measured figures are far from any prediction, and a row of a runtime that is
/// not modelled.
constexpr const char* kRows =
    R"({"id": "tiny", "framework": "transformers", "case": {"config": {"model_type": "llama",)"
    R"( "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,)"
    R"( "num_attention_heads": 4, "vocab_size": 256}, "param_dtype": "bf16", "seq": 8},)"
    R"( "phases": [{"phase": "load", "allocated_after": 1, "peak_allocated": 1}]})"
    "\n"
    R"({"id": "far", "framework": "torchtitan", "case": {"tp": 2}, "phases": []})"
    "\n";

}  // namespace

TEST_CASE("validate measured: errors of any size are exit code 0, the table names the worst") {
  const test::TemporaryFolder folder;
  const Ran ran = run_validate({"measured", folder.write("rows.jsonl", kRows)});
  CHECK(ran.code == ExitCode::kYes);
  CHECK(ran.err.empty());
  CHECK(ran.out.find("peak_allocated") != std::string::npos);
  CHECK(ran.out.find("tiny  load") != std::string::npos);
  CHECK(ran.out.find("case.config: absent") != std::string::npos);
}

TEST_CASE("validate measured: --json is one document, filters cut it") {
  const test::TemporaryFolder folder;
  const std::string rows = folder.write("rows.jsonl", kRows);
  const Ran all = run_validate({"measured", rows, "--json"});
  const auto document = ir::parse_json(all.out, "out");
  REQUIRE(document);
  CHECK(document->find("schema_version")->as_integer() == 1);
  CHECK(document->find("scores")->as_array()->size() == 3);  // fits and two of "load".
  CHECK(document->find("skipped")->as_array()->size() == 1);
  const auto fits = ir::parse_json(
      run_validate({"measured", rows, "--json", "--metric", "fits", "--runtime", "transformers"})
          .out,
      "out");
  REQUIRE(fits);
  CHECK(fits->find("scores")->as_array()->size() == 1);
  CHECK(fits->find("skipped")->as_array()->empty());
  const auto other = ir::parse_json(
      run_validate({"measured", rows, "--json", "--runtime", "deepspeed"}).out, "out");
  REQUIRE(other);
  CHECK(other->find("scores")->as_array()->empty());
}

TEST_CASE("validate measured: what cannot be understood is 3, what cannot be read 4") {
  const test::TemporaryFolder folder;
  const std::string bad = folder.write("bad.jsonl", std::string(kRows) + "{\"id\": \n");
  const Ran broken = run_validate({"measured", bad});
  CHECK(broken.code == ExitCode::kBadInput);
  CHECK(broken.out.empty());
  CHECK(broken.err.find("bad.jsonl: line 3") != std::string::npos);
  const Ran missing = run_validate({"measured", folder.path("none.jsonl"), "--json"});
  CHECK(missing.code == ExitCode::kEnvironment);
  CHECK(ir::parse_json(missing.out, "out"));
  CHECK(missing.err.find("none.jsonl") != std::string::npos);
}

TEST_CASE("validate: the subject, the paths and the metric are checked first") {
  CHECK(run_validate({}).code == ExitCode::kUsage);
  CHECK(run_validate({"guesses", "x"}).code == ExitCode::kUsage);
  CHECK(run_validate({"measured"}).code == ExitCode::kUsage);
  const Ran metric = run_validate({"measured", "x", "--metric", "peak"});
  CHECK(metric.code == ExitCode::kUsage);
  CHECK(metric.err.find("--metric") != std::string::npos);
}

TEST_CASE("validate measured: a source that no file has is named, with those that are there") {
  const test::TemporaryFolder folder;
  const std::string rows = folder.write("rows.jsonl", kRows);
  const Ran ran = run_validate({"measured", rows, "--source", "row"});
  CHECK(ran.code == ExitCode::kUsage);
  CHECK(ran.err.find("--source") != std::string::npos);
  CHECK(ran.err.find("did you mean rows?") != std::string::npos);
  CHECK(run_validate({"measured", rows, "--source", "rows"}).code == ExitCode::kYes);
}

TEST_CASE("validate measured: --accuracy writes the report beside the answer") {
  const test::TemporaryFolder folder;
  const std::string file = folder.path("accuracy.md");
  const Ran ran = run_validate({"measured", folder.write("rows.jsonl", kRows), "--accuracy", file});
  CHECK(ran.code == ExitCode::kYes);
  std::ifstream in(file);
  std::string first;
  std::getline(in, first);
  CHECK(first == "# Accuracy");
  const Ran partial = run_validate({"measured", "x", "--accuracy", file, "--metric", "fits"});
  CHECK(partial.code == ExitCode::kUsage);
}

}  // namespace headroom::cli
