#include "model_ir/runtime/registry.h"

#include "model_ir/runtime/deepspeed/lowering.h"
#include "model_ir/runtime/fsdp/lowering.h"
#include "model_ir/runtime/transformers/lowering.h"

namespace headroom::ir {

Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan, Rank rank,
                          const DeviceTraits& device) {
  static_cast<void>(rank);  // Data-parallel ranks hold and do the same.
  switch (plan.runtime) {
    case RuntimeKind::kTransformers:
      return transformers::lower(model, plan, device);
    case RuntimeKind::kDeepspeed:
      return deepspeed::lower(model, plan, device);
    case RuntimeKind::kFsdp:
      return fsdp::lower(model, plan, device);
    case RuntimeKind::kMegatron:
      return Error::invalid_argument("runtime", "megatron", "transformers, deepspeed or fsdp");
  }
  return Error::invalid_argument("runtime", "?", "transformers, deepspeed or fsdp");
}

}  // namespace headroom::ir
