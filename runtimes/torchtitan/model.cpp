#include "runtimes/torchtitan/model.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "model_ir/plan/plan_words.h"
#include "runtimes/fsdp/fully_shard.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/interface/idle_options.h"
#include "runtimes/torchtitan/memory_budget.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {
namespace {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

Error refused(std::string_view key, std::string_view got, std::string_view wanted) {
  return Error::invalid_argument(key, got, wanted,
                                 "change this option, or use another framework than torchtitan");
}

/// A version of PyTorch: whether its rms_norm is composed of several operators, and whether
/// torchtitan of that time compiles the loss with the blocks (it did not in December 2024: train.py
/// at 9dec370).
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

/// Whether a mixture of experts is supported: that of Qwen3, in every layer.
bool is_known_mixture(const ModelSpec& spec) {
  const MoeSpec& moe = *spec.moe;
  bool sparse = true;
  for (const LayerSpec& layer : spec.layers) {
    sparse = sparse && layer.moe;
  }
  return sparse && has_cosine_table(spec) && moe.shared_ffn == 0 && !moe.expert_bias &&
         !moe.router_bias && !moe.correction_bias && moe.groups == 1;
}

/// Whether the model's code supports it: Llama 3 and Qwen3, dense and with experts.
bool is_known(const ModelSpec& spec) {
  const bool plain = spec.architecture == Architecture::kCausalLm && !spec.latent &&
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
  return plain && norms && !windows && !spec.tied_embeddings &&
         (!spec.moe || is_known_mixture(spec));
}

std::optional<Error> unsupported_degrees(const ModelSpec& spec, const ParallelPlan& plan) {
  const TitanPlan titan = titan_of(plan);
  const std::int64_t replicas = plan.mesh.replicas;
  const std::int64_t ranks = plan.mesh.tensor * plan.mesh.pipeline * replicas;
  if (const std::optional<Error> error =
          unsupported_pipeline(plan, static_cast<std::int64_t>(spec.layers.size()))) {
    return error;
  }
  if (plan.mesh.pipeline > 1 && has_cosine_table(spec)) {
    return refused("titan", "pp=" + std::to_string(plan.mesh.pipeline),
                   "pp=1 for Qwen3, for which torchtitan has no pipelining function");
  }
  if (titan.compiled && (plan.mesh.tensor > 1 || plan.mesh.context > 1)) {
    return refused("titan", "compiled with tp or cp",
                   "tp=1 and cp=1: other compiled blocks are not modelled");
  }
  if (plan.mesh.context > 1 && plan.workload.sequence % (2 * plan.mesh.context) != 0) {
    return refused("titan", "cp=" + std::to_string(plan.mesh.context),
                   "--seq to be a multiple of 2 x cp");
  }
  if (plan.mesh.context > 1 &&
      plan.workload.sequence % (plan.mesh.context * plan.mesh.tensor) != 0) {
    return refused("titan", "cp=" + std::to_string(plan.mesh.context) + " with tp",
                   "--seq to be a multiple of cp x tp");
  }
  if (plan.mesh.context > 1 && plan.mesh.tensor > 1 && has_cosine_table(spec)) {
    return refused("titan", "cp=" + std::to_string(plan.mesh.context),
                   "cp=1 or tp=1 for Qwen3, whose code does not run with both");
  }
  // One GPU, or DDP, which torchtitan combines with no other dimension.
  const bool whole = plan.world == replicas && plan.mesh.tensor == 1 && plan.mesh.pipeline == 1;
  if (!whole && (plan.world % ranks != 0 || plan.world / ranks < 2)) {
    return refused(
        "gpus", std::to_string(plan.world),
        "one GPU, as many GPUs as replicas (DDP), or at least two FSDP ranks for each replica");
  }
  if (whole && has_cosine_table(spec)) {
    return refused("gpus", std::to_string(plan.world),
                   "two or more FSDP ranks for Qwen3: its query and key norms under autocast are "
                   "not modelled");
  }
  if (whole && (titan.compiled || plan.mesh.context > 1 || has_chunked_loss(plan))) {
    return refused("gpus", std::to_string(plan.world),
                   "two or more FSDP ranks with compiled, cp or a chunked loss");
  }
  if (spec.kv_heads % plan.mesh.tensor != 0 || spec.vocabulary % plan.mesh.tensor != 0 ||
      spec.ffn % plan.mesh.tensor != 0 || plan.workload.sequence % plan.mesh.tensor != 0) {
    return refused(
        "titan", "tp=" + std::to_string(plan.mesh.tensor),
        "a divisor of the key and value heads, the MLP's width, the vocabulary and --seq");
  }
  return std::nullopt;
}

std::optional<Error> unsupported_float8(const ParallelPlan& plan) {
  const TitanPlan titan = titan_of(plan);
  const bool any = titan.float8 != Float8Recipe::kNone;
  if (any && plan.mesh.pipeline > 1) {
    return refused("titan", "float8 with pp=" + std::to_string(plan.mesh.pipeline),
                   "pp=1: float8 is not modelled in pipelines");
  }
  if (any && !titan.compiled) {
    return refused("titan", "float8 without compiled",
                   "compiled as well: float8 is modelled in compiled blocks");
  }
  if (titan.float8_gather && titan.float8 != Float8Recipe::kTensorwise) {
    return refused("titan", "fp8-all-gather without float8=tensorwise",
                   "float8=tensorwise as well");
  }
  if (titan.float8_precompute && !titan.float8_gather) {
    return refused("titan", "precompute-scale without fp8-all-gather", "fp8-all-gather as well");
  }
  return std::nullopt;
}

/// Whether FSDP shards experts along their second dimension, because there are more ranks than
/// experts.
/// Source: torchtitan/models/llama4/infra/parallelize.py, apply_fsdp.
bool shards_by_columns(const ModelSpec& spec, const ParallelPlan& plan, std::int64_t sharers) {
  return plan.mesh.expert > 1 && sharers * plan.mesh.expert > spec.moe->experts;
}

/// Errors in the degrees of the experts.
std::optional<Error> unsupported_spread(const ModelSpec& spec, const ParallelPlan& plan) {
  const std::int64_t inner = plan.mesh.expert * titan_expert_tensor(plan.mesh);
  const std::int64_t replicas = plan.mesh.replicas;
  const std::int64_t ranks = plan.world / replicas / plan.mesh.pipeline;
  const std::string degrees = "ep=" + std::to_string(plan.mesh.expert) +
                              ",etp=" + std::to_string(titan_expert_tensor(plan.mesh));
  const std::int64_t tensor =
      plan.mesh.expert > 1 ? titan_expert_tensor(plan.mesh) : plan.mesh.tensor;
  if (titan_expert_tensor(plan.mesh) != 1 &&
      (plan.mesh.expert == 1 || titan_expert_tensor(plan.mesh) != plan.mesh.tensor)) {
    return refused("titan", degrees, "etp=1, or etp equal to tp together with ep=2 or more");
  }
  if (plan.mesh.expert > 1 && ranks % inner != 0) {
    return refused(
        "titan", degrees,
        "degrees whose product divides the " + std::to_string(ranks) + " ranks of a replica");
  }
  if (spec.moe->experts % plan.mesh.expert != 0 || spec.moe->expert_ffn % tensor != 0) {
    return refused("titan", degrees,
                   "ep to divide the number of experts, and etp to divide their width");
  }
  const std::int64_t sharers = ranks / inner;  // Ranks that share an expert.
  if (shards_by_columns(spec, plan, sharers) &&
      (spec.hidden % sharers != 0 || spec.moe->expert_ffn / tensor % sharers != 0)) {
    return refused("titan", degrees,
                   "hidden size and expert width to be multiples of the " +
                       std::to_string(sharers) + " ranks that share an expert");
  }
  return std::nullopt;
}

std::optional<Error> unsupported_experts(const ModelSpec& spec, const ParallelPlan& plan) {
  const TitanPlan titan = titan_of(plan);
  if (!spec.moe) {
    return plan.mesh.expert > 1 || titan_expert_tensor(plan.mesh) > 1
               ? std::optional(refused("titan", "ep=" + std::to_string(plan.mesh.expert),
                                       "ep=1 and etp=1, because the model has no experts"))
               : std::nullopt;
  }
  if (titan.compiled) {
    return refused("titan", "compiled for a model with experts",
                   "eager blocks: compiled experts are not modelled");
  }
  if (plan.world == plan.mesh.replicas) {
    return refused("gpus", std::to_string(plan.world),
                   "two or more FSDP ranks for a model with experts");
  }
  if (has_chunked_loss(plan) || composes_norms(plan)) {
    return refused("model", spec.name + " with a chunked loss or PyTorch before 2.9",
                   "--loss hf and PyTorch 2.9 or later for a model with experts");
  }
  return unsupported_spread(spec, plan);
}

/// Makes parameters on the meta device and allocates their shards, group by group.
class Loader {
 public:
  Loader(const fsdp::Sharding& sharding, const ModelSpec& spec, const ParallelPlan& plan,
         ShardedModel& result)
      : dense_(sharding),
        experts_(sharding),
        result_(result),
        tensor_(plan.mesh.tensor),
        expert_tensor_(plan.mesh.expert > 1 ? titan_expert_tensor(plan.mesh) : plan.mesh.tensor),
        spread_(plan.mesh.expert),
        linear_(titan_of(plan).float8_gather ? DType::kFp8 : sharding.plan.param_dtype),
        precomputed_(titan_of(plan).float8_precompute) {
    if (spread_ > 1) {
      const std::int64_t inner = spread_ * expert_tensor_;
      experts_.ranks = dense_.ranks * tensor_ / inner;
      experts_.stride = inner;
      experts_.by_columns = spec.moe && shards_by_columns(spec, plan, experts_.ranks);
    }
  }

  void begin_group(std::int32_t module, bool reshards) {
    if (dense_.ranks == 1) {
      return;  // Nothing is wrapped.
    }
    group_ = &add_group(dense_, module, reshards);
    expert_group_ = group_;
  }
  /// Begins the group of the experts of the current block, under expert parallelism.
  void begin_experts(std::int32_t layer, bool reshards) {
    if (spread_ > 1) {
      expert_group_ = &add_group(experts_, experts_module(layer), reshards);
    }
  }

  /// `replicated`: the parameter is the same on every tensor-parallel rank, which has a partial
  /// gradient of it.
  Tensor parameter(const Shape& shape, bool replicated = false) {
    return dense(shape, dense_.plan.param_dtype, replicated, replicated);
  }
  Tensor norm(std::int64_t width) { return parameter({width}, true); }
  /// A parameter that is the same on every tensor-parallel rank, which has its whole gradient
  /// (NoParallel).
  Tensor copied(const Shape& shape) { return dense(shape, dense_.plan.param_dtype, true, false); }
  /// A table whose rows are sharded over tensor-parallel ranks.
  Tensor table(std::int64_t out, std::int64_t in) { return parameter({out / tensor_, in}); }
  /// A linear layer of a block whose outputs (columns) or inputs (rows) are sharded over
  /// tensor-parallel ranks.
  Tensor columns(std::int64_t out, std::int64_t in) {
    return dense({out / tensor_, in}, linear_, false, false);
  }
  Tensor rows(std::int64_t out, std::int64_t in) {
    return dense({out, in / tensor_}, linear_, false, false);
  }
  /// The same for all experts: [E, out, in].
  Tensor expert_columns(std::int64_t experts, std::int64_t out, std::int64_t in) {
    return expert({experts / spread_, out / expert_tensor_, in});
  }
  Tensor expert_rows(std::int64_t experts, std::int64_t out, std::int64_t in) {
    return expert({experts / spread_, out, in / expert_tensor_});
  }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] Eager& eager() const { return dense_.eager; }

 private:
  fsdp::ShardedGroup& add_group(const fsdp::Sharding& sharding, std::int32_t module,
                                bool reshards) {
    result_.groups.push_back(std::make_unique<fsdp::ShardedGroup>(sharding, module));
    result_.groups.back()->set_reshards(reshards);
    result_.groups.back()->set_precomputed_scales(precomputed_);
    return *result_.groups.back();
  }
  /// Allocates and records a shard of a parameter.
  Tensor shard(const Shape& own, bool replicated, bool spread) {
    Tensor shard = eager().parameter(own, dense_.stored, true);
    result_.shards.push_back(shard);
    result_.replicated.push_back(replicated);
    result_.spread.push_back(spread);
    count_ += own.elements();
    return shard;
  }
  /// `gathered`: the type in which the parameter is all-gathered. `partial`: a tensor-parallel rank
  /// has only a partial sum of the gradient.
  Tensor dense(const Shape& shape, DType gathered, bool replicated, bool partial) {
    if (dense_.ranks == 1) {
      return shard(shape, false, false);
    }
    Tensor whole = on_meta(shape, gathered);
    const Tensor own = shard(shape.with(0, ceil_div(shape[0], dense_.ranks)), replicated, false);
    group_->add(whole, own, partial && tensor_ > 1);
    if (gathered == DType::kFp8) {
      result_.quantised.push_back(own);
    }
    return whole;
  }
  Tensor expert(const Shape& shape) {
    if (dense_.ranks == 1) {
      return shard(shape, false, false);
    }
    Tensor whole = on_meta(shape, dense_.plan.param_dtype);
    const int dim = experts_.by_columns ? 1 : 0;
    const Shape own = shape.with(dim, ceil_div(shape[dim], experts_.ranks));
    expert_group_->add(whole, shard(own, false, spread_ > 1));
    return whole;
  }
  Tensor on_meta(const Shape& shape, DType dtype) {
    eager().set_meta(true);
    Tensor whole = eager().parameter(shape, dtype, true);
    eager().set_meta(false);
    return whole;
  }

  fsdp::Sharding dense_;
  fsdp::Sharding experts_;
  ShardedModel& result_;
  fsdp::ShardedGroup* group_ = nullptr;
  fsdp::ShardedGroup* expert_group_ = nullptr;
  std::int64_t tensor_;
  std::int64_t expert_tensor_;
  std::int64_t spread_;
  DType linear_;
  bool precomputed_;
  std::int64_t count_ = 0;
};

/// MoE: experts, router, and the buffers of the module itself.
void load_mixture(Loader& load, const ModelSpec& spec, Block& block) {
  const MoeSpec& moe = *spec.moe;
  Mixture& mixture = block.mixture;
  mixture.w1 = load.expert_columns(moe.experts, moe.expert_ffn, spec.hidden);
  mixture.w2 = load.expert_rows(moe.experts, spec.hidden, moe.expert_ffn);
  mixture.w3 = load.expert_columns(moe.experts, moe.expert_ffn, spec.hidden);
  mixture.router = load.copied({moe.experts, spec.hidden});
  const auto buffer = [&] {
    return load.eager().empty({moe.experts}, DType::kFp32, TensorRole::kBuffer);
  };
  mixture.bias = buffer();
  mixture.counts = buffer();
  mixture.permutation = std::make_shared<Tensor>();
}

void load_feed_forward(Loader& load, const ModelSpec& spec, Block& block) {
  block.w1 = load.columns(spec.ffn, spec.hidden);
  block.w2 = load.rows(spec.hidden, spec.ffn);
  block.w3 = load.columns(spec.ffn, spec.hidden);
}

Block load_block(Loader& load, const ModelSpec& spec, const LayerSpec& layer) {
  Block block;
  if (spec.qk_norm == QkNorm::kPerHead) {
    block.q_norm = load.norm(spec.head_dim);
    block.k_norm = load.norm(spec.head_dim);
  }
  block.wq = load.columns(spec.heads * spec.head_dim, spec.hidden);
  block.wk = load.columns(spec.kv_heads * spec.head_dim, spec.hidden);
  block.wv = load.columns(spec.kv_heads * spec.head_dim, spec.hidden);
  block.wo = load.rows(spec.hidden, spec.heads * spec.head_dim);
  layer.moe ? load_mixture(load, spec, block) : load_feed_forward(load, spec, block);
  block.attention_norm = load.norm(spec.hidden);
  block.ffn_norm = load.norm(spec.hidden);
  return block;
}

/// MoE.init_weights allocates the buffers again.
void renew_buffers(Eager& eager, Model& model) {
  for (Block& block : model.blocks) {
    for (Tensor* const each : {&block.mixture.counts, &block.mixture.bias}) {
      if (each->defined()) {
        *each = eager.empty((*each).shape(), DType::kFp32, TensorRole::kBuffer);
      }
    }
  }
}

/// apply_fsdp: under expert parallelism, each group states which groups it prefetches.
std::vector<Prefetch> prefetches_of(const Model& model) {
  std::vector<std::vector<std::int32_t>> stations;  // Groups that are gathered together.
  if (model.embedding.defined()) {
    stations.push_back({transformers::kEmbeddingModule});
  }
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    const auto layer = static_cast<std::int32_t>(model.first_layer) + static_cast<std::int32_t>(i);
    stations.push_back({layer});
    if (model.blocks[i].mixture.router.defined()) {
      stations.back().push_back(experts_module(layer));
    }
  }
  if (model.output.defined()) {
    stations.push_back({transformers::kHeadModule});
  }
  std::vector<Prefetch> result;
  for (std::size_t i = 0; i < stations.size(); ++i) {
    Prefetch next{.module = stations[i].front(), .forward = {}, .backward = {}};
    if (i + 1 < stations.size()) {
      next.forward = stations[i + 1];
    }
    if (i > 0) {
      next.backward = stations[i - 1];
    }
    if (next.module == transformers::kEmbeddingModule && next.forward.size() > 1) {
      next.forward.pop_back();  // Only the first block; it prefetches its experts itself.
    }
    if (next.module == transformers::kHeadModule && next.backward.size() > 1) {
      next.backward.pop_back();
    }
    result.push_back(std::move(next));
  }
  return result;
}

/// The last norm and the head. They are one group unless the loss calls the head.
void load_head(Loader& load, Model& model) {
  const ParallelPlan& plan = *model.plan;
  // Whether to reshard the last group, which would be gathered again at once.
  const bool last = has_titan(plan) && titan_of(plan).reshard == TitanReshard::kAlways;
  load.begin_group(has_chunked_loss(plan) ? kNormModule : transformers::kHeadModule, last);
  model.norm = load.norm(model.spec->hidden);
  if (has_chunked_loss(plan)) {
    load.begin_group(transformers::kHeadModule, last);
  }
  model.output = load.table(model.spec->vocabulary, model.spec->hidden);
}

/// precompute_freqs_cis: the angles of every position, a tensor of ones, and both as complex
/// numbers.
Tensor complex_table(Eager& eager, std::int64_t positions, std::int64_t pairs) {
  const Tensor range = eager.empty({positions}, DType::kInt64);
  const Tensor angles = eager.empty({positions, pairs}, DType::kFp32);
  const Tensor ones = eager.empty({positions, pairs}, DType::kFp32);
  return eager.empty({positions, pairs, 2}, DType::kFp32, TensorRole::kBuffer);
}

/// precompute_rope_cache: the angles twice, their cosines and sines, and both concatenated.
Tensor cosine_table(Eager& eager, std::int64_t positions, std::int64_t width) {
  const Tensor range = eager.empty({positions}, DType::kFp32);
  const Tensor half = eager.empty({positions, width / 2}, DType::kFp32);
  const Tensor angles = eager.empty({positions, width}, DType::kFp32);
  const Tensor cosines = eager.empty({positions, width}, DType::kFp32);
  const Tensor sines = eager.empty({positions, width}, DType::kFp32);
  return eager.empty({positions, 2 * width}, DType::kFp32, TensorRole::kBuffer);
}

/// The table is allocated as a buffer and then made again.
void load_rotary(Eager& eager, Model& model) {
  const std::int64_t positions = model.plan->workload.sequence;
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
  return has_titan(plan) && titan_of(plan).compiled && !has_chunked_loss(plan) &&
         version != nullptr && version->compiles_loss;
}

std::optional<Error> unsupported(const ModelSpec& spec, const ParallelPlan& plan) {
  if (!is_known(spec)) {
    const std::string tied =
        spec.tied_embeddings ? ", whose output layer shares the embedding's weights" : "";
    return Error::invalid_argument(
        "model", spec.name + tied,
        "Llama 3 or Qwen3 (dense, or with experts in every layer) with an output "
        "layer that does not share the embedding's weights, as torchtitan trains them",
        "use another framework, such as --runtime transformers");
  }
  if (spec.head_dim % 8 != 0) {
    return refused("head_dim", std::to_string(spec.head_dim), "a multiple of 8");
  }
  if (find_version(plan) == nullptr) {
    return refused("runtime-version", plan.runtime_version, "PyTorch 2.6 to 2.11");
  }
  const bool known_precision =
      plan.precision == Precision::kFp32 || plan.precision == Precision::kBf16;
  if (!known_precision || (has_fsdp(plan) && fsdp_of(plan).param_dtype != DType::kBf16)) {
    return refused("precision", word_of(precision_words(), plan.precision),
                   "fp32 or bf16, with param=bf16 of --fsdp");
  }
  constexpr std::array<IdleOption, 9> kIdle = {{{"lora", ""},
                                                {"qlora", ""},
                                                {"liger", ""},
                                                {"generate", ""},
                                                {"evaluation", ""},
                                                {"attention", ""},
                                                {"padded", ""},
                                                {"keep-logits", ""},
                                                {"keep-batch", ""}}};
  if (const std::optional<Error> idle = idle_option(plan, kIdle, "torchtitan")) {
    return *idle;
  }
  if (plan.loss == LossKind::kFusedLinear) {
    return refused("loss", "fused-linear", "hf or chunked");
  }
  if (has_fsdp(plan) && (fsdp_of(plan).version != 2 || fsdp_of(plan).cpu_offload ||
                         fsdp_of(plan).reshard_ranks != 0)) {
    return refused("fsdp", "version=1, offload or reshard=N",
                   "version=2 without offload and reshard=N");
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
    return refused("optimizer", word_of(optimizer_words(), plan.optimizer),
                   "adamw, adamw-fused or adamw-loop");
  }
  if (const std::optional<Error> error = unsupported_experts(spec, plan)) {
    return *error;
  }
  if (const std::optional<Error> error = unsupported_budget(spec, plan)) {
    return *error;
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
  const TitanPlan titan = titan_of(plan);
  const bool pipelined = plan.mesh.pipeline > 1;
  const bool reshards = titan.reshard == TitanReshard::kAlways ||
                        (titan.reshard == TitanReshard::kDefault && !pipelined);
  Eager& eager = sharding.eager;
  eager.set_site("fsdp.to_empty", -1);
  Loader load(sharding, spec, plan, result);
  load.begin_group(fsdp::kRootModule, false);
  if (part.first) {
    load.begin_group(transformers::kEmbeddingModule, reshards);
    model.embedding = load.table(spec.vocabulary, spec.hidden);
  }
  for (std::int64_t layer = 0; layer < part.layers.count; ++layer) {
    const auto number = static_cast<std::int32_t>(part.layers.first + layer);
    const LayerSpec& form = spec.layers[static_cast<std::size_t>(number)];
    load.begin_group(number, reshards);
    if (form.moe) {
      load.begin_experts(number, reshards);
    }
    model.blocks.push_back(load_block(load, spec, form));
  }
  if (part.last) {
    load_head(load, model);
  }
  load_rotary(eager, model);
  model.kept = kept_under_budget(spec, plan);
  renew_buffers(eager, model);
  if (plan.mesh.expert > 1) {
    result.prefetches = prefetches_of(model);
  }
  eager.program().parameters += load.count();
  eager.program().trainable_parameters += load.count();
  return result;
}

}  // namespace headroom::ir::torchtitan
