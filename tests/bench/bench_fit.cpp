// How long `headroom fit` takes as a whole process, and where the time goes: models of 80 layers.

#include <algorithm>
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
#include "tests/bench/process.h"

namespace headroom::bench {
namespace {

const std::string kConfigs = HEADROOM_SOURCE_DIR "/configs";
constexpr const char* kModel = "llama-3.1-70b";
constexpr Bytes kNoLimit{std::int64_t{1} << 50};

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
       {"fit", "llama-3.1-405b", "--gpu", "h200", "--gpus", "2048", "--seq", "8192",
        "--accumulation", "64", "--megatron",
        "tp=8,pp=16,cp=2,first-stage-layers=7,last-stage-layers=7,sequence-parallel,"
        "distributed-optimizer,overlap-grad-reduce"}},
      {"does not fit, with remedies", {"fit", model, "--gpu", "h200"}},
      {"does not fit, with remedies, 8B", {"fit", "llama-3.1-8b", "--gpu", "a100-40gb"}},
  };
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
    const auto measured = measure_process(HEADROOM_PROGRAM, kConfigs, question, options->runs);
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
