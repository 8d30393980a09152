#include "runtimes/litgpt/lowering.h"

#include <string>
#include <utility>
#include <vector>

#include "runtimes/litgpt/forward.h"
#include "runtimes/litgpt/model.h"
#include "runtimes/torch/clip.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/optimizer.h"
#include "runtimes/torch/optimizer_resume.h"
#include "runtimes/torch/phase.h"

namespace headroom::ir::litgpt {
namespace {

using torch::Eager;
using torch::PhaseScope;
using torch::Tensor;

/// The Python names of the training loop, which keep tensors alive.
struct Loop {
  Tensor ids;
  Tensor targets;
  std::vector<Tensor> logits;
  Tensor loss;
};

void run_micro_batch(Eager& eager, const Model& model, Loop& loop, StepPosition at) {
  {
    const PhaseScope phase(eager, PhaseKind::kForward, at);
    const torch::Shape shape{model.plan->workload.micro_batch, model.plan->workload.sequence};
    eager.set_site("input_ids", -1);
    Tensor ids = eager.empty(shape, DType::kInt64, TensorRole::kInput);
    Tensor targets = eager.empty(shape, DType::kInt64, TensorRole::kInput);
    loop.ids = std::move(ids);
    loop.targets = std::move(targets);
    loop.logits = forward(eager, model, loop.ids);
    loop.loss = loss(eager, loop.logits, loop.targets);
  }
  const PhaseScope phase(eager, PhaseKind::kBackward, at);
  eager.set_site("loss", -1);
  const Tensor divided = torch::scale(eager, loop.loss);
  const Tensor seed = eager.empty({}, divided.dtype(), TensorRole::kLogits);
  eager.backward(divided, seed);
}

}  // namespace

Result<RankProgram> lower(const ModelSpec& spec, const ParallelPlan& plan,
                          const DeviceTraits& device) {
  if (const std::optional<Error> refused = unsupported(spec, plan)) {
    return *refused;
  }
  Eager eager(device);
  Model model;
  {
    const PhaseScope phase(eager, PhaseKind::kLoad);
    model = load_model(eager, spec, plan);
  }
  Loop loop;
  torch::OptimizerState state;
  if (plan.workload.resume) {  // Fabric.load reads the states to the host.
    const PhaseScope phase(eager, PhaseKind::kResume);
    torch::load_states(eager, plan.optimizer, model.trainable, torch::StatesFrom::kHost, state);
  }
  for (int step = 1; step <= plan.workload.steps; ++step) {
    const StepPosition at{.step = step};
    for (std::int64_t micro = 1; micro <= plan.workload.accumulation; ++micro) {
      run_micro_batch(eager, model, loop, torch::micro_batch_at(plan, step, micro));
    }
    {
      const PhaseScope phase(eager, PhaseKind::kOptimizer, at);
      if (plan.clip_norm) {
        torch::clip_grad_norm(eager, model.trainable);
      }
      torch::step(eager, plan.optimizer, model.trainable, state);
    }
    const PhaseScope phase(eager, PhaseKind::kZeroGrad, at);
    torch::zero_grad(eager, model.trainable);
  }
  return eager.finish();
}

}  // namespace headroom::ir::litgpt
