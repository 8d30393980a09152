#include "runtimes/transformers/lowering.h"

#include <optional>

#include "model_ir/graph/decoder.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/transformers/adapter.h"
#include "runtimes/transformers/library_version.h"
#include "runtimes/transformers/support.h"
#include "runtimes/transformers/training.h"

namespace headroom::ir::transformers {

Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                          const DeviceTraits& device, const ModelSetting& setting) {
  if (plan.precision == Precision::kBf16Master || plan.precision == Precision::kFp16Master) {
    return Error::invalid_argument("precision", word_of(precision_words(), plan.precision),
                                   "fp32, bf16, fp16, autocast-bf16, autocast-fp16 or "
                                   "bf16-autocast: only DeepSpeed and Megatron-Core keep fp32 "
                                   "master copies",
                                   plan.precision == Precision::kFp16Master
                                       ? "use --precision autocast-fp16, or add --zero 0"
                                       : "use --precision bf16, or add --zero 0");
  }
  const Graph graph =
      build_graph(model, {.batch = plan.workload.micro_batch, .sequence = plan.workload.sequence},
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
