#include "validators/measured/runtime_tools.h"

#include <utility>

#include "costmodel/estimate.h"
#include "model_ir/runtime/registry.h"
#include "validators/measured/measure.h"

namespace headroom::check {

ScoreTools runtime_tools(DeviceFinder find_device, MachineFinder find_machine) {
  const Lowering lower = [](const RunSetting& setting) {
    return ir::lower(setting.model, setting.plan, setting.rank, setting.traits);
  };
  return {.read_model = hugging_face_reader(),
          .predict = replay_predictor(lower),
          .find_device = std::move(find_device),
          .estimate = [find_machine = std::move(find_machine)](
                          const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                          const cost::DeviceSpec& device,
                          double attention_time) -> Result<cost::StepEstimate> {
            if (!find_machine) {
              return cost::estimate(model, plan, device);
            }
            Result<cost::Machine> machine = find_machine(device);
            if (!machine) {
              return cost::estimate(model, plan, device);
            }
            cost::scale_attention(machine.value().performance.attention, 1 / attention_time);
            return cost::estimate(model, plan, device, Bytes{0}, &machine.value());
          }};
}

}  // namespace headroom::check
