#include "runtimes/transformers/training.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtimes/torch/clip.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/ddp_plan.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/grad_scaler.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/optimizer.h"
#include "runtimes/torch/optimizer_resume.h"
#include "runtimes/torch/phase.h"
#include "runtimes/torch/record.h"
#include "runtimes/transformers/forward.h"
#include "runtimes/transformers/generation.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::PhaseScope;
using torch::Tensor;

struct Training {
  Eager& eager;
  const ParallelPlan& plan;
  Model model;
  Batch batch;
  torch::OptimizerState optimizer;
  std::vector<torch::OptimizerState> own_optimizers;  ///< One per parameter.
  std::optional<torch::GradScaler> scaler;            ///< fp16 autocast.
  std::unique_ptr<torch::Ddp> ddp;                    ///< With several ranks.
};

/// Assigns the loop variable: the next batch exists before the last one is freed.
void next_batch(Training& run) {
  Batch batch = make_batch(run.eager, run.model);
  const bool recorded =
      run.model.spec->recording != nullptr && run.model.spec->task == Task::kTokenClassification;
  Tensor& labels = recorded ? batch.others.front() : batch.labels;
  if (run.plan.workload.keep_batch && labels.impl() == batch.ids.impl()) {
    labels = torch::computed(run.eager, batch.ids.shape(), DType::kInt64, TensorRole::kInput);
  }
  run.batch = std::move(batch);
}

/// Forward and backward of one micro-batch.
void run_micro_batch(Training& run, StepPosition at) {
  Eager& eager = run.eager;
  const ParallelPlan& plan = run.plan;
  Tensor loss;
  ModelOutput output;
  {
    const PhaseScope phase(eager, PhaseKind::kForward, at);
    next_batch(run);
    const auto autocast = autocast_dtype(plan.precision);
    if (autocast) {
      eager.enter_autocast(*autocast);
    }
    if (run.ddp) {
      run.ddp->before_forward();
    }
    output = forward(eager, run.model, run.batch);
    if (autocast) {
      eager.leave_autocast();
    }
    loss = output.loss;
    if (!plan.workload.keep_logits) {
      output.clear();
    }
    if (plan.workload.accumulation > 1 && !plan.workload.keep_batch) {
      loss = torch::scale(eager, loss);
    }
  }
  const PhaseScope phase(eager, PhaseKind::kBackward, at);
  eager.set_site("loss", -1);
  {
    const Tensor scaled = run.scaler ? run.scaler->scale(loss) : loss;
    const Tensor seed = torch::computed(eager, {}, scaled.dtype(), TensorRole::kLogits);
    eager.backward(scaled, seed);
  }
  loss.reset();
  output.clear();
  if (!plan.workload.keep_batch) {
    run.batch = {};
  }
}

/// The module's buffers in order: the routers' score corrections, then the tables.
std::vector<Tensor> all_buffers(const Model& model) {
  std::vector<Tensor> buffers;
  for (const auto& [weight, correction] : model.corrections) {
    buffers.push_back(correction);
  }
  buffers.insert(buffers.end(), model.buffers.begin(), model.buffers.end());
  return buffers;
}

/// Steps between loading and the first step: adapters, replicas.
void attach(Training& run) {
  Eager& eager = run.eager;
  const ParallelPlan& plan = run.plan;
  if (plan.quant && plan.quant->prepare_kbit) {
    prepare_kbit(eager, run.model);
  }
  if (plan.lora) {
    add_adapters(eager, run.model, *plan.lora);
  }
  if (has_ddp(plan)) {
    run.ddp = std::make_unique<torch::Ddp>(eager, ddp_of(plan), plan.world,
                                           all_parameters(run.model), all_buffers(run.model));
  }
}

/// Muon steps the matrices of the layers, among them adapters.
void note_layer_matrices(Training& run) {
  std::vector<bool>& matrices = run.optimizer.layer_matrices;
  if (run.plan.lora) {
    for (const Tensor& parameter : run.model.trainable) {
      matrices.push_back(parameter.shape().rank() == 2);
    }
    return;
  }
  for (const TensorId id : run.model.graph->parameters()) {
    const TensorInfo& info = run.model.graph->tensor(id);
    matrices.push_back(info.layer >= 0 && info.dims.size() == 2);
  }
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

/// optimizer_in_bwd: each parameter has an optimizer, whose step and zero_grad run as soon as it
/// has its gradient.
/// Source: pytorch/torchtune torchtune/training/memory.py, register_optim_in_bwd_hooks.
void step_in_backward(Training& run) {
  run.own_optimizers.resize(run.model.trainable.size());
  for (std::size_t i = 0; i < run.model.trainable.size(); ++i) {
    run.own_optimizers[i].layer_matrices = {run.optimizer.layer_matrices[i]};
    torch::accumulator_of(run.eager, run.model.trainable[i].impl())->after_accumulate =
        [&run, i](Eager& eager) {
          const std::span<const Tensor> one(&run.model.trainable[i], 1);
          torch::step(eager, run.plan.optimizer, one, run.own_optimizers[i]);
          torch::zero_grad(eager, one);
        };
  }
}

/// The states of a checkpoint, which one process reads to the host and each of several to its
/// device. With optimizer_in_bwd each optimizer is given its own.
/// Source: huggingface/transformers 5.17 src/transformers/trainer.py,
///         _load_optimizer_and_scheduler (map_location).
void resume(Training& run) {
  const PhaseScope phase(run.eager, PhaseKind::kResume);
  const OptimizerPlan& optimizer = run.plan.optimizer;
  const std::span<const Tensor> parameters = run.model.trainable;
  for (std::size_t i = 0; i < run.own_optimizers.size(); ++i) {
    torch::load_states(run.eager, optimizer, parameters.subspan(i, 1), torch::StatesFrom::kHost,
                       run.own_optimizers[i]);
  }
  if (run.own_optimizers.empty()) {
    const bool alone = run.plan.world == 1;
    torch::load_states(run.eager, optimizer, parameters,
                       alone ? torch::StatesFrom::kHost : torch::StatesFrom::kDevice,
                       run.optimizer);
  }
}

void evaluate(Training& run) {
  const PhaseScope phase(run.eager, PhaseKind::kEvaluation);
  const torch::GradMode grad(run.eager, false);
  run.model.training = false;
  const Batch batch = make_batch(run.eager, run.model);
  if (run.ddp) {
    run.ddp->before_forward();
  }
  ModelOutput output = forward(run.eager, run.model, batch);
  output.clear();
}

/// torch.save and safetensors copy one tensor after the other to the host. The device only
/// allocates a copy of the codes of each doubly quantised weight, in the state dict.
/// Source: pytorch/pytorch 2.11 torch/serialization.py, _save; huggingface/safetensors
///         bindings/python/py_src/safetensors/torch.py, _tobytes; bitsandbytes 0.50.2
///         functional.py, QuantState.as_dict.
void save_checkpoint(Training& run) {
  const PhaseScope phase(run.eager, PhaseKind::kCheckpointSave);
  run.eager.set_site("state_dict", -1);
  std::vector<Tensor> codes;
  for (const auto& [id, weight] : run.model.quantised) {
    if (weight.outer_codes.defined()) {
      codes.push_back(run.eager.empty(weight.outer_codes.shape(), weight.outer_codes.dtype(),
                                      TensorRole::kTemporary));
    }
  }
}

}  // namespace

void train(Eager& eager, const ModelSource& source) {
  const ParallelPlan& plan = source.plan;
  Training run{.eager = eager,
               .plan = plan,
               .model = {},
               .batch = {},
               .optimizer = {},
               .own_optimizers = {},
               .scaler = {},
               .ddp = {}};
  if (plan.precision == Precision::kAutocastFp16) {
    run.scaler.emplace(eager);
  }
  {
    const PhaseScope phase(eager, PhaseKind::kLoad);
    run.model = load_model(eager, source);
    if (!plan.quant) {
      attach(run);
    }
  }
  if (plan.quant) {
    const PhaseScope phase(eager, PhaseKind::kPeft);
    attach(run);
  }
  note_layer_matrices(run);
  const bool in_backward = source.setting.steps_in_backward;
  if (in_backward) {
    step_in_backward(run);
  }
  if (plan.workload.resume && plan.optimizer.kind != OptimizerKind::kNone) {
    resume(run);
  }
  for (int step = 1; step <= plan.workload.steps; ++step) {
    const StepPosition at{.step = step};
    for (std::int64_t micro = 1; micro <= plan.workload.accumulation; ++micro) {
      run_micro_batch(run, torch::micro_batch_at(plan, step, micro));
    }
    if (plan.optimizer.kind == OptimizerKind::kNone || in_backward) {
      continue;
    }
    {
      const PhaseScope phase(eager, PhaseKind::kOptimizer, at);
      run_optimizer(run);
    }
    const PhaseScope phase(eager, PhaseKind::kZeroGrad, at);
    torch::zero_grad(eager, run.model.trainable);
  }
  if (plan.workload.evaluation) {
    evaluate(run);
  }
  if (plan.workload.checkpoint_save) {
    save_checkpoint(run);
  }
  if (plan.workload.generation) {
    generate(eager, run.model);
  }
}

}  // namespace headroom::ir::transformers
