#include "runtimes/transformers/lowering.h"

#include <optional>

#include "model_ir/graph/decoder.h"
#include "runtimes/transformers/adapter.h"
#include "runtimes/transformers/library_version.h"
#include "runtimes/transformers/support.h"
#include "runtimes/transformers/training.h"

namespace headroom::ir::transformers {

Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                          const DeviceTraits& device, const ModelSetting& setting) {
  if (plan.precision == Precision::kBf16Master || plan.precision == Precision::kFp16Master) {
    return Error::invalid_argument("precision", "a recipe with fp32 masters",
                                   "fp32, bf16, fp16 or autocast",
                                   "use --runtime deepspeed for fp32 master weights");
  }
  const Graph graph = build_graph(model, {.batch = plan.micro_batch, .sequence = plan.sequence},
                                  expert_weights(model, plan));
  if (const std::optional<Error> refused = unsupported(model, plan, device)) {
    return *refused;
  }
  if (plan.lora) {
    if (const std::optional<Error> missing = missing_targets(model, graph, *plan.lora)) {
      return *missing;
    }
  }
  torch::Eager eager(device);
  train(eager, {.spec = model, .plan = plan, .graph = graph, .setting = setting});
  return eager.finish();
}

}  // namespace headroom::ir::transformers
