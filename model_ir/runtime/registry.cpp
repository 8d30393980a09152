#include "model_ir/runtime/registry.h"

#include "model_ir/runtime/deepspeed/lowering.h"
#include "model_ir/runtime/fsdp/lowering.h"
#include "model_ir/runtime/litgpt/lowering.h"
#include "model_ir/runtime/megatron/lowering.h"
#include "model_ir/runtime/torchtitan/lowering.h"
#include "model_ir/runtime/transformers/lowering.h"

namespace headroom::ir {

Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan, Rank rank,
                          const DeviceTraits& device) {
  // Data-parallel ranks of the others hold and do the same.
  switch (plan.runtime) {
    case RuntimeKind::kTransformers:
      return plan.model_code == ModelCode::kLitgpt ? litgpt::lower(model, plan, device)
                                                   : transformers::lower(model, plan, device);
    case RuntimeKind::kDeepspeed:
      return deepspeed::lower(model, plan, static_cast<std::int64_t>(rank), device);
    case RuntimeKind::kFsdp:
      return plan.model_code == ModelCode::kTorchtitan ? torchtitan::lower(model, plan, device)
                                                       : fsdp::lower(model, plan, rank, device);
    case RuntimeKind::kMegatron:
      return megatron::lower(model, plan, static_cast<std::int64_t>(rank), device);
  }
  return Error::invalid_argument("runtime", "?", "transformers, deepspeed, fsdp or megatron");
}

}  // namespace headroom::ir
