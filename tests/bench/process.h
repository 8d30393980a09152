#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/measurement.h"

namespace headroom::bench {

/// What one process took.
struct Usage {
  double wall_ms = 0;
  double cpu_ms = 0;
  double peak_mib = 0;
  int code = 0;
};

inline double milliseconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
}

/// Runs the program `words` names first, without output. posix_spawn shares this process's memory
/// until the program starts, so that its peak is its own.
inline Usage run_program(std::vector<std::string> words) {
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

/// One call of the program.
struct Question {
  const char* name;
  std::vector<std::string> arguments;
};

/// Wall time, CPU time and peak of one question; nothing if the program fails.
inline std::optional<std::vector<Measurement>> measure_process(const std::string& program,
                                                               const std::string& configs,
                                                               const Question& question, int runs) {
  const std::string name = question.name;
  std::vector<Measurement> all = {{.name = name + ", wall", .unit = "ms", .values = {}},
                                  {.name = name + ", CPU", .unit = "ms", .values = {}},
                                  {.name = name + ", peak RSS", .unit = "MiB", .values = {}}};
  for (int run = 0; run <= runs; ++run) {
    std::vector<std::string> words = {program};
    words.insert(words.end(), question.arguments.begin(), question.arguments.end());
    words.insert(words.end(), {"--config-dir", configs});
    const Usage usage = run_program(std::move(words));
    if (usage.code != 0 && usage.code != 1) {
      std::fprintf(stderr, "%s: exit code %d\n", question.name, usage.code);
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

}  // namespace headroom::bench
