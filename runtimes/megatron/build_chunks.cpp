#include "runtimes/megatron/build_chunks.h"

#include <algorithm>
#include <span>
#include <utility>

#include "runtimes/megatron/fp8_tensor.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::ir::megatron {
namespace {

using torch::Shape;
using torch::Tensor;

/// YarnRotaryEmbedding.__init__: the frequencies, which stay allocated, and the tables for the
/// original context length.
/// Source: megatron/core/models/common/embeddings/yarn_rotary_pos_embedding.py.
LatentTables make_yarn_tables(torch::Eager& eager, std::int64_t dim) {
  constexpr int kKept = 3;  // inv_freq_extra, inv_freq_inter and the base class's inv_freq.
  const Shape frequencies{dim / 2};
  const Shape angles{kLatentPositions, dim};
  LatentTables tables;
  for (int i = 0; i < kKept; ++i) {
    tables.frequencies.push_back(eager.empty(frequencies, DType::kFp32, TensorRole::kBuffer));
  }
  Tensor positions = eager.empty({kLatentPositions}, DType::kFp32);
  const Tensor shifted = eager.empty({kLatentPositions}, DType::kFp32);
  positions.reset();
  Tensor outer = eager.empty({kLatentPositions, dim / 2}, DType::kFp32);
  const Tensor both = eager.empty(angles, DType::kFp32);
  outer.reset();
  for (Tensor* const table : {&tables.cosine, &tables.sine}) {
    const Tensor plain = eager.empty(angles, DType::kFp32);
    *table = eager.empty(angles, DType::kFp32, TensorRole::kBuffer);
  }
  return tables;
}

/// Makes parameters and records them in the order of the module tree.
class Constructor {
 public:
  Constructor(const Runner& run, Chunk& chunk) : run_(run), context_(run.context), chunk_(chunk) {}

  Tensor make(const Shape& shape, Held held = Held::kInParts) {
    Tensor tensor = context_.eager.parameter(shape, context_.dtype, true);
    chunk_.parameters.push_back({.tensor = tensor,
                                 .held = held,
                                 .marked = held != Held::kWhole,
                                 .decays = shape.rank() > 1});
    return tensor;
  }
  /// A weight of Megatron's own parallel layers, which mark it when they initialise it.
  /// Source: megatron/core/tensor_parallel/layers.py, _initialize_affine_weight_gpu.
  Tensor make_own(const Shape& shape, Held held = Held::kInParts) {
    Tensor tensor = make(shape, held);
    Parameter& made = chunk_.parameters.back();
    made.marked = made.marked && context_.megatron.perform_initialization;
    return tensor;
  }
  Tensor make_weight(const Shape& shape, Held held = Held::kInParts) {
    return context_.local() ? make_own(shape, held) : make(shape, held);
  }
  /// A parameter that its module makes on the host in fp32. `move_to_device` copies it to the
  /// device.
  Tensor later(const Shape& shape) {
    context_.eager.set_meta(true);
    Tensor tensor = make(shape, Held::kWhole);
    context_.eager.set_meta(false);
    return tensor;
  }
  /// A parameter that its module makes in fp32 on the device. `cast` converts it to the type of the
  /// others.
  Tensor wide(std::int64_t width) {
    const Shape shape{width};
    Tensor tensor = later(shape);
    context_.eager.move_storage(tensor,
                                context_.eager.empty(shape, DType::kFp32, TensorRole::kParameter));
    return tensor;
  }
  NormWeights norm(std::int64_t width, bool rms) {
    NormWeights weights;
    weights.weight = make({width}, Held::kWhole);
    if (!rms) {
      weights.bias = make({width}, Held::kWhole);
    }
    return weights;
  }
  /// FusedLayerNorm makes its parameters on the host.
  NormWeights local_norm(std::int64_t width) {
    return {.weight = later({width}), .bias = later({width})};
  }
  /// A weight that is sharded along its outputs or not sharded.
  LinearWeights linear(std::int64_t out, std::int64_t in, bool bias, Held held = Held::kInParts) {
    LinearWeights weights;
    weights.weight = make_weight({out, in}, held);
    if (bias) {
      weights.bias = make({out}, held);
    }
    hold_in_fp8({&weights.weight, 1});
    return weights;
  }
  /// A weight that is sharded along its inputs.
  LinearWeights row_linear(std::int64_t out, std::int64_t in, bool bias) {
    LinearWeights weights;
    weights.weight = make_weight({out, in});
    if (bias) {
      weights.bias = make({out}, Held::kWhole);
    }
    hold_in_fp8({&weights.weight, 1});
    return weights;
  }

  void layer(LayerWeights& weights) {
    context_.eager.set_site("parameters", weights.layer);
    const std::int64_t hidden = context_.spec.hidden;
    if (context_.local()) {
      weights.attention.norm = local_norm(hidden);
    }
    attention(weights);
    weights.mlp_norm =
        context_.local() ? local_norm(hidden) : norm(hidden, weights.modules.rms_norm);
    if (weights.modules.sparse) {
      experts(weights);
    } else {
      weights.mlp = mlp(context_.spec.ffn, weights.modules);
    }
  }

 private:
  [[nodiscard]] std::int64_t split(std::int64_t size) const {
    return size / context_.grid.tensor.size;
  }

  /// Casts a module's weights, which it made in the model's own type, to FP8 for both products,
  /// after the module's quantizers. The original weights are moved to the host.
  /// Source: NVIDIA/TransformerEngine 2.11, pytorch/module/base.py, reset_parameters.
  void hold_in_fp8(std::span<const Tensor> weights) {
    if (!context_.megatron.fp8_parameters) {
      return;
    }
    run_.process.make_fp8_state(weights.front(),
                                Process::linear_casts(static_cast<int>(weights.size())));
    const TensorRole role = context_.eager.role();
    context_.eager.set_role(TensorRole::kParameter);
    std::vector<Tensor> originals;  // named_parameters() keeps them alive until all have been cast.
    for (const Tensor& weight : weights) {
      originals.push_back(context_.eager.alias(weight, weight.shape(), false));
      const Fp8Tensor cast = cast_to_fp8(run_, weight, Fp8Use::kBoth, Fp8Operand::kWeight);
      context_.eager.move_storage(weight, cast.rows);
      run_.process.hold_fp8_weight(weight, cast);
      std::ranges::find_if(chunk_.parameters, [&weight](const Parameter& parameter) {
        return parameter.tensor.impl() == weight.impl();
      })->fp8 = true;
    }
    context_.eager.set_role(role);
  }

  /// Attention.__init__ makes the output projection before SelfAttention adds its own.
  void attention(LayerWeights& layer) {
    const ModelSpec& spec = context_.spec;
    AttentionWeights& weights = layer.attention;
    if (spec.latent) {
      weights.norm = norm(spec.hidden, layer.modules.rms_norm);
      // Attention makes an output projection for heads of size H/A; MultiLatentAttention replaces
      // it.
      Tensor replaced = context_.eager.empty({spec.hidden, split(spec.hidden)}, context_.dtype,
                                             TensorRole::kParameter);
      Fp8Tensor replaced_cast;
      if (context_.megatron.fp8_parameters) {
        replaced_cast = cast_to_fp8(run_, replaced, Fp8Use::kBoth, Fp8Operand::kWeight);
        replaced.reset();
      }
      const LatentTables tables = make_yarn_tables(context_.eager, spec.latent->rope_dim);
      weights.output = row_linear(spec.hidden, split(spec.heads * spec.latent->v_dim),
                                  layer.modules.output_bias);
      replaced.reset();
      replaced_cast = {};
      weights.latent = latent(*spec.latent, layer.modules.rms_norm);
      weights.latent->tables = tables;
      return;
    }
    const std::int64_t query = split(spec.heads * spec.head_dim);
    const std::int64_t key = split(spec.kv_heads * spec.head_dim);
    if (layer.modules.sinks) {
      weights.sinks = wide(split(spec.heads));
    }
    weights.output = row_linear(spec.hidden, query, layer.modules.output_bias);
    if (!context_.local()) {
      weights.norm = norm(spec.hidden, layer.modules.rms_norm);
    }
    weights.qkv = linear(query + 2 * key, spec.hidden, layer.modules.qkv_bias);
    if (layer.modules.head_norms) {
      weights.query_norm = norm(spec.head_dim, layer.modules.rms_norm);
      weights.key_norm = norm(spec.head_dim, layer.modules.rms_norm);
    }
  }

  /// Every rank holds the whole down projections. Source:
  /// megatron/core/transformer/multi_latent_attention.py, MLASelfAttention.__init__.
  LatentWeights latent(const LatentAttention& sizes, bool rms) {
    const ModelSpec& spec = context_.spec;
    const std::int64_t query = split(spec.heads * (sizes.nope_dim + sizes.rope_dim));
    LatentWeights weights;
    if (sizes.q_rank == 0) {
      weights.query = linear(query, spec.hidden, false);
    } else {
      weights.query_down = linear(sizes.q_rank, spec.hidden, false, Held::kWhole);
      weights.query_norm = norm(sizes.q_rank, rms);
      weights.query_up = linear(query, sizes.q_rank, false);
    }
    weights.kv_down = linear(sizes.kv_rank + sizes.rope_dim, spec.hidden, false, Held::kWhole);
    weights.kv_norm = norm(sizes.kv_rank, rms);
    weights.kv_up =
        linear(split(spec.heads * (sizes.nope_dim + sizes.v_dim)), sizes.kv_rank, false);
    return weights;
  }

  MlpWeights mlp(std::int64_t width, const LayerModules& modules) {
    const std::int64_t hidden = context_.spec.hidden;
    const std::int64_t inner = split(width);
    MlpWeights weights;
    weights.up = linear(modules.gated ? 2 * inner : inner, hidden, modules.mlp_bias);
    weights.down = row_linear(hidden, inner, modules.mlp_bias);
    return weights;
  }

  /// The dispatcher's permutations of its input chunks: sorting by local expert and restoring. They
  /// are views of an arange if there is one local expert or one rank, and copies otherwise.
  /// Source: megatron/core/transformer/moe/token_dispatcher.py,
  ///         MoEAlltoAllTokenDispatcher.__init__.
  std::vector<Tensor> chunk_orders(std::int64_t local) {
    const std::int64_t ranks = context_.grid.expert.size * context_.grid.expert_tensor.size;
    const auto make = [&] {
      return context_.eager.empty({local * ranks}, DType::kInt64, TensorRole::kBuffer);
    };
    const Tensor numbers = make();
    if (local == 1 || ranks == 1) {
      return {numbers};
    }
    Tensor sorted = make();
    return {std::move(sorted), make()};
  }

  void experts(LayerWeights& layer) {
    const MoeSpec& moe = *context_.spec.moe;
    const std::int64_t hidden = context_.spec.hidden;
    const std::int64_t local = moe.experts / context_.grid.expert.size;
    const std::int64_t width = moe.expert_ffn / context_.grid.expert_tensor.size;
    const Held held = context_.grid.expert.size > 1 ? Held::kExpert : Held::kInParts;
    ExpertWeights weights;
    weights.router = later({moe.experts, hidden});
    if (layer.modules.expert_bias) {
      weights.router_bias = later({moe.experts});
    }
    if (context_.megatron.permute_fusion &&
        context_.megatron.dispatcher == MegatronDispatcher::kAllToAll) {
      weights.chunk_orders = chunk_orders(local);
    }
    const bool grouped = context_.megatron.grouped_gemm;  // Otherwise each expert is a module.
    const bool biases = layer.modules.expert_bias;        // Only grouped experts have biases.
    const std::int64_t inner = layer.modules.gated ? 2 * width : width;
    for (std::int64_t i = 0; i < local; ++i) {
      weights.up.push_back(make_weight({inner, hidden}, held));
      if (biases) {
        weights.up_bias.push_back(make({inner}, held));
      }
      if (!grouped) {
        weights.down.push_back(make_weight({hidden, width}, held));
      }
    }
    if (grouped) {
      hold_in_fp8(weights.up);
      for (std::int64_t i = 0; i < local; ++i) {
        weights.down.push_back(make_weight({hidden, width}, held));
        if (biases) {
          weights.down_bias.push_back(make({hidden}, held));
        }
      }
      hold_in_fp8(weights.down);
    }
    if (moe.shared_ffn > 0) {
      weights.shared = mlp(moe.shared_ffn, layer.modules);
    }
    layer.experts = std::move(weights);
  }

  const Runner& run_;
  const Context& context_;
  Chunk& chunk_;
};

void build_stem(const Context& context, Constructor& make, Chunk& chunk) {
  const ModelSpec& spec = context.spec;
  context.eager.set_site("parameters", -1);
  // Multi-token prediction layers embed tokens on their own stage.
  if (chunk.first || (chunk.last && context.megatron.mtp_layers > 0)) {
    const std::int64_t rows = padded_vocabulary(spec, context.plan) / context.grid.tensor.size;
    chunk.embedding = make.make_own({rows, spec.hidden});
    if (spec.position == PositionKind::kLearned) {
      chunk.positions = make.later({spec.max_positions, spec.hidden});
    }
  }
}

/// --position-embedding-type yarn, which gpt-oss uses. All other models use rope.
/// Source: NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/models/gpt_oss/gpt_oss_provider.py.
bool has_yarn(const ModelSpec& spec) {
  return spec.attention_sinks;
}

/// 1 / base^(arange(0, D, 2) / D) in fp32, with temporaries that live as long as in Python. Each
/// model chunk has one; with latent attention, each layer has one.
void build_frequencies(const Context& context, Chunk& chunk) {
  const ModelSpec& spec = context.spec;
  if (spec.position != PositionKind::kRope || spec.latent) {
    return;
  }
  torch::Eager& eager = context.eager;
  if (has_yarn(spec)) {
    chunk.yarn = make_yarn_tables(eager, spec.head_dim);
    chunk.frequencies = chunk.yarn->frequencies.back();
    return;
  }
  const torch::Shape shape{spec.head_dim / 2};
  Tensor integers = eager.empty(shape, DType::kFp32);
  Tensor fractions = eager.empty(shape, DType::kFp32);
  integers.reset();
  Tensor powers = eager.empty(shape, DType::kFp32);
  { const Tensor base = eager.empty({}, DType::kInt64); }
  fractions.reset();
  Tensor reciprocal = eager.empty(shape, DType::kFp32);
  chunk.frequencies = eager.empty(shape, DType::kFp32, TensorRole::kBuffer);
}

/// `last`: the modules of the last layer, which multi-token prediction layers have, too.
void build_head(const Context& context, Constructor& make, Chunk& chunk, const LayerModules& last) {
  const ModelSpec& spec = context.spec;
  const bool rms = spec.norm != NormKind::kLayer;
  if (chunk.normed) {
    chunk.final_norm = make.norm(spec.hidden, rms);
  }
  if (!chunk.last) {
    return;
  }
  for (std::int64_t i = 0; i < context.megatron.mtp_layers; ++i) {
    PredictionWeights& weights = chunk.predictions.emplace_back();
    weights.embedding_norm = make.norm(spec.hidden, rms);
    weights.hidden_norm = make.norm(spec.hidden, rms);
    weights.projection =
        make.linear(spec.hidden / context.grid.tensor.size, 2 * spec.hidden, false);
    weights.layer.layer =
        static_cast<std::int32_t>(spec.layers.size()) + static_cast<std::int32_t>(i);
    weights.layer.modules = last;
    make.layer(weights.layer);
    context.eager.set_site("parameters", -1);
    weights.final_norm = make.norm(spec.hidden, rms);
  }
  if (chunk.first && spec.tied_embeddings) {
    chunk.head = chunk.embedding;
    return;
  }
  const std::int64_t rows = padded_vocabulary(spec, context.plan) / context.grid.tensor.size;
  chunk.head = make.make_own({rows, spec.hidden});
  if (spec.tied_embeddings && chunk.embedding.defined()) {
    // The output layer keeps its own parameter allocated, although it is not used.
    chunk.head = chunk.embedding;
  }
}

/// An embedding that two stages hold is reduced separately.
/// Source: megatron/core/models/common/language_module/language_module.py,
///         setup_embeddings_and_output_layer.
void mark_shared(const Context& context, Chunk& chunk) {
  const bool shared = context.spec.tied_embeddings || context.megatron.mtp_layers > 0;
  if (!shared || context.grid.pipeline.size == 1) {
    return;
  }
  for (Parameter& parameter : chunk.parameters) {
    const torch::TensorImpl* const impl = parameter.tensor.impl();
    const bool tied = chunk.last && context.spec.tied_embeddings && impl == chunk.head.impl();
    parameter.shared_embedding = impl == chunk.embedding.impl() || tied;
  }
}

/// The layers of a chunk and its multi-token prediction layers.
std::vector<LayerWeights*> all_layers(Chunk& chunk) {
  std::vector<LayerWeights*> all;
  for (LayerWeights& layer : chunk.layers) {
    all.push_back(&layer);
  }
  for (PredictionWeights& prediction : chunk.predictions) {
    all.push_back(&prediction.layer);
  }
  return all;
}

/// Parameters that modules have made on the host, in order: positions, norms of Megatron's own,
/// routers.
std::vector<Tensor> host_parameters(const Context& context, Chunk& chunk) {
  std::vector<Tensor> all;
  if (chunk.positions.defined()) {
    all.push_back(chunk.positions);
  }
  for (const LayerWeights* const layer : all_layers(chunk)) {
    if (context.local()) {
      for (const NormWeights* const norm : {&layer->attention.norm, &layer->mlp_norm}) {
        all.push_back(norm->weight);
        all.push_back(norm->bias);
      }
    }
    if (layer->experts) {
      all.push_back(layer->experts->router);
      if (layer->experts->router_bias.defined()) {
        all.push_back(layer->experts->router_bias);
      }
    }
  }
  return all;
}

/// Whether a parameter is fp32 until it is cast. A router's weight already has the type of the
/// others.
bool is_wide(const Chunk& chunk, const Tensor& parameter) {
  return std::ranges::none_of(chunk.layers, [&parameter](const LayerWeights& layer) {
    return layer.experts && (layer.experts->router.impl() == parameter.impl() ||
                             layer.experts->router_bias.impl() == parameter.impl());
  });
}

/// Module.cuda() moves the parameters that were made on the host.
void move_to_device(const Context& context, Chunk& chunk) {
  for (const Tensor& parameter : host_parameters(context, chunk)) {
    const DType dtype = is_wide(chunk, parameter) ? DType::kFp32 : context.dtype;
    context.eager.move_storage(
        parameter, context.eager.empty(parameter.shape(), dtype, TensorRole::kParameter));
  }
}

/// Float16Module casts the fp32 parameters and the tables of latent attention, whose frequencies
/// are not buffers.
void cast(const Context& context, Chunk& chunk) {
  for (const Tensor& parameter : host_parameters(context, chunk)) {
    if (is_wide(chunk, parameter)) {
      context.eager.move_storage(
          parameter, context.eager.empty(parameter.shape(), context.dtype, TensorRole::kParameter));
    }
  }
  const auto narrow = [&context](const Tensor& wide, TensorRole role) {
    context.eager.move_storage(wide, context.eager.empty(wide.shape(), context.dtype, role));
  };
  const auto narrow_tables = [&narrow](const LatentTables& tables) {
    narrow(tables.cosine, TensorRole::kBuffer);
    narrow(tables.sine, TensorRole::kBuffer);
  };
  for (const LayerWeights* const layer : all_layers(chunk)) {
    if (layer->attention.latent) {
      narrow_tables(layer->attention.latent->tables);
    }
    if (layer->attention.sinks.defined()) {
      narrow(layer->attention.sinks, TensorRole::kParameter);
    }
  }
  if (chunk.yarn) {
    narrow_tables(*chunk.yarn);
  }
}

}  // namespace

std::int64_t padded_vocabulary(const ModelSpec& spec, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  const std::int64_t multiple = megatron.vocabulary_divisor * plan.mesh.tensor;
  return ceil_div(spec.vocabulary, multiple) * multiple;
}

std::vector<Chunk> build_chunks(const Runner& run, const std::vector<LayerModules>& modules) {
  const Context& context = run.context;
  const Axis& stage = context.grid.pipeline;
  const auto layers = static_cast<std::int64_t>(modules.size());
  const std::int64_t count = chunks_per_stage(context.plan, layers);
  std::vector<Chunk> chunks(static_cast<std::size_t>(count));
  for (std::int64_t index = 0; index < count; ++index) {
    Chunk& chunk = chunks[static_cast<std::size_t>(index)];
    chunk.first = context.grid.first_stage() && index == 0;
    chunk.last = context.grid.last_stage() && index == count - 1;
    Constructor make(run, chunk);
    build_stem(context, make, chunk);
    build_frequencies(context, chunk);
    const LayerSpan span =
        chunk_layers(context.plan, layers, {.stage = stage.rank, .chunk = index});
    const bool ends = span.count > 0 && span.first + span.count == layers;
    chunk.normed = context.megatron.mtp_layers > 0 ? ends : chunk.last;
    for (std::int64_t layer = span.first; layer < span.first + span.count; ++layer) {
      LayerWeights& weights = chunk.layers.emplace_back();
      weights.layer = static_cast<std::int32_t>(layer);
      weights.modules = modules[static_cast<std::size_t>(layer)];
      make.layer(weights);
    }
    build_head(context, make, chunk, modules.back());
    mark_shared(context, chunk);
  }
  for (Chunk& chunk : chunks) {
    move_to_device(context, chunk);
  }
  for (Chunk& chunk : chunks) {
    if (context.dtype != DType::kFp32) {
      cast(context, chunk);
    }
  }
  return chunks;
}

}  // namespace headroom::ir::megatron
