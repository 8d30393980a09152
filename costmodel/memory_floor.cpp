#include "costmodel/memory_floor.h"

#include <cstdint>

#include "model_ir/spec/param_count.h"
#include "runtimes/registry.h"

namespace headroom::cost {
Bytes memory_floor(const ir::ModelSpec& model, const ir::ParallelPlan& plan, HeldAt moment) {
  const std::int64_t parameters = ir::count_parameters(model).total();
  const auto bytes_of = [parameters](const ir::HeldParameters::Part& part) {
    return Bytes{parameters / part.ranks * part.bits / 8};
  };
  // Quantisation leaves embeddings and head as they are; here they count with the quantised bits.
  const ir::HeldParameters held = ir::runtime_of(plan).held_parameters(plan);
  if (plan.lora || plan.optimizer.kind == ir::OptimizerKind::kNone) {
    return bytes_of(held.weights);
  }
  const Bytes states = bytes_of(held.weights) + bytes_of(held.optimizer);
  return moment == HeldAt::kForward ? states : states + bytes_of(held.gradients);
}

}  // namespace headroom::cost
