#include "model_ir/runtime/torchtitan/model.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "model_ir/runtime/fsdp/fully_shard.h"

namespace headroom::ir::torchtitan {
namespace {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

Error refused(const char* key, const std::string& got, const char* wanted) {
  return Error::invalid_argument(key, got, std::string(wanted) + " under torchtitan",
                                 "change it, or leave out --titan");
}

/// What this code runs on: whether rms_norm is put together from operators there, and whether
/// torchtitan of its time compiles the loss with the blocks (not in December 2024: train.py at
/// 9dec370).
struct TorchVersion {
  std::string_view name;
  bool composes_norms;
  bool compiles_loss;
};
constexpr std::array<TorchVersion, 7> kVersions = {{{"", false, true},
                                                    {"2.6", true, false},
                                                    {"2.7", true, true},
                                                    {"2.8", true, true},
                                                    {"2.9", false, true},
                                                    {"2.10", false, true},
                                                    {"2.11", false, true}}};

const TorchVersion* find_version(const ParallelPlan& plan) {
  const auto found = std::ranges::find(kVersions, plan.runtime_version, &TorchVersion::name);
  return found == kVersions.end() ? nullptr : &*found;
}

/// What the model's code is made for: Llama 3 and dense Qwen3.
bool is_known(const ModelSpec& spec) {
  const bool plain = spec.architecture == Architecture::kCausalLm && !spec.moe && !spec.latent &&
                     spec.position == PositionKind::kRope && spec.norm == NormKind::kRms &&
                     spec.norm_placement == NormPlacement::kPre && spec.gated_mlp &&
                     spec.residual == ResidualForm::kSequential &&
                     spec.activation == Activation::kSilu && !spec.qkv_bias && !spec.output_bias &&
                     !spec.mlp_bias && !spec.head_bias && spec.attention_softcap == 0;
  const bool norms = spec.qk_norm == QkNorm::kNone || spec.qk_norm == QkNorm::kPerHead;
  bool windows = false;
  for (const LayerSpec& layer : spec.layers) {
    windows = windows || layer.window.has_value();
  }
  return plain && norms && !windows && !spec.tied_embeddings;
}

std::optional<Error> unsupported_degrees(const ModelSpec& spec, const ParallelPlan& plan) {
  const TitanPlan titan = plan.titan.value_or(TitanPlan{});
  const std::int64_t replicas = plan.fsdp ? plan.fsdp->replicas : 1;
  const std::int64_t ranks = titan.tensor * titan.pipeline * replicas;
  if (const std::optional<Error> error =
          unsupported_pipeline(plan, static_cast<std::int64_t>(spec.layers.size()))) {
    return error;
  }
  if (titan.pipeline > 1 && has_cosine_table(spec)) {
    return refused("titan", "pp=" + std::to_string(titan.pipeline),
                   "Llama (Qwen3's train specification has no pipelining function)");
  }
  if (titan.compiled && (titan.tensor > 1 || titan.context > 1)) {
    return refused("titan", "compiled", "compiled blocks without tensor or context parallelism");
  }
  if (titan.context > 1 && plan.sequence % (2 * titan.context) != 0) {
    return refused("titan", "cp=" + std::to_string(titan.context),
                   "sequences that are a multiple of twice the ranks that share them");
  }
  if (titan.context > 1 && plan.sequence % (titan.context * titan.tensor) != 0) {
    return refused("titan", "cp=" + std::to_string(titan.context) + " with tp",
                   "sequences that are a multiple of cp x tp");
  }
  if (titan.context > 1 && titan.tensor > 1 && has_cosine_table(spec)) {
    return refused("titan", "cp=" + std::to_string(titan.context),
                   "Llama (Qwen3's code does not run with tensor and context parallelism)");
  }
  const bool alone = plan.world == 1 && ranks == 1;
  if (!alone && (plan.world % ranks != 0 || plan.world / ranks < 2)) {
    return refused("gpus", std::to_string(plan.world),
                   "one, or two or more ranks that share what a tensor-parallel rank holds");
  }
  if (alone && (titan.compiled || titan.context > 1 || has_chunked_loss(plan))) {
    return refused("gpus", "1", "eager blocks and the plain loss on one GPU");
  }
  if (spec.kv_heads % titan.tensor != 0 || spec.vocabulary % titan.tensor != 0 ||
      spec.ffn % titan.tensor != 0 || plan.sequence % titan.tensor != 0) {
    return refused("titan", "tp=" + std::to_string(titan.tensor),
                   "a divisor of heads, feed-forward width, vocabulary and sequence");
  }
  return std::nullopt;
}

std::optional<Error> unsupported_float8(const ParallelPlan& plan) {
  const TitanPlan titan = plan.titan.value_or(TitanPlan{});
  const bool any = titan.float8 != Float8Recipe::kNone;
  if (any && titan.pipeline > 1) {
    return refused("titan", "float8 with pp=" + std::to_string(titan.pipeline),
                   "8-bit products without a pipeline");
  }
  if (any && !titan.compiled) {
    return refused("titan", "float8 without compiled", "8-bit products in compiled blocks");
  }
  if (titan.float8_gather && titan.float8 != Float8Recipe::kTensorwise) {
    return refused("titan", "fp8-all-gather without float8=tensorwise", "float8=tensorwise");
  }
  if (titan.float8_precompute && !titan.float8_gather) {
    return refused("titan", "precompute-scale without fp8-all-gather", "fp8-all-gather");
  }
  return std::nullopt;
}

/// Makes parameters on the meta device and their shards in memory, group by group.
class Loader {
 public:
  Loader(const fsdp::Sharding& sharding, ShardedModel& result)
      : sharding_(sharding), result_(result) {}

  void begin_group(std::int32_t module, bool reshards) {
    if (sharding_.ranks == 1) {
      return;  // Nothing is wrapped.
    }
    result_.groups.push_back(std::make_unique<fsdp::ShardedGroup>(sharding_, module));
    result_.groups.back()->set_reshards(reshards);
    result_.groups.back()->set_precomputed_scales(precomputed_);
  }

  /// `replicated`: the same on every tensor-parallel rank, which has a part of its gradient.
  Tensor parameter(const Shape& shape, bool replicated = false) {
    return parameter(shape, sharding_.plan.param_dtype, replicated);
  }
  /// `gathered`: the type in which the whole is put together.
  Tensor parameter(const Shape& shape, DType gathered, bool replicated) {
    Eager& eager = sharding_.eager;
    if (sharding_.ranks == 1) {
      Tensor parameter = eager.parameter(shape, sharding_.stored, true);
      result_.shards.push_back(parameter);
      result_.replicated.push_back(false);
      count_ += shape.elements();
      return parameter;
    }
    eager.set_meta(true);
    Tensor whole = eager.parameter(shape, gathered, true);
    eager.set_meta(false);
    const Shape own = shape.with(0, ceil_div(shape[0], sharding_.ranks));
    const Tensor shard = eager.parameter(own, sharding_.stored, true);
    result_.groups.back()->add(whole, shard, replicated && tensor_ > 1);
    result_.shards.push_back(shard);
    result_.replicated.push_back(replicated);
    if (gathered == DType::kFp8) {
      result_.quantised.push_back(shard);
    }
    count_ += own.elements();
    return whole;
  }
  Tensor norm(std::int64_t width) { return parameter({width}, true); }
  /// A table whose rows are shared among tensor-parallel ranks.
  Tensor table(std::int64_t out, std::int64_t in) { return parameter({out / tensor_, in}); }
  /// A block's linear layer whose outputs, or whose inputs, are shared among them.
  Tensor columns(std::int64_t out, std::int64_t in) {
    return parameter({out / tensor_, in}, linear_, false);
  }
  Tensor rows(std::int64_t out, std::int64_t in) {
    return parameter({out, in / tensor_}, linear_, false);
  }

  void set_tensor(std::int64_t ranks) { tensor_ = ranks; }
  void set_float8(const TitanPlan& titan) {
    linear_ = titan.float8_gather ? DType::kFp8 : sharding_.plan.param_dtype;
    precomputed_ = titan.float8_precompute;
  }
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  const fsdp::Sharding& sharding_;
  ShardedModel& result_;
  std::int64_t tensor_ = 1;
  DType linear_ = DType::kBf16;
  bool precomputed_ = false;
  std::int64_t count_ = 0;
};

Block load_block(Loader& load, const ModelSpec& spec) {
  Block block;
  if (spec.qk_norm == QkNorm::kPerHead) {
    block.q_norm = load.norm(spec.head_dim);
    block.k_norm = load.norm(spec.head_dim);
  }
  block.wq = load.columns(spec.heads * spec.head_dim, spec.hidden);
  block.wk = load.columns(spec.kv_heads * spec.head_dim, spec.hidden);
  block.wv = load.columns(spec.kv_heads * spec.head_dim, spec.hidden);
  block.wo = load.rows(spec.hidden, spec.heads * spec.head_dim);
  block.w1 = load.columns(spec.ffn, spec.hidden);
  block.w2 = load.rows(spec.hidden, spec.ffn);
  block.w3 = load.columns(spec.ffn, spec.hidden);
  block.attention_norm = load.norm(spec.hidden);
  block.ffn_norm = load.norm(spec.hidden);
  return block;
}

/// The last norm and the head, one group unless the loss calls the head.
void load_head(Loader& load, Model& model) {
  const ParallelPlan& plan = *model.plan;
  // The last group would be gathered again at once.
  const bool last = plan.titan && plan.titan->reshard == TitanReshard::kAlways;
  load.begin_group(has_chunked_loss(plan) ? kNormModule : transformers::kHeadModule, last);
  model.norm = load.norm(model.spec->hidden);
  if (has_chunked_loss(plan)) {
    load.begin_group(transformers::kHeadModule, last);
  }
  model.output = load.table(model.spec->vocabulary, model.spec->hidden);
}

/// precompute_freqs_cis: angles of every position, a tensor of ones, and the two as complex
/// numbers.
Tensor complex_table(Eager& eager, std::int64_t positions, std::int64_t pairs) {
  const Tensor range = eager.empty({positions}, DType::kInt64);
  const Tensor angles = eager.empty({positions, pairs}, DType::kFp32);
  const Tensor ones = eager.empty({positions, pairs}, DType::kFp32);
  return eager.empty({positions, pairs, 2}, DType::kFp32, TensorRole::kBuffer);
}

/// precompute_rope_cache: angles twice, their cosines and sines, and both side by side.
Tensor cosine_table(Eager& eager, std::int64_t positions, std::int64_t width) {
  const Tensor range = eager.empty({positions}, DType::kFp32);
  const Tensor half = eager.empty({positions, width / 2}, DType::kFp32);
  const Tensor angles = eager.empty({positions, width}, DType::kFp32);
  const Tensor cosines = eager.empty({positions, width}, DType::kFp32);
  const Tensor sines = eager.empty({positions, width}, DType::kFp32);
  return eager.empty({positions, 2 * width}, DType::kFp32, TensorRole::kBuffer);
}

/// The table gets memory as a buffer, and is then made anew.
void load_rotary(Eager& eager, Model& model) {
  const std::int64_t positions = model.plan->sequence;
  const std::int64_t width = model.spec->head_dim;
  const bool cosines = has_cosine_table(*model.spec);
  const Shape shape = cosines ? Shape{positions, 2 * width} : Shape{positions, width / 2, 2};
  model.rotary = eager.empty(shape, DType::kFp32, TensorRole::kBuffer);
  eager.set_site("torchtitan.init_weights", -1);
  model.rotary =
      cosines ? cosine_table(eager, positions, width) : complex_table(eager, positions, width / 2);
}

}  // namespace

bool has_chunked_loss(const ParallelPlan& plan) {
  return plan.loss == LossKind::kChunked;
}

bool composes_norms(const ParallelPlan& plan) {
  const TorchVersion* const version = find_version(plan);
  return version != nullptr && version->composes_norms;
}

bool compiles_loss(const ParallelPlan& plan) {
  const TorchVersion* const version = find_version(plan);
  return plan.titan && plan.titan->compiled && !has_chunked_loss(plan) && version != nullptr &&
         version->compiles_loss;
}

bool has_cosine_table(const ModelSpec& spec) {
  return spec.qk_norm == QkNorm::kPerHead;
}

std::optional<Error> unsupported(const ModelSpec& spec, const ParallelPlan& plan) {
  if (!is_known(spec)) {
    return refused("model", spec.name, "Llama 3 or a dense Qwen3 with a head of its own");
  }
  if (find_version(plan) == nullptr) {
    return refused("runtime-version", plan.runtime_version, "PyTorch 2.6 to 2.11");
  }
  const bool known_precision =
      plan.precision == Precision::kFp32 || plan.precision == Precision::kBf16;
  if (!known_precision || (plan.fsdp && plan.fsdp->param_dtype != DType::kBf16)) {
    return refused("precision", "another type", "fp32 or bf16 shards gathered in bf16");
  }
  if (plan.lora || plan.quant || plan.liger || plan.ddp || plan.zero || plan.generation ||
      plan.evaluation || plan.loss == LossKind::kFusedLinear ||
      plan.attention != AttentionKind::kSdpa) {
    return refused("plan", "adapters, other kernels or losses, evaluation",
                   "its own attention and loss");
  }
  if (plan.fsdp &&
      (plan.fsdp->version != 2 || plan.fsdp->cpu_offload || plan.fsdp->reshard_ranks != 0)) {
    return refused("fsdp", "version 1, offload or resharding to fewer ranks", "fully_shard");
  }
  if (plan.recompute == Recompute::kFullReentrant) {
    return refused("checkpointing", "full-reentrant", "none, full or every-K");
  }
  if (const std::optional<Error> error = unsupported_float8(plan)) {
    return *error;
  }
  const bool adamw = plan.optimizer.kind == OptimizerKind::kAdamW;
  if (!adamw || (plan.optimizer.form != OptimizerForm::kFused &&
                 plan.optimizer.form != OptimizerForm::kForeach &&
                 plan.optimizer.form != OptimizerForm::kLoop)) {
    return refused("optimizer", "another one", "adamw, adamw-fused or adamw-loop");
  }
  return unsupported_degrees(spec, plan);
}

ShardedModel load_model(const fsdp::Sharding& sharding, const ModelSpec& spec,
                        const ParallelPlan& plan, const TitanChunk& part) {
  ShardedModel result;
  Model& model = result.model;
  model.spec = &spec;
  model.plan = &plan;
  model.first_layer = part.layers.first;
  const TitanPlan titan = plan.titan.value_or(TitanPlan{});
  const bool pipelined = titan.pipeline > 1;
  const bool reshards = titan.reshard == TitanReshard::kAlways ||
                        (titan.reshard == TitanReshard::kDefault && !pipelined);
  Eager& eager = sharding.eager;
  eager.set_site("fsdp.to_empty", -1);
  Loader load(sharding, result);
  load.set_tensor(titan.tensor);
  load.set_float8(titan);
  load.begin_group(fsdp::kRootModule, false);
  if (part.first) {
    load.begin_group(transformers::kEmbeddingModule, reshards);
    model.embedding = load.table(spec.vocabulary, spec.hidden);
  }
  for (std::int64_t layer = 0; layer < part.layers.count; ++layer) {
    load.begin_group(static_cast<std::int32_t>(part.layers.first + layer), reshards);
    model.blocks.push_back(load_block(load, spec));
  }
  if (part.last) {
    load_head(load, model);
  }
  load_rotary(eager, model);
  eager.program().parameters += load.count();
  eager.program().trainable_parameters += load.count();
  return result;
}

}  // namespace headroom::ir::torchtitan
