#include "runtimes/deepspeed/lowering.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/graph/decoder.h"
#include "model_ir/plan/plan_words.h"
#include "model_ir/spec/recording/recording.h"
#include "runtimes/deepspeed/base_optimizer.h"
#include "runtimes/deepspeed/bf16_optimizer.h"
#include "runtimes/deepspeed/full_masters.h"
#include "runtimes/deepspeed/leaf_modules.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/deepspeed/save.h"
#include "runtimes/deepspeed/wrapper.h"
#include "runtimes/deepspeed/zero_buckets.h"
#include "runtimes/deepspeed/zero_init.h"
#include "runtimes/deepspeed/zero_partitions.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/phase.h"
#include "runtimes/transformers/adapter.h"
#include "runtimes/transformers/forward.h"
#include "runtimes/transformers/model.h"
#include "runtimes/transformers/support.h"

namespace headroom::ir::deepspeed {
namespace {

using torch::Eager;
using torch::PhaseScope;
using torch::Tensor;

/// Chooses the wrapper. Source: deepspeed/runtime/engine.py, _do_optimizer_sanity_check.
std::unique_ptr<OptimizerWrapper> make_wrapper(const EngineState& state, BaseOptimizer& optimizer,
                                               std::vector<PartitionedParameter> parameters) {
  if (state.zero.stage == 3) {
    return std::make_unique<ZeroPartitions>(state, optimizer, std::move(parameters));
  }
  if (Bf16Optimizer::is_chosen(state.plan, state.zero)) {
    return std::make_unique<Bf16Optimizer>(state, optimizer);
  }
  if (state.zero.stage > 0) {
    return std::make_unique<ZeroBuckets>(state, optimizer);
  }
  if (state.plan.precision == Precision::kFp32) {
    return std::make_unique<PlainOptimizer>(state, optimizer);
  }
  if (BaseOptimizer::is_own(state.plan.optimizer, state.zero)) {
    return std::make_unique<FusedMasters>(state, optimizer);
  }
  return std::make_unique<UnfusedMasters>(state, optimizer);
}

/// _configure_distributed_model: casts the parameters to the engine's type, one after the other.
/// Those that zero.Init has partitioned already have it.
void cast_parameters(Eager& eager, const std::vector<Tensor>& parameters, DType dtype) {
  for (const Tensor& parameter : parameters) {
    if (is_floating(parameter.dtype()) && parameter.dtype() != dtype) {
      const Tensor cast = eager.empty(parameter.shape(), dtype, TensorRole::kParameter);
      eager.move_storage(parameter, cast);
      parameter->dtype = dtype;
    }
  }
}

/// Casts what transformers keeps in fp32 whatever the parameters' type is: corrections of router
/// scores.
/// Source: deepspeed/runtime/keep_in_fp32.py; modeling_deepseek_v3.py,
/// _keep_in_fp32_modules_strict.
void widen_corrections(const EngineState& state) {
  if (state.plan.precision == Precision::kFp32) {
    return;
  }
  for (const auto& [router, correction] : state.model.corrections) {
    const Tensor wide = state.eager.empty(correction.shape(), DType::kFp32, TensorRole::kBuffer);
    state.eager.move_storage(correction, wide);
    correction->dtype = DType::kFp32;
  }
}

/// Rank 0 sends its parameters to the others.
void count_broadcast(Eager& eager, const std::vector<Tensor>& parameters, std::int64_t ranks) {
  for (const Tensor& parameter : parameters) {
    eager.run(CollectiveShape{.kind = CollectiveKind::kBroadcast,
                              .bytes = bytes_of(parameter.elements(), parameter.dtype()).value(),
                              .group = {.size = ranks}});
  }
}

struct Run {
  Eager& eager;
  const ParallelPlan& plan;
  transformers::Model& model;
  OptimizerWrapper& wrapper;
};

/// Runs one micro-batch. Python's name `batch` keeps the previous batch until the next one exists.
void run_micro_batch(const Run& run, StepPosition at, bool boundary, transformers::Batch& batch) {
  Eager& eager = run.eager;
  Tensor loss;
  transformers::ModelOutput output;
  {
    const PhaseScope phase(eager, PhaseKind::kForward, at);
    batch = transformers::make_batch(eager, run.model);
    output = transformers::forward(eager, run.model, batch);
    loss = std::move(output.loss);
    if (!run.plan.workload.keep_logits) {
      output.clear();
    }
  }
  {
    const PhaseScope phase(eager, PhaseKind::kBackward, at);
    eager.set_site("loss", -1);
    run.wrapper.before_backward(boundary);
    // engine.backward divides the loss by the accumulation steps, then applies ZeRO's loss scale.
    const Tensor share = torch::scale(eager, loss);
    const Tensor scaled = run.wrapper.scales_loss() ? torch::scale(eager, share) : share;
    {
      const Tensor seed = torch::computed(eager, {}, scaled.dtype(), TensorRole::kLogits);
      eager.backward(scaled, seed);
    }
    run.wrapper.after_backward(boundary);
    loss.reset();
    output.clear();
  }
  const PhaseScope phase(eager, boundary ? PhaseKind::kEngineStep : PhaseKind::kEngineStepNoop, at);
  if (boundary) {
    run.wrapper.step();
    for (const Tensor& parameter : run.model.trainable) {
      eager.drop_grad(parameter);
    }
  }
}

Error refused(std::string_view key, std::string_view got, std::string_view wanted) {
  return Error::invalid_argument(key, got, wanted,
                                 "leave out this option, or use --runtime transformers");
}

/// The error for blocks of experts that stage 3 gathers as one module, which is not modelled for
/// recordings.
std::optional<Error> leaf_trouble(const ModelSpec& spec, const ZeroPlan& zero) {
  if (!spec.recording || zero.stage != 3) {
    return std::nullopt;
  }
  const std::vector<RecordedModule>& modules = spec.recording->modules;
  const auto leaf = std::ranges::find_if(modules, [&](const RecordedModule& module) {
    return zero.leaf == ZeroLeaf::kExperts ? is_experts_class(module.type)
                                           : is_default_leaf_class(module.type);
  });
  if (leaf == modules.end()) {
    return std::nullopt;
  }
  return Error::invalid_argument("zero", "stage 3 with a recording of " + leaf->type,
                                 "stages 0 to 2: DeepSpeed gathers these experts as one module, "
                                 "which is not modelled for recordings",
                                 "use --zero 2 or --fsdp");
}

/// The error for what is not modelled under ZeRO, in addition to what the model code refuses.
std::optional<Error> unsupported(const ModelSpec& spec, const ParallelPlan& plan,
                                 const DeviceTraits& device) {
  const bool partitions = has_zero(plan) && zero_of(plan).stage == 3;
  if (plan.lora && partitions && !plan.lora->modules_to_save.empty() &&
      plan.precision != Precision::kFp32) {
    // stage3.py, defragment: all trainable partitions must have one type.
    return refused(
        "lora", "save=... with --zero 3 and a 16-bit precision",
        "--precision fp32 or --zero 2: DeepSpeed requires trainable parameters of one type");
  }
  if (plan.workload.generation) {
    return refused("generate", "is not supported with DeepSpeed", "");
  }
  if (std::optional<Error> error = transformers::unsupported(spec, plan, device)) {
    return error;
  }
  if (std::optional<Error> error = leaf_trouble(spec, zero_of(plan))) {
    return error;
  }
  return has_zero(plan) ? transformers::sharding_trouble(spec, plan) : std::nullopt;
}

std::optional<Error> refusal_of(const ModelSpec& spec, const ParallelPlan& plan, const Graph& graph,
                                const DeviceTraits& device) {
  if (plan.precision != Precision::kFp32 && plan.precision != Precision::kBf16Master &&
      plan.precision != Precision::kFp16Master) {
    return Error::invalid_argument("precision", word_of(precision_words(), plan.precision),
                                   "bf16-master, fp16-master or fp32",
                                   "use --precision bf16-master");
  }
  if (std::optional<Error> refused = unsupported(spec, plan, device)) {
    return refused;
  }
  return plan.lora ? transformers::missing_targets(spec, graph, *plan.lora) : std::nullopt;
}

/// Builds the model with its adapters. Under stage 3 each parameter is partitioned as soon as it
/// exists, unless it is quantised.
/// Source: huggingface/transformers src/transformers/modeling_utils.py, get_init_context.
transformers::Model make_model(Eager& eager, const ModelSpec& spec, const ParallelPlan& plan,
                               const Graph& graph, ZeroInit* zero_init) {
  const PhaseScope phase(eager, PhaseKind::kModel);
  const auto partition = [&](const Tensor& parameter) { zero_init->partition(parameter); };
  const transformers::ModelSource source{.spec = spec,
                                         .plan = plan,
                                         .graph = graph,
                                         .setting = {.reads_weights = has_zero(plan),
                                                     .narrows_buffers = zero_of(plan).stage == 3,
                                                     .hooks_modules = zero_of(plan).stage == 3}};
  transformers::Model model = zero_init != nullptr
                                  ? transformers::load_model(eager, source, partition)
                                  : transformers::load_model(eager, source);
  if (plan.quant && plan.quant->prepare_kbit) {
    transformers::prepare_kbit(eager, model);
  }
  if (plan.lora) {
    transformers::add_adapters(eager, model, *plan.lora);
  }
  if (zero_init != nullptr) {
    zero_init->collect_garbage(model);
  }
  return model;
}

/// The quantiser reads eight elements at a time, so that some weights cannot be quantised.
/// Source: deepspeed/runtime/zero/partition_parameters.py, CUDAQuantizer.quantize.
std::optional<Error> unquantisable(const transformers::Model& model, const ParallelPlan& plan) {
  if (!has_zero(plan) || !zero_of(plan).quantized_weights || plan.world == 1) {
    return std::nullopt;
  }
  for (const Tensor& parameter : transformers::all_parameters(model)) {
    if (const std::int64_t own = ceil_div(parameter.elements(), plan.world); own % 8 != 0) {
      return Error::invalid_argument("zeropp",
                                     "qwz with a partition of " + std::to_string(own) + " elements",
                                     "a multiple of 8, which DeepSpeed's quantiser requires",
                                     "use another number of --gpus, or leave out qwz");
    }
  }
  return std::nullopt;
}

void initialize(const EngineState& state, OptimizerWrapper& wrapper) {
  const PhaseScope phase(state.eager, PhaseKind::kInitialize);
  if (state.zero.stage == 3) {
    if (state.plan.quant) {  // Loading partitioned nothing.
      state.eager.set_site("deepspeed.cast", -1);
      cast_parameters(state.eager, transformers::all_parameters(state.model),
                      param_dtype(state.plan.precision));
    }
    wrapper.initialize();
    return;
  }
  const std::vector<Tensor> parameters = transformers::all_parameters(state.model);
  state.eager.set_site("deepspeed.cast", -1);
  cast_parameters(state.eager, parameters, param_dtype(state.plan.precision));
  widen_corrections(state);
  wrapper.initialize();
  count_broadcast(state.eager, parameters, state.plan.world);  // Takes no memory; done last.
}

void evaluate(const Run& run, transformers::Batch& batch) {
  const PhaseScope phase(run.eager, PhaseKind::kEvaluation);
  const torch::GradMode grad(run.eager, false);
  run.model.training = false;
  batch = transformers::make_batch(run.eager, run.model);
  const transformers::ModelOutput output = transformers::forward(run.eager, run.model, batch);
}

void run_phases(const Run& run) {
  transformers::Batch batch;
  for (int step = 1; step <= run.plan.workload.steps; ++step) {
    for (std::int64_t micro = 1; micro <= run.plan.workload.accumulation; ++micro) {
      run_micro_batch(run, torch::micro_batch_at(run.plan, step, micro),
                      micro == run.plan.workload.accumulation, batch);
    }
  }
  if (run.plan.workload.evaluation) {
    evaluate(run, batch);
  }
}

}  // namespace

Result<RankProgram> lower(const ModelSpec& spec, const ParallelPlan& plan, std::int64_t rank,
                          const DeviceTraits& device) {
  const Graph graph =
      build_graph(spec, {.batch = plan.workload.micro_batch, .sequence = plan.workload.sequence});
  if (std::optional<Error> refused = refusal_of(spec, plan, graph, device)) {
    return *std::move(refused);
  }
  const ZeroPlan zero = zero_of(plan);
  Eager eager(device);
  ZeroInit zero_init(eager, plan, zero);
  transformers::Model model =
      make_model(eager, spec, plan, graph, zero.stage == 3 && !plan.quant ? &zero_init : nullptr);
  if (std::optional<Error> refused = unquantisable(model, plan)) {
    return *std::move(refused);
  }
  BaseOptimizer optimizer(eager, plan.optimizer, zero);
  {
    const PhaseScope phase(eager, PhaseKind::kOptimizerObject);
    optimizer.construct();
  }
  const EngineState state{.eager = eager, .plan = plan, .zero = zero, .model = model, .rank = rank};
  const std::unique_ptr<OptimizerWrapper> wrapper =
      make_wrapper(state, optimizer, zero_init.take());
  initialize(state, *wrapper);
  if (plan.workload.resume && plan.optimizer.kind != OptimizerKind::kNone) {
    const PhaseScope phase(eager, PhaseKind::kResume);
    const ParameterGroups groups = wrapper->stepped();
    for (std::size_t index = 0; index < groups.size(); ++index) {
      optimizer.load(index, groups[index]);
    }
    wrapper->loaded();
  }
  run_phases({.eager = eager, .plan = plan, .model = model, .wrapper = *wrapper});
  if (plan.workload.checkpoint_save) {
    save_checkpoint(state);
  }
  return eager.finish();
}

}  // namespace headroom::ir::deepspeed
