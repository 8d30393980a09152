#include "cli/app.h"

#include <doctest/doctest.h>

#include "tests/support/cli.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {

using test::Answer;
using test::Document;

TEST_CASE("headroom: without arguments it says how it is used, as a fault of usage") {
  const Answer answer = test::headroom("");
  CHECK(answer.code == ExitCode::kUsage);
  CHECK(answer.complains("usage: headroom VERB"));
  CHECK(answer.out.empty());
}

TEST_CASE("headroom: --help names every verb, --version the version") {
  const Answer help = test::headroom("--help");
  CHECK(help.code == ExitCode::kYes);
  for (const char* verb : {"fit", "timeline", "graph", "emit", "catalog", "validate"}) {
    CAPTURE(verb);
    CHECK(help.says("\n  " + std::string(verb) + " "));
  }
  const Answer version = test::headroom("--version");
  CHECK(version.code == ExitCode::kYes);
  CHECK(version.out.substr(0, 9) == "headroom ");
}

TEST_CASE("headroom: an unknown verb or option is refused with the closest one") {
  const Answer verb = test::headroom("fitt gpt2");
  CHECK(verb.code == ExitCode::kUsage);
  CHECK(verb.out.empty());
  CHECK(verb.complains("use headroom fit"));
  const Answer option = test::headroom("fit gpt2 --gpu t4 --micro-bach 4");
  CHECK(option.code == ExitCode::kUsage);
  CHECK(option.complains("--micro-bach"));
  CHECK(option.complains("use --micro-batch"));
}

TEST_CASE("headroom: an option without its value, or twice, is a fault of usage") {
  for (const char* line : {"fit gpt2 --gpu", "fit gpt2 --gpu t4 --gpu l4", "fit --gpu t4",
                           "fit gpt2 llama-2-7b --gpu t4", "fit gpt2 --gpu t4 --color blue",
                           "fit gpt2 --gpu t4 --evaluation=maybe", "fit gpt2"}) {
    CAPTURE(line);
    const Answer answer = test::headroom(line);
    CHECK(answer.code == ExitCode::kUsage);
    CHECK(answer.out.empty());
    CHECK(answer.complains("error: "));
  }
}

TEST_CASE("headroom: a value may follow its option with an equals sign") {
  CHECK(test::headroom("fit gpt2 --gpu=h100").out == test::headroom("fit gpt2 --gpu h100").out);
}

TEST_CASE("headroom: the catalogue's names are suggested") {
  const Answer model = test::headroom("fit lama-3.1-8b --gpu h100");
  CHECK(model.code == ExitCode::kUsage);
  CHECK(model.complains("llama-3.1-8b"));
  const Answer gpu = test::headroom("fit gpt2 --gpu a100-80bg");
  CHECK(gpu.code == ExitCode::kUsage);
  CHECK(gpu.complains("a100-80gb"));
}

TEST_CASE("headroom: bad input is 3, what cannot be read is 4") {
  const test::TemporaryFolder folder;
  const std::string broken = folder.write("config.json", "{\"model_type\": \"llama\"");
  CHECK(test::headroom_with({"fit", broken, "--gpu", "h100"}).code == ExitCode::kBadInput);
  CHECK(test::headroom("fit ./no/such/config.json --gpu h100").code == ExitCode::kEnvironment);
  CHECK(test::headroom_with({"fit", folder.path(), "--gpu", "h100", "--config-dir", "/no/such"})
            .code != ExitCode::kYes);
  CHECK(test::headroom("catalog gpus --config-dir /no/such/folder").code == ExitCode::kEnvironment);
}

TEST_CASE("headroom: with --json a failure is one document on stdout, and a sentence on stderr") {
  const std::vector<std::string> lines = {
      "fit nothing-like-it --gpu h100 --json", "fit gpt2 --gpu h100 --seq 9999 --json",
      "fit gpt2 --json --wrong", "wrong --json", "fit ./no/such.json --gpu h100 --json"};
  for (const std::string& line : lines) {
    CAPTURE(line);
    const Answer answer = test::headroom(line);
    CHECK(answer.complains("error: "));
    const Document error(answer.out);
    CHECK(error.integer("schema_version") == 1);
    CHECK(error.integer("error/exit_code") == static_cast<int>(answer.code));
    CHECK_FALSE(error.text("error/got").empty());
    CHECK_FALSE(error.text("error/message").empty());
  }
}

TEST_CASE("headroom: every verb's help has its options, and its example runs") {
  for (const char* verb : {"fit", "timeline", "graph", "emit", "catalog", "validate"}) {
    CAPTURE(verb);
    const Answer help = test::headroom_with({verb, "--help"});
    CHECK(help.code == ExitCode::kYes);
    CHECK(help.says("--json"));
    const std::string marker = "example: headroom ";
    const std::size_t at = help.out.find(marker);
    REQUIRE(at != std::string::npos);
    const std::string example =
        help.out.substr(at + marker.size(), help.out.find('\n', at) - at - marker.size());
    if (std::string(verb) != "validate") {  // Its example reads all measured rows.
      const Answer ran = test::headroom(example);
      CAPTURE(ran.err);
      CHECK((ran.code == ExitCode::kYes || ran.code == ExitCode::kNo));
      CHECK_FALSE(ran.out.empty());
    }
  }
}

TEST_CASE("headroom: help, errors and answers keep to 80 columns") {
  for (const char* line :
       {"--help", "fit --help", "timeline --help", "emit --help", "catalog --help", "graph --help",
        "plan --help", "catalog models", "catalog gpus",
        "fit llama-3.1-8b --gpu rtx-4090 --micro-batch 4 --gpus 8",
        "fit llama-3.1-70b --gpu h100"}) {
    CAPTURE(line);
    std::istringstream lines(test::headroom(line).out);
    for (std::string text; std::getline(lines, text);) {
      std::size_t columns = 0;
      for (const char c : text) {
        columns += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1U : 0U;
      }
      CAPTURE(text);
      const bool is_path = text.find(" from ") != std::string::npos;
      CHECK((columns <= 80 || is_path));
    }
  }
}

TEST_CASE("headroom: colour is off unless asked for") {
  CHECK(test::headroom("fit gpt2 --gpu h100").out.find('\x1b') == std::string::npos);
  CHECK(test::headroom("fit gpt2 --gpu h100 --color always").says("\x1b["));
}

}  // namespace headroom::cli
