#include "runtimes/registry.h"

#include <optional>
#include <string>
#include <utility>

#include "model_ir/spec/task.h"
#include "runtimes/deepspeed/lowering.h"
#include "runtimes/fsdp/lowering.h"
#include "runtimes/litgpt/lowering.h"
#include "runtimes/megatron/lowering.h"
#include "runtimes/torchtitan/lowering.h"
#include "runtimes/transformers/lowering.h"

namespace headroom::ir {
namespace {

/// Heads that classify are transformers': the other model codes have none.
std::optional<Error> foreign_head(const ModelSpec& model, const ParallelPlan& plan) {
  const bool own =
      plan.model_code == ModelCode::kTransformers && plan.runtime != RuntimeKind::kMegatron;
  if (own || model.task == Task::kLanguage) {
    return std::nullopt;
  }
  return Error::invalid_argument("task", std::string(name_of(model.task)),
                                 "transformers' model code, under any runtime that trains it",
                                 "leave --megatron and --model-code out");
}

}  // namespace

Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan, Rank rank,
                          const DeviceTraits& device) {
  if (std::optional<Error> refused = foreign_head(model, plan)) {
    return *std::move(refused);
  }
  // Data-parallel ranks of the others hold and do the same.
  switch (plan.runtime) {
    case RuntimeKind::kTransformers:
      return plan.model_code == ModelCode::kLitgpt ? litgpt::lower(model, plan, device)
                                                   : transformers::lower(model, plan, device);
    case RuntimeKind::kDeepspeed:
      return deepspeed::lower(model, plan, static_cast<std::int64_t>(rank), device);
    case RuntimeKind::kFsdp:
      return plan.model_code == ModelCode::kTorchtitan
                 ? torchtitan::lower(model, plan, static_cast<std::int64_t>(rank), device)
                 : fsdp::lower(model, plan, rank, device);
    case RuntimeKind::kMegatron:
      return megatron::lower(model, plan, static_cast<std::int64_t>(rank), device);
  }
  return Error::invalid_argument("runtime", "?", "transformers, deepspeed, fsdp or megatron");
}

}  // namespace headroom::ir
