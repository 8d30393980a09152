// How many plans a second one core works out in full, and how long `headroom plan` takes as a whole
// process.

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/hardware/catalogue.h"
#include "model_ir/spec/model_catalogue.h"
#include "runtimes/megatron/search/cell_memory.h"
#include "runtimes/megatron/search/cell_times.h"
#include "tests/bench/instructions.h"
#include "tests/bench/measurement.h"
#include "tests/bench/process.h"

namespace headroom::bench {
namespace {

const std::string kConfigs = HEADROOM_SOURCE_DIR "/configs";

/// A part of the space of GPT-3 on 1,024 GPUs: each recomputation and switch of some degrees.
struct Space {
  ir::ModelSpec model;
  cost::DeviceSpec device;
  cost::Machine machine;
  std::vector<plan::Cell> cells;

  [[nodiscard]] plan::SpaceQuestion question() const {
    plan::SpaceQuestion asked{.model = model, .base = {}, .global_batch = 1536, .constraints = {}};
    asked.base.precision = ir::Precision::kBf16Master;
    asked.base.workload.sequence = 2048;
    asked.base.world = 1024;
    asked.base.allocator.expandable_segments = true;
    const auto hold = [&](plan::Axis axis, plan::AxisValues values) {
      asked.constraints.of(axis) = std::move(values);
    };
    hold(plan::Axis::kRuntime, {3});
    hold(plan::Axis::kTensor, {4, 8});
    hold(plan::Axis::kPipeline, {2, 4, 8, 16});
    hold(plan::Axis::kContext, {1});
    hold(plan::Axis::kChunk, {0});
    hold(plan::Axis::kMicroBatch, {1});
    hold(plan::Axis::kSequenceParallel, {1});
    hold(plan::Axis::kAttention, {0});
    return asked;
  }
};

std::optional<Space> load_space() {
  Result<ir::ModelSpec> model = ir::load_model(kConfigs + "/models", "gpt3-175b");
  Result<cost::DeviceSpec> device = cost::load_device(kConfigs, "a100-80gb");
  if (!model || !device) {
    return std::nullopt;
  }
  Result<cost::Machine> machine = cost::load_machine(kConfigs, *device);
  if (!machine) {
    return std::nullopt;
  }
  Space space{.model = std::move(model).value(),
              .device = std::move(device).value(),
              .machine = std::move(machine).value(),
              .cells = {}};
  space.cells = plan::cells_of(space.question());
  return space;
}

/// Time and peak of every plan of `cells`; how many there were. `sum` keeps the work from being
/// left out.
std::int64_t evaluate_all(const Space& space, plan::PlanMemory& memory, double& sum) {
  const plan::SpaceQuestion question = space.question();
  std::int64_t plans = 0;
  for (const plan::Cell& cell : space.cells) {
    const plan::MegatronChoices choices = plan::megatron_choices(question, cell.plan);
    const plan::BlockTimes blocks =
        plan::block_times(space.model, cell.plan, space.machine, space.device).value();
    plan::CellTimes times(space.model, cell.plan, blocks, space.machine, choices);
    plan::CellMemory peaks(memory, choices);
    for (std::uint64_t index = 0; index < cell.choices; ++index) {
      sum += times.parts(index).total().value();
      const Result<Bytes> peak = peaks.peak(index, space.device.total);
      sum += peak ? static_cast<double>(peak->value()) : 0;
    }
    plans += static_cast<std::int64_t>(cell.choices);
  }
  return plans;
}

std::vector<Measurement> measure_rate(int runs) {
  std::optional<Space> space = load_space();
  if (!space) {
    return {};
  }
  if (runs == 0) {
    space->cells.resize(1);
  }
  plan::PlanMemory memory(space->model, space->device);
  const InstructionCounter counter;
  double sum = 0;
  std::int64_t counted = 0;
  Measurement whole = measure("plans worked out in full", runs, [&] {
    const std::int64_t before = counter.read().value_or(0);
    const std::int64_t plans = evaluate_all(*space, memory, sum);
    counted = counter.read().value_or(0) - before;
    return plans;
  });
  Measurement rate = whole;
  rate.name = "time and peak of a plan, one core";
  rate.unit = "ns";
  for (double& value : rate.values) {
    value *= 1e6 / static_cast<double>(whole.result);
  }
  std::vector<Measurement> all = {whole, rate};
  if (counted > 0) {
    const double each = static_cast<double>(counted) / static_cast<double>(whole.result);
    all.push_back({.name = "instructions of a plan", .unit = "", .values = {each}, .result = 0});
  }
  return sum > 0 ? all : std::vector<Measurement>{};
}

std::vector<Question> questions() {
  return {
      {"8B on 8 A100", {"plan", "llama-3.1-8b", "--gpu", "a100-80gb", "--gpus", "8"}},
      {"GPT-3 175B on 1,024 A100",
       {"plan", "gpt3-175b", "--gpu", "a100-80gb", "--gpus", "1024", "--global-batch", "1536",
        "--seq", "2048"}},
      {"GPT-3 175B on 1,024 A100, the front",
       {"plan", "gpt3-175b", "--gpu", "a100-80gb", "--gpus", "1024", "--global-batch", "1536",
        "--seq", "2048", "--front"}},
      {"Llama 3.1 405B on 16,384 H100",
       {"plan", "llama-3.1-405b", "--gpu", "h100-80gb", "--gpus", "16384", "--global-batch", "2048",
        "--seq", "8192"}},
      {"DeepSeek-V3 on 2,048 H800",
       {"plan", "deepseek-v3", "--gpu", "h800-80gb", "--gpus", "2048", "--global-batch", "15360",
        "--seq", "4096"}},
  };
}

int run(const std::vector<std::string_view>& arguments) {
  const std::optional<Options> options = parse_options(arguments);
  if (!options) {
    std::fprintf(stderr, "usage: bench_plan [--json] [--smoke]\n");
    return 2;
  }
  std::vector<Measurement> all = measure_rate(options->runs);
  if (all.empty()) {
    return 1;
  }
  std::vector<Question> asked = questions();
  if (options->runs == 0) {
    asked.resize(1);  // The others take seconds each.
  }
  for (const Question& question : asked) {
    const auto measured = measure_process(HEADROOM_PROGRAM, kConfigs, question, options->runs);
    if (!measured) {
      return 1;
    }
    all.insert(all.end(), measured->begin(), measured->end());
  }
  print("headroom plan", all, *options);
  return 0;
}

}  // namespace
}  // namespace headroom::bench

int main(int count, char** values) {
  return headroom::bench::run(std::vector<std::string_view>(values + 1, values + count));
}
