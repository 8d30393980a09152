#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom::bench {

struct Options {
  int runs = 9;  ///< 0: everything once and unmeasured, to see that it works.
  bool json = false;
  std::string
      only;  ///< What the name of a figure must hold: one alone, under an instruction count.
};

/// `--json`, `--smoke` and `--only TEXT`; nothing for anything else.
inline std::optional<Options> parse_options(const std::vector<std::string_view>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--only" && i + 1 < arguments.size()) {
      options.only = arguments[++i];
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--smoke") {
      options.runs = 0;
    } else {
      return std::nullopt;
    }
  }
  return options;
}

/// A program's `main`: reads the options and hands them to `run`; 2 where they are none.
inline int run_with_options(int count, char** values, int (*run)(const Options&)) {
  const auto options = parse_options(std::vector<std::string_view>(values + 1, values + count));
  if (!options) {
    std::fprintf(stderr, "usage: %s [--json] [--smoke] [--only TEXT]\n", values[0]);
    return 2;
  }
  return run(*options);
}

/// One figure of several runs.
struct Measurement {
  std::string name;
  std::string unit;
  std::vector<double> values;  ///< Sorted, none of the warm-up.
  std::int64_t result = 0;     ///< Something that depends on the whole of a run.

  [[nodiscard]] double median() const { return values[values.size() / 2]; }
};

/// Milliseconds of `work`, which returns something that depends on all that it does.
inline Measurement measure(const std::string& name, int runs,
                           const std::function<std::int64_t()>& work) {
  Measurement measurement{.name = name, .unit = "ms", .values = {}, .result = 0};
  for (int run = 0; run <= runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    measurement.result = work();
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - begin;
    if (run > 0 || runs == 0) {  // The first run warms up.
      measurement.values.push_back(taken.count());
    }
  }
  std::ranges::sort(measurement.values);
  return measurement;
}

inline void print(const std::string& title, const std::vector<Measurement>& all,
                  const Options& options) {
  if (options.json) {
    std::printf(R"({"schema_version": 1, "title": "%s", "measurements": [)", title.c_str());
  } else {
    std::printf("%s\n%-52s %4s %10s %10s %10s\n", title.c_str(), "", "", "median", "least", "most");
  }
  const char* separator = "";
  for (const Measurement& one : all) {
    const double least = one.values.front();
    const double most = one.values.back();
    if (options.json) {
      std::printf(
          R"(%s
  {"name": "%s", "unit": "%s", "runs": %zu, "median": %.4f, "least": %.4f, "most": %.4f, "result": %lld})",
          separator, one.name.c_str(), one.unit.c_str(), one.values.size(), one.median(), least,
          most, static_cast<long long>(one.result));
    } else {
      std::printf("%-52s %4s %10.3f %10.3f %10.3f\n", one.name.c_str(), one.unit.c_str(),
                  one.median(), least, most);
    }
    separator = ",";
  }
  if (options.json) {
    std::printf("\n]}\n");
  }
}

}  // namespace headroom::bench
