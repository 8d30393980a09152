// The commands of README.md run as they are written there.
#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "tests/support/cli.h"
#include "tests/support/random.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

std::vector<std::string> lines_of_readme() {
  const std::string text = read_file(test::source_file("README.md")).value();
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// What follows "./run " on the lines of README.md that hand a verb to the program, without
/// comments. The programs that `dryrun` and `validate --with` start are the reader's own
/// (tests/cli/dryrun_test.cpp, tests/cli/validate_plan_test.cpp).
std::vector<std::string> commands_of_readme() {
  std::vector<std::string> commands;
  for (const std::string& line : lines_of_readme()) {
    constexpr std::string_view kStart = "./run ";
    const std::string command = line.substr(0, line.find("  #"));
    const bool own_verb = command.find("./run gui") == 0 || command.find("./run test") == 0 ||
                          command.find("./run dryrun") == 0 ||
                          command.find(" --with ") != std::string::npos ||
                          command.find("./run calibrate") == 0 ||
                          command.find("my-model") != std::string::npos ||  // Needs PyTorch.
                          command == "./run validate plan.json";            // Both need a GPU.
    if (command.find(kStart) == 0 && !own_verb) {
      commands.push_back(command.substr(kStart.size()));
    }
  }
  return commands;
}

/// Relative paths of a command lead into this folder meanwhile.
class Visit {
 public:
  explicit Visit(const std::filesystem::path& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~Visit() { std::filesystem::current_path(before_); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  std::filesystem::path before_;
};

}  // namespace

TEST_CASE("README: every command runs as written and answers yes or no") {
  // All rows take a minute; tests/measured has cases of its own for every source.
  const test::TemporaryFolder folder;
  const Visit visit(folder.path());
  folder.write(
      "train.log",
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a "
      "total capacity of 79.14 GiB of which 1.19 GiB is free.\n");
  const std::string snapshot = test::source_file("tests/golden/snapshots/leak_5.pickle");
  folder.write("dump_snapshot.pickle", read_file(snapshot).value());
  const std::string program = test::source_file("tests/golden/programs/blocks.program.gz");
  folder.write("train.program.gz", read_file(program).value());
  std::filesystem::create_directory(folder.path("rows"));
  for (const char* source : {"device.jsonl.gz", "families.jsonl.gz"}) {
    std::filesystem::copy_file(test::source_file(std::string("tests/measured/") + source),
                               folder.path(std::string("rows/") + source));
  }
  const std::vector<std::string> commands = commands_of_readme();
  CHECK(commands.size() > 8);
  for (const std::string& command : commands) {
    CAPTURE(command);
    // Of the searches, one is enough for sanitizers: others run in tests/cli and tests/property. So
    // do rows, in tests/measured.
    const bool searches = command.starts_with("plan ") || command.starts_with("explain llama");
    const bool others = searches && command.find("--output") == command.npos;
    if (test::kSanitized && (others || command.starts_with("validate measured"))) {
      continue;
    }
    std::vector<std::string> words = test::words(command);
    for (std::string& word : words) {
      word = word == "tests/measured" ? folder.path("rows") : word;
    }
    const test::Answer answer = test::headroom_with(words);
    CAPTURE(answer.err);
    CHECK((answer.code == ExitCode::kYes || answer.code == ExitCode::kNo));
  }
}

TEST_CASE("README: the answer that is shown is the answer that is given") {
  const std::vector<std::string> lines = lines_of_readme();
  const std::string prompt = "$ ./run fit ";
  const auto shown = std::ranges::find_if(
      lines, [&](const std::string& line) { return line.starts_with(prompt); });
  REQUIRE(shown != lines.end());
  const test::Answer answer = test::headroom("fit " + shown->substr(prompt.size()));
  int compared = 0;
  for (auto line = shown + 1; line != lines.end() && !line->starts_with("$ "); ++line) {
    CAPTURE(*line);
    CHECK((*line == "  ..." || answer.out.find(*line) != std::string::npos));
    ++compared;
  }
  CHECK(compared > 8);
}

}  // namespace headroom::cli
