#include "model_ir/runtime/fsdp/lowering.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model_ir/graph/decoder.h"
#include "model_ir/runtime/fsdp/fully_shard.h"
#include "model_ir/runtime/fsdp/sharded_model.h"
#include "model_ir/runtime/torch/clip.h"
#include "model_ir/runtime/torch/functions.h"
#include "model_ir/runtime/torch/optimizer.h"
#include "model_ir/runtime/torch/phase.h"
#include "model_ir/runtime/transformers/forward.h"
#include "model_ir/runtime/transformers/support.h"

namespace headroom::ir::fsdp {
namespace {

using torch::Eager;
using torch::PhaseScope;
using torch::Tensor;

struct Run {
  Eager& eager;
  const ParallelPlan& plan;
  const Sharding& sharding;
  ShardedModel sharded;
  std::unique_ptr<FullyShard> hooks;
  torch::OptimizerState optimizer;
};

/// The plan of the arithmetic: parameters in the type in which they are gathered.
ParallelPlan arithmetic_plan(const ParallelPlan& plan, const FsdpPlan& fsdp) {
  ParallelPlan arithmetic = plan;
  arithmetic.precision = fsdp.param_dtype == DType::kBf16   ? Precision::kBf16
                         : fsdp.param_dtype == DType::kFp16 ? Precision::kFp16
                                                            : Precision::kFp32;
  return arithmetic;
}

Error refused(const char* key, const char* got, const char* wanted) {
  return Error::invalid_argument(key, got, wanted, "use --runtime transformers for the rest");
}

std::optional<Error> unsupported(const ParallelPlan& plan, const FsdpPlan& fsdp) {
  if (plan.world % fsdp.replicas != 0) {
    return Error::invalid_argument("replicas", std::to_string(fsdp.replicas),
                                   "a divisor of the " + std::to_string(plan.world) + " ranks");
  }
  if (plan.lora || plan.quant) {
    return refused("lora", "adapters or quantised weights", "full training with fsdp");
  }
  const OptimizerForm form = plan.optimizer.form;
  if (form == OptimizerForm::kEightBit || form == OptimizerForm::kPagedEightBit ||
      form == OptimizerForm::kPaged) {
    return refused("optimizer", "an optimizer of bitsandbytes", "one of torch's with fsdp");
  }
  if (plan.loss != LossKind::kHf) {
    return refused("loss", "chunked or fused", "hf with fsdp");
  }
  if (plan.precision != Precision::kFp32 && plan.precision != Precision::kBf16) {
    return refused("precision", "autocast, fp16 or fp32 masters",
                   "fp32 or bf16 shards; the policy of fsdp casts");
  }
  return std::nullopt;
}

transformers::ModelOutput call(Run& run, const Tensor& ids) {
  std::vector<Tensor> inputs{ids};
  run.hooks->before(kRootModule, inputs);
  inputs.clear();
  transformers::ModelOutput output = transformers::forward(run.eager, run.sharded.model, ids);
  run.hooks->after(kRootModule, {output.loss});
  return output;
}

void run_micro_batch(Run& run, const std::string& tag) {
  Eager& eager = run.eager;
  Tensor ids;
  Tensor loss;
  transformers::ModelOutput output;
  {
    const PhaseScope phase(eager, tag + ".forward");
    eager.set_site("input_ids", -1);
    ids = eager.empty({run.plan.micro_batch, run.plan.sequence}, DType::kInt64, TensorRole::kInput);
    output = call(run, ids);
    loss = output.loss;
    if (!run.plan.keep_logits) {
      output = {};
    }
    if (run.plan.accumulation > 1) {
      loss = torch::scale(eager, loss);
    }
  }
  const PhaseScope phase(eager, tag + ".backward");
  eager.set_site("loss", -1);
  {
    const Tensor seed = eager.empty({}, loss.dtype(), TensorRole::kLogits);
    eager.backward(loss, seed);
    run.hooks->finish_backward();
  }
  loss.reset();
  output = {};
  ids.reset();
}

void evaluate(Run& run) {
  const PhaseScope phase(run.eager, "evaluation");
  const torch::GradMode grad(run.eager, false);
  run.sharded.model.training = false;
  run.eager.set_site("input_ids", -1);
  const Tensor ids =
      run.eager.empty({run.plan.micro_batch, run.plan.sequence}, DType::kInt64, TensorRole::kInput);
  transformers::ModelOutput output = call(run, ids);
  output = {};
}

void run_step(Run& run, const std::string& tag) {
  for (std::int64_t micro = 1; micro <= run.plan.accumulation; ++micro) {
    run_micro_batch(run, run.plan.accumulation > 1 ? tag + "." + std::to_string(micro) : tag);
  }
  if (run.plan.optimizer.kind == OptimizerKind::kNone) {
    return;
  }
  {
    const PhaseScope phase(run.eager, tag + ".optimizer");
    if (run.plan.clip_norm) {
      torch::clip_grad_norm(run.eager, run.sharded.shards, run.sharding.ranks);
    }
    torch::step(run.eager, run.plan.optimizer, run.sharded.shards, run.optimizer);
  }
  const PhaseScope phase(run.eager, tag + ".zero_grad");
  torch::zero_grad(run.eager, run.sharded.shards);
}

void train(Run& run) {
  transformers::Model& model = run.sharded.model;
  run.hooks =
      std::make_unique<FullyShard>(run.eager, run.sharding.plan, std::move(run.sharded.groups));
  FullyShard& hooks = *run.hooks;
  model.hooks.before = [&hooks](std::int32_t module, std::vector<Tensor>& inputs) {
    hooks.before(module, inputs);
  };
  model.hooks.after = [&hooks](std::int32_t module, const std::vector<Tensor>& outputs) {
    hooks.after(module, outputs);
  };
  model.hooks.input_dtype = run.sharding.plan.param_dtype;
  for (int step = 1; step <= run.plan.steps; ++step) {
    run_step(run, "step" + std::to_string(step));
  }
  if (run.plan.evaluation) {
    evaluate(run);
  }
  if (run.plan.checkpoint_save) {
    const PhaseScope phase(run.eager, "checkpoint-save");  // Each rank writes its shards.
  }
}

}  // namespace

Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan,
                          const DeviceTraits& device) {
  const FsdpPlan fsdp = plan.fsdp.value_or(FsdpPlan{});
  if (const std::optional<Error> error = unsupported(plan, fsdp)) {
    return *error;
  }
  const ParallelPlan arithmetic = arithmetic_plan(plan, fsdp);
  const Graph graph = build_graph(model, {.batch = plan.micro_batch, .sequence = plan.sequence});
  if (const std::optional<Error> error = transformers::unsupported(model, arithmetic)) {
    return *error;
  }
  Eager eager(device);
  const Sharding sharding{.eager = eager,
                          .plan = fsdp,
                          .stored = param_dtype(plan.precision),
                          .ranks = plan.world / fsdp.replicas};
  Run run{.eager = eager,
          .plan = plan,
          .sharding = sharding,
          .sharded = {},
          .hooks = {},
          .optimizer = {}};
  {
    const PhaseScope phase(eager, "load");
    run.sharded = load_sharded(sharding, model, arithmetic, graph);
  }
  train(run);
  return eager.finish();
}

}  // namespace headroom::ir::fsdp
