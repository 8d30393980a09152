// Mixture of experts: router, all-to-all dispatcher, grouped experts.
#include <cmath>
#include <utility>
#include <vector>

#include "model_ir/runtime/megatron/fused.h"
#include "model_ir/runtime/megatron/layer.h"
#include "model_ir/runtime/torch/ddp.h"
#include "model_ir/runtime/torch/functions.h"
#include "model_ir/runtime/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

/// Sizes of one MoE layer on this rank.
struct ExpertSizes {
  std::int64_t tokens = 0;  ///< T of this rank's part of the sequence.
  std::int64_t hidden = 0;
  std::int64_t experts = 0;  ///< E
  std::int64_t local = 0;    ///< Experts of this rank.
  std::int64_t top_k = 0;
  std::int64_t ffn = 0;   ///< F of one expert on this rank.
  std::int64_t sent = 0;  ///< Rows that leave this rank: E*capacity, or T*top_k without dropping.
  std::optional<std::int64_t> capacity;  ///< Tokens that an expert takes from one rank.
};

/// Source: megatron/core/transformer/moe/moe_utils.py, get_capacity.
ExpertSizes sizes_of(const Runner& run, std::int64_t tokens) {
  const Context& context = run.context;
  const MoeSpec& moe = *context.spec.moe;
  ExpertSizes sizes{.tokens = tokens,
                    .hidden = context.spec.hidden,
                    .experts = moe.experts,
                    .local = moe.experts / context.mesh.expert.size,
                    .top_k = moe.top_k,
                    .ffn = moe.expert_ffn / context.mesh.expert_tensor.size,
                    .sent = tokens * moe.top_k,
                    .capacity = {}};
  if (context.megatron.capacity_factor) {
    const double share = static_cast<double>(tokens * moe.top_k) / static_cast<double>(moe.experts);
    sizes.capacity =
        static_cast<std::int64_t>(std::ceil(share * *context.megatron.capacity_factor));
    sizes.sent = *sizes.capacity * moe.experts;
  }
  return sizes;
}

/// Probabilities [T, E], zero where a token does not go, and where tokens go.
struct Routing {
  Tensor probabilities;
  Tensor map;  ///< bool [T, E]
};

/// What the router keeps, in the order in which it was made.
enum RouterSaved : std::uint8_t {
  kHidden,
  kWeight,
  kChosen,  ///< int64 [T, top_k]
  kScores,  ///< fp32 [T, top_k]
  kAuxScores,
  kAuxCounts,
  kAuxLoss,
};

/// Tensors of the router, by their shapes.
class RouterTensors {
 public:
  RouterTensors(Eager& eager, const ExpertSizes& sizes) : eager_(eager), sizes_(sizes) {}
  [[nodiscard]] Tensor all(DType dtype) const {
    return eager_.empty({sizes_.tokens, sizes_.experts}, dtype);
  }
  [[nodiscard]] Tensor chosen(DType dtype) const {
    return eager_.empty({sizes_.tokens, sizes_.top_k}, dtype);
  }
  [[nodiscard]] Tensor per_expert(DType dtype) const {
    return eager_.empty({sizes_.experts}, dtype);
  }
  [[nodiscard]] Tensor kept(DType dtype) const {
    return eager_.empty({*sizes_.capacity, sizes_.experts}, dtype);
  }
  [[nodiscard]] Tensor scalar() const { return eager_.empty({1}, DType::kFp32); }
  /// zeros_like(logits).int().scatter(...).bool()
  [[nodiscard]] Tensor map(DType dtype) const {
    Tensor zeros = all(dtype);
    Tensor integers = all(DType::kInt32);
    zeros.reset();
    const Tensor scattered = all(DType::kInt32);
    integers.reset();
    return all(DType::kBool);
  }
  /// softmax of fp32 scores, forward and back: a product beside the result.
  [[nodiscard]] Tensor softmax_backward(const Shape& shape) const {
    Tensor result = eager_.empty(shape, DType::kFp32);
    const Tensor product = eager_.empty(shape, DType::kFp32);
    return result;
  }

 private:
  Eager& eager_;
  const ExpertSizes& sizes_;
};

struct Chosen {
  Tensor indices;
  Tensor scores;
  Tensor probabilities;
  Tensor map;
};

/// topk_routing_with_score_function, softmax after top-k.
Chosen choose(const RouterTensors& make, DType dtype) {
  Chosen result;
  const Tensor values = make.chosen(dtype);
  result.indices = make.chosen(DType::kInt64);
  {
    const Tensor wide = make.chosen(DType::kFp32);
    result.scores = make.chosen(DType::kFp32);
  }
  const Tensor narrow = make.chosen(dtype);
  {
    const Tensor zeros = make.all(dtype);
    result.probabilities = make.all(dtype);
  }
  result.map = make.map(dtype);
  return result;
}

/// apply_router_token_dropping, by probability: what an expert has no room for is masked.
void drop_tokens(const RouterTensors& make, DType dtype, Chosen& chosen) {
  const Tensor values = make.kept(dtype);
  const Tensor indices = make.kept(DType::kInt64);
  Tensor zeros = make.all(dtype);
  Tensor scattered = make.all(dtype);
  zeros.reset();
  Tensor map = make.all(DType::kBool);
  scattered.reset();
  chosen.probabilities = make.all(dtype);
  chosen.map = std::move(map);
}

struct AuxLoss {
  Tensor scores;
  Tensor counts;
  Tensor loss;
};

/// The load-balancing loss over all scores. Source: moe_utils.py,
/// compute_routing_scores_for_aux_loss, switch_load_balancing_loss_func.
AuxLoss balance(const Runner& run, const RouterTensors& make, DType dtype) {
  AuxLoss result;
  {
    const Tensor wide = make.all(DType::kFp32);
    result.scores = make.all(DType::kFp32);
  }
  Tensor map;
  {
    const Tensor values = make.chosen(dtype == DType::kFp32 ? dtype : DType::kFp32);
    const Tensor indices = make.chosen(DType::kInt64);
    map = make.map(dtype);
  }
  result.counts = make.per_expert(DType::kInt64);
  { const Tensor wide = make.all(DType::kInt64); }
  const Mesh& mesh = run.context.mesh;
  if (const std::int64_t ranks = mesh.tensor.size * mesh.context.size; ranks > 1) {
    // Tensor-parallel ranks lie side by side, and context-parallel ones next to them.
    run.eager().run(
        CollectiveShape{.kind = CollectiveKind::kAllReduce,
                        .bytes = bytes_of(result.counts.elements(), DType::kInt64).value(),
                        .group = {.size = ranks}});
  }
  const Tensor sums = make.per_expert(DType::kFp32);
  {
    Tensor product = make.per_expert(DType::kFp32);
    const Tensor total = make.scalar();
    product.reset();
    result.loss = make.scalar();
  }
  { const Tensor logged = make.scalar(); }
  return result;
}

/// From the gradient of the load-balancing loss to that of the logits.
Tensor balance_backward(const RouterTensors& make, DType dtype, Node& node, const Shape& all) {
  Tensor gradient;
  for (int step = 0; step < 3; ++step) {
    gradient = make.scalar();
  }
  node.saved[kAuxLoss].reset();
  gradient = make.scalar();
  gradient = make.per_expert(DType::kFp32);
  node.saved[kAuxCounts].reset();
  Tensor scores = make.softmax_backward(all);
  gradient.reset();
  node.saved[kAuxScores].reset();
  return dtype == DType::kFp32 ? std::move(scores) : make.all(dtype);
}

Gradients router_gradients(const Runner& run, const ExpertSizes& sizes, Gradients& grads,
                           Node& node) {
  Eager& eager = run.eager();
  const RouterTensors make(eager, sizes);
  const DType dtype = run.context.dtype;
  Tensor logits;
  if (run.context.megatron.aux_loss) {
    logits = balance_backward(make, dtype, node, {sizes.tokens, sizes.experts});
  }
  Tensor probabilities = std::move(grads[0]);
  if (sizes.capacity) {
    probabilities = make.all(dtype);
  }
  Tensor chosen = make.chosen(dtype);
  probabilities.reset();
  chosen = make.chosen(DType::kFp32);
  Tensor scores = make.softmax_backward({sizes.tokens, sizes.top_k});
  chosen.reset();
  node.saved[kScores].reset();
  chosen = make.chosen(dtype);
  scores.reset();
  Tensor scattered = make.all(dtype);
  chosen.reset();
  node.saved[kChosen].reset();
  if (!logits.defined()) {
    logits = std::move(scattered);
  }
  scattered.reset();
  Gradients result(2);
  eager.touch_cublas();
  result[0] = eager.empty(node.input_shapes[0], dtype);
  eager.run(GemmShape{.m = sizes.tokens,
                      .n = sizes.hidden,
                      .k = sizes.experts,
                      .dtype = dtype,
                      .layout = GemmLayout::kNN});
  result[1] = eager.empty(node.input_shapes[1], dtype);
  eager.run(GemmShape{.m = sizes.experts,
                      .n = sizes.hidden,
                      .k = sizes.tokens,
                      .dtype = dtype,
                      .layout = GemmLayout::kNT});
  return result;
}

/// TopKRouter. Source: megatron/core/transformer/moe/router.py.
Routing route(const Runner& run, const Tensor& hidden, const Tensor& weight,
              const ExpertSizes& sizes) {
  Eager& eager = run.eager();
  const DType dtype = run.context.dtype;
  const RouterTensors make(eager, sizes);
  Record record(eager, {&hidden, &weight});
  eager.touch_cublas();
  eager.run(GemmShape{.m = sizes.tokens, .n = sizes.experts, .k = sizes.hidden, .dtype = dtype});
  const Tensor logits = make.all(dtype);
  Chosen chosen = choose(make, dtype);
  if (sizes.capacity) {
    drop_tokens(make, dtype, chosen);
  }
  AuxLoss loss;
  if (run.context.megatron.aux_loss && eager.grad_enabled()) {
    loss = balance(run, make, dtype);
  }
  if (record.active()) {
    record.save(hidden);
    record.save(weight);
    record.save(chosen.indices);
    record.save(chosen.scores);
    record.save(loss.scores);
    record.save(loss.counts);
    record.save(loss.loss);
  }
  record.finish(chosen.probabilities,
                [run, sizes](Eager&, Gradients& grads, Node& node) -> Gradients {
                  return router_gradients(run, sizes, grads, node);
                });
  return {.probabilities = std::move(chosen.probabilities), .map = std::move(chosen.map)};
}

/// Tokens in the order of their experts, with their probabilities.
struct Permuted {
  Tensor tokens;         ///< [sent, H]
  Tensor probabilities;  ///< [sent]
  Tensor mapping;        ///< What undoes it.
};

/// moe_permute_with_probs. Source: transformer_engine/pytorch/{permutation,triton/permutation}.py.
Permuted permute_fused(const Runner& run, const Tensor& hidden, const Routing& routing,
                       const ExpertSizes& sizes) {
  constexpr std::int64_t kBlock = 1024;
  Eager& eager = run.eager();
  Record record(eager, {&hidden, &routing.probabilities});
  Permuted result;
  result.mapping = eager.empty({sizes.tokens, 2 * sizes.experts + 1}, DType::kInt32);
  {
    const Tensor sums = eager.empty({sizes.experts, ceil_div(sizes.tokens, kBlock)}, DType::kInt32);
  }
  result.tokens = eager.empty({sizes.sent, sizes.hidden}, hidden.dtype());
  result.probabilities = eager.empty({sizes.sent}, hidden.dtype());
  run.process.tune(TunedKernel::kPermute, 0);
  if (record.active()) {
    record.save(result.mapping);
  }
  const Shape mapping = result.mapping.shape();
  Tensor* const outputs[] = {&result.tokens, &result.probabilities};
  record.finish(outputs, [run, mapping](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const Tensor zeros = e.empty(mapping, DType::kInt32);  // Of the mapping, which is an output.
    Gradients inputs(2);
    inputs[0] = e.empty(node.input_shapes[0], grads[0].dtype());
    inputs[0]->tracked_view = true;  // Rows were a view of the hidden state.
    inputs[1] = e.empty(node.input_shapes[1], grads[0].dtype());
    run.process.tune(TunedKernel::kPermuteBackward, 0);
    return inputs;
  });
  return result;
}

/// permute, operator by operator. Source: megatron/core/transformer/moe/moe_utils.py.
Permuted permute_unfused(const Runner& run, const Tensor& hidden, const Routing& routing,
                         const ExpertSizes& sizes) {
  Eager& eager = run.eager();
  const Shape transposed{sizes.experts, sizes.tokens};
  Record record(eager, {&hidden, &routing.probabilities});
  Permuted result;
  Tensor map;
  {
    Tensor wide;
    if (sizes.capacity) {
      wide = eager.empty(transposed, DType::kInt8);
    }
    map = eager.empty(transposed, DType::kInt8);
  }
  Tensor positions;
  if (sizes.capacity) {  // argsort
    Tensor values = eager.empty(transposed, DType::kInt8);
    Tensor order = eager.empty(transposed, DType::kInt64);
    { const Tensor keys = eager.empty(transposed, DType::kInt8); }
    values.reset();
    result.mapping = eager.empty({sizes.sent}, DType::kInt64);
  } else {  // masked_select
    positions = eager.empty({sizes.tokens}, DType::kInt64);
    result.mapping = eager.empty({sizes.sent}, DType::kInt64);
  }
  const Tensor probabilities = eager.empty(transposed, hidden.dtype());
  Tensor experts;
  Tensor flat;
  if (sizes.capacity) {
    experts = eager.empty({sizes.experts}, DType::kInt64);
    const Tensor begins = eager.empty({sizes.experts}, DType::kInt64);
    flat = eager.empty({sizes.sent}, DType::kInt64);
  }
  result.probabilities = eager.empty({sizes.sent}, hidden.dtype());
  result.tokens = eager.empty({sizes.sent, sizes.hidden}, hidden.dtype());
  if (record.active()) {
    record.save(result.mapping);
    record.save(sizes.capacity ? flat : map);
  }
  Tensor* const outputs[] = {&result.tokens, &result.probabilities};
  record.finish(outputs, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    Gradients inputs(2);
    inputs[0] = e.empty(node.input_shapes[0], grads[0].dtype());
    inputs[0]->tracked_view = true;  // Rows were a view of the hidden state.
    grads[0].reset();
    inputs[1] = e.empty(node.input_shapes[1], grads[1].dtype());
    return inputs;
  });
  return result;
}

/// unpermute: the sum over a token's experts; probabilities have been applied by the experts.
Tensor unpermute(const Runner& run, const Tensor& input, const Tensor& mapping,
                 const ExpertSizes& sizes) {
  Eager& eager = run.eager();
  Record record(eager, {&input});
  Tensor output = eager.empty({sizes.tokens, sizes.hidden}, input.dtype());
  const bool fused = run.context.megatron.permute_fusion;
  if (fused) {
    run.process.tune(TunedKernel::kUnpermute, 0);
  }
  if (record.active()) {
    record.save(mapping);
  }
  record.finish(output, [run, fused](Eager& e, Gradients& grads, Node& node) -> Gradients {
    Gradients inputs{e.empty(node.input_shapes[0], grads[0].dtype())};
    if (fused) {
      run.process.tune(TunedKernel::kUnpermuteBackward, 0);
    }
    return inputs;
  });
  return output;
}

/// A tensor that comes back from `forward` with `rows` rows; the gradient goes the other way.
/// Source: megatron/core/tensor_parallel/mappings.py.
Tensor exchange(const Runner& run, const Tensor& input, std::int64_t rows,
                const CollectiveShape& forward, CollectiveKind backward) {
  Eager& eager = run.eager();
  Record record(eager, {&input});
  Tensor output = eager.empty(input.shape().with(0, rows), input.dtype());
  eager.run(forward);
  CollectiveShape back = forward;
  back.kind = backward;
  record.finish(output, [back](Eager& e, Gradients& grads, Node& node) -> Gradients {
    e.run(back);
    return {e.empty(node.input_shapes[0], grads[0].dtype())};
  });
  return output;
}

Tensor all_to_all(const Runner& run, const Tensor& input) {
  return exchange(run, input, input.shape()[0],
                  {.kind = CollectiveKind::kAllToAll,
                   .bytes = bytes_of(input.elements(), input.dtype()).value(),
                   .group = run.context.mesh.expert.group()},
                  CollectiveKind::kAllToAll);
}

/// Tokens of all ranks that share an expert's weights.
Tensor gather_parts(const Runner& run, const Tensor& input) {
  const Axis& ranks = run.context.mesh.expert_tensor;
  return exchange(run, input, input.shape()[0] * ranks.size,
                  {.kind = CollectiveKind::kAllGather,
                   .bytes = bytes_of(input.elements() * ranks.size, input.dtype()).value(),
                   .group = ranks.group()},
                  CollectiveKind::kReduceScatter);
}

Tensor scatter_parts(const Runner& run, const Tensor& input) {
  const Axis& ranks = run.context.mesh.expert_tensor;
  return exchange(run, input, input.shape()[0] / ranks.size,
                  {.kind = CollectiveKind::kReduceScatter,
                   .bytes = bytes_of(input.elements(), input.dtype()).value(),
                   .group = ranks.group()},
                  CollectiveKind::kAllGather);
}

/// Products of `all.count` experts whose rows together are `m`, or `k` for gradients of weights:
/// spread evenly, what does not divide on top.
void run_per_expert(Eager& eager, GemmShape all) {
  std::int64_t GemmShape::*const rows =
      all.layout == GemmLayout::kNT ? &GemmShape::k : &GemmShape::m;
  const std::int64_t total = all.*rows;
  all.*rows = total / all.count;
  if (all.*rows > 0) {
    eager.run(all);
  }
  all.*rows = total - all.*rows * all.count;
  if (all.*rows > 0) {
    all.count = 1;
    eager.run(all);
  }
}

/// GroupedLinear: one product per expert. Source: transformer_engine/pytorch/module/
/// grouped_linear.py.
Tensor grouped_linear(const Runner& run, const Tensor& input, const std::vector<Tensor>& weights) {
  Eager& eager = run.eager();
  std::vector<Tensor> edges{input};
  edges.insert(edges.end(), weights.begin(), weights.end());
  const Shape shape = weights.front().shape();
  const std::int64_t rows = input.shape()[0];
  Record record(eager, edges);
  run.process.touch_grouped_workspaces();
  const auto experts = static_cast<std::int64_t>(weights.size());
  const DType dtype = input.dtype();
  run_per_expert(eager,
                 {.m = rows, .n = shape[0], .k = shape[1], .count = experts, .dtype = dtype});
  Tensor output = eager.empty({rows, shape[0]}, input.dtype());
  if (record.active()) {
    record.save(input);
    for (const Tensor& weight : weights) {
      record.save(weight);
    }
  }
  record.finish(
      output,
      [run, shape, rows, experts, dtype](Eager& e, Gradients& grads, Node& node) -> Gradients {
        const torch::Unpacked saved(e, node);
        Gradients result(node.next.size());
        run_per_expert(e, {.m = rows,
                           .n = shape[1],
                           .k = shape[0],
                           .count = experts,
                           .dtype = dtype,
                           .layout = GemmLayout::kNN});
        result[0] = e.empty(node.input_shapes[0], grads[0].dtype());
        run_per_expert(e, {.m = shape[0],
                           .n = shape[1],
                           .k = rows,
                           .count = experts,
                           .dtype = dtype,
                           .layout = GemmLayout::kNT,
                           .accumulate = run.context.megatron.accumulation_fusion});
        for (std::size_t i = 1; i < result.size(); ++i) {
          result[i] = run.context.megatron.accumulation_fusion
                          ? run.process.dummy_gradient(shape)
                          : e.empty(shape, grads[0].dtype(), TensorRole::kGradient);
        }
        return result;
      });
  return output;
}

/// weighted_bias_swiglu_impl: SwiGLU times the token's probability.
Tensor weighted_swiglu(const Runner& run, const Tensor& input, const Tensor& probabilities) {
  Eager& eager = run.eager();
  Record record(eager, {&input, &probabilities});
  Tensor output = eager.empty({input.shape()[0], input.shape()[1] / 2}, input.dtype());
  if (record.active()) {
    record.save(input);
    record.save(probabilities);
  }
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    return {e.empty(node.input_shapes[0], grads[0].dtype()),
            e.empty(node.input_shapes[1], grads[0].dtype())};
  });
  return output;
}

/// `view(...).transpose(0, 1).contiguous()`: rows in the order of experts, or of ranks. A copy each
/// way.
Tensor reorder(const Runner& run, const Tensor& input) {
  Eager& eager = run.eager();
  Record record(eager, {&input});
  Tensor output = eager.empty(input.shape(), input.dtype());
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    return {e.empty(node.input_shapes[0], grads[0].dtype())};
  });
  return output;
}

/// The experts of this rank on the tokens sent to it; returns them in the senders' order.
Tensor run_experts(const Runner& run, const ExpertWeights& weights, Tensor tokens,
                   Tensor probabilities, const ExpertSizes& sizes) {
  const Mesh& mesh = run.context.mesh;
  if (mesh.expert_tensor.size > 1) {
    tokens = gather_parts(run, tokens);
    probabilities = gather_parts(run, probabilities);
  }
  const bool reorders = sizes.local > 1 && mesh.expert.size * mesh.expert_tensor.size > 1;
  if (reorders) {
    tokens = reorder(run, tokens);
    probabilities = reorder(run, probabilities);
  }
  Tensor output;
  {
    Tensor inner = grouped_linear(run, tokens, weights.up);
    inner = weighted_swiglu(run, inner, probabilities);
    output = grouped_linear(run, inner, weights.down);
  }
  if (reorders) {
    output = reorder(run, output);
  }
  return mesh.expert_tensor.size > 1 ? scatter_parts(run, output) : output;
}

Tensor shared_experts(const Runner& run, const MlpWeights& weights, const Tensor& normed) {
  Tensor inner = linear(run, normed, weights.up.weight, Cut::kColumn);
  inner = swiglu(run, inner);
  return linear(run, inner, weights.down.weight, Cut::kRow);
}

/// MoEAlltoAllTokenDispatcher around the experts. Its names live as long as Python's.
/// Source: megatron/core/transformer/moe/{moe_layer,token_dispatcher}.py.
Tensor dispatch(const Runner& run, const LayerWeights& layer, const Tensor& normed,
                const Tensor& shared) {
  const ExpertSizes sizes = sizes_of(run, normed.shape()[0]);
  const bool remote = run.context.mesh.expert.size > 1;
  run.eager().set_site("router", layer.layer);
  DispatcherState& state = run.process.dispatcher(layer.layer);
  {
    Routing routing = route(run, normed, layer.experts->router, sizes);
    state.probabilities = std::move(routing.probabilities);
    state.map = std::move(routing.map);
  }
  run.eager().set_site("dispatch", layer.layer);
  if (run.context.megatron.permute_fusion) {
    state.counts = run.eager().empty({sizes.experts}, DType::kInt64);
  }
  const Routing routing{.probabilities = state.probabilities, .map = state.map};
  Permuted permuted = run.context.megatron.permute_fusion
                          ? permute_fused(run, normed, routing, sizes)
                          : permute_unfused(run, normed, routing, sizes);
  state.mapping = permuted.mapping;
  Tensor tokens = permuted.tokens;
  Tensor probabilities = std::move(permuted.probabilities);
  if (remote) {
    tokens = all_to_all(run, tokens);
    probabilities = all_to_all(run, probabilities);
  }
  run.eager().set_site("experts", layer.layer);
  Tensor output = run_experts(run, *layer.experts, tokens, probabilities, sizes);
  run.eager().set_site("combine", layer.layer);
  if (remote) {
    output = all_to_all(run, output);
  }
  Tensor result = unpermute(run, output, permuted.mapping, sizes);
  if (shared.defined()) {
    result = torch::add(run.eager(), result, shared);
  }
  return result;
}

}  // namespace

Tensor expert_layer(const Runner& run, const LayerWeights& layer, const Tensor& normed) {
  Tensor shared;
  if (layer.experts->shared) {
    run.eager().set_site("shared_experts", layer.layer);
    shared = shared_experts(run, *layer.experts->shared, normed);
  }
  return dispatch(run, layer, normed, shared);
}

}  // namespace headroom::ir::megatron
