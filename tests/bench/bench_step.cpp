// What a step's time costs beside its memory: Llama 3.1 70B (80 layers) on 64 H100, eight-way
// tensor parallelism, eight stages of 1F1B, 64 micro-batches.

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "costmodel/estimate.h"
#include "costmodel/hardware/catalogue.h"
#include "costmodel/time/machine.h"
#include "costmodel/time/step_time.h"
#include "model_ir/spec/model_catalogue.h"
#include "runtimes/megatron/plan.h"
#include "tests/bench/measurement.h"

namespace headroom::cost {
namespace {

const std::string kConfigs = std::string(HEADROOM_SOURCE_DIR) + "/configs";

ir::ParallelPlan eight_stages() {
  ir::ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = ir::Precision::kBf16Master;
  plan.world = 64;
  plan.workload.sequence = 4096;
  plan.workload.accumulation = 64;
  edit_megatron(plan) = {};
  plan.mesh.tensor = 8;
  plan.mesh.pipeline = 8;
  edit_megatron(plan).sequence_parallel = true;
  return plan;
}

int run(const bench::Options& options) {
  const Result<DeviceSpec> device = load_device(kConfigs, "h100-80gb");
  const Result<ir::ModelSpec> model = ir::load_model(kConfigs + "/models", "llama-3.1-70b");
  if (!device || !model) {
    return 1;
  }
  const Result<Machine> machine = load_machine(kConfigs, *device);
  if (!machine) {
    return 1;
  }
  const ir::ParallelPlan plan = eight_stages();
  std::vector<ir::RankProgram> programs;  // Of the first, the second and the last stage.
  for (const std::int32_t stage : {0, 1, 7}) {
    Result<ir::RankProgram> program =
        lower_replayed(*model, plan, *device, static_cast<ir::Rank>(stage * 8));
    if (!program) {
      return 1;
    }
    programs.push_back(std::move(program).value());
  }
  const auto microseconds = [](const StepTime& step) {
    return static_cast<std::int64_t>(1e6 * step.total.value());
  };
  bench::print(
      "One step, 80 layers, 8 stages, 64 micro-batches",
      {bench::measure("time alone: streams and pipeline replayed", options.runs,
                      [&] {
                        const PriceList prices = prices_on(*machine, plan);
                        std::vector<StagePrice> stages;
                        for (std::size_t i = 0; i < programs.size(); ++i) {
                          stages.push_back({i + 1 < programs.size() ? static_cast<std::int64_t>(i)
                                                                    : plan.mesh.pipeline - 1,
                                            price_program(programs[i], plan, prices)});
                        }
                        return microseconds(compose_step(*model, plan, *device, stages));
                      }),
       bench::measure(
           "memory of the binding rank, no time", options.runs,
           [&] { return estimate(*model, plan, *device).value().peak_reserved.value(); }),
       bench::measure("memory and time", options.runs,
                      [&] {
                        return microseconds(
                            *estimate(*model, plan, *device, Bytes{0}, &*machine).value().time);
                      })},
      options);
  return 0;
}

}  // namespace
}  // namespace headroom::cost

int main(int count, char** values) {
  return headroom::bench::run_with_options(count, values, headroom::cost::run);
}
