// executor_cuda_test [kernels] [training] [plans] [memory] [--plans N]
// Compares the plugin for CUDA with the CPU backend and with predictions. Without a part it runs
// all. On the stand-in GPU of the dry run, which computes nothing, numbers are not compared, memory
// and calls are. Exit codes: 0 all is as expected, 1 something differs, 4 there is no GPU.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "tests/gpu/executor/parts.h"
#include "validators/executor/backend_plugin.h"

namespace headroom::test {
namespace {

struct Wanted {
  std::vector<std::string> parts;
  int plans = 200;
};

Wanted read_arguments(int count, char** texts) {
  Wanted wanted;
  for (int i = 1; i < count; ++i) {
    const std::string text = texts[i];
    if (text == "--plans" && i + 1 < count) {
      wanted.plans = std::atoi(texts[++i]);
    } else {
      wanted.parts.push_back(text);
    }
  }
  if (wanted.parts.empty()) {
    wanted.parts = {"kernels", "training", "memory", "plans"};
  }
  return wanted;
}

int run(const Wanted& wanted) {
  const Result<const HeadroomDeviceTable*> plugin =
      exec::load_cuda_backend(exec::cuda_plugin_places());
  if (!plugin) {
    std::fprintf(stderr, "%s\n", to_text(plugin.error()).c_str());
    return 4;
  }
  Outcome outcome;
  for (const std::string& part : wanted.parts) {
    if (part == "kernels") {
      run_kernels(**plugin, outcome);
    } else if (part == "training") {
      run_training(**plugin, outcome);
    } else if (part == "memory") {
      run_out_of_memory(**plugin, outcome);
    } else if (part == "plans") {
      run_plans(**plugin, wanted.plans, outcome);
    } else {
      std::fprintf(stderr, "there is no part %s\n", part.c_str());
      return 2;
    }
  }
  std::printf("%d checks, %d failed\n", outcome.checks, outcome.failed);
  return outcome.failed == 0 && outcome.checks > 0 ? 0 : 1;
}

}  // namespace
}  // namespace headroom::test

int main(int count, char** texts) {
  try {
    return headroom::test::run(headroom::test::read_arguments(count, texts));
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "%s\n", fault.what());
    return 4;
  }
}
