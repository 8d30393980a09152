#include <unistd.h>

#include <array>
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

/// Standard input with this text, until it goes out of scope.
class StandardInput {
 public:
  explicit StandardInput(const std::string& text) : before_(::dup(STDIN_FILENO)) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    REQUIRE(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    ::close(ends[1]);
    ::dup2(ends[0], STDIN_FILENO);
    ::close(ends[0]);
  }
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;
  ~StandardInput() {
    ::dup2(before_, STDIN_FILENO);
    ::close(before_);
  }

 private:
  int before_;
};

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

TEST_CASE("sweep: a table has a line of figures and the plan, or why no plan fits") {
  const std::string sweep =
      "sweep gpt2 llama-3.1-70b --gpu t4 --gpus 1 --runtime megatron --tp 1 --micro-batch 1";
  const test::Answer table = test::headroom(sweep + " --format table");
  CHECK(table.code == cli::ExitCode::kYes);
  const std::vector<std::string> lines = lines_of(table.out);
  REQUIRE(lines.size() >= 5);
  CHECK(lines[0].starts_with("model          gpu  gpus  answer"));
  CHECK(lines[1].starts_with("gpt2           t4      1  fits"));
  CHECK(lines[2].starts_with("  "));
  CHECK(table.says("\nllama-3.1-70b  t4      1  infeasible\n  the "));
  for (const std::string& line : lines) {
    CHECK(line.size() <= 80);
  }
  // Piped output stays as it was.
  CHECK(test::headroom(sweep).out == test::headroom(sweep + " --format jsonl").out);
  CHECK(test::headroom(sweep).out.starts_with("{"));
  CHECK(test::headroom(sweep + " --format table --json").complains("does not go with --json"));
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

TEST_CASE("sweep: answers say of the verdict, the chance and the host what fit says") {
  for (const std::string& line : lines_of(test::headroom(kSweep).out)) {
    CAPTURE(line);
    const test::Document answer(line);
    const test::TemporaryFolder folder;
    const test::Document fit = test::json_of("fit --plan " + folder.write("answer.json", line));
    CHECK(answer.text("verdict") == fit.text("verdict"));
    CHECK(answer.number("fits_probability") ==
          doctest::Approx(fit.number("confidence/fits_probability")));
    CHECK(answer.integer("host_bytes") == fit.integer("host/bytes"));
    CHECK(answer.integer("host_short_bytes") == 0);
    CHECK(answer.at("yes").as_bool() == true);
    CHECK(answer.text("command").starts_with("headroom fit "));
    CHECK(answer.integer("peak_allocated_bytes") == fit.integer("peak/allocated_bytes"));
  }
  const std::vector<std::string> csv =
      lines_of(test::headroom(std::string(kSweep) + " --format csv").out);
  CHECK(csv[0].ends_with("error,verdict,yes,fits_probability,host_bytes,host_short_bytes,command"));
  CHECK(csv[1].find(",true,") != std::string::npos);
}

TEST_CASE("sweep: its file is a plan file, of which the command line says which answer is meant") {
  const test::TemporaryFolder folder;
  const std::string lines = test::headroom(kSweep).out;
  for (const std::string& path :
       {folder.write("sweep.jsonl", lines),
        folder.write("sweep.json", test::headroom(std::string(kSweep) + " --json").out)}) {
    CAPTURE(path);
    const test::Answer several = test::headroom("fit --plan " + path);
    CHECK(several.code == cli::ExitCode::kUsage);
    CHECK(several.complains("4 plans, several of a sweep"));
    CHECK(several.complains("gpt2 --gpu a100-80gb --gpus 2"));
    const test::Document one =
        test::json_of("fit llama-3.2-1b --gpu a100-80gb --gpus 2 --plan " + path);
    CHECK(one.text("model/name") == "llama-3.2-1b");
    CHECK(one.integer("plan/gpus") == 2);
    CHECK(one.text("plan/runtime") == "megatron");
    CHECK(test::headroom("fit llama-3.2-1b --gpus 4 --plan " + path)
              .complains("none of what was typed"));
  }
  const std::string first = lines.substr(0, lines.find('\n') + 1);
  CHECK(test::json_of("fit --plan " + folder.write("one.jsonl", first)).text("model/name") ==
        "gpt2");
  const std::string none =
      R"({"model":"gpt2","gpu":"t4","gpus":"1","options":"","status":"infeasible"})"
      "\n";
  CHECK(test::headroom("fit --plan " + folder.write("none.jsonl", none + none))
            .complains("without any plan"));
}

TEST_CASE("sweep: a plan is read from its file under each name of the GPU, with the file's node") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("sweep.jsonl");
  REQUIRE(test::headroom("sweep gpt2 --gpu h100 --gpus 1,2 --runtime transformers --micro-batch 1 "
                         "--node gcp-a3-highgpu-8g --output " +
                         path)
              .code == cli::ExitCode::kYes);
  for (const std::string gpu : {"h100", "h100-80gb", "H100_80GB"}) {
    const std::string line = "fit gpt2 --plan " + path + " --gpus 2 --gpu " + gpu;
    CAPTURE(line);
    CHECK(test::json_of(line).text("time/node") == "gcp-a3-highgpu-8g");
    CHECK_FALSE(test::headroom(line).complains("has --gpu"));
  }
}

TEST_CASE("sweep: of two names of one GPU, the typed one says which answer is meant") {
  const test::TemporaryFolder folder;
  const std::string path = folder.write(
      "sweep.jsonl", test::headroom("sweep gpt2 --gpu h100,h100-80gb --runtime transformers "
                                    "--micro-batch 1")
                         .out);
  for (const std::string gpu : {"h100", "h100-80gb"}) {
    CHECK(test::headroom("fit gpt2 --gpu " + gpu + " --plan " + path).code == cli::ExitCode::kYes);
  }
  CHECK(test::headroom("fit gpt2 --plan " + path).complains("2 plans, several of a sweep"));
}

TEST_CASE("sweep: its file is a plan file with lines that were cut, and with any model's name") {
  const test::TemporaryFolder folder;
  const std::vector<std::string> lines = lines_of(test::headroom(kSweep).out);
  REQUIRE(lines.size() == 4);
  const std::string cut = lines[1].substr(0, lines[1].size() / 2);
  const std::string question = "fit gpt2 --gpu a100-80gb --gpus 2 --plan ";
  const std::vector<std::vector<std::string>> files = {
      {lines[0], cut, lines[1], lines[2]}, {cut, lines[0], lines[1]}, {lines[0], lines[1], cut}};
  for (const std::vector<std::string>& file : files) {
    const std::string path = folder.write("cut.jsonl", joined(file));
    CHECK(test::json_of(question + path).integer("plan/gpus") == 2);
  }
  const std::string only_cut = folder.write("only.jsonl", cut + "\n" + cut + "\n");
  CHECK(test::headroom(question + only_cut).code == cli::ExitCode::kBadInput);
  std::string answers = lines[1];
  answers.replace(0, answers.find(','), R"({"model":"answers")");
  const std::string named = folder.write("named.jsonl", joined({lines[0], answers}));
  CHECK(test::json_of("fit --gpus 2 --plan " + named).integer("plan/gpus") == 2);
}

TEST_CASE("sweep: --json prints the error alone where an answer cannot be found") {
  // Standard input is empty when the search itself reads it, after the check of all items.
  const StandardInput input(R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, )"
                            R"("vocab_size": 50257, "n_positions": 1024})");
  const test::Answer answer =
      test::headroom("sweep /dev/stdin --gpu a100-80gb --runtime transformers --json");
  CHECK(answer.code == cli::ExitCode::kEnvironment);
  CHECK(test::Document(answer.out).text("error/message").find("/dev/stdin") != std::string::npos);
}

TEST_CASE("sweep: a model on standard input is read once for all combinations") {
  const std::string config =
      R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, )"
      R"("vocab_size": 50257, "n_positions": 1024})";
  const test::TemporaryFolder folder;
  const std::string options = " --gpu a100-80gb,t4 --gpus 1,2 --runtime transformers --seq 128";
  const std::vector<std::string> filed =
      lines_of(test::headroom("sweep " + folder.write("config.json", config) + options).out);
  const StandardInput input(config);
  const test::Answer answer = test::headroom("sweep -" + options);
  REQUIRE(answer.code == cli::ExitCode::kYes);
  const std::vector<std::string> lines = lines_of(answer.out);
  REQUIRE(lines.size() == 4);
  REQUIRE(filed.size() == 4);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const test::Document one(lines[i]);
    const test::Document other(filed[i]);
    CHECK(one.text("model") == "-");
    CHECK(one.text("status") == other.text("status"));
    CHECK(one.number("step_seconds") == other.number("step_seconds"));
    CHECK(one.integer("peak_allocated_bytes") == other.integer("peak_allocated_bytes"));
  }
}

TEST_CASE("sweep: a model on standard input has no name by which a file of answers could know it") {
  const test::TemporaryFolder folder;
  const test::Answer answer =
      test::headroom("sweep - --gpu a100-80gb --output " + folder.path("answers.jsonl"));
  CHECK(answer.code == cli::ExitCode::kUsage);
  CHECK(answer.complains("got -, with --output FILE"));
  CHECK(answer.complains("write the configuration into a file and name that file"));
  CHECK(!std::filesystem::exists(folder.path("answers.jsonl")));
}

TEST_CASE("sweep: a plan on standard input serves all combinations") {
  const test::Answer found =
      test::headroom("plan gpt2 --gpu a100-80gb --runtime transformers --seq 128 --json");
  REQUIRE(found.code == cli::ExitCode::kYes);
  const StandardInput input(found.out);
  const test::Answer answer = test::headroom("sweep --plan - --gpu a100-80gb,t4 --gpus 1,2");
  CHECK(answer.code == cli::ExitCode::kYes);
  CHECK(lines_of(answer.out).size() == 4);
}

TEST_CASE("sweep: values that are the same in another spelling are one value") {
  const std::string options = " --gpus 1 --runtime transformers --micro-batch 1 --precision ";
  const test::Answer one = test::headroom("sweep gpt2 --gpu a100-80gb" + options + "bf16");
  const test::Answer all = test::headroom("sweep gpt2 --gpu a100-80gb" + options + "bf16,bfloat16");
  CHECK(lines_of(all.out) == lines_of(one.out));
  const test::TemporaryFolder folder;
  const std::string path = folder.path("plan.json");
  REQUIRE(test::headroom("plan gpt2 --gpu a100-80gb --runtime transformers --micro-batch 1 "
                         "--precision bf16,fp16 -o " +
                         path)
              .code == cli::ExitCode::kYes);
  const test::Answer same = test::headroom(
      "sweep --plan " + path + " --gpu a100,a100-80gb --precision float16,bfloat16,fp16");
  CHECK(same.err.find("the command line") == std::string::npos);
  CHECK(test::headroom("sweep --plan " + path + " --gpu a100-80gb,t4 --precision bfloat16")
            .complains("has --precision bf16,fp16, the command line --precision bf16, which"));
}

TEST_CASE("sweep and plan: --output never overwrites an input or a file of something else") {
  const test::TemporaryFolder folder;
  const std::string config =
      read_file(test::source_file("tests/cli/sweep_test.cpp")).value();  // Anything.
  const std::string gpu = folder.write(
      "gpu.json", read_file(test::source_file("configs/hardware/h100-80gb.json")).value());
  const std::string before = read_file(gpu).value();
  CHECK(test::headroom("sweep gpt2 --gpu t4," + gpu + " --runtime transformers --output " + gpu)
            .complains("is the input"));
  CHECK(test::headroom("plan gpt2 --gpu " + gpu + " --runtime transformers --output " + gpu)
            .complains("is the input"));
  CHECK(read_file(gpu).value() == before);
  const std::string other = folder.write("notes.txt", config);
  CHECK(test::headroom("sweep gpt2 --gpu t4 --runtime transformers --output " + other)
            .complains("no file of such a sweep"));
  CHECK(read_file(other).value() == config);
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
