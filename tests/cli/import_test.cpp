// `headroom import`, as far as it needs no PyTorch, and questions about a recording. The recorder
// itself is tested where PyTorch is installed (tests/real/unit).

#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "cli/exit_code.h"
#include "tests/support/cli.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

const std::string kRecording = HEADROOM_SOURCE_DIR "/tests/golden/recordings/llama.json";

}  // namespace

TEST_CASE("import: what is typed is checked before Python is started") {
  const test::TemporaryFolder folder;
  const std::string config = HEADROOM_SOURCE_DIR "/tests/golden/recordings/llama.json";
  for (const auto& [words, named] :
       {std::pair<std::string, std::string>{"import", "SOURCE"},
        {"import /no/such/config.json --output a.json", "/no/such/config.json"},
        {"import " + config, "--output"},
        {"import " + config + " --output a.txt", "a.txt"},
        {"import " + config + " --output /no/such/folder/a.json", "/no/such/folder/a.json"},
        {"import " + config + " --output a.json --precision fp8", "fp8"},
        {"import " + config + " --output a.json --gpu abacus", "abacus"}}) {
    CAPTURE(words);
    const test::Answer answer = test::headroom(words);
    CHECK(answer.code != ExitCode::kYes);
    CHECK(answer.err.find("error: ") == 0);
    CHECK(answer.err.find(named) != std::string::npos);
  }
}

TEST_CASE("import: a recording takes the place of a model") {
  const test::Answer answer =
      test::headroom("fit " + kRecording + " --gpu h100-80gb --micro-batch 2 --seq 512");
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.out.find("llama on 1 x h100-80gb") == 0);
  CHECK(answer.out.find("phase") != std::string::npos);
  const test::Answer refused =
      test::headroom("fit " + kRecording + " --gpu h100-80gb --gpus 8 --zero 3");
  CHECK(refused.code == ExitCode::kUsage);
  CHECK(refused.err.find("deepspeed with a model recording") != std::string::npos);
}

}  // namespace headroom::cli
