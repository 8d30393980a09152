#include "model_ir/runtime/transformers/training.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "model_ir/runtime/torch/clip.h"
#include "model_ir/runtime/torch/ddp.h"
#include "model_ir/runtime/torch/functions.h"
#include "model_ir/runtime/torch/grad_scaler.h"
#include "model_ir/runtime/torch/optimizer.h"
#include "model_ir/runtime/torch/phase.h"
#include "model_ir/runtime/transformers/forward.h"
#include "model_ir/runtime/transformers/model.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::PhaseScope;
using torch::Tensor;

struct Training {
  Eager& eager;
  const ParallelPlan& plan;
  Model model;
  torch::OptimizerState optimizer;
  std::optional<torch::GradScaler> scaler;  ///< fp16 autocast.
  std::unique_ptr<torch::Ddp> ddp;          ///< Several ranks.
};

/// Forward and backward of one micro-batch.
void run_micro_batch(Training& run, const std::string& tag) {
  Eager& eager = run.eager;
  const ParallelPlan& plan = run.plan;
  Tensor ids;
  Tensor loss;
  ModelOutput output;
  {
    const PhaseScope phase(eager, tag + ".forward");
    eager.set_site("input_ids", -1);
    ids = eager.empty({plan.micro_batch, plan.sequence}, DType::kInt64, TensorRole::kInput);
    const auto autocast = autocast_dtype(plan.precision);
    if (autocast) {
      eager.enter_autocast(*autocast);
    }
    if (run.ddp) {
      run.ddp->before_forward();
    }
    output = forward(eager, run.model, ids);
    if (autocast) {
      eager.leave_autocast();
    }
    loss = output.loss;
    output.loss.reset();
    if (!plan.keep_logits) {
      output.logits.reset();
    }
    if (plan.accumulation > 1) {
      loss = torch::scale(eager, loss);
    }
  }
  const PhaseScope phase(eager, tag + ".backward");
  eager.set_site("loss", -1);
  {
    const Tensor scaled = run.scaler ? run.scaler->scale(loss) : loss;
    const Tensor seed = eager.empty({}, scaled.dtype(), TensorRole::kLogits);
    eager.backward(scaled, seed);
  }
  loss.reset();
  output = {};
  ids.reset();
}

void run_optimizer(Training& run) {
  const std::span<const Tensor> parameters = run.model.trainable;
  if (run.plan.clip_norm) {
    if (run.scaler) {
      run.scaler->unscale(parameters);
    }
    torch::clip_grad_norm(run.eager, parameters);
  }
  if (run.scaler) {
    run.scaler->step(run.plan.optimizer, parameters, run.optimizer);
    run.scaler->update();
  } else {
    torch::step(run.eager, run.plan.optimizer, parameters, run.optimizer);
  }
}

void evaluate(Training& run) {
  const PhaseScope phase(run.eager, "evaluation");
  const torch::GradMode grad(run.eager, false);
  run.model.training = false;
  const Tensor ids =
      run.eager.empty({run.plan.micro_batch, run.plan.sequence}, DType::kInt64, TensorRole::kInput);
  if (run.ddp) {
    run.ddp->before_forward();
  }
  ModelOutput output = forward(run.eager, run.model, ids);
  output = {};
}

}  // namespace

void train(Eager& eager, const ModelSpec& spec, const ParallelPlan& plan, const Graph& graph) {
  Training run{.eager = eager, .plan = plan, .model = {}, .optimizer = {}, .scaler = {}, .ddp = {}};
  if (plan.precision == Precision::kAutocastFp16) {
    run.scaler.emplace(eager);
  }
  {
    const PhaseScope phase(eager, "load");
    run.model = load_model(eager, spec, plan, graph);
    if (plan.lora) {
      add_adapters(eager, run.model, *plan.lora);
    }
    if (plan.ddp) {
      run.ddp = std::make_unique<torch::Ddp>(eager, *plan.ddp, plan.world, run.model.trainable,
                                             run.model.buffers);
    }
  }
  for (int step = 1; step <= plan.steps; ++step) {
    const std::string tag = "step" + std::to_string(step);
    for (std::int64_t micro = 1; micro <= plan.accumulation; ++micro) {
      run_micro_batch(run, plan.accumulation > 1 ? tag + "." + std::to_string(micro) : tag);
    }
    if (plan.optimizer.kind == OptimizerKind::kNone) {
      continue;
    }
    {
      const PhaseScope phase(eager, tag + ".optimizer");
      run_optimizer(run);
    }
    const PhaseScope phase(eager, tag + ".zero_grad");
    torch::zero_grad(eager, run.model.trainable);
  }
  if (plan.evaluation) {
    evaluate(run);
  }
}

}  // namespace headroom::ir::transformers
