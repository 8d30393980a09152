#include "model_ir/runtime/deepspeed/lowering.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model_ir/graph/decoder.h"
#include "model_ir/runtime/deepspeed/save.h"
#include "model_ir/runtime/deepspeed/wrapper.h"
#include "model_ir/runtime/torch/functions.h"
#include "model_ir/runtime/torch/phase.h"
#include "model_ir/runtime/transformers/adapter.h"
#include "model_ir/runtime/transformers/forward.h"
#include "model_ir/runtime/transformers/model.h"
#include "model_ir/runtime/transformers/support.h"

namespace headroom::ir::deepspeed {
namespace {

using torch::Eager;
using torch::PhaseScope;
using torch::Tensor;

/// The points at which the engine calls its wrapper; empty where a stage does nothing.
struct Wrapper {
  std::function<void()> initialize;
  std::function<void(bool boundary)> before_backward;
  std::function<void(bool boundary)> after_backward;
  std::function<void()> step;
};

Wrapper make_wrapper(const EngineState& state, std::vector<Tensor> shards) {
  switch (state.zero.stage) {
    case 0: {
      const auto full = std::make_shared<FullMasters>(state);
      return {.initialize = [full] { full->initialize(); },
              .before_backward = [](bool) {},
              .after_backward =
                  [full](bool boundary) {
                    if (boundary) {
                      full->after_backward();
                    }
                  },
              .step = [full] { full->step(); }};
    }
    case 3: {
      const auto partitions = std::make_shared<ZeroPartitions>(state, std::move(shards));
      state.model.before_layer = [partitions](std::int32_t layer) { partitions->fetch(layer); };
      return {.initialize = [partitions] { partitions->initialize(); },
              .before_backward = [partitions](bool) { partitions->before_backward(); },
              .after_backward = [partitions](bool) { partitions->after_backward(); },
              .step = [partitions] { partitions->step(); }};
    }
    default: {
      const auto buckets = std::make_shared<ZeroBuckets>(state);
      return {.initialize = [buckets] { buckets->initialize(); },
              .before_backward = [buckets](bool boundary) { buckets->before_backward(boundary); },
              .after_backward = [buckets](bool) { buckets->after_backward(); },
              .step = [buckets] { buckets->step(); }};
    }
  }
}

struct Run {
  Eager& eager;
  const ParallelPlan& plan;
  transformers::Model& model;
  Wrapper& wrapper;
  const ZeroPlan& zero;
};

/// `ids`: the batch, whose name holds it until the next one has been made.
void run_micro_batch(const Run& run, const std::string& tag, bool boundary, Tensor& ids) {
  Eager& eager = run.eager;
  Tensor loss;
  transformers::ModelOutput output;
  {
    const PhaseScope phase(eager, tag + ".forward");
    eager.set_site("input_ids", -1);
    ids = eager.empty({run.plan.micro_batch, run.plan.sequence}, DType::kInt64, TensorRole::kInput);
    output = transformers::forward(eager, run.model, ids);
    loss = std::move(output.loss);
    if (!run.plan.keep_logits) {
      output.logits.reset();
    }
  }
  {
    const PhaseScope phase(eager, tag + ".backward");
    eager.set_site("loss", -1);
    run.wrapper.before_backward(boundary);
    // engine.backward: the loss over the accumulation steps, then ZeRO's loss scale.
    const Tensor share = torch::scale(eager, loss);
    const Tensor scaled = run.zero.stage > 0 ? torch::scale(eager, share) : share;
    {
      const Tensor seed = eager.empty({}, scaled.dtype(), TensorRole::kLogits);
      eager.backward(scaled, seed);
    }
    run.wrapper.after_backward(boundary);
    loss.reset();
    output = {};
  }
  const PhaseScope phase(eager, tag + (boundary ? ".step" : ".step_noop"));
  if (boundary) {
    run.wrapper.step();
    for (const Tensor& parameter : run.model.trainable) {
      eager.drop_grad(parameter);
    }
  }
}

Error refused(const char* key, const char* got, const char* wanted) {
  return Error::invalid_argument(key, got, wanted, "use --runtime transformers for the rest");
}

/// What is not modelled under ZeRO, beside what the model code refuses.
std::optional<Error> unsupported(const ModelSpec& spec, const ParallelPlan& plan) {
  const OptimizerKind kind = plan.optimizer.kind;
  const OptimizerForm form = plan.optimizer.form;
  if (kind == OptimizerKind::kAdafactor || kind == OptimizerKind::kAdafactorTorch ||
      form == OptimizerForm::kEightBit || form == OptimizerForm::kPagedEightBit ||
      form == OptimizerForm::kPaged) {
    return refused("optimizer", "Adafactor, 8-bit or paged states",
                   "AdamW, SGD or Lion with fp32 states under deepspeed");
  }
  if (plan.quant) {
    return refused("qlora", "quantised weights", "16-bit weights under deepspeed");
  }
  if (plan.lora && plan.zero && plan.zero->stage == 3) {
    return refused("lora", "adapters under ZeRO stage 3", "stages 0 to 2, or full training");
  }
  if (plan.evaluation) {
    return refused("evaluation", "an evaluation", "training steps alone under deepspeed");
  }
  return transformers::unsupported(spec, plan);
}

}  // namespace

Result<RankProgram> lower(const ModelSpec& spec, const ParallelPlan& plan,
                          const DeviceTraits& device) {
  const bool partitions = plan.zero && plan.zero->stage > 0;
  const bool whole = plan.precision == Precision::kFp32 && partitions;
  if (!whole && plan.precision != Precision::kBf16Master &&
      plan.precision != Precision::kFp16Master) {
    return Error::invalid_argument("precision", "a recipe without fp32 masters",
                                   "bf16-master, fp16-master or, from stage 1 on, fp32",
                                   "use --precision bf16-master");
  }
  if (spec.architecture != Architecture::kCausalLm) {
    return Error::invalid_argument("model", spec.name, "a causal language model",
                                   "use --runtime transformers for encoders and encoder-decoders");
  }
  if (const std::optional<Error> refused = unsupported(spec, plan)) {
    return *refused;
  }
  const Graph graph = build_graph(spec, {.batch = plan.micro_batch, .sequence = plan.sequence});
  if (plan.lora) {
    if (const std::optional<Error> missing =
            transformers::missing_targets(spec, graph, *plan.lora)) {
      return *missing;
    }
  }
  const ZeroPlan zero = plan.zero.value_or(ZeroPlan{});
  Eager eager(device);
  transformers::Model model;
  std::vector<Tensor> shards;
  {
    const PhaseScope phase(eager, "model");
    // zero.Init: each parameter is partitioned as soon as it has been made.
    const auto partition = [&](const Tensor& parameter) {
      const std::int64_t own = ceil_div(parameter.elements(), plan.world);
      if (zero.offload_param == OffloadDevice::kNone) {
        shards.push_back(eager.empty({own}, parameter.dtype(), TensorRole::kParameter));
      } else {
        RankProgram& program = eager.program();
        (zero.offload_param == OffloadDevice::kNvme ? program.nvme_bytes : program.host_bytes) +=
            bytes_of(own, parameter.dtype()).value();
      }
      eager.move_storage(parameter, Tensor{});
    };
    model = zero.stage == 3 ? transformers::load_model(eager, spec, plan, graph, partition)
                            : transformers::load_model(eager, spec, plan, graph);
    if (plan.lora) {
      transformers::add_adapters(eager, model, *plan.lora);
    }
  }
  Tensor overflow;  // FusedAdam's buffer of one flag. Source: deepspeed/ops/adam/fused_adam.py.
  {
    const PhaseScope phase(eager, "optimizer_object");
    if (plan.optimizer.kind == OptimizerKind::kAdamW &&
        plan.optimizer.form == OptimizerForm::kFused &&
        zero.offload_optimizer == OffloadDevice::kNone) {
      overflow = eager.empty({1}, DType::kInt32, TensorRole::kOptimizerState);
    }
  }
  const EngineState state{.eager = eager, .plan = plan, .zero = zero, .model = model};
  Wrapper wrapper = make_wrapper(state, std::move(shards));
  {
    const PhaseScope phase(eager, "deepspeed.initialize");
    wrapper.initialize();
  }
  Tensor ids;
  const Run run{.eager = eager, .plan = plan, .model = model, .wrapper = wrapper, .zero = zero};
  for (int step = 1; step <= plan.steps; ++step) {
    for (std::int64_t micro = 1; micro <= plan.accumulation; ++micro) {
      std::string tag = "step" + std::to_string(step);
      if (plan.accumulation > 1) {
        tag += "." + std::to_string(micro);
      }
      run_micro_batch(run, tag, micro == plan.accumulation, ids);
    }
  }
  if (plan.checkpoint_save) {
    save_checkpoint(state);
  }
  model.before_layer = nullptr;  // Lets the wrapper go before the model that it refers to.
  return eager.finish();
}

}  // namespace headroom::ir::deepspeed
