// Multi-head latent attention (DeepSeek's MLA) with fused rotary kernels.
#include <optional>
#include <utility>
#include <vector>

#include "runtimes/megatron/discarded_region.h"
#include "runtimes/megatron/layer.h"
#include "runtimes/megatron/offloaded_part.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

/// The output of the down projection of keys and values: two views of one tensor.
struct Compressed {
  Tensor latent;  ///< [T, kv_rank]
  Tensor rotary;  ///< [T, rope_dim], shared by all heads.
};

/// torch.split; backward concatenates the gradients in one tensor.
Compressed split(const Runner& run, const Tensor& combined, std::int64_t latent) {
  Eager& eager = run.eager();
  const std::int64_t rows = combined.shape()[0];
  Record record(eager, {&combined});
  Compressed parts{.latent = eager.alias(combined, {rows, latent}, true),
                   .rotary = eager.alias(combined, {rows, combined.shape()[1] - latent}, true)};
  Tensor* const outputs[] = {&parts.latent, &parts.rotary};
  record.finish(outputs, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    return {torch::computed(e, node.input_shapes[0], grads[0].dtype(), {&grads[0], &grads[1]})};
  });
  return parts;
}

/// gather_from_sequence_parallel_region: gathers the whole sequence from each rank's part, which is
/// first made contiguous. Source: megatron/core/tensor_parallel/mappings.py.
Tensor gather_rotary(const Runner& run, const Tensor& part) {
  Eager& eager = run.eager();
  const std::int64_t ranks = run.context.grid.tensor.size;
  Record record(eager, {&part});
  const auto shape = part.shape();
  Tensor whole = eager.empty(shape.with(0, shape[0] * ranks), part.dtype());
  const std::int64_t bytes = bytes_of(whole.elements(), whole.dtype()).value();
  { const Tensor contiguous = torch::computed(eager, shape, part.dtype(), {&part}); }
  const RankGroup group = run.context.grid.tensor.group();
  eager.run(CollectiveShape{.kind = CollectiveKind::kAllGather,
                            .bytes = bytes,
                            .group = group,
                            .axis = MeshAxis::kTensor});
  record.finish(whole, [group, bytes](Eager& e, Gradients& grads, Node& node) -> Gradients {
    e.run(CollectiveShape{.kind = CollectiveKind::kReduceScatter,
                          .bytes = bytes,
                          .group = group,
                          .axis = MeshAxis::kTensor});
    return {e.empty(node.input_shapes[0], grads[0].dtype())};
  });
  return whole;
}

/// fused_apply_mla_rope_for_q rotates queries in place, and their gradient, too.
Tensor rotate_queries(const Runner& run, const Tensor& query) {
  Eager& eager = run.eager();
  Record record(eager, {&query});
  const std::int64_t bytes = bytes_of(query.elements(), query.dtype()).value();
  torch::launch(eager, {&query, &query});
  run.process.tune(TunedKernel::kLatentQuery, bytes);
  Tensor rotated = eager.alias(query, query.shape(), false);
  record.finish(rotated, [run, bytes](Eager& e, Gradients& grads, Node&) -> Gradients {
    run.process.tune(TunedKernel::kLatentQueryBackward, bytes);
    torch::launch(e, {&grads[0], &grads[0]});
    return {grads[0]};
  });
  return rotated;
}

/// fused_apply_mla_rope_for_kv: makes keys and values [T, heads*dim] from the up projection's
/// output and the rotary part.
QueryKeyValue rotate_keys(const Runner& run, const Tensor& up, const Tensor& rotary,
                          const AttentionSizes& sizes) {
  Eager& eager = run.eager();
  const std::int64_t rows = up.shape()[0];
  Record record(eager, {&up, &rotary});
  QueryKeyValue result;
  result.key = eager.empty({rows, sizes.heads * sizes.head_dim}, up.dtype());
  result.value = eager.empty({rows, sizes.heads * sizes.value_dim}, up.dtype());
  torch::launch(eager, {&up, &rotary, &result.key, &result.value});
  run.process.tune(TunedKernel::kLatentKey, 0);
  Tensor* const outputs[] = {&result.key, &result.value};
  record.finish(outputs, [run](Eager& e, Gradients& grads, Node& node) -> Gradients {
    Gradients inputs(2);
    inputs[0] = e.empty(node.input_shapes[0], grads[0].dtype());
    inputs[1] = e.empty(node.input_shapes[1], grads[0].dtype());
    torch::launch(e, {&grads[0], &grads[1], &inputs[0], &inputs[1]});
    run.process.tune(TunedKernel::kLatentKeyBackward, 0);
    return inputs;
  });
  return result;
}

AttentionSizes latent_attention_sizes(const Runner& run, const LayerModules& modules) {
  const Context& context = run.context;
  const LatentAttention& latent = *context.spec.latent;
  const std::int64_t heads = context.spec.heads / context.grid.tensor.size;
  return {.batch = context.plan.workload.micro_batch,
          .sequence = context.plan.workload.sequence / context.grid.context.size,
          .heads = heads,
          .kv_heads = heads,
          .head_dim = latent.nope_dim + latent.rope_dim,
          .value_dim = latent.v_dim,
          .dropout = modules.attention_dropout,
          .layout = QkvLayout::kSeparate};
}

/// Inputs of the up projections.
struct Latents {
  const Tensor& query;  ///< The queries' latent, or the hidden state if queries have none.
  const Tensor& latent;
  const Tensor& rotary;
};

/// qkv_up_proj_and_rope_apply.
QueryKeyValue project_up(const Runner& run, const LayerWeights& layer, const Latents& latents,
                         const AttentionSizes& sizes) {
  const LatentWeights& weights = *layer.attention.latent;
  Eager& eager = run.eager();
  eager.set_site("qkv", layer.layer);
  const Tensor query =
      weights.query_down.weight.defined()
          ? norm_linear(run, latents.query, weights.query_norm, weights.query_up, false)
          : linear(run, latents.query, weights.query.weight, Cut::kColumn);
  const Tensor up =
      norm_linear(run, contiguous_copy(run, latents.latent), weights.kv_norm, weights.kv_up, false);
  eager.set_site("rope", layer.layer);
  const Tensor rotated = rotate_queries(run, query);
  QueryKeyValue qkv = rotate_keys(run, up, latents.rotary, sizes);
  qkv.query = rotated;
  return qkv;
}

torch::Region up_region(const Runner& run, const LayerWeights& layer, const AttentionSizes& sizes) {
  return [run, &layer, sizes](Eager&, const std::vector<Tensor>& inputs) {
    const QueryKeyValue qkv = project_up(run, layer, {inputs[0], inputs[1], inputs[2]}, sizes);
    return std::vector<Tensor>{qkv.query, qkv.key, qkv.value};
  };
}

}  // namespace

namespace {

/// Results of get_query_key_value_tensors. Backward may recompute the up projections.
struct Projected {
  Tensor combined;
  Tensor query_latent;
  QueryKeyValue qkv;
  std::optional<DiscardedRegion> again;
};

/// MLASelfAttention.get_query_key_value_tensors.
Projected project(const Runner& run, const LayerWeights& layer, const Tensor& normed,
                  const AttentionSizes& sizes) {
  const LatentWeights& weights = *layer.attention.latent;
  // The norm's output is saved once, until it is discarded.
  const KeptInput kept =
      recomputes(run, &MegatronModules::norms) ? KeptInput::kOriginal : KeptInput::kCast;
  Projected result;
  if (weights.query_down.weight.defined()) {
    result.query_latent = linear(run, normed, weights.query_down.weight, Cut::kNone, kept);
  }
  result.combined = linear(run, normed, weights.kv_down.weight, Cut::kNone, kept);
  Compressed parts = split(run, result.combined, run.context.spec.latent->kv_rank);
  if (run.context.sequence_parallel()) {
    parts.rotary = gather_rotary(run, parts.rotary);
  }
  const Tensor& source = result.query_latent.defined() ? result.query_latent : normed;
  if (recomputes(run, &MegatronModules::latent_up)) {
    result.again.emplace(run, std::vector<Tensor>{source, parts.latent, parts.rotary},
                         up_region(run, layer, sizes));
    const std::vector<Tensor> outputs = result.again->take_outputs();
    result.qkv = {.query = outputs[0], .key = outputs[1], .value = outputs[2]};
  } else {
    result.qkv = project_up(run, layer, {source, parts.latent, parts.rotary}, sizes);
  }
  return result;
}

}  // namespace

Tensor latent_attention(const Runner& run, const LayerWeights& layer, const Tensor& normed,
                        const LayerInput& input) {
  const LatentWeights& weights = *layer.attention.latent;
  Eager& eager = run.eager();
  const AttentionSizes sizes = latent_attention_sizes(run, layer.modules);
  eager.set_site("rotary_table", layer.layer);
  run.process.touch_latent_tables(layer.layer, weights.tables);
  eager.set_site("latent", layer.layer);
  OffloadedPart projection(run, &MegatronOffload::qkv_linear);
  Projected projected = projection.run(
      normed, [&](const Tensor& inside) { return project(run, layer, inside, sizes); });
  projected.qkv.query = projection.commit(projected.qkv.query, {&normed, 1});
  eager.set_site("attention", layer.layer);
  const Tensor context = core_attention(run, projected.qkv, input.mask, sizes);
  if (projected.again) {
    projected.qkv = {};
    projected.again->discard_until(context);
  }
  eager.set_site("attention_out", layer.layer);
  OffloadedPart output(run, &MegatronOffload::attention_projection);
  const Tensor result = output.run(context, [&](const Tensor& inside) {
    return linear(run, inside, layer.attention.output.weight, Cut::kRow, KeptInput::kOriginal);
  });
  return output.commit(result, {&context, 1});
}

}  // namespace headroom::ir::megatron
