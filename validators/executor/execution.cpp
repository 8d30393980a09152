#include "validators/executor/execution.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "model_ir/plan/plan_words.h"
#include "runtimes/registry.h"

namespace headroom::exec {
namespace {

/// The loss scale of fp16. Source: torch.amp.GradScaler, init_scale.
constexpr double kFp16LossScale = 65536;

/// Buffer for products that split their inner dimension. Source: NVIDIA cuBLAS documentation,
/// section "cublasSetWorkspace": 32 MiB are recommended on compute capability 9.0 and later.
constexpr Bytes kWorkspace{32 * kMiB};

Types types_of(const ir::ParallelPlan& plan, const ir::PlanExecution& asked) {
  using ir::DType;
  const DType parameter = ir::param_dtype(plan.precision);
  Types types{.parameter = parameter,
              .compute = ir::autocast_dtype(plan.precision).value_or(parameter),
              .gradient = parameter,
              .state = parameter,
              .master = plan.precision == ir::Precision::kBf16Master ||
                        plan.precision == ir::Precision::kFp16Master};
  if (types.master) {
    types.state = DType::kFp32;
  }
  types.compute = asked.compute_dtype.value_or(types.compute);
  types.gradient = asked.gradient_dtype.value_or(types.gradient);
  types.state = asked.state_dtype.value_or(types.state);
  types.fp8_products = asked.fp8_products;
  if (plan.optimizer.form == ir::OptimizerForm::kEightBit) {
    types.state = DType::kUInt8;
  }
  return types;
}

/// A part of a model that the executor does not have.
struct Missing {
  bool (*has)(const ir::ModelSpec& model);
  std::string_view what;
};

constexpr std::array<Missing, 17> kMissing = {{
    {[](const auto& m) { return m.architecture != ir::Architecture::kCausalLm; },
     "an encoder or a masked language model"},
    {[](const auto& m) { return m.task != ir::Task::kLanguage; }, "a head that classifies"},
    {[](const auto& m) {
       return m.norm != ir::NormKind::kRms && m.norm != ir::NormKind::kRmsFp32 &&
              m.norm != ir::NormKind::kLayer;
     },
     "this kind of norm"},
    {[](const auto& m) { return m.norm_placement != ir::NormPlacement::kPre; },
     "norms behind attention or MLP"},
    {[](const auto& m) { return m.residual != ir::ResidualForm::kSequential; },
     "attention and MLP side by side"},
    {[](const auto& m) {
       return m.qk_norm != ir::QkNorm::kNone && m.qk_norm != ir::QkNorm::kPerHead;
     },
     "a norm over all heads of queries and keys"},
    {[](const auto& m) { return m.embedding_norm || !m.final_norm; },
     "an embedding with a norm, or no final norm"},
    {[](const auto& m) {
       return m.position != ir::PositionKind::kRope && m.position != ir::PositionKind::kLearned;
     },
     "ALiBi or relative positions"},
    {[](const auto& m) { return m.local_rope; }, "a second rotary table"},
    {[](const auto& m) { return m.attention_sinks; }, "attention sinks"},
    {[](const auto& m) { return m.latent.has_value(); }, "multi-head latent attention"},
    {[](const auto& m) { return m.attention_softcap != 0 || m.logit_softcap != 0; },
     "soft-capped logits"},
    {[](const auto& m) { return m.head_bias || m.head_transform; }, "a head with a bias"},
    {[](const auto& m) { return m.scales_embedding || m.scales_residual || m.scales_logits; },
     "scaled embeddings, residuals or logits"},
    {[](const auto& m) { return m.embedding_dim != 0 && m.embedding_dim != m.hidden; },
     "an embedding of another width"},
    {[](const auto& m) {
       return m.moe && (m.moe->shared_ffn != 0 || m.moe->groups > 1 || m.moe->correction_bias ||
                        m.moe->router_bias || m.moe->expert_bias || m.moe->auxiliary_loss ||
                        m.moe->input_noise);
     },
     "shared experts, a router with groups, biases, noise or a loss of its own"},
    {[](const auto& m) {
       return m.hidden % 2 != 0 || m.head_dim % 2 != 0 || m.heads % m.kv_heads != 0;
     },
     "these head sizes"},
}};

Error not_run(std::string_view option, std::string_view got, std::string_view wanted) {
  return Error::invalid_argument(option, got, wanted, "use `headroom fit` for a prediction alone");
}

Status check_sequence(const Execution& execution) {
  const ir::ModelSpec& model = execution.model;
  const std::int64_t rows = model.position_rows > 0 ? model.position_rows : model.max_positions;
  if (model.position == ir::PositionKind::kLearned && execution.sequence > rows) {
    return not_run("seq", std::to_string(execution.sequence),
                   "at most the " + std::to_string(rows) + " positions that the model has");
  }
  if (execution.micro_batch > kMostSequences) {
    return not_run("micro-batch", std::to_string(execution.micro_batch),
                   "at most " + std::to_string(kMostSequences) + " sequences in a micro-batch");
  }
  return ok();
}

/// cuBLASLt multiplies operands in 8 bits whose rows are multiples of 16 bytes.
/// Source: NVIDIA cuBLAS documentation, section "cublasLtMatmul", requirements of FP8 kernels.
Status check_fp8(const Execution& execution) {
  const ir::ModelSpec& model = execution.model;
  if (!execution.types.fp8_products) {
    return ok();
  }
  if (std::ranges::any_of(model.layers, [](const ir::LayerSpec& layer) { return layer.moe; })) {
    return not_run("fp8", "experts with products in 8 bits", "a model without experts");
  }
  const std::int64_t ranks = execution.division.tensor;
  constexpr std::int64_t kMultiple = 16;
  for (const std::int64_t extent :
       {model.hidden, model.heads * model.head_dim / ranks, model.kv_heads * model.head_dim / ranks,
        model.ffn / ranks, execution.micro_batch * execution.sequence}) {
    if (extent % kMultiple != 0) {
      return not_run("fp8", "a matrix with " + std::to_string(extent) + " rows or columns",
                     "multiples of 16, as products in 8 bits need them");
    }
  }
  return ok();
}

Status check_division(const Execution& execution) {
  const ir::ModelSpec& model = execution.model;
  const std::int64_t ranks = execution.division.tensor;
  const bool has_experts =
      std::ranges::any_of(model.layers, [](const ir::LayerSpec& layer) { return layer.moe; });
  const bool has_dense =
      std::ranges::any_of(model.layers, [](const ir::LayerSpec& layer) { return !layer.moe; });
  if (model.heads % ranks != 0 || model.kv_heads % ranks != 0 ||
      (has_dense && model.ffn % ranks != 0) ||
      (has_experts && model.moe->expert_ffn % ranks != 0)) {
    return not_run("tp", std::to_string(ranks),
                   "a divisor of heads, KV heads and the width of the MLP");
  }
  if (ceil_div(model.vocabulary, ranks) * (ranks - 1) >= model.vocabulary) {
    return not_run("tp", std::to_string(ranks),
                   "few enough ranks that each has rows of the vocabulary (" +
                       std::to_string(model.vocabulary) + ")");
  }
  if (execution.sequence_parallel && (execution.micro_batch * execution.sequence % ranks != 0 ||
                                      model.position == ir::PositionKind::kLearned)) {
    return not_run("tp", std::to_string(ranks),
                   "a divisor of the tokens of a micro-batch, and rotary positions, if the "
                   "tensor-parallel ranks share tokens");
  }
  if (execution.division.pipeline > static_cast<int>(model.layers.size())) {
    return not_run("pp", std::to_string(execution.division.pipeline),
                   "at most one stage for each layer");
  }
  if (model.tied_embeddings && execution.division.pipeline > 1) {
    return not_run("pp", std::to_string(execution.division.pipeline),
                   "1, because the model's embedding and head are one parameter");
  }
  if (execution.units.parameters_on_host && execution.units.zero_stage < 3 &&
      execution.division.data > 1) {
    return not_run("zero", std::to_string(execution.units.zero_stage),
                   "3, if parameters are kept on the host");
  }
  return ok();
}

/// Refuses what the common part of a plan asks for and the executor does not do.
Status check_plan_parts(const ir::ParallelPlan& plan) {
  if (plan.lora || plan.quant) {
    return not_run(plan.lora ? "lora" : "quant", "an adapter or quantised weights",
                   "training of all parameters");
  }
  if (plan.optimizer.kind != ir::OptimizerKind::kAdamW) {
    return not_run("optimizer", "another optimizer", "adamw");
  }
  if (plan.optimizer.form == ir::OptimizerForm::kPaged ||
      plan.optimizer.form == ir::OptimizerForm::kPagedEightBit) {
    return not_run("optimizer-form", "states in unified memory", "states on the device");
  }
  if (plan.mesh.context > 1 || plan.mesh.expert > 1 || plan.mesh.expert_tensor > 1 ||
      plan.mesh.replicas > 1) {
    return not_run("mesh", "context, expert or hybrid data parallelism",
                   "tensor, pipeline and data parallelism");
  }
  if (plan.workload.generation || plan.workload.resume || plan.workload.evaluation ||
      plan.workload.checkpoint_save) {
    return not_run("workload", "more than training steps", "training steps alone");
  }
  return ok();
}

}  // namespace

Result<Execution> execution_of(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  if (Status parts = check_plan_parts(plan); !parts) {
    return std::move(parts).error();
  }
  const ir::PlanExecution asked = ir::runtime_of(plan).execution(model, plan);
  if (!asked.beyond.empty()) {
    return not_run("PLAN.json", asked.beyond.front(), "a plan that the executor runs");
  }
  Execution execution;
  execution.model = model;
  execution.types = types_of(plan, asked);
  const std::int64_t model_ranks = plan.mesh.tensor * plan.mesh.pipeline;
  execution.division = {
      .tensor = static_cast<int>(plan.mesh.tensor),
      .data = static_cast<int>(std::max<std::int64_t>(plan.world / model_ranks, 1)),
      .pipeline = static_cast<int>(plan.mesh.pipeline),
      .rank = static_cast<int>(plan.rank.value_or(0))};
  execution.units = {.zero_stage = asked.zero_stage,
                     .parameters_on_host = asked.parameters_on_host,
                     .states_on_host = asked.states_on_host};
  execution.activations_on_host = asked.activations_on_host;
  execution.sequence_parallel = asked.sequence_parallel && plan.mesh.tensor > 1;
  execution.micro_batch = plan.workload.micro_batch;
  execution.sequence = plan.workload.sequence;
  execution.accumulation = plan.workload.accumulation;
  execution.steps = plan.workload.steps;
  execution.flash = plan.attention != ir::AttentionKind::kEager;
  execution.chunked_loss = plan.loss != ir::LossKind::kHf;
  execution.layers = asked.layers;
  execution.clip_norm = plan.clip_norm;
  execution.loss_scale = execution.types.compute == ir::DType::kFp16 ? kFp16LossScale : 1;
  execution.allocator = plan.allocator;
  execution.allocator.expandable_segments = false;
  execution.workspace = kWorkspace;
  if (Status checked = check_execution(execution); !checked) {
    return std::move(checked).error();
  }
  return execution;
}

std::vector<std::string> execution_notes(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  std::vector<std::string> notes;
  const ir::DropoutSpec& dropout = model.dropout;
  if (dropout.embedding > 0 || dropout.attention > 0 || dropout.residual > 0 ||
      dropout.activation > 0) {
    notes.emplace_back("the executor leaves dropout out");
  }
  if (plan.allocator.expandable_segments) {
    notes.emplace_back(
        "the executor takes segments from cudaMalloc: expandable segments are off on both sides");
  }
  return notes;
}

Status check_execution(const Execution& execution) {
  for (const Missing& part : kMissing) {
    if (part.has(execution.model)) {
      return not_run("MODEL", execution.model.name + " with " + std::string(part.what),
                     "a model that the executor runs");
    }
  }
  if (Status fits = check_sequence(execution); !fits) {
    return fits;
  }
  if (Status divides = check_division(execution); !divides) {
    return divides;
  }
  return check_fp8(execution);
}

}  // namespace headroom::exec
