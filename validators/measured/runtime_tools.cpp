#include "validators/measured/runtime_tools.h"

#include <utility>

#include "costmodel/estimate.h"
#include "costmodel/time/machine.h"
#include "costmodel/time/program_time.h"
#include "runtimes/registry.h"

namespace headroom::check {
namespace {

void apply(const ir::RunConditions& conditions, cost::Machine& machine) {
  cost::DevicePerformance& performance = machine.performance;
  cost::scale_attention(performance.attention, 1 / conditions.attention_time);
  machine.graphed = conditions.graphed;
  if (conditions.all_in_graphs) {
    performance.launch.eager = performance.launch.module = performance.launch.graph;
    performance.launch.exchange = performance.launch.graph;
    performance.launch.tensor = Seconds{};
    performance.gemm.series_call = performance.launch.graph;
  }
}

StepTimer timer_on(MachineFinder find_machine, Lowering lower) {
  return [find_machine = std::move(find_machine), lower = std::move(lower)](
             const ir::RunSetting& setting, const cost::DeviceSpec& device) -> Result<Seconds> {
    const Result<cost::Machine> machine = find_machine(device);
    if (!machine) {
      return machine.error();
    }
    const Result<ir::RankProgram> program = lower(setting);
    if (!program) {
      return program.error();
    }
    const cost::PriceList prices = cost::prices_on(*machine, setting.plan);
    return cost::price_program(*program, setting.plan, prices).step.time();
  };
}

}  // namespace

ScoreTools runtime_tools(DeviceFinder find_device, MachineFinder find_machine) {
  const Lowering lower = [](const ir::RunSetting& setting) {
    return ir::lower(setting.model, setting.plan, setting.rank, setting.traits);
  };
  return {.predict = replay_predictor(lower),
          .find_device = std::move(find_device),
          .estimate = [find_machine](
                          const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                          const cost::DeviceSpec& device,
                          const ir::RunConditions& conditions) -> Result<cost::StepEstimate> {
            if (!find_machine) {
              return cost::estimate(model, plan, device);
            }
            Result<cost::Machine> machine = find_machine(device);
            if (!machine) {
              return cost::estimate(model, plan, device);
            }
            apply(conditions, machine.value());
            return cost::estimate(model, plan, device, Bytes{0}, &machine.value());
          },
          .step_time = find_machine ? timer_on(find_machine, lower) : StepTimer{}};
}

}  // namespace headroom::check
