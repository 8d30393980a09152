#include "planner/space/axis_value.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "model_ir/plan/plan_words.h"
#include "planner/space/stage_forms.h"
#include "planner/space/titan_space.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::plan {
namespace {

template <typename Value>
std::int64_t position(std::span<const ir::Word<Value>> words, const Value& value) {
  const auto found = std::ranges::find(words, value, &ir::Word<Value>::value);
  return found == words.end() ? -1 : found - words.begin();
}

std::int64_t position_of(std::span<const std::string_view> words, std::string_view word) {
  const auto found = std::ranges::find(words, word);
  return found == words.end() ? -1 : found - words.begin();
}

std::int64_t precision_of(const ir::ParallelPlan& plan) {
  if (plan.megatron && plan.megatron->fp8 != ir::MegatronFp8::kNone) {
    return precision_with(plan.megatron->fp8);
  }
  return canonical(Axis::kPrecision, position(ir::precision_words(), arithmetic_of(plan)));
}

/// Fused, unfused (Megatron), then `ir::AttentionKind` in its order.
std::int64_t attention_of(const ir::ParallelPlan& plan) {
  if (plan.megatron) {
    return plan.megatron->attention == ir::MegatronAttention::kUnfused ? 1 : 0;
  }
  return 2 + static_cast<std::int64_t>(plan.attention);
}

std::int64_t recompute_of(const ir::ParallelPlan& plan) {
  if (plan.megatron) {
    return static_cast<std::int64_t>(plan.megatron->recompute);
  }
  if (plan.titan && plan.titan->selective_operators) {
    return static_cast<std::int64_t>(RecomputeChoice::kSelective);
  }
  return static_cast<std::int64_t>(plan.recompute == ir::Recompute::kNone ? RecomputeChoice::kNone
                                                                          : RecomputeChoice::kFull);
}

std::int64_t offload_of(const ir::ParallelPlan& plan) {
  if (plan.fsdp) {
    return plan.fsdp->cpu_offload ? 2 : 0;
  }
  if (!plan.zero || plan.zero->offload_optimizer == ir::OffloadDevice::kNone) {
    return 0;
  }
  return plan.zero->offload_param == ir::OffloadDevice::kNone ? 1 : 2;
}

std::int64_t optimizer_of(const ir::ParallelPlan& plan) {
  ir::OptimizerPlan optimizer = plan.optimizer;
  if (offload_of(plan) > 0 && optimizer.kind == ir::OptimizerKind::kAdamW &&
      optimizer.form == ir::OptimizerForm::kFused) {
    optimizer.form = ir::OptimizerForm::kForeach;  // DeepSpeedCPUAdam goes by the name of adamw.
  }
  return position(ir::optimizer_words(), optimizer);
}

/// Of the optimizer: Megatron's distributed one, or DeepSpeed's.
double share_on_host(const ir::ParallelPlan& plan) {
  if (plan.zero) {
    return plan.zero->offload_optimizer == ir::OffloadDevice::kNone ? 0 : plan.zero->offload_ratio;
  }
  return plan.megatron ? plan.megatron->optimizer_offload : 0;
}

std::int64_t schedule_of(const ir::MegatronPlan& megatron) {
  return schedule_with(ir::is_interleaved(megatron) ? ir::PipelineKind::kInterleaved
                                                    : ir::PipelineKind::kOneForwardOneBackward);
}

/// Megatron's switches.
bool is_on(const ir::MegatronPlan& megatron, Axis axis) {
  switch (axis) {
    case Axis::kContextExchange:
      return megatron.context_exchange == ir::MegatronContext::kAllToAll;
    case Axis::kDispatcher:
      return megatron.dispatcher == ir::MegatronDispatcher::kHybridEp;
    case Axis::kAccountEmbedding:
      return megatron.account_for_embedding;
    case Axis::kAccountLoss:
      return megatron.account_for_loss;
    case Axis::kFp8Parameters:
      return megatron.fp8_parameters;
    case Axis::kSequenceParallel:
      return megatron.sequence_parallel;
    case Axis::kDistributedOptimizer:
      return megatron.distributed_optimizer;
    case Axis::kOverlapGradReduce:
      return megatron.overlap_grad_reduce;
    case Axis::kOverlapParamGather:
      return megatron.overlap_param_gather;
    case Axis::kAccumulationFusion:
      return megatron.accumulation_fusion;
    case Axis::kLoaderMask:
      return megatron.mask_in_dataloader;
    case Axis::kMeshOrder:
      return megatron.pipeline_before_data;
    default:
      return false;
  }
}

/// What torchtitan's code has on the axes of its own plan.
std::optional<std::int64_t> titan_value(const ir::ParallelPlan& plan, Axis axis) {
  const ir::TitanPlan titan = plan.titan.value_or(ir::TitanPlan{});
  const bool pipelined = titan.pipeline > 1;
  switch (axis) {
    case Axis::kRuntime:
      return kTitanRuntime;
    case Axis::kTensor:
      return titan.tensor;
    case Axis::kPipeline:
      return titan.pipeline;
    case Axis::kSchedule:
      return schedule_with(titan.schedule);
    case Axis::kPipelineRuns:
      return pipelined ? plan.accumulation : 1;
    case Axis::kContext:
      return titan.context;
    case Axis::kExpert:
      return titan.expert;
    case Axis::kExpertTensor:
      return titan.expert_tensor;
    case Axis::kChunk:
      return titan.stage_layers;
    case Axis::kAccountEmbedding:
      return pipelined && titan.first_stage_less > 0 ? 1 : 0;
    case Axis::kAccountLoss:
      return pipelined && titan.last_stage_less > 0 ? 1 : 0;
    case Axis::kMicroBatch:
      return sequences_of_pass(plan);
    case Axis::kSequenceParallel:
      return titan.tensor > 1 ? 1 : 0;
    case Axis::kReshard:
      return titan.reshard == ir::TitanReshard::kAlways ||
                     (titan.reshard == ir::TitanReshard::kDefault && !pipelined)
                 ? 1
                 : 0;
    case Axis::kCompiled:
      return titan.compiled ? 1 : 0;
    default:
      return std::nullopt;
  }
}

/// Axes that are choices within a cell of every runtime.
bool is_choice(Axis axis) {
  switch (axis) {
    case Axis::kRecompute:
    case Axis::kRecomputeLayers:
    case Axis::kDistributedOptimizer:
    case Axis::kOverlapGradReduce:
    case Axis::kOverlapParamGather:
    case Axis::kAccumulationFusion:
    case Axis::kLoss:
    case Axis::kLoaderMask:
    case Axis::kMeshOrder:
    case Axis::kOptimizerOffload:
      return true;
    default:
      return false;
  }
}

/// Groups of uniform recomputation divide all chunks; block leaves a layer of the longest.
AxisValues recompute_layers_of(const SpaceQuestion& question) {
  const Constraints& allowed = question.constraints;
  const auto has = [&](RecomputeChoice choice) {
    return allowed.allows(Axis::kRecompute, static_cast<std::int64_t>(choice));
  };
  SpaceQuestion any = question;
  any.constraints.of(Axis::kRecompute) = {};
  any.constraints.of(Axis::kRecomputeLayers) = {};
  std::set<std::int64_t> values;
  for (const Cell& cell : cells_of(any)) {
    if (!cell.plan.megatron) {
      continue;
    }
    const ChunkSizes chunk =
        chunk_sizes(*cell.plan.megatron, static_cast<std::int64_t>(question.model.layers.size()));
    for (std::int64_t layers = 1; layers <= chunk.most; ++layers) {
      const bool block = layers < chunk.most && has(RecomputeChoice::kBlock);
      const bool uniform = chunk.divisor % layers == 0 && has(RecomputeChoice::kUniform);
      if ((block || uniform) && allowed.allows(Axis::kRecomputeLayers, layers)) {
        values.insert(layers);
      }
    }
  }
  return {values.begin(), values.end()};
}

AxisValues choices_on(const SpaceQuestion& question, Axis axis) {
  if (axis == Axis::kRecomputeLayers) {
    return recompute_layers_of(question);
  }
  if (is_held(axis) && question.constraints.of(axis).empty()) {
    return {0};
  }
  AxisValues values;
  const auto words = static_cast<std::int64_t>(words_of_axis(axis).size());
  for (std::int64_t value = 0; value < words; ++value) {
    SpaceQuestion with = question;
    with.constraints.of(axis) = {value};
    if (question.constraints.allows(axis, value) && !cells_of(with).empty()) {
      values.push_back(value);
    }
  }
  return values;
}

}  // namespace

std::int64_t canonical(Axis axis, std::int64_t value) {
  if (axis != Axis::kPrecision) {
    return value;
  }
  const auto is = [&](ir::Precision one) { return value == position(ir::precision_words(), one); };
  if (is(ir::Precision::kBf16Master) || is(ir::Precision::kAutocastBf16)) {
    return position(ir::precision_words(), ir::Precision::kBf16);
  }
  if (is(ir::Precision::kFp16Master) || is(ir::Precision::kAutocastFp16)) {
    return position(ir::precision_words(), ir::Precision::kFp16);
  }
  return value;
}

ir::Precision arithmetic_of(const ir::ParallelPlan& plan) {
  if (plan.fsdp && plan.fsdp->param_dtype == ir::DType::kBf16) {
    return ir::Precision::kBf16;
  }
  switch (plan.precision) {
    case ir::Precision::kBf16Master:
      return ir::Precision::kBf16;
    case ir::Precision::kFp16Master:
      return ir::Precision::kFp16;
    default:
      return plan.precision;
  }
}

std::int64_t sequences_of_pass(const ir::ParallelPlan& plan) {
  const bool pipelined = plan.titan && plan.titan->pipeline > 1;
  return pipelined ? plan.titan->pipeline_batch : plan.micro_batch;
}

std::int64_t value_of(const ir::ParallelPlan& plan, Axis axis) {
  if (is_titan(plan)) {
    if (const std::optional<std::int64_t> value = titan_value(plan, axis)) {
      return *value;
    }
  }
  const ir::MegatronPlan megatron = plan.megatron.value_or(ir::MegatronPlan{});
  switch (axis) {
    case Axis::kRuntime:
      return position_of(words_of_axis(Axis::kRuntime), plan.runtime);
    case Axis::kGpus:
      return plan.world;
    case Axis::kTensor:
      return megatron.tensor;
    case Axis::kPipeline:
      return megatron.pipeline;
    case Axis::kSchedule:
      return schedule_of(megatron);
    case Axis::kPipelineRuns:
      return 1;
    case Axis::kContext:
      return megatron.context;
    case Axis::kExpert:
      return megatron.expert;
    case Axis::kExpertTensor:
      return megatron.expert_tensor;
    case Axis::kChunk:
      return megatron.layers_per_chunk;
    case Axis::kFirstStage:
      return megatron.first_stage_layers;
    case Axis::kLastStage:
      return megatron.last_stage_layers;
    case Axis::kPrecision:
      return precision_of(plan);
    case Axis::kOptimizer:
      return optimizer_of(plan);
    case Axis::kMicroBatch:
      return plan.micro_batch;
    case Axis::kSequence:
      return plan.sequence;
    case Axis::kAttention:
      return attention_of(plan);
    case Axis::kRecompute:
      return recompute_of(plan);
    case Axis::kRecomputeLayers:
      return megatron.recompute_layers;
    case Axis::kRecomputeEvery:
      return plan.recompute_every;
    case Axis::kCompiled:
      return 0;
    case Axis::kOffloadModules:
      return value_with(megatron.offload_modules);
    case Axis::kLoss:
      return plan.megatron ? static_cast<std::int64_t>(megatron.cross_entropy)
                           : 3 + static_cast<std::int64_t>(plan.loss);
    case Axis::kZero:
      return plan.zero ? plan.zero->stage : 0;
    case Axis::kReshard:
      return plan.fsdp && plan.fsdp->reshard_after_forward ? 1 : 0;
    case Axis::kReplicas:
      return plan.fsdp ? plan.fsdp->replicas : 1;
    case Axis::kOffload:
      return offload_of(plan);
    case Axis::kOptimizerOffload:
      return std::lround(share_on_host(plan) * static_cast<double>(kOffloadSteps));
    case Axis::kContextExchange:
    case Axis::kDispatcher:
    case Axis::kAccountEmbedding:
    case Axis::kAccountLoss:
    case Axis::kFp8Parameters:
    case Axis::kSequenceParallel:
    case Axis::kDistributedOptimizer:
    case Axis::kOverlapGradReduce:
    case Axis::kOverlapParamGather:
    case Axis::kAccumulationFusion:
    case Axis::kLoaderMask:
    case Axis::kMeshOrder:
      return plan.megatron && is_on(megatron, axis) ? 1 : 0;
  }
  return -1;
}

AxisValues values_in_space(const SpaceQuestion& question, Axis axis) {
  if (is_choice(axis)) {
    return choices_on(question, axis);
  }
  std::set<std::int64_t> values;
  for (const Cell& cell : cells_of(question)) {
    if (!is_titan(cell.plan)) {
      values.insert(value_of(cell.plan, axis));
      continue;
    }
    for (const ir::ParallelPlan& plan : choices_of(question, cell).recomputations) {
      values.insert(value_of(plan, axis));
    }
  }
  return {values.begin(), values.end()};
}

}  // namespace headroom::plan
