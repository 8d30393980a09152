#include <string>
#include <utility>

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "tests/support/cli.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

bool has_driver() {
  return dlopen("libcuda.so.1", RTLD_LAZY) != nullptr;
}

}  // namespace

TEST_CASE("calibrate: what is typed is checked before a GPU is looked for") {
  const test::TemporaryFolder folder;
  for (const auto& [rest, complaint] :
       {std::pair{"calibrate", "--output"}, std::pair{"calibrate --output gpu.txt", "gpu.txt"},
        std::pair{"calibrate h100 --output gpu.json", "h100"},
        std::pair{"calibrate --output gpu.json --seconds soon", "soon"}}) {
    CAPTURE(rest);
    const test::Answer answer = test::headroom(rest);
    CHECK(answer.code == ExitCode::kUsage);
    CHECK(answer.complains(complaint));
  }
  const test::Answer unwritable = test::headroom("calibrate --output /no/such/folder/gpu.json");
  CHECK(unwritable.code == ExitCode::kEnvironment);
}

TEST_CASE("calibrate: without a driver, one sentence says so and nothing is written") {
  if (has_driver()) {
    return;
  }
  const test::TemporaryFolder folder;
  const std::string output = folder.path("gpu.json");
  const test::Answer answer = test::headroom_with({"calibrate", "--output", output});
  CHECK(answer.code == ExitCode::kEnvironment);
  CHECK(answer.complains("no NVIDIA driver"));
  CHECK(answer.out.empty());
  CHECK_FALSE(read_file(output));
  CHECK_FALSE(read_file(output + "l"));
  const test::Answer json = test::headroom_with({"calibrate", "--output", output, "--json"});
  CHECK(json.says("\"exit_code\": 4"));
}

}  // namespace headroom::cli
