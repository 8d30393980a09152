#include "runtimes/torchtitan/forward.h"

#include <memory>
#include <utility>
#include <vector>

#include "runtimes/torch/checkpoint.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torchtitan/compiled_block.h"
#include "runtimes/torchtitan/experts.h"
#include "runtimes/torchtitan/plan.h"
#include "runtimes/torchtitan/ring_attention.h"

namespace headroom::ir::torchtitan {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

/// nn.RMSNorm.
Tensor norm(Context& context, const Tensor& x, const Tensor& weight) {
  return composes_norms(*context.model.plan) ? torch::rms_norm_composed(context.eager, x, weight)
                                             : torch::rms_norm(context.eager, x, weight);
}

TitanPlan titan_of(const Context& context) {
  return titan_of(*context.model.plan);
}

/// A product of complex numbers with a table that has no gradient. Backward conjugates the table.
/// If the gradient is a DTensor's and its memory is ordered by heads, it is copied first.
Tensor turned(Eager& eager, const Tensor& x, const Tensor& table, bool copies_gradient) {
  Record record(eager, {&x});
  record.save(table);
  Tensor output = torch::computed(eager, x.shape(), DType::kFp32, {&x});
  if (record.active()) {
    record.finish(output, [copies_gradient](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const torch::Unpacked saved(e, node);
      if (copies_gradient) {
        grads[0] = torch::computed(e, grads[0].shape(), DType::kFp32, {&grads[0]});
      }
      const Tensor conjugate = e.empty(saved[0].shape(), DType::kFp32);
      return {torch::computed(e, grads[0].shape(), DType::kFp32, {&grads[0]})};
    });
  }
  return output;
}

/// The rows of the table for a part of the sequence, selected by position. If ranks share the
/// sequence, there is one copy for every sequence of the batch.
Tensor rows_of_positions(Eager& eager, const Tensor& table, const Shape& q) {
  if (q[1] == table.shape()[0]) {
    return table;
  }
  const Tensor index = q[0] == 1 ? eager.empty({q[1]}, DType::kInt64) : Tensor{};
  Shape rows{q[0], q[1], table.elements() / table.shape()[0]};
  return torch::computed(eager, rows, table.dtype(), TensorRole::kTemporary);
}

/// apply_rotary_emb of Llama, in fp32 with complex numbers. With ring attention, the memory of the
/// queries' gradient is ordered by heads.
void rotate_complex(Eager& eager, Tensor& q, Tensor& k, const Tensor& whole, bool copies_gradient) {
  const Tensor q_wide = torch::to(eager, q, DType::kFp32);
  const Tensor k_wide = torch::to(eager, k, DType::kFp32);
  const Tensor table = rows_of_positions(eager, whole, q.shape());
  const Tensor q_turned = turned(eager, q_wide, table, copies_gradient);
  const Tensor k_turned = turned(eager, k_wide, table, false);
  const Tensor q_flat = torch::view(eager, q_turned, q.shape());  // flatten(3)
  const Tensor k_flat = torch::view(eager, k_turned, k.shape());
  Tensor q_out = torch::to(eager, q_flat, q.dtype());
  Tensor k_out = torch::to(eager, k_flat, k.dtype());
  q = std::move(q_out);
  k = std::move(k_out);
}

/// (x * cos) + (rotate_half(x) * sin) for x [B, S, A, D].
Tensor rotated(Eager& eager, const Tensor& x, const Tensor& cosines, const Tensor& sines) {
  const std::int64_t half = x.shape()[-1] / 2;
  const Tensor straight = torch::mul(eager, x, cosines);
  Tensor product;
  {
    Tensor halves;
    {
      const Tensor first = torch::slice_last(eager, x, half);
      const Tensor second = torch::slice_last(eager, x, half);
      const Tensor negated = torch::negate(eager, second);
      halves = torch::cat_last(eager, negated, first);
    }
    product = torch::mul(eager, halves, sines);
  }
  return torch::add(eager, straight, product);
}

/// apply_rotary_emb of Qwen3, in the type of the activations.
void rotate_halves(Eager& eager, Tensor& q, Tensor& k, const Tensor& whole) {
  const Tensor table = rows_of_positions(eager, whole, q.shape());
  const Shape row{table.elements() / whole.shape()[1], 1, whole.shape()[1] / 2};
  const Tensor cosines = eager.alias(table, row, true);
  const Tensor sines = eager.alias(table, row, true);
  Tensor q_out = rotated(eager, q, cosines, sines);
  Tensor k_out = rotated(eager, k, cosines, sines);
  q = std::move(q_out);
  k = std::move(k_out);
}

/// scaled_dot_product_attention, which is on the list of selective checkpointing.
Tensor attend(const LayerRun& run, const Tensor& q, const Tensor& k, const Tensor& v) {
  Eager& eager = run.context.eager;
  torch::FlashOutputs outputs;
  OperatorCache* const cache = run.cache;
  if (cache != nullptr && cache->again()) {
    outputs.output = cache->take();
    outputs.log_sum = cache->take();
    outputs.seed = cache->take();
    outputs.offset = cache->take();
  }
  const Mesh& degrees = run.context.model.plan->mesh;
  const ContextGroup group{.ranks = degrees.context, .stride = degrees.tensor};
  Tensor output = group.ranks > 1 ? ring_attention(eager, group, q, k, v, outputs)
                                  : torch::flash_attention(eager, q, k, v, outputs);
  if (cache != nullptr && cache->again()) {
    return output;
  }
  if (cache != nullptr) {
    for (const Tensor* each : {&output, &outputs.log_sum, &outputs.seed, &outputs.offset}) {
      cache->keep(eager, *each);
    }
  }
  return output;
}

/// During the lifetime of this object, activations are DTensors if tensor parallelism is on.
class DistributedScope {
 public:
  explicit DistributedScope(Context& context) : eager_(context.eager) {
    eager_.set_distributed(context.mesh.ranks() > 1);
  }
  ~DistributedScope() { eager_.set_distributed(false); }
  DistributedScope(const DistributedScope&) = delete;
  DistributedScope& operator=(const DistributedScope&) = delete;

 private:
  Eager& eager_;
};

/// Attention.forward. Its local names keep tensors alive until it returns.
Tensor attention(const LayerRun& run, const Tensor& x) {
  Eager& eager = run.context.eager;
  const ModelSpec& spec = *run.context.model.spec;
  const DistributedScope scope(run.context);
  const Tensor input = run.context.mesh.gather_sequence(x);
  Tensor q = linear(run, input, run.block.wq);
  Tensor k = linear(run, input, run.block.wk);
  Tensor v = linear(run, input, run.block.wv);
  const auto by_head = [&](const Tensor& rows) {
    const Shape& shape = rows.shape();
    return torch::view(eager, rows, {shape[0], shape[1], shape[2] / spec.head_dim, spec.head_dim});
  };
  q = by_head(q);
  k = by_head(k);
  v = by_head(v);
  if (run.block.q_norm.defined()) {
    q = norm(run.context, q, run.block.q_norm);
    k = norm(run.context, k, run.block.k_norm);
  }
  if (has_cosine_table(spec)) {
    rotate_halves(eager, q, k, run.rotary);
  } else {
    const Mesh& degrees = run.context.model.plan->mesh;
    rotate_complex(eager, q, k, run.rotary, degrees.context > 1 && degrees.tensor > 1);
  }
  q = torch::transpose_heads(eager, q);
  k = torch::transpose_heads(eager, k);
  v = torch::transpose_heads(eager, v);
  Tensor output = attend(run, q, k, v);
  output = torch::merge_heads(eager, output);
  const Tensor projected = linear(run, output, run.block.wo);
  return run.context.mesh.scatter_sequence(projected, run.cache);
}

/// w2(silu(w1(x)) * w3(x)).
Tensor feed_forward(const LayerRun& run, const Tensor& x) {
  Eager& eager = run.context.eager;
  const DistributedScope scope(run.context);
  const Tensor input = run.context.mesh.gather_sequence(x);
  Tensor product;
  {
    Tensor active;
    {
      const Tensor gate = linear(run, input, run.block.w1);
      active = torch::silu(eager, gate);
    }
    const Tensor up = linear(run, input, run.block.w3);
    product = torch::mul(eager, active, up);
  }
  const Tensor down = linear(run, product, run.block.w2);
  return run.context.mesh.scatter_sequence(down, run.cache);
}

/// MoE under PrepareModuleInputOutput. Inside, tensors are local and hold whole sequences.
Tensor mixture(const LayerRun& run, const Tensor& x) {
  const auto gathered = [&] {
    const DistributedScope scope(run.context);
    return run.context.mesh.gather_local_sequence(x);
  };
  const Tensor input = gathered();
  const Tensor output = run_mixture(run, input);
  const DistributedScope scope(run.context);
  Tensor scattered = run.context.mesh.scatter_sequence(output, run.cache);
  run.context.mesh.hold(output);
  return scattered;
}

/// x + part(norm(x)).
Tensor residual(const LayerRun& run, const Tensor& x, const Tensor& weight,
                Tensor (*part)(const LayerRun&, const Tensor&)) {
  Eager& eager = run.context.eager;
  run.context.mesh.wait();
  Tensor output;
  {
    const Tensor normed = norm(run.context, x, weight);
    output = part(run, normed);
  }
  run.context.mesh.wait();
  return torch::add(eager, x, output);
}

Tensor run_block(const LayerRun& run, const Tensor& x) {
  const Tensor h = residual(run, x, run.block.attention_norm, attention);
  const bool sparse = run.block.mixture.router.defined();
  return residual(run, h, run.block.ffn_norm, sparse ? mixture : feed_forward);
}

/// Whether a layer is recomputed: all are, or each k-th, counted from one.
bool is_checkpointed(const Context& context, std::size_t layer) {
  const ParallelPlan& plan = *context.model.plan;
  if (titan_of(context).selective_operators) {
    return true;
  }
  const std::int64_t number = context.model.blocks_before + static_cast<std::int64_t>(layer) + 1;
  return plan.recompute == Recompute::kFull && number % plan.recompute_every == 0;
}

/// A block, under checkpoint_wrapper if the plan says so. activation_checkpoint.early_stop is off.
Tensor call_block(Context& context, std::size_t layer, const Tensor& x, const Tensor& rotary) {
  const Block& block = context.model.blocks[layer];
  if (titan_of(context).compiled) {
    BlockKeeps keeps{.memory = BlockMemory::kAll,
                     .chosen = context.model.kept.value_or(KeptValues{})};
    if (context.model.kept) {
      keeps.memory = BlockMemory::kBudget;
    } else if (is_checkpointed(context, layer)) {
      keeps.memory =
          titan_of(context).selective_operators ? BlockMemory::kOperators : BlockMemory::kInputs;
    }
    return compiled_block(context.eager, context.model, block, x, rotary, keeps);
  }
  const std::int32_t number = context.eager.layer();
  if (!is_checkpointed(context, layer)) {
    return run_block({context, block, number, rotary, nullptr}, x);
  }
  context.eager.mark_saved(x);
  const auto cache =
      titan_of(context).selective_operators ? std::make_shared<OperatorCache>() : nullptr;
  const torch::Region region = [&context, &block, number, cache](
                                   Eager& eager, const std::vector<Tensor>& inputs) {
    if (cache != nullptr) {
      cache->begin(eager.in_backward());
    }
    return std::vector<Tensor>{
        run_block({context, block, number, inputs[1], cache.get()}, inputs[0])};
  };
  return std::move(torch::run_region(context.eager, {x, rotary}, region,
                                     torch::RegionForm::kRecomputedWhole)[0]);
}

/// FSDP casts the floating-point arguments of a module, which complex tables are not.
Tensor cast_argument(Context& context, const Tensor& table) {
  return has_cosine_table(*context.model.spec) ? torch::to(context.eager, table, DType::kBf16)
                                               : table;
}

Tensor embed(Context& context, const Tensor& ids) {
  std::vector<Tensor> inputs{ids};
  context.hooks.before(transformers::kEmbeddingModule, inputs);
  context.eager.set_site("embedding", -1);
  Tensor output;
  {
    const Tensor rows = context.mesh.embedding(context.model.embedding, ids);
    output = context.mesh.scatter_sequence(rows, nullptr);
  }
  context.hooks.after(transformers::kEmbeddingModule, {output});
  return output;
}

/// The output layer, with the logits in the layout that the loss needs.
Tensor project(Context& context, const Tensor& input) {
  Tensor logits = torch::linear(context.eager, input, context.model.output, {});
  const bool gathers = context.mesh.ranks() > 1 && !titan_of(context).loss_parallel;
  return gathers ? context.mesh.gather_columns(logits) : logits;
}

/// The last norm and the head, which are one group of FSDP.
Tensor head(Context& context, Tensor h) {
  std::vector<Tensor> inputs{h};
  context.hooks.before(transformers::kHeadModule, inputs);
  context.eager.set_site("torchtitan.output", -1);
  context.mesh.wait();
  h = norm(context, inputs[0], context.model.norm);
  inputs.clear();
  context.eager.set_role(TensorRole::kLogits);
  Tensor logits = project(context, context.mesh.gather_sequence(h));
  context.eager.set_role(TensorRole::kTemporary);
  context.hooks.after(transformers::kHeadModule, {logits});
  return logits;
}

/// Embedding and blocks, as far as this part of the model has them.
Tensor run_blocks(Context& context, const Tensor& input) {
  Tensor h = context.model.embedding.defined() ? embed(context, input) : input;
  for (std::size_t layer = 0; layer < context.model.blocks.size(); ++layer) {
    const auto number =
        static_cast<std::int32_t>(context.model.first_layer) + static_cast<std::int32_t>(layer);
    context.eager.set_site("torchtitan.block", number);
    const Tensor rotary = cast_argument(context, context.model.rotary);
    std::vector<Tensor> inputs{h};
    context.hooks.before(number, inputs);
    context.eager.set_site("torchtitan.block", number);
    Tensor output = call_block(context, layer, inputs[0], rotary);
    inputs.clear();
    context.hooks.after(number, {output});
    h = std::move(output);
  }
  return h;
}

}  // namespace

Tensor linear(const LayerRun& run, const Tensor& x, const Tensor& weight) {
  Eager& eager = run.context.eager;
  if (run.cache == nullptr || !run.cache->wants_product()) {
    return torch::linear(eager, x, weight, {});
  }
  if (run.cache->again()) {
    return torch::linear_of(eager, x, weight, run.cache->take());
  }
  Tensor product = torch::linear(eager, x, weight, {});
  run.cache->keep(eager, product);
  return product;
}

Tensor forward(Context& context, const Tensor& input) {
  std::vector<Tensor> arguments{input};
  context.hooks.before(fsdp::kRootModule, arguments);
  Tensor output = run_blocks(context, input);
  if (context.model.output.defined()) {
    output = head(context, std::move(output));
  }
  context.hooks.after(fsdp::kRootModule, {output});
  return output;
}

Tensor forward_hidden(Context& context, const Tensor& ids) {
  std::vector<Tensor> arguments{ids};
  context.hooks.before(fsdp::kRootModule, arguments);
  Tensor normed;
  {
    std::vector<Tensor> inputs{run_blocks(context, ids)};
    context.hooks.before(kNormModule, inputs);
    context.eager.set_site("torchtitan.norm", -1);
    context.mesh.wait();
    normed = norm(context, inputs[0], context.model.norm);
  }
  context.hooks.after(kNormModule, {normed});
  context.hooks.after(fsdp::kRootModule, {normed});
  context.eager.set_site("torchtitan.loss", -1);
  return context.mesh.gather_sequence(normed);
}

Tensor apply_head(Context& context, const Tensor& piece) {
  std::vector<Tensor> inputs{piece};
  context.hooks.before(transformers::kHeadModule, inputs);
  context.eager.set_site("torchtitan.output", -1);
  context.eager.set_role(TensorRole::kLogits);
  Tensor logits = project(context, inputs[0]);
  context.eager.set_role(TensorRole::kTemporary);
  context.hooks.after(transformers::kHeadModule, {logits});
  return logits;
}

}  // namespace headroom::ir::torchtitan
