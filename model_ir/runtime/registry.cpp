#include "model_ir/runtime/registry.h"

#include "model_ir/runtime/deepspeed/lowering.h"
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
      return Error::invalid_argument("runtime", "fsdp", "transformers or deepspeed");
    case RuntimeKind::kMegatron:
      return Error::invalid_argument("runtime", "megatron", "transformers or deepspeed");
  }
  return Error::invalid_argument("runtime", "?", "transformers or deepspeed");
}

}  // namespace headroom::ir
