#include "costmodel/time/step_parts.h"

#include <algorithm>

#include "model_ir/plan/pipeline_plan.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::cost {
namespace {

struct Words {
  std::string_view name;
  std::string_view text;
};
constexpr std::array<Words, kStepParts> kWords = {
    {{"matrix", "matrix products"},
     {"experts", "experts"},
     {"attention", "attention"},
     {"memory_bound", "memory-bound kernels"},
     {"recompute", "recomputation"},
     {"optimizer", "optimizer"},
     {"host", "launches"},
     {"tensor_parallel", "tensor-parallel communication"},
     {"context_parallel", "context-parallel communication"},
     {"expert_parallel", "expert-parallel communication"},
     {"data_parallel", "data-parallel communication"},
     {"pipeline_transfers", "pipeline transfers"},
     {"bubble", "pipeline bubble"},
     {"offload", "host copies and offload"}}};

bool runs_along(const ir::RankGroup& group, std::int64_t size, std::int64_t stride) {
  return size > 1 && group.size == size && group.stride == stride && group.outer_size == 1;
}

}  // namespace

std::string_view name_of(StepPart part) {
  return kWords.at(static_cast<std::size_t>(part)).name;
}

std::string_view describe(StepPart part) {
  return kWords.at(static_cast<std::size_t>(part)).text;
}

void PartTimes::add(const PartTimes& other, double factor) {
  for (std::size_t i = 0; i < kStepParts; ++i) {
    times_.at(i) += factor * other.times_.at(i);
  }
}

Seconds PartTimes::total() const {
  Seconds sum;
  for (const Seconds time : times_) {
    sum += time;
  }
  return sum;
}

StepPart part_of(const ir::ParallelPlan& plan, const ir::CollectiveShape& shape) {
  const bool direct =
      shape.kind == ir::CollectiveKind::kSend || shape.kind == ir::CollectiveKind::kReceive;
  if (!plan.megatron) {
    return direct && ir::pipeline_stages(plan) > 1 ? StepPart::kPipeline : StepPart::kData;
  }
  const ir::MegatronPlan& megatron = *plan.megatron;
  const std::int64_t tensor = megatron.tensor;
  if (direct) {
    const bool ring = megatron.context > 1 && shape.group.stride == tensor;
    return ring ? StepPart::kContext : StepPart::kPipeline;
  }
  const std::int64_t expert_tensor = megatron.expert_tensor > 0 ? megatron.expert_tensor : tensor;
  if (shape.kind == ir::CollectiveKind::kTokenExchange) {
    return StepPart::kExpert;
  }
  const bool exchange = shape.kind == ir::CollectiveKind::kAllToAll;
  if (exchange && runs_along(shape.group, megatron.expert, expert_tensor)) {
    return StepPart::kExpert;
  }
  if (runs_along(shape.group, tensor, 1)) {
    return StepPart::kTensor;
  }
  if (exchange && runs_along(shape.group, megatron.context, tensor)) {
    return StepPart::kContext;
  }
  const bool stages = shape.group.stride == ir::stage_stride(megatron, plan.world);
  return megatron.pipeline > 1 && stages ? StepPart::kPipeline : StepPart::kData;
}

}  // namespace headroom::cost
