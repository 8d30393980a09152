// How long `headroom fit` takes as a whole process, and where the time goes: models of 80 layers.

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/estimate.h"
#include "costmodel/hardware/catalogue.h"
#include "costmodel/memory/timeline.h"
#include "model_ir/spec/model_catalogue.h"
#include "tests/bench/measurement.h"

namespace headroom::bench {
namespace {

const std::string kConfigs = HEADROOM_SOURCE_DIR "/configs";
constexpr const char* kModel = "llama-3.1-70b";
constexpr Bytes kNoLimit{std::int64_t{1} << 50};

/// What one process took.
struct Usage {
  double wall_ms = 0;
  double cpu_ms = 0;
  double peak_mib = 0;
  int code = 0;
};

double milliseconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
}

/// Runs the program without output. posix_spawn shares this process's memory until the program
/// starts, so that its peak is its own.
Usage run_program(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {HEADROOM_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(words.end(), {"--config-dir", kConfigs});
  std::vector<char*> values;
  values.reserve(words.size() + 1);
  for (std::string& word : words) {
    values.push_back(word.data());
  }
  values.push_back(nullptr);
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_WRONLY, 0);
  }
  const auto begin = std::chrono::steady_clock::now();
  pid_t child = 0;
  const int failed = posix_spawn(&child, values.front(), &actions, nullptr, values.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = -1;
  rusage used{};
  if (failed != 0 || wait4(child, &status, 0, &used) != child) {
    return {.code = -1};
  }
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - begin;
  return {.wall_ms = wall.count(),
          .cpu_ms = milliseconds(used.ru_utime) + milliseconds(used.ru_stime),
          .peak_mib = static_cast<double>(used.ru_maxrss) / 1024,
          .code = WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

struct Question {
  const char* name;
  std::vector<std::string> arguments;
};

std::vector<Question> questions() {
  const std::string model = kModel;
  return {
      {"fits: bf16", {"fit", model, "--gpu", "h200", "--budget", "2TiB"}},
      {"fits: bf16, checkpointing",
       {"fit", model, "--gpu", "h200", "--budget", "2TiB", "--checkpointing", "full"}},
      {"fits: LoRA", {"fit", model, "--gpu", "b300", "--lora", "r=16"}},
      {"fits: ZeRO-3 on 32", {"fit", model, "--gpu", "h200", "--gpus", "32", "--zero", "3"}},
      {"fits: 32 layers", {"fit", "llama-3.1-8b", "--gpu", "h200"}},
      {"fits: Megatron, 126 layers, 64 micro-batches",
       {"fit", "llama-3.1-405b", "--gpu", "h200", "--gpus", "1792", "--seq", "8192",
        "--accumulation", "64", "--megatron",
        "tp=8,pp=14,cp=2,sequence-parallel,distributed-optimizer,overlap-grad-reduce"}},
      {"does not fit, with remedies", {"fit", model, "--gpu", "h200"}},
      {"does not fit, with remedies, 8B", {"fit", "llama-3.1-8b", "--gpu", "a100-40gb"}},
  };
}

/// Wall time, CPU time and peak of one question; nothing if the program fails.
std::optional<std::vector<Measurement>> measure_process(const Question& question, int runs) {
  const std::string name = question.name;
  std::vector<Measurement> all = {{.name = name + ", wall", .unit = "ms", .values = {}},
                                  {.name = name + ", CPU", .unit = "ms", .values = {}},
                                  {.name = name + ", peak RSS", .unit = "MiB", .values = {}}};
  for (int run = 0; run <= runs; ++run) {
    const Usage usage = run_program(question.arguments);
    if (usage.code != 0 && usage.code != 1) {
      std::fprintf(stderr, "bench_fit: %s: exit code %d\n", question.name, usage.code);
      return std::nullopt;
    }
    const std::array<double, 3> values = {usage.wall_ms, usage.cpu_ms, usage.peak_mib};
    for (std::size_t i = 0; i < all.size() && (run > 0 || runs == 0); ++i) {
      all[i].values.push_back(values.at(i));
      all[i].result = usage.code;
    }
  }
  for (Measurement& one : all) {
    std::ranges::sort(one.values);
  }
  return all;
}

/// The parts of a `fit` of one process.
std::vector<Measurement> measure_parts(int runs) {
  const ir::ModelSpec model = ir::load_model(kConfigs + "/models", kModel).value();
  const cost::DeviceSpec device = cost::load_device(kConfigs, "h200").value();
  const ir::ParallelPlan plan;
  const ir::RankProgram program = cost::lower_replayed(model, plan, device).value();
  return {
      measure("catalogue: one model", runs,
              [] { return ir::load_model(kConfigs + "/models", kModel).value().hidden; }),
      measure("catalogue: one GPU", runs,
              [] { return cost::load_device(kConfigs, "h200").value().total.value(); }),
      measure("lowering, bf16", runs,
              [&] {
                return static_cast<std::int64_t>(
                    cost::lower_replayed(model, plan, device).value().events.size());
              }),
      measure("replay, bf16", runs, [&] {
        return cost::replay(program, plan.allocator, kNoLimit).phases.back().peak_reserved.value();
      })};
}

int run(const std::vector<std::string_view>& arguments) {
  const std::optional<Options> options = parse_options(arguments);
  if (!options) {
    std::fprintf(stderr, "usage: bench_fit [--json] [--smoke]\n");
    return 2;
  }
  std::vector<Measurement> all;
  for (const Question& question : questions()) {
    const auto measured = measure_process(question, options->runs);
    if (!measured) {
      return 1;
    }
    all.insert(all.end(), measured->begin(), measured->end());
  }
  for (Measurement& part : measure_parts(options->runs)) {
    all.push_back(std::move(part));
  }
  print("headroom fit as a whole process, " + std::string(kModel) + " unless said otherwise", all,
        *options);
  return 0;
}

}  // namespace
}  // namespace headroom::bench

int main(int count, char** values) {
  return headroom::bench::run(std::vector<std::string_view>(values + 1, values + count));
}
