// How long a whole program takes to replay and to export: 80 layers, about 60,000 events.

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/memory/export.h"
#include "costmodel/memory/timeline.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/rank_program.h"
#include "tests/bench/measurement.h"

namespace headroom::cost {
namespace {

using bench::measure;
using bench::Measurement;

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
    program_.phases.push_back({ir::parse_phase_name(name), begin, program_.events.size(), {}});
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

int run(const std::vector<std::string_view>& arguments) {
  const std::optional<bench::Options> options = bench::parse_options(arguments);
  if (!options) {
    std::fprintf(stderr, "usage: bench_allocator [--json] [--smoke]\n");
    return 2;
  }
  const ir::RankProgram program = ProgramBuilder().build();
  bench::print("replay and exports of " + std::to_string(program.events.size()) + " events",
               measure_all(program, options->runs), *options);
  return 0;
}

}  // namespace
}  // namespace headroom::cost

int main(int count, char** values) {
  return headroom::cost::run(std::vector<std::string_view>(values + 1, values + count));
}
