#include "runtimes/megatron/layer.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "runtimes/megatron/fused.h"
#include "runtimes/megatron/local_modules.h"
#include "runtimes/megatron/offloaded_part.h"
#include "runtimes/megatron/options.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/recomputable_norm.h"
#include "runtimes/torch/checkpoint.h"
#include "runtimes/torch/functions.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Tensor;

AttentionSizes attention_sizes(const Runner& run, const LayerModules& modules) {
  const Context& context = run.context;
  const std::int64_t cut = context.grid.tensor.size;
  return {.batch = context.plan.workload.micro_batch,
          .sequence = context.plan.workload.sequence / context.grid.context.size,
          .heads = context.spec.heads / cut,
          .kv_heads = context.spec.kv_heads / cut,
          .head_dim = context.spec.head_dim,
          .value_dim = context.spec.head_dim,
          .dropout = modules.attention_dropout,
          .window = modules.window,
          .layout = QkvLayout::kValueView};
}

/// A projection of its norm's output. Transformer Engine's module computes the norm itself.
/// `gemm_bias`: the layer adds its bias; no other function does.
Tensor first_product(const Runner& run, const Tensor& input, const NormWeights& norm,
                     const LinearWeights& linear, bool gemm_bias) {
  if (!run.context.local()) {
    return norm_linear(run, input, norm, linear, gemm_bias);
  }
  const LinearWeights own{.weight = linear.weight, .bias = gemm_bias ? linear.bias : Tensor{}};
  return column_linear(run, input, own, TensorRole::kActivation);
}

/// A row-parallel projection without its bias.
Tensor second_product(const Runner& run, const Tensor& input, const LinearWeights& weights,
                      KeptInput kept = KeptInput::kCast) {
  return run.context.local() ? row_linear(run, input, weights.weight)
                             : linear(run, input, weights.weight, Cut::kRow, kept);
}

/// q_layernorm and k_layernorm over the heads: a norm of [T*heads, D]. Views are copied first.
Tensor head_norm(const Runner& run, const Tensor& heads, const NormWeights& weights, bool copy) {
  Eager& eager = run.eager();
  const std::int64_t dim = run.context.spec.head_dim;
  const Tensor rows = copy ? contiguous_copy(run, heads) : heads;
  const Tensor flat = torch::view(eager, rows, {heads.elements() / dim, dim});
  return torch::view(eager, norm(run, flat, weights), heads.shape());
}

/// What get_qkv_layout returns: views of one projection go to the kernel without a copy, unless
/// groups of queries have been copied.
/// Source: attention/dot_product_attention/utils.py.
QkvLayout layout_of(const Runner& run, const LayerModules& modules, const AttentionSizes& sizes) {
  if (modules.rope || modules.head_norms) {
    return QkvLayout::kValueView;
  }
  if (sizes.heads != sizes.kv_heads) {
    return sizes.kv_heads > 1 ? QkvLayout::kKeyValueViews : QkvLayout::kViews;
  }
  return run.context.grid.context.size == 1 ? QkvLayout::kPacked : QkvLayout::kViews;
}

/// get_query_key_value_tensors: one projection, sharded by heads, and the norms of queries and
/// keys.
QueryKeyValue project_heads(const Runner& run, const LayerWeights& layer, const Tensor& hidden,
                            const AttentionSizes& sizes) {
  const AttentionWeights& weights = layer.attention;
  const Tensor fused = first_product(run, hidden, weights.norm, weights.qkv, true);
  QueryKeyValue parts =
      split_heads(run, fused, sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim);
  // Several groups of several queries cannot be viewed as [heads, D], so reshape copies them.
  const bool grouped = sizes.heads != sizes.kv_heads && sizes.kv_heads > 1;
  if (grouped) {
    parts.query = reshaped_copy(run, parts.query);
  }
  if (layer.modules.head_norms) {
    run.eager().set_site("head_norm", layer.layer);
    parts.query = head_norm(run, parts.query, weights.query_norm, !grouped);
    parts.key = head_norm(run, parts.key, weights.key_norm, true);
  }
  return parts;
}

/// SelfAttention without the output projection's bias: [T, H] to [T, H]. The input is that of its
/// norm or, if the norm is a module of its own, the norm's output.
Tensor self_attention(const Runner& run, const LayerWeights& layer, const Tensor& hidden,
                      const LayerInput& input) {
  AttentionSizes sizes = attention_sizes(run, layer.modules);
  run.eager().set_site("qkv", layer.layer);
  OffloadedPart projection(run, &MegatronOffload::qkv_linear);
  QueryKeyValue parts = projection.run(
      hidden, [&](const Tensor& inside) { return project_heads(run, layer, inside, sizes); });
  parts.query = projection.commit(parts.query, {});
  QueryKeyValue rotated = parts;
  rotated.sinks = layer.attention.sinks;
  if (layer.modules.rope) {
    run.eager().set_site("rope", layer.layer);
    const auto turn = run.context.megatron.rope_fusion ? rotate : rotate_unfused;
    rotated.query = turn(run, parts.query, input.angles);
    rotated.key = turn(run, parts.key, input.angles);
  }
  sizes.layout = layout_of(run, layer.modules, sizes);
  run.eager().set_site("attention", layer.layer);
  const Tensor context = core_attention(run, rotated, input.mask, sizes);
  run.eager().set_site("attention_out", layer.layer);
  OffloadedPart output(run, &MegatronOffload::attention_projection);
  const Tensor projected = output.run(context, [&](const Tensor& inside) {
    return second_product(run, inside, layer.attention.output, KeptInput::kOriginal);
  });
  return output.commit(projected, {&context, 1});
}

Tensor dense_mlp(const Runner& run, const LayerWeights& layer, const Tensor& hidden) {
  run.eager().set_site("mlp_up", layer.layer);
  Tensor inner = first_product(run, hidden, layer.mlp_norm, layer.mlp.up, false);
  run.eager().set_site("activation", layer.layer);
  inner = activate(run, layer.modules, inner, layer.mlp.up.bias);
  run.eager().set_site("mlp_down", layer.layer);
  return second_product(run, inner, layer.mlp.down);
}

torch::Region mlp_region(const Runner& run, const LayerWeights& layer) {
  return [run, &layer](Eager&, const std::vector<Tensor>& inputs) {
    return std::vector<Tensor>{dense_mlp(run, layer, inputs[0])};
  };
}

/// The norm before attention or the MLP, if it is a module of its own.
Tensor own_norm(const Runner& run, const LayerWeights& layer, const Tensor& hidden,
                const NormWeights& weights) {
  if (!run.context.local()) {
    return hidden;
  }
  run.eager().set_site("norm", layer.layer);
  return apex_norm(run, hidden, weights);
}

/// A norm that is a module of its own, and its input.
RecomputableNorm module_norm(const Runner& run, const Tensor& hidden, const NormWeights& weights,
                             OffloadedPart& part) {
  return part.run(hidden, [&](const Tensor& inside) {
    return RecomputableNorm(run, inside, weights, recomputes(run, &MegatronModules::norms));
  });
}

Tensor mlp(const Runner& run, const LayerWeights& layer, const Tensor& hidden,
           OffloadedPart& part) {
  if (layer.experts && run.context.local()) {
    return expert_layer(run, layer, own_norm(run, layer, hidden, layer.mlp_norm));
  }
  if (layer.experts) {
    run.eager().set_site("norm", layer.layer);
    RecomputableNorm normed = module_norm(run, hidden, layer.mlp_norm, part);
    Tensor output = expert_layer(run, layer, normed.output());
    normed.discard_until(output);
    return output;
  }
  const Tensor input = own_norm(run, layer, hidden, layer.mlp_norm);
  if (recomputes(run, &MegatronModules::mlp)) {
    return std::move(torch::run_region(run.eager(), {input}, mlp_region(run, layer),
                                       torch::RegionForm::kReentrant)[0]);
  }
  return dense_mlp(run, layer, input);
}

/// Attention with the norm before it. The norm is a module of its own if no projection fuses it.
Tensor attend(const Runner& run, const LayerWeights& layer, const Tensor& hidden,
              const LayerInput& input, OffloadedPart& part) {
  if (!layer.attention.latent) {
    const Tensor normed = own_norm(run, layer, hidden, layer.attention.norm);
    return self_attention(run, layer, normed, input);
  }
  run.eager().set_site("norm", layer.layer);
  RecomputableNorm normed = module_norm(run, hidden, layer.attention.norm, part);
  Tensor output = latent_attention(run, layer, normed.output(), input);
  normed.discard_until(output);
  return output;
}

/// bias_dropout_add_unfused. Source: megatron/core/fusions/fused_bias_dropout.py.
Tensor add_unfused(const Runner& run, const Tensor& part, const Tensor& bias, const Tensor& stream,
                   double dropout) {
  Eager& eager = run.eager();
  Tensor sum = bias.defined() ? torch::add(eager, part, bias) : part;
  if (dropout > 0) {
    sum = torch::dropout(eager, sum, dropout);
  }
  return torch::add(eager, stream, sum);
}

/// bias_dropout_add_exec_handler is torch.enable_grad. So the dropout masks live as long as the
/// residual stream whose graph holds them, even in a forward that will be recomputed.
Tensor add_to_stream(const Runner& run, const LayerWeights& layer, const Tensor& part,
                     const Tensor& bias, const Tensor& stream) {
  run.eager().set_site("add", layer.layer);
  const torch::GradMode recorded(run.eager(), true);
  if (layer.modules.expert_bias) {  // TEGroupedMLP with biases requires --no-bias-dropout-fusion.
    return add_unfused(run, part, bias, stream, layer.modules.hidden_dropout);
  }
  return bias_dropout_add(run, part, bias, stream, layer.modules.hidden_dropout);
}

/// CheckpointFunction over layers [first, last) of a chunk.
Tensor checkpointed(const Runner& run, const Chunk& chunk, std::size_t first, std::size_t last,
                    const Tensor& hidden, const LayerInput& input) {
  const torch::Region region = [run, &chunk, first, last](Eager&,
                                                          const std::vector<Tensor>& inputs) {
    Tensor output = inputs[0];
    const LayerInput again{.mask = inputs[1], .angles = inputs[2]};
    for (std::size_t i = first; i < last; ++i) {
      output = run_layer(run, chunk.layers[i], output, again);
    }
    return std::vector<Tensor>{output};
  };
  return std::move(torch::run_region(run.eager(), {hidden, input.mask, input.angles}, region,
                                     torch::RegionForm::kReentrant)[0]);
}

/// One layer, offloaded with --cpu-offloading-num-layers if the plan says so.
Tensor offloaded_layer(const Runner& run, const LayerWeights& layer, const Tensor& hidden,
                       const LayerInput& input) {
  LayerOffload& offload = run.process.layer_offload();
  torch::SavedTensorHooks* const taker = offload.begin_forward();
  Tensor output;
  {
    const torch::SavedTensorScope hooks(
        run.eager(), taker != nullptr ? taker : run.eager().saved_tensor_hooks());
    output = run_layer(run, layer, hidden, input);
  }
  offload.finish_forward(output);
  return output;
}

}  // namespace

Tensor attention_half(const Runner& run, const LayerWeights& layer, const Tensor& hidden,
                      const LayerInput& input) {
  // Norms that are fused with a projection are not modules.
  OffloadedPart part(run, layer.attention.latent ? &MegatronOffload::attention_norm : nullptr);
  const Tensor attention = attend(run, layer, hidden, input, part);
  const Tensor middle = add_to_stream(run, layer, attention, layer.attention.output.bias, hidden);
  return part.commit(middle, {&hidden, 1});
}

Tensor mlp_half(const Runner& run, const LayerWeights& layer, const Tensor& middle) {
  OffloadedPart part(run, layer.experts ? &MegatronOffload::mlp_norm : nullptr);
  const Tensor output = mlp(run, layer, middle, part);
  const Tensor sum = add_second_half(run, layer, output, middle);
  return part.commit(sum, {&middle, 1});
}

void make_viewless(const Runner& run) {
  const Tensor scalar = run.eager().empty({1}, run.context.dtype);
}

Tensor add_second_half(const Runner& run, const LayerWeights& layer, const Tensor& output,
                       const Tensor& middle) {
  return add_to_stream(run, layer, output, layer.mlp.down.bias, middle);
}

Tensor run_layer(const Runner& run, const LayerWeights& layer, const Tensor& hidden,
                 const LayerInput& input) {
  return mlp_half(run, layer, attention_half(run, layer, hidden, input));
}

bool recomputes(const Runner& run, bool MegatronModules::*module) {
  return run.eager().grad_enabled() && recomputed_modules(run.context.megatron).*module;
}

Tensor core_attention(const Runner& run, const QueryKeyValue& qkv, const Tensor& mask,
                      const AttentionSizes& sizes) {
  const auto attend = [run, sizes, sinks = qkv.sinks](const Tensor& query, const Tensor& key,
                                                      const Tensor& value) {
    if (run.context.local()) {  // It accepts views without a copy.
      return dot_product_attention(run, {.query = query, .key = key, .value = value}, sizes);
    }
    run.process.touch_fp8_attention(run.eager().layer());
    QueryKeyValue contiguous{.query = query, .key = key, .value = value, .sinks = sinks};
    if (sizes.layout == QkvLayout::kViews) {
      contiguous.query = contiguous_copy(run, query);
    }
    if (sizes.layout == QkvLayout::kViews || sizes.layout == QkvLayout::kKeyValueViews) {
      contiguous.key = contiguous_copy(run, key);
    }
    if (sizes.layout != QkvLayout::kPacked && sizes.layout != QkvLayout::kSeparate) {
      contiguous.value = contiguous_copy(run, value);
    }
    return dot_product_attention(run, contiguous, sizes);
  };
  if (!recomputes(run, &MegatronModules::core_attention)) {
    OffloadedPart part(run, &MegatronOffload::core_attention);
    const Tensor output =
        part.run(qkv.query, [&](const Tensor& query) { return attend(query, qkv.key, qkv.value); });
    return part.commit(output, std::array{qkv.query, qkv.key, qkv.value});
  }
  const torch::Region region = [attend](Eager&, const std::vector<Tensor>& inputs) {
    return std::vector<Tensor>{attend(inputs[0], inputs[1], inputs[2])};
  };
  return std::move(torch::run_region(run.eager(), {qkv.query, qkv.key, qkv.value, mask}, region,
                                     torch::RegionForm::kReentrant)[0]);
}

Tensor activate(const Runner& run, const LayerModules& modules, const Tensor& input,
                const Tensor& bias) {
  if (!modules.gated) {
    return bias_gelu(run, input, bias);
  }
  return bias.defined() ? bias_swiglu(run, input, bias) : swiglu(run, input);
}

Tensor run_layers(const Runner& run, const Chunk& chunk, Tensor hidden, const LayerInput& input) {
  const MegatronPlan& plan = run.context.megatron;
  const auto group = static_cast<std::size_t>(plan.recompute_layers);
  const std::size_t count = chunk.layers.size();
  run.process.begin_fp8_layers();
  for (std::size_t i = 0; i < count;) {
    const bool uniform = plan.recompute == MegatronRecompute::kFullUniform;
    const bool block = plan.recompute == MegatronRecompute::kFullBlock && i < group;
    const std::size_t last = uniform ? std::min(i + group, count) : i + 1;
    for (std::size_t layer = i; layer < last; ++layer) {
      run.process.wait_for_parameters(chunk.layers[layer].layer);
    }
    hidden = uniform || block ? checkpointed(run, chunk, i, last, hidden, input)
                              : offloaded_layer(run, chunk.layers[i], hidden, input);
    i = last;
  }
  run.process.reduce_fp8_scales(true);
  return hidden;
}

}  // namespace headroom::ir::megatron
