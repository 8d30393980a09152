#include "runtimes/fsdp/lowering.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/graph/decoder.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/fsdp/fully_shard.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/fsdp/recorded_walk.h"
#include "runtimes/fsdp/sharded_model.h"
#include "runtimes/fsdp/wrapped_model.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/torch/clip.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/grad_scaler.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/optimizer.h"
#include "runtimes/torch/optimizer_resume.h"
#include "runtimes/torch/phase.h"
#include "runtimes/transformers/adapter.h"
#include "runtimes/transformers/expert_adapter.h"
#include "runtimes/transformers/forward.h"
#include "runtimes/transformers/generation.h"
#include "runtimes/transformers/support.h"

namespace headroom::ir::fsdp {
namespace {

using torch::Eager;
using torch::PhaseScope;
using torch::Tensor;

struct Run {
  Eager& eager;
  const ParallelPlan& plan;
  const Sharding& sharding;
  transformers::Model& model;
  std::span<const Tensor> trained;  ///< In the order of model.parameters().
  std::function<void()> finish_backward;
  torch::OptimizerState optimizer;
  std::optional<torch::GradScaler> scaler;  ///< Only for fp16 autocast.
};

/// Resharding among one rank keeps parameters whole; among all ranks it is the default.
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_fully_shard/_fsdp_init.py,
///         _get_post_forward_mesh_info.
FsdpPlan resharding(const ParallelPlan& plan) {
  FsdpPlan fsdp = fsdp_of(plan);
  if (fsdp.reshard_ranks == 1) {
    fsdp.reshard_after_forward = false;
  }
  if (fsdp.reshard_ranks == 1 || fsdp.reshard_ranks == plan.world / plan.mesh.replicas) {
    fsdp.reshard_ranks = 0;
  }
  return fsdp;
}

/// The plan of the arithmetic, whose parameters have the type in which they are gathered.
ParallelPlan arithmetic_plan(const ParallelPlan& plan, const FsdpPlan& fsdp) {
  ParallelPlan arithmetic = plan;
  if (plan.precision == Precision::kAutocastFp16) {  // With fp16 parameters it is pure fp16.
    const bool widens = fsdp.param_dtype == DType::kFp32;
    arithmetic.precision = widens ? Precision::kAutocastFp16 : Precision::kFp16;
    return arithmetic;
  }
  if (autocast_dtype(plan.precision)) {
    const bool widens = fsdp.param_dtype == DType::kFp32;
    arithmetic.precision = widens ? Precision::kAutocastBf16 : Precision::kBf16AutocastBf16;
    return arithmetic;
  }
  arithmetic.precision = fsdp.param_dtype == DType::kBf16   ? Precision::kBf16
                         : fsdp.param_dtype == DType::kFp16 ? Precision::kFp16
                                                            : Precision::kFp32;
  return arithmetic;
}

Error refused(std::string_view key, std::string_view got, std::string_view wanted) {
  return Error::invalid_argument(key, got, wanted,
                                 "leave out this option, or use --runtime transformers");
}

/// The error for what is not modelled of FullyShardedDataParallel.
std::optional<Error> unsupported_wrapper(const ModelSpec& model, const ParallelPlan& plan,
                                         const FsdpPlan& fsdp) {
  if (fsdp.reshard_ranks != 0 || fsdp.shard_embeddings) {
    return Error::invalid_argument(
        "fsdp", "with version=1 does not support embeddings and reshard=N", {}, "use version=2");
  }
  if (fsdp.cpu_offload && plan.world == plan.mesh.replicas) {
    return Error::invalid_argument("fsdp",
                                   "with version=1 does not support offload where parameters are "
                                   "not sharded (NO_SHARD)",
                                   {}, "use fewer replicas than GPUs, or leave out offload");
  }
  if (plan.lora && (plan.lora->dora || transformers::adapts_experts(model, *plan.lora))) {
    return refused("lora", "dora, or adapters on experts, with version=1 of --fsdp",
                   "version=2: with version 1 these adapters read weights that are not gathered");
  }
  if (plan.lora && plan.workload.evaluation && autocast_dtype(plan.precision)) {
    return refused("evaluation", "is not supported with --lora and version=1 of --fsdp", "");
  }
  return std::nullopt;
}

/// The error for what neither wrapper can do with quantised weights.
/// Source: bitsandbytes 0.50.2 bitsandbytes/nn/modules.py, Linear4bit.forward,
/// Linear8bitLt.forward;
///         pytorch/pytorch 2.11 torch/distributed/fsdp/_flat_param.py, _writeback_orig_params.
std::optional<Error> unsupported_quant(const ModelSpec& model, const ParallelPlan& plan,
                                       const FsdpPlan& fsdp) {
  if (plan.quant->bits != 4) {
    return refused("qlora", "bits=8 with --fsdp",
                   "bits=4: a gathered weight lacks the state of LLM.int8()");
  }
  if (param_dtype(plan.precision) != DType::kBf16 || fsdp.param_dtype != DType::kBf16) {
    return Error::invalid_argument(
        "precision", word_of(precision_words(), plan.precision),
        "bf16 or bf16-autocast, with param=bf16 of --fsdp: the 4-bit weights are stored as bf16",
        "add --precision bf16");
  }
  if (plan.lora && (plan.lora->dora || !plan.lora->modules_to_save.empty() ||
                    transformers::adapts_experts(model, *plan.lora))) {
    return refused("qlora", "dora, save=... or adapters on experts with --fsdp",
                   "adapters on linear layers only");
  }
  if (fsdp.reshard_ranks != 0 || (fsdp.cpu_offload && fsdp.version == 2)) {
    return Error::invalid_argument("fsdp", "offload or reshard=N with --qlora and version=2",
                                   "shards on the GPU, among all ranks, or version=1 with offload",
                                   "use --fsdp version=1,offload with --qlora prepare=no");
  }
  if (fsdp.version == 1 && plan.quant->prepare_kbit) {
    return Error::invalid_argument("qlora", "prepare=yes with version=1 of --fsdp", "prepare=no",
                                   "add prepare=no to --qlora");
  }
  if (fsdp.version == 1 && (!fsdp.reshard_after_forward || plan.world == plan.mesh.replicas)) {
    return refused("qlora", "version=1 of --fsdp with reshard=no or as many replicas as GPUs",
                   "reshard=yes and fewer replicas, or version=2");
  }
  return std::nullopt;
}

std::optional<Error> unsupported_precision(const ModelSpec& model, const ParallelPlan& plan,
                                           const FsdpPlan& fsdp) {
  if (plan.precision == Precision::kBf16Master || plan.precision == Precision::kFp16Master) {
    return refused("precision", word_of(precision_words(), plan.precision),
                   "fp32: with FSDP, the fp32 shards are the master weights");
  }
  const bool half = fsdp.param_dtype == DType::kFp16;
  if (plan.precision == Precision::kAutocastFp16 && fsdp.param_dtype == DType::kBf16) {
    return Error::invalid_argument("fsdp", "param=bf16 with --precision autocast-fp16",
                                   "param=fp16 or fp32", "add param=fp16,reduce=fp16 to --fsdp");
  }
  if (half && model.architecture == Architecture::kEncoderDecoder) {
    return refused("precision", "fp16 for an encoder-decoder model", "bf16");
  }
  return std::nullopt;
}

std::optional<Error> unsupported_sharding(const ModelSpec& model, const ParallelPlan& plan,
                                          const FsdpPlan& fsdp) {
  if (plan.world % plan.mesh.replicas != 0) {
    return no_divisor_of_gpus("fsdp", "replicas=" + std::to_string(plan.mesh.replicas), plan.world);
  }
  if (plan.quant) {
    if (const std::optional<Error> error = unsupported_quant(model, plan, fsdp)) {
      return error;
    }
  }
  if (plan.loss != LossKind::kHf && fsdp.shard_embeddings) {
    return refused(
        "loss", word_of(loss_words(), plan.loss),
        "hf: with embeddings of --fsdp, this loss would read an output layer that is not "
        "gathered");
  }
  const OptimizerForm form = plan.optimizer.form;
  const bool narrow_states = form == OptimizerForm::kEightBit ||
                             form == OptimizerForm::kPagedEightBit || form == OptimizerForm::kPaged;
  if (narrow_states && (fsdp.version == 2 || fsdp.cpu_offload)) {
    // bitsandbytes 0.50.2 optim/optimizer.py passes both DTensors and plain tables to one operator.
    return refused("optimizer", "an optimizer of bitsandbytes, which does not support DTensors",
                   "an optimizer of PyTorch, or version=1 of --fsdp without offload");
  }
  if (const std::optional<Error> error = unsupported_precision(model, plan, fsdp)) {
    return error;
  }
  const std::int64_t ranks = plan.world / plan.mesh.replicas;
  if (fsdp.reshard_ranks != 0 && ranks % fsdp.reshard_ranks != 0) {
    return Error::invalid_argument(
        "fsdp", "reshard=" + std::to_string(fsdp.reshard_ranks),
        "a divisor of the " + std::to_string(ranks) + " ranks that share the model");
  }
  if (fsdp.quantised_on_host && (!plan.quant || fsdp.version == 2)) {
    return Error::invalid_argument("fsdp", "quantised-on-host without --qlora, or with version=2",
                                   "version=1 with --qlora", "leave out quantised-on-host");
  }
  if (fsdp.version == 1) {
    return unsupported_wrapper(model, plan, fsdp);
  }
  if (!fsdp.use_orig_params || fsdp.forward_prefetch ||
      fsdp.backward_prefetch != FsdpPrefetch::kBackwardPre) {
    return Error::invalid_argument("fsdp",
                                   "has prefetch, forward-prefetch or orig-params, which only "
                                   "version=1 takes",
                                   {}, "leave out these keys, or use version=1");
  }
  return std::nullopt;
}

/// What the wrappers cannot do with the model, in addition to what its own code refuses.
std::optional<Error> unsupported_model(const ModelSpec& model, const ParallelPlan& plan,
                                       const FsdpPlan& fsdp, const DeviceTraits& device) {
  if (plan.workload.generation && (fsdp.cpu_offload || fsdp.version == 1)) {
    return fsdp.cpu_offload
               ? Error::invalid_argument("generate", "is not supported with offload of --fsdp", {},
                                         "leave out --generate, or offload of --fsdp")
               : Error::invalid_argument("generate", "is not supported with version=1 of --fsdp",
                                         {}, "leave out --generate, or use --fsdp version=2");
  }
  const std::string shared = model.recording ? shared_by_layers(*model.recording) : std::string();
  if (!shared.empty()) {
    return Error::invalid_argument("fsdp", "layers that share weights (" + shared + ")",
                                   "layers with weights of their own: FSDP of each layer makes "
                                   "several parameters of a shared one",
                                   "use --runtime transformers, or DeepSpeed (--zero 2, --zero 3)");
  }
  if (std::optional<Error> error = transformers::unsupported(model, plan, device)) {
    return error;
  }
  if (std::optional<Error> error = transformers::sharding_trouble(model, plan)) {
    return error;
  }
  if (model.encoder && plan.lora && !plan.lora->modules_to_save.empty()) {
    return Error::invalid_argument(
        "lora", "with save=... is not supported with --fsdp for encoder-decoder models", {},
        "leave save out, or use --zero");
  }
  return std::nullopt;
}

/// What FSDP changes in the model's code: it could not group integers with the other weights, and
/// CPUOffloadPolicy, unlike CPUOffload, takes buffers to the host.
transformers::ModelSetting with_shards(transformers::ModelSetting setting, const FsdpPlan& fsdp) {
  setting.wide_codes = true;
  setting.buffers_on_host = fsdp.cpu_offload && fsdp.version == 2;
  setting.stops_together = true;
  return setting;
}

transformers::ModelOutput call_root(Eager& eager, transformers::Model& model,
                                    const transformers::Batch& batch) {
  std::vector<Tensor> inputs{batch.ids};
  model.hooks.before(kRootModule, inputs);
  inputs.clear();
  transformers::ModelOutput output = transformers::forward(eager, model, batch);
  std::vector<Tensor> outputs;
  if (output.loss.defined()) {
    outputs.push_back(output.loss);
  }
  model.hooks.after(kRootModule, outputs);
  return output;
}

transformers::ModelOutput call(Run& run, const transformers::Batch& batch) {
  transformers::Batch given = batch;
  const auto cast = [&run](Tensor& input) {
    if (input.defined() && is_floating(input.dtype())) {
      input = torch::to(run.eager, input, run.sharding.plan.param_dtype);
    }
  };
  if (run.sharding.plan.version == 2) {
    cast(given.labels);
    std::ranges::for_each(given.others, cast);
  }
  return call_root(run.eager, run.model, given);
}

void run_micro_batch(Run& run, StepPosition at) {
  Eager& eager = run.eager;
  transformers::Batch batch;
  Tensor loss;
  transformers::ModelOutput output;
  {
    const PhaseScope phase(eager, PhaseKind::kForward, at);
    batch = transformers::make_batch(eager, run.model);
    const auto autocast = autocast_dtype(run.plan.precision);
    if (autocast) {
      eager.enter_autocast(*autocast);
    }
    output = call(run, batch);
    if (autocast) {
      eager.leave_autocast();
    }
    loss = output.loss;
    if (!run.plan.workload.keep_logits) {
      output.clear();
    }
    if (run.plan.workload.accumulation > 1) {
      loss = torch::scale(eager, loss);
    }
  }
  const PhaseScope phase(eager, PhaseKind::kBackward, at);
  eager.set_site("loss", -1);
  {
    const Tensor scaled = run.scaler ? run.scaler->scale(loss) : loss;
    const Tensor seed = torch::computed(eager, {}, scaled.dtype(), TensorRole::kLogits);
    eager.backward(scaled, seed);
    run.finish_backward();
  }
  loss.reset();
  output.clear();
  batch = {};
}

void evaluate(Run& run) {
  const PhaseScope phase(run.eager, PhaseKind::kEvaluation);
  const torch::GradMode grad(run.eager, false);
  run.model.training = false;
  const transformers::Batch batch = transformers::make_batch(run.eager, run.model);
  transformers::ModelOutput output = call(run, batch);
  output.clear();
}

void run_optimizer(Run& run) {
  if (run.plan.clip_norm) {
    if (run.scaler) {
      run.scaler->unscale(run.trained);
    }
    // Norms of DTensors are reduced among the ranks. FullyShardedDataParallel has plain tensors.
    const std::int64_t ranks = run.sharding.plan.version == 1 ? 1 : run.sharding.ranks;
    torch::clip_grad_norm(run.eager, run.trained, {.ranks = ranks});
  }
  if (run.scaler) {
    run.scaler->step(run.plan.optimizer, run.trained, run.optimizer);
    run.scaler->update();
  } else {
    torch::step(run.eager, run.plan.optimizer, run.trained, run.optimizer);
  }
}

std::int64_t moments_of(const OptimizerPlan& optimizer) {
  if (optimizer.kind == OptimizerKind::kAdamW) {
    return 2;
  }
  return optimizer.kind == OptimizerKind::kSgd && optimizer.momentum <= 0 ? 0 : 1;
}

/// The optimizer on the host: gradient, parameter and moments are read, all but the first written.
/// The moments are pageable memory.
void step_on_host(Run& run, int step) {
  const std::int64_t moments = moments_of(run.plan.optimizer);
  std::int64_t bytes = 0;
  for (const Tensor& parameter : run.trained) {
    bytes += (2 * moments + 3) * torch::bytes_of(parameter);
    if (step == 1 && parameter.requires_grad()) {
      hold_on_host(run.eager.program(), HostUse::kOptimizerStates, HostPages::kPageable,
                   moments * torch::bytes_of(parameter));
    }
  }
  run.eager.set_site("optimizer.host", -1);
  run.eager.run(CopyShape{.kind = CopyKind::kHostWork, .bytes = bytes});
}

void run_step(Run& run, int step) {
  const StepPosition at{.step = step};
  for (std::int64_t micro = 1; micro <= run.plan.workload.accumulation; ++micro) {
    run_micro_batch(run, torch::micro_batch_at(run.plan, step, micro));
  }
  if (run.plan.optimizer.kind == OptimizerKind::kNone) {
    return;
  }
  {
    const PhaseScope phase(run.eager, PhaseKind::kOptimizer, at);
    if (run.sharding.plan.cpu_offload) {  // The host has norms and states.
      step_on_host(run, step);
    } else {
      run_optimizer(run);
    }
  }
  const PhaseScope phase(run.eager, PhaseKind::kZeroGrad, at);
  torch::zero_grad(run.eager, run.trained);
}

/// The states of a checkpoint: shards on the host, which accelerate's plugin takes there. Before
/// FSDP2 reads any, its optimizer makes a step with gradients of zeros. States on the host are
/// loaded where they are.
/// Source: huggingface/accelerate 1.15 src/accelerate/utils/fsdp_utils.py, load_fsdp_optimizer;
///         pytorch/pytorch 2.11 torch/distributed/checkpoint/state_dict.py,
///         set_optimizer_state_dict.
void resume(Run& run) {
  const PhaseScope phase(run.eager, PhaseKind::kResume);
  if (run.sharding.plan.cpu_offload) {
    return;
  }
  const OptimizerPlan& optimizer = run.plan.optimizer;
  if (run.sharding.plan.version == 2) {
    torch::initialise_states(run.eager, optimizer, run.trained, run.optimizer);
  }
  std::vector<Tensor> trained;
  for (const Tensor& parameter : run.trained) {
    trained.push_back(parameter.requires_grad() ? parameter : Tensor{});
  }
  torch::load_states(run.eager, optimizer, trained, torch::StatesFrom::kHost, run.optimizer);
}

void train(Run& run) {
  if (run.plan.precision == Precision::kAutocastFp16) {
    run.scaler.emplace(run.eager,
                       run.sharding.plan.version == 1 ? torch::FoundReduction::kInPlace
                                                      : torch::FoundReduction::kDTensors,
                       run.sharding.ranks);
  }
  if (run.plan.workload.resume && run.plan.optimizer.kind != OptimizerKind::kNone) {
    resume(run);
  }
  for (int step = 1; step <= run.plan.workload.steps; ++step) {
    run_step(run, step);
  }
  if (run.plan.workload.evaluation) {
    evaluate(run);
  }
  if (run.plan.workload.checkpoint_save) {
    const PhaseScope phase(run.eager, PhaseKind::kCheckpointSave);  // Each rank writes its shards.
  }
  if (run.plan.workload.generation) {
    transformers::generate(run.eager, run.model, call_root);
  }
}

/// The inputs of a program.
struct Setting {
  const ParallelPlan& plan;
  transformers::ModelSource source;  ///< The model, in the types of the arithmetic.
  const Sharding& sharding;
};

void run_fully_shard(const Setting& setting) {
  const Sharding& sharding = setting.sharding;
  ShardedModel sharded;
  {
    const PhaseScope phase(sharding.eager, PhaseKind::kLoad);
    sharded = load_sharded(sharding, setting.source);
  }
  FullyShard hooks(sharding.eager, std::move(sharded.groups));
  transformers::ModuleHooks& calls = sharded.model.hooks;
  calls.before = [&hooks](std::int32_t module, std::vector<Tensor>& inputs) {
    hooks.before(module, inputs);
  };
  calls.after = [&hooks](std::int32_t module, const std::vector<Tensor>& outputs) {
    hooks.after(module, outputs);
  };
  if (sharding.plan.param_dtype != sharding.stored) {
    calls.input_dtype = sharding.plan.param_dtype;
  }
  Run run{.eager = sharding.eager,
          .plan = setting.plan,
          .sharding = sharding,
          .model = sharded.model,
          .trained = sharded.shards,
          .finish_backward = [&hooks] { hooks.finish_backward(); },
          .optimizer = {},
          .scaler = {}};
  train(run);
}

void run_wrapped(const Setting& setting) {
  const Sharding& sharding = setting.sharding;
  std::unique_ptr<WrappedModel> wrapped;
  {
    const PhaseScope phase(sharding.eager, PhaseKind::kLoad);
    wrapped = load_wrapped(sharding, setting.source);
  }
  WrapperHooks hooks(sharding.eager, sharding.plan, *wrapped);
  transformers::ModuleHooks& calls = wrapped->model.hooks;
  calls.before = [&hooks](std::int32_t module, std::vector<Tensor>& inputs) {
    hooks.before(module, inputs);
  };
  calls.after = [&hooks](std::int32_t module, const std::vector<Tensor>& outputs) {
    hooks.after(module, outputs);
  };
  calls.around_checkpoint = true;
  if (setting.plan.lora) {
    calls.enter = [&hooks](const transformers::ModuleCall& call,
                           std::initializer_list<Tensor*> inputs) { hooks.enter(call, inputs); };
    calls.leave = [&hooks](const transformers::ModuleCall& call,
                           std::initializer_list<Tensor*> outputs) { hooks.leave(call, outputs); };
  }
  Run run{.eager = sharding.eager,
          .plan = setting.plan,
          .sharding = sharding,
          .model = wrapped->model,
          .trained = wrapped->pieces,
          .finish_backward = [&hooks] { hooks.finish_backward(); },
          .optimizer = {},
          .scaler = {}};
  train(run);
}

}  // namespace

std::optional<Error> unsupported(const ModelSpec& model, const ParallelPlan& plan) {
  return unsupported_sharding(model, plan, resharding(plan));
}

Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan, Rank rank,
                          const DeviceTraits& device, const transformers::ModelSetting& around) {
  const FsdpPlan fsdp = resharding(plan);
  if (const std::optional<Error> error = unsupported(model, plan)) {
    return *error;
  }
  const ParallelPlan arithmetic = arithmetic_plan(plan, fsdp);
  const Graph graph =
      build_graph(model, {.batch = plan.workload.micro_batch, .sequence = plan.workload.sequence});
  if (const std::optional<Error> error = unsupported_model(model, arithmetic, fsdp, device)) {
    return *error;
  }
  if (plan.lora) {
    if (const std::optional<Error> missing =
            transformers::missing_targets(model, graph, *plan.lora)) {
      return *missing;
    }
  }
  Eager eager(device);
  const Sharding sharding{
      .eager = eager,
      .plan = fsdp,
      .stored = param_dtype(plan.precision),
      .trained = plan.lora ? DType::kFp32 : param_dtype(plan.precision),
      .replicas = plan.mesh.replicas,
      .ranks = plan.world / plan.mesh.replicas,
      .stride = 1,
      .rank = static_cast<std::int64_t>(rank) % (plan.world / plan.mesh.replicas),
      .autocast = autocast_dtype(plan.precision).has_value()};
  const Setting setting{.plan = plan,
                        .source = {.spec = model,
                                   .plan = arithmetic,
                                   .graph = graph,
                                   .setting = with_shards(around, fsdp)},
                        .sharding = sharding};
  if (fsdp.version == 1) {
    run_wrapped(setting);
  } else {
    run_fully_shard(setting);
  }
  return eager.finish();
}

}  // namespace headroom::ir::fsdp
