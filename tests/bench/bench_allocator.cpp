// How long a whole program takes to replay and to export: 80 layers, about 60,000 events.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/memory/export.h"
#include "costmodel/memory/timeline.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::cost {
namespace {

constexpr int kRuns = 9;
constexpr int kLayers = 80;
constexpr int kMicroBatches = 8;
constexpr std::int64_t kHidden = 8'192;
constexpr std::int64_t kTokens = 4'096;
constexpr Bytes kNoLimit{std::int64_t{1} << 50};

/// Builds the events of a decoder-only model in bf16: weights, per micro-batch a forward and a
/// backward pass with kept and short-lived tensors of the usual sizes, and an optimizer step with
/// temporaries. Not a lowering: only its number and mixture of events is like one.
class ProgramBuilder {
 public:
  ir::RankProgram build() {
    program_.operations = {"op"};
    program_.sites = {{.layer = -1, .operation = 0, .backward = false}};
    phase("load", [this] {
      for (int layer = 0; layer < kLayers; ++layer) {
        for (const std::int64_t width : kWeights) {
          weights_.push_back(allocate(kHidden * width * 2, ir::TensorRole::kParameter));
        }
      }
    });
    for (int batch = 1; batch <= kMicroBatches; ++batch) {
      const std::string name = "step1." + std::to_string(batch);
      phase(name + ".forward", [this] { forward(); });
      phase(name + ".backward", [this] { backward(); });
    }
    phase("step1.optimizer", [this] { optimizer(); });
    return program_;
  }

 private:
  static constexpr std::array<std::int64_t, 9> kWeights = {8'192,  1'024,  1'024, 8'192, 28'672,
                                                           28'672, 28'672, 1,     1};

  void phase(const std::string& name, const std::function<void()>& body) {
    const std::size_t begin = program_.events.size();
    body();
    program_.phases.push_back({name, begin, program_.events.size(), {}});
  }
  ir::BlockId allocate(std::int64_t bytes, ir::TensorRole role) {
    ir::Event event;
    event.role = role;
    event.block = program_.blocks++;
    event.bytes = bytes;
    program_.events.push_back(event);
    return event.block;
  }
  void release(ir::BlockId block) {
    ir::Event event;
    event.kind = ir::EventKind::kFree;
    event.block = block;
    program_.events.push_back(event);
  }
  void temporary(std::int64_t bytes) { release(allocate(bytes, ir::TensorRole::kTemporary)); }

  void forward() {
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const std::int64_t width :
           {2 * kHidden, kHidden, kHidden / 8, kHidden / 8, kHidden, std::int64_t{28'672},
            std::int64_t{28'672}, std::int64_t{2}}) {
        kept_.push_back(allocate(kTokens * width * 2, ir::TensorRole::kActivation));
        temporary(kTokens * kHidden * 4);
        temporary(kTokens * 4);
      }
    }
  }
  void backward() {
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const std::int64_t width : kWeights) {
        const std::int64_t bytes = kHidden * width * 2;
        if (gradients_.size() < weights_.size()) {
          gradients_.push_back(allocate(bytes, ir::TensorRole::kGradient));
        } else {
          temporary(bytes);
        }
        temporary(kTokens * kHidden * 2);
      }
      for (int kept = 0; kept < 8; ++kept) {
        temporary(kTokens * kHidden * 2);
        release(kept_.back());
        kept_.pop_back();
      }
    }
  }
  void optimizer() {
    for (std::size_t weight = 0; weight < weights_.size(); ++weight) {
      const std::int64_t bytes = kHidden * kWeights[weight % kWeights.size()] * 2;
      (void)allocate(bytes, ir::TensorRole::kOptimizerState);
      (void)allocate(bytes, ir::TensorRole::kOptimizerState);
      temporary(bytes);
    }
    for (const ir::BlockId gradient : gradients_) {
      release(gradient);
    }
  }

  ir::RankProgram program_;
  std::vector<ir::BlockId> weights_;
  std::vector<ir::BlockId> gradients_;
  std::vector<ir::BlockId> kept_;
};

struct Measurement {
  std::string name;
  std::vector<double> milliseconds;  ///< Sorted.
  std::int64_t result = 0;           ///< Something that depends on the whole run.

  [[nodiscard]] double median() const { return milliseconds[milliseconds.size() / 2]; }
};

Measurement measure(const std::string& name, int runs, const std::function<std::int64_t()>& work) {
  Measurement measurement{.name = name, .milliseconds = {}, .result = 0};
  for (int run = 0; run <= runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    measurement.result = work();
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - begin;
    if (run > 0 || runs == 0) {  // The first run warms up.
      measurement.milliseconds.push_back(taken.count());
    }
  }
  std::ranges::sort(measurement.milliseconds);
  return measurement;
}

std::vector<Measurement> measure_all(const ir::RankProgram& program, int runs) {
  const ir::AllocatorSettings plain;
  ir::AllocatorSettings expandable;
  expandable.expandable_segments = true;
  const auto reserved = [&program](const ir::AllocatorSettings& settings) {
    return replay(program, settings, kNoLimit).phases.back().peak_reserved.value();
  };
  const auto length = [](const std::string& text) {
    return static_cast<std::int64_t>(text.size());
  };
  return {
      measure("replay", runs, [&] { return reserved(plain); }),
      measure("replay, expandable segments", runs, [&] { return reserved(expandable); }),
      measure("timeline_csv", runs, [&] { return length(timeline_csv(program, plain, kNoLimit)); }),
      measure("chrome_trace", runs, [&] { return length(chrome_trace(program, plain, kNoLimit)); }),
      measure("memory_viz_pickle", runs,
              [&] { return length(memory_viz_pickle(program, plain, kNoLimit)); }),
  };
}

void print_text(const std::vector<Measurement>& all, std::size_t events) {
  std::printf("%zu events; milliseconds of %zu runs\n", events, all.front().milliseconds.size());
  std::printf("%-30s %10s %10s %10s\n", "", "median", "least", "most");
  for (const Measurement& one : all) {
    std::printf("%-30s %10.3f %10.3f %10.3f\n", one.name.c_str(), one.median(),
                one.milliseconds.front(), one.milliseconds.back());
  }
}

void print_json(const std::vector<Measurement>& all, std::size_t events) {
  std::printf(R"({"schema_version": 1, "events": %zu, "measurements": [)", events);
  const char* separator = "";
  for (const Measurement& one : all) {
    std::printf(R"(%s
  {"name": "%s", "runs": %zu, "median_ms": %.4f, "least_ms": %.4f, "most_ms": %.4f, "result": %lld})",
                separator, one.name.c_str(), one.milliseconds.size(), one.median(),
                one.milliseconds.front(), one.milliseconds.back(),
                static_cast<long long>(one.result));
    separator = ",";
  }
  std::printf("\n]}\n");
}

int run(const std::vector<std::string_view>& arguments) {
  int runs = kRuns;
  bool json = false;
  for (const std::string_view argument : arguments) {
    if (argument == "--json") {
      json = true;
    } else if (argument == "--smoke") {
      runs = 0;
    } else {
      std::fprintf(stderr, "usage: bench_allocator [--json] [--smoke]\n");
      return 2;
    }
  }
  const ir::RankProgram program = ProgramBuilder().build();
  const std::vector<Measurement> all = measure_all(program, runs);
  (json ? print_json : print_text)(all, program.events.size());
  return 0;
}

}  // namespace
}  // namespace headroom::cost

int main(int count, char** values) {
  return headroom::cost::run(std::vector<std::string_view>(values + 1, values + count));
}
