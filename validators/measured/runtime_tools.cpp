#include "validators/measured/runtime_tools.h"

#include <utility>

#include "costmodel/estimate.h"
#include "model_ir/runtime/registry.h"
#include "validators/measured/measure.h"

namespace headroom::check {

ScoreTools runtime_tools(DeviceFinder find_device) {
  const Lowering lower = [](const RunSetting& setting) {
    return ir::lower(setting.model, setting.plan, setting.rank, setting.traits);
  };
  return {.read_model = hugging_face_reader(),
          .predict = replay_predictor(lower),
          .find_device = std::move(find_device),
          .estimate = [](const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                         const cost::DeviceSpec& device) {
            return cost::estimate(model, plan, device);
          }};
}

}  // namespace headroom::check
