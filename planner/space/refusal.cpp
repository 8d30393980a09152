#include "planner/space/refusal.h"

#include <algorithm>
#include <cmath>

#include "planner/space/axis_value.h"
#include "planner/space/conflict.h"
#include "runtimes/torchtitan/model.h"

namespace headroom::plan {
namespace {

std::string number(std::int64_t value) {
  return std::to_string(value);
}

std::string gpus_text(const SpaceQuestion& question) {
  const AxisValues& given = question.constraints.of(Axis::kGpus);
  return number(given.empty() ? question.base.world : given.back());
}

std::string sequence_text(const SpaceQuestion& question) {
  const AxisValues& given = question.constraints.of(Axis::kSequence);
  return number(given.empty() ? question.base.sequence : given.front());
}

std::string values_text(Axis axis, const AxisValues& values) {
  std::string text;
  for (const std::int64_t value : values) {
    text += (text.empty() ? "" : ",") + value_text(axis, value);
  }
  return text;
}

std::string option_text(Axis axis, const AxisValues& values) {
  return "--" + std::string(option_of(axis)) + " " + values_text(axis, values);
}

/// `freed` with these axes.
SpaceQuestion only(const SpaceQuestion& question, const std::vector<Axis>& axes) {
  SpaceQuestion some = freed(question);
  for (const Axis axis : axes) {
    some.constraints.of(axis) = question.constraints.of(axis);
  }
  return some;
}

/// Frameworks with a plan, torchtitan's code among them, which is there only where it is named.
AxisValues working_runtimes(SpaceQuestion some) {
  some.constraints.of(Axis::kRuntime) = {};
  AxisValues values = values_in_space(some, Axis::kRuntime);
  some.constraints.of(Axis::kRuntime) = {kTitanRuntime};
  if (!cells_of(some).empty()) {
    values.push_back(kTitanRuntime);
  }
  return values;
}

/// Whether some plan of `some` has `value` where it is asked for.
bool has_plans(SpaceQuestion some, Axis axis, std::int64_t value) {
  some.constraints.of(axis) = {value};
  return !cells_of(some).empty();
}

/// "--tp 1,2,4": the values of `axis` nearest to those given that work beside all else that was
/// asked for, else beside the other `axes`; "leave out --zero" where plans have no such axis, and
/// nothing where none is left.
std::string working_text(const SpaceQuestion& question, const std::vector<Axis>& axes, Axis axis) {
  constexpr std::size_t kMost = 6;
  if (axis == Axis::kGpus) {
    return "";  // The axes beside it say what would do.
  }
  const auto values_beside = [&](std::vector<Axis> others) {
    std::erase(others, axis);
    const SpaceQuestion some = only(question, others);
    return axis == Axis::kRuntime ? working_runtimes(some) : values_in_space(some, axis);
  };
  std::vector<Axis> beside = given_axes(question);
  AxisValues values = values_beside(beside);
  if (values.empty()) {
    beside = axes;
    values = values_beside(beside);
  }
  if (values.empty() || axis == Axis::kRuntime) {
    return values.empty() ? "" : "use " + option_text(axis, values);
  }
  const auto asked = static_cast<double>(question.constraints.of(axis).front());
  std::ranges::stable_sort(values, {}, [&](std::int64_t value) {
    return std::abs(std::log2((static_cast<double>(value) + 1) / (asked + 1)));
  });
  values.resize(std::min(values.size(), kMost));
  std::erase(beside, axis);
  const SpaceQuestion some = only(question, beside);
  std::erase_if(values, [&](std::int64_t value) { return !has_plans(some, axis, value); });
  std::ranges::sort(values);
  return values.empty() ? "leave out --" + std::string(option_of(axis))
                        : "use " + option_text(axis, values);
}

/// "use --runtime torchtitan", which alone has what was asked for where no runtime was named.
std::string titan_text(const SpaceQuestion& question) {
  const std::vector<Axis> given = given_axes(question);
  if (std::ranges::find(given, Axis::kRuntime) != given.end() ||
      !has_plans(only(question, given), Axis::kRuntime, kTitanRuntime)) {
    return "";
  }
  return "use " + option_text(Axis::kRuntime, {kTitanRuntime});
}

/// The rules of how a model is cut; nothing for other axes.
std::string degree_rule(const SpaceQuestion& question, Axis axis) {
  const ir::ModelSpec& model = question.model;
  const std::string gpus = gpus_text(question);
  const std::string layers = number(static_cast<std::int64_t>(model.layers.size()));
  const std::string none = "no value: the model has no experts";
  switch (axis) {
    case Axis::kTensor:
      return "a divisor of the heads (" + number(model.heads) + "), the KV heads (" +
             number(model.kv_heads) + ") and the GPUs (" + gpus +
             "), of megatron and torchtitan alone above 1";
    case Axis::kPipeline:
      return "a divisor of the GPUs (" + gpus +
             ") that the tensor degree leaves, with a layer (of " + layers +
             ") in every stage, of megatron and torchtitan (which shards a stage among two ranks "
             "or more) alone above 1";
    case Axis::kContext:
      return "a divisor of the GPUs (" + gpus +
             ") that the other degrees leave, twice which divides the sequence (" +
             sequence_text(question) + "), of megatron and torchtitan alone above 1";
    case Axis::kContextExchange:
      return "p2p or, with cp above 1 and tp x cp a divisor of the heads (" + number(model.heads) +
             ") and the KV heads (" + number(model.kv_heads) + "), a2a, of megatron alone";
    case Axis::kExpert:
      return model.moe ? "a divisor of the experts (" + number(model.moe->experts) +
                             ") and of a stage's ranks (of " + gpus +
                             " GPUs), of megatron and torchtitan alone above 1"
                       : "1: the model has no experts";
    case Axis::kExpertTensor:
      return model.moe ? "1 or the tensor degree, of megatron and torchtitan alone" : none;
    case Axis::kDispatcher:
      return "alltoall or, with experts on several ranks and etp 1, hybridep, of megatron alone";
    case Axis::kChunk:
      return "0 or, with several stages, below a stage's layers (of " + layers +
             "): of megatron a divisor of them, of torchtitan (interleaved, zb-h1) what gives "
             "every "
             "rank as many chunks";
    case Axis::kSchedule:
      return "1f1b; with several stages interleaved of megatron, or what torchtitan has under "
             "--runtime torchtitan: gpipe, interleaved, zb-h1, zb-v, dualpipev (the last three "
             "with eager blocks that keep all)";
    case Axis::kPipelineRuns:
      return "1 or, with several stages of torchtitan, a divisor of a rank's micro-batches that "
             "leaves each run as many as stages";
    case Axis::kFirstStage:
    case Axis::kLastStage:
      return "0 or, with several stages and no chunks, so many layers (of " + layers +
             ") that the stages between share the rest evenly, of megatron alone";
    case Axis::kAccountEmbedding:
    case Axis::kAccountLoss:
      return "no or, with several stages, yes where the layers (" + layers +
             ") and what counts as one can be dealt out evenly, of megatron alone";
    default:
      return {};
  }
}

}  // namespace

namespace {

/// The rules of what is run again, and of compiled blocks. `layers`: of the model.
std::string block_rule(Axis axis, const std::string& layers) {
  switch (axis) {
    case Axis::kRecompute:
      return "none, selective, uniform or block of megatron, none or full of the others, of "
             "torchtitan selective, too";
    case Axis::kRecomputeEvery:
      return "1 or, with recompute full of torchtitan, no more layers than a rank has (of " +
             layers + ")";
    case Axis::kCompiled:
      return "no or, of a dense model under --runtime torchtitan with tp and cp of 1, yes";
    case Axis::kRecomputeLayers:
      return "fewer layers than a model chunk has (of " + layers +
             ") for block, a divisor of them for uniform, of megatron alone";
    default:
      return {};
  }
}

/// Why no framework that is asked for has a plan; of torchtitan's code what it has not.
std::string framework_rule(const SpaceQuestion& question) {
  const AxisValues& asked = question.constraints.of(Axis::kRuntime);
  if (asked == AxisValues{kTitanRuntime}) {
    ir::ParallelPlan plan = question.base;
    plan.runtime = "torchtitan";
    plan.precision = ir::Precision::kFp32;
    plan.world = 2;
    const std::optional<Error> error = ir::torchtitan::unsupported(question.model, plan);
    if (!error && question.model.moe && question.device.compute_major < 9) {
      return "a GPU of compute capability 9.0 or more for experts under torchtitan";
    }
    return error ? error->wanted : "degrees that torchtitan's code has, in bf16 with an AdamW";
  }
  return "a framework that has the model and what is asked for";
}

}  // namespace

std::string rule_of(const SpaceQuestion& question, Axis axis) {
  const ir::ModelSpec& model = question.model;
  const std::string gpus = gpus_text(question);
  const std::string layers = number(static_cast<std::int64_t>(model.layers.size()));
  switch (axis) {
    case Axis::kRuntime:
      return framework_rule(question);
    case Axis::kGpus:
      return "GPUs that degrees divide and whose data-parallel ranks divide the batch (" +
             number(question.global_batch) + ")";
    case Axis::kTensor:
    case Axis::kPipeline:
    case Axis::kSchedule:
    case Axis::kPipelineRuns:
    case Axis::kContext:
    case Axis::kContextExchange:
    case Axis::kExpert:
    case Axis::kExpertTensor:
    case Axis::kDispatcher:
    case Axis::kChunk:
    case Axis::kFirstStage:
    case Axis::kLastStage:
    case Axis::kAccountEmbedding:
    case Axis::kAccountLoss:
      return degree_rule(question, axis);
    case Axis::kPrecision:
      return "a recipe that the framework has; in 8 bits of megatron alone, on a GPU of compute "
             "capability 8.9 or later (blockwise: 9.0 alone, mxfp8: 10.0 or later), fp8-delayed "
             "without recomputation";
    case Axis::kFp8Parameters:
      return "no or, under a recipe in 8 bits, with megatron's distributed optimizer and nothing "
             "on the host, yes";
    case Axis::kOptimizer:
      return "an optimizer that the framework has (megatron: adamw)";
    case Axis::kMicroBatch:
      return "a divisor of the sequences of a data-parallel rank (a batch of " +
             number(question.global_batch) + " over ranks that divide " + gpus + " GPUs)";
    case Axis::kSequence:
      return model.max_positions > 0
                 ? "a length that the model has positions for (" + number(model.max_positions) + ")"
                 : "a length that the framework has";
    case Axis::kSequenceParallel:
      return "no or, with a tensor degree above 1, yes, of megatron alone";
    case Axis::kAttention:
      return "fused or unfused of megatron (with context parallelism fused), sdpa, eager, flash or "
             "sdpa-no-cudnn of the other frameworks where the model has it";
    case Axis::kRecompute:
    case Axis::kRecomputeLayers:
    case Axis::kRecomputeEvery:
    case Axis::kCompiled:
      return block_rule(axis, layers);
    case Axis::kOffloadModules:
      return "none or, of megatron alone and without recompute uniform or block, modules that the "
             "model has: core_attn (attention fused), attn_proj beside it, qkv_linear; of experts "
             "mlp_norm, expert_fc1, moe_act; of latent attention attn_norm; in 8 bits none with "
             "weights";
    case Axis::kDistributedOptimizer:
    case Axis::kOverlapGradReduce:
    case Axis::kAccumulationFusion:
    case Axis::kLoaderMask:
      return "yes or no, of megatron alone";
    case Axis::kOverlapParamGather:
      return "no or, with distributed-optimizer and overlap-grad-reduce, yes, of megatron alone";
    case Axis::kLoss:
      return "unfused, native or te of megatron, hf, chunked or fused-linear of the others";
    case Axis::kZero:
      return "a stage from 0 to 3 of deepspeed, 3 for causal models";
    case Axis::kReshard:
      return "yes or no, of fsdp and torchtitan alone";
    case Axis::kReplicas:
      return "a divisor of the GPUs (" + gpus + ") below them, of fsdp and torchtitan alone";
    case Axis::kOffload:
      return "none, optimizer (deepspeed's stages 1 to 3) or all (its stage 3, fsdp)";
    case Axis::kMeshOrder:
      return "tp-cp-ep-dp-pp or, of megatron alone and with experts only where etp x ep is tp x "
             "cp, tp-cp-ep-pp-dp";
    case Axis::kOptimizerOffload:
      return "0 or, with megatron's distributed optimizer in bf16 or deepspeed's stage 3, 0.25, "
             "0.5, 0.75 or 1 (deepspeed's stages 1 and 2: 1)";
  }
  return "a value that some plan can have";
}

Error refusal_of(const SpaceQuestion& question) {
  const std::optional<Conflict> conflict = conflict_of(question);
  if (!conflict) {
    return Error::invalid_argument(
        "gpus", gpus_text(question) + " with --global-batch " + number(question.global_batch),
        rule_of(question, Axis::kGpus), "change one of the two");
  }
  const std::vector<Axis>& axes = conflict->axes;
  std::string got;
  std::string wanted;
  std::string fix;
  for (const Axis axis : axes) {
    got += (got.empty() ? "" : " with ") + option_text(axis, question.constraints.of(axis));
    const std::string rule =
        (axes.size() > 1 ? std::string(option_of(axis)) + ": " : "") + rule_of(question, axis);
    wanted += (wanted.empty() ? "" : "; ") + rule;
    std::string working = working_text(question, axes, axis);
    if (!fix.empty() && working.starts_with("use ")) {
      working.erase(0, 4);  // "use --tp 1, or --pp 1"
    }
    fix += (fix.empty() || working.empty() ? "" : ", or ") + working;
  }
  if (const std::string titan = titan_text(question); !titan.empty()) {
    fix += (fix.empty() ? "" : ", or ") + titan;
  }
  return Error::invalid_argument(option_of(axes.front()), got, wanted,
                                 fix.empty() ? "leave one of them out" : fix);
}

}  // namespace headroom::plan
