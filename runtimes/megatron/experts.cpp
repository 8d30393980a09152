// Mixture of experts: all-to-all dispatcher, grouped experts.
#include "runtimes/megatron/experts.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "runtimes/megatron/biased_experts.h"
#include "runtimes/megatron/discarded_region.h"
#include "runtimes/megatron/expert_rows.h"
#include "runtimes/megatron/fused.h"
#include "runtimes/megatron/grouped_linear.h"
#include "runtimes/megatron/layer.h"
#include "runtimes/megatron/local_modules.h"
#include "runtimes/megatron/offloaded_part.h"
#include "runtimes/megatron/overlapped_shared.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/router.h"
#include "runtimes/megatron/rows.h"
#include "runtimes/torch/checkpoint.h"
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
using torch::Shape;
using torch::Tensor;

/// Tokens sorted by expert, with their probabilities.
struct Permuted {
  Tensor tokens;         ///< [sent, H]
  Tensor probabilities;  ///< [sent]
  Tensor mapping;        ///< The mapping that `unpermute` needs.
};

/// A kernel that reads each row of `from` once and writes it to its places in `into`, or adds it
/// there.
void launch_permutation(Eager& eager, const Tensor& from, const Tensor& into) {
  torch::launch_kernels(eager, torch::bytes_of(from) + torch::bytes_of(into), 1,
                        TrafficKind::kPermutation);
}

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
  result.probabilities = eager.empty({sizes.sent}, routing.probabilities.dtype());
  // Three passes make the mapping. Then each token is read once and written for each of its
  // experts.
  torch::launch_kernels(eager, 3 * torch::bytes_of(result.mapping), 3);
  launch_permutation(eager, hidden, result.tokens);
  run.process.tune(TunedKernel::kPermute, 0);
  if (record.active()) {
    record.save(result.mapping);
  }
  const Shape mapping = result.mapping.shape();
  const bool views = run.context.megatron.shared_expert_overlap;  // The view is a node of its own.
  Tensor* const outputs[] = {&result.tokens, &result.probabilities};
  record.finish(outputs,
                [run, mapping, views](Eager& e, Gradients& grads, Node& node) -> Gradients {
                  // The gradient of the mapping, which is an output.
                  const Tensor zeros = e.empty(mapping, DType::kInt32);
                  Gradients inputs(2);
                  inputs[0] = e.empty(node.input_shapes[0], grads[0].dtype());
                  inputs[0]->tracked_view = !views;  // The rows were a view of the hidden state.
                  inputs[1] = e.empty(node.input_shapes[1], grads[1].dtype());
                  torch::launch(e, {&zeros});
                  launch_permutation(e, grads[0], inputs[0]);
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
  const Tensor probabilities = eager.empty(transposed, routing.probabilities.dtype());
  Tensor experts;
  Tensor flat;
  if (sizes.capacity) {
    experts = eager.empty({sizes.experts}, DType::kInt64);
    const Tensor begins = eager.empty({sizes.experts}, DType::kInt64);
    flat = eager.empty({sizes.sent}, DType::kInt64);
  }
  result.probabilities = eager.empty({sizes.sent}, probabilities.dtype());
  result.tokens = eager.empty({sizes.sent, sizes.hidden}, hidden.dtype());
  torch::launch_kernels(eager, 4 * torch::bytes_of(probabilities), 4);
  torch::launch(eager, {&result.tokens, &result.tokens});
  if (record.active()) {
    record.save(result.mapping);
    record.save(sizes.capacity ? flat : map);
  }
  const bool views = run.context.megatron.shared_expert_overlap;  // The view is a node of its own.
  Tensor* const outputs[] = {&result.tokens, &result.probabilities};
  record.finish(outputs, [views](Eager& e, Gradients& grads, Node& node) -> Gradients {
    Gradients inputs(2);
    inputs[0] = e.empty(node.input_shapes[0], grads[0].dtype());
    inputs[0]->tracked_view = !views;  // The rows were a view of the hidden state.
    torch::launch(e, {&grads[0], &inputs[0]});
    grads[0].reset();
    inputs[1] = e.empty(node.input_shapes[1], grads[1].dtype());
    return inputs;
  });
  return result;
}

}  // namespace

Tensor unpermute(const Runner& run, const Tensor& input, const Tensor& mapping,
                 const ExpertSizes& sizes) {
  Eager& eager = run.eager();
  Record record(eager, {&input});
  const bool fused = run.context.megatron.permute_fusion;
  Tensor output = eager.empty({sizes.tokens, sizes.hidden}, input.dtype());
  if (run.context.megatron.deterministic && !fused) {
    // Deterministic mode makes zeros a second time.
    output = torch::filled(eager, output.shape(), input.dtype());
  }
  if (fused) {
    launch_permutation(eager, input, output);
    run.process.tune(TunedKernel::kUnpermute, 0);
  } else {
    torch::launch(eager, {&input, &output});
  }
  if (record.active()) {
    record.save(mapping);
  }
  record.finish(output, [run, fused](Eager& e, Gradients& grads, Node& node) -> Gradients {
    Gradients inputs{e.empty(node.input_shapes[0], grads[0].dtype())};
    if (fused) {
      launch_permutation(e, grads[0], inputs[0]);
      run.process.tune(TunedKernel::kUnpermuteBackward, 0);
    } else {
      torch::launch(e, {&inputs[0], &inputs[0]});
    }
    return inputs;
  });
  return output;
}

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

namespace {

/// Receives `rows` rows for those that it sends; the longer direction decides the time.
Tensor all_to_all(const Runner& run, const Tensor& input, std::int64_t rows) {
  const Shape longer = input.shape().with(0, std::max(rows, input.shape()[0]));
  return exchange(run, input, rows,
                  {.kind = CollectiveKind::kAllToAll,
                   .bytes = bytes_of(longer.elements(), input.dtype()).value(),
                   .group = run.context.grid.expert.group(),
                   .axis = MeshAxis::kExpert},
                  CollectiveKind::kAllToAll);
}

/// Gathers the tokens of all ranks that share an expert's weights.
Tensor gather_parts(const Runner& run, const Tensor& input) {
  const Axis& ranks = run.context.grid.expert_tensor;
  return exchange(run, input, input.shape()[0] * ranks.size,
                  {.kind = CollectiveKind::kAllGather,
                   .bytes = bytes_of(input.elements() * ranks.size, input.dtype()).value(),
                   .group = ranks.group(),
                   .axis = MeshAxis::kTensor},
                  CollectiveKind::kReduceScatter);
}

Tensor scatter_parts(const Runner& run, const Tensor& input) {
  const Axis& ranks = run.context.grid.expert_tensor;
  return exchange(run, input, input.shape()[0] / ranks.size,
                  {.kind = CollectiveKind::kReduceScatter,
                   .bytes = bytes_of(input.elements(), input.dtype()).value(),
                   .group = ranks.group(),
                   .axis = MeshAxis::kTensor},
                  CollectiveKind::kAllGather);
}

/// `view(...).transpose(0, 1).contiguous()`: reorders rows from experts to ranks or back. Forward
/// and backward each make a copy.
Tensor reorder(const Runner& run, const Tensor& input) {
  Eager& eager = run.eager();
  Record record(eager, {&input});
  Tensor output = torch::computed(eager, input.shape(), input.dtype(), {&input});
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    return {torch::computed(e, node.input_shapes[0], grads[0].dtype(), {&grads[0]})};
  });
  return output;
}

/// The operators of an expert between its products. SwiGLU is fused. GELU runs operator by
/// operator, in the type of the probabilities.
Tensor weighted_activation(const Runner& run, const Tensor& input, const Tensor& probabilities) {
  if (run.context.spec.moe->expert_bias) {
    return clamped_quick_geglu(run, input, probabilities);
  }
  if (run.context.spec.gated_mlp) {
    return weighted_gate(run, input, probabilities);
  }
  Eager& eager = run.eager();
  const Tensor activated = torch::gelu(eager, input);
  const Tensor shares =
      torch::view(eager, probabilities, {probabilities.elements(), std::int64_t{1}});
  return torch::to(eager, torch::mul(eager, activated, shares), input.dtype());
}

torch::Region activation_region(const Runner& run) {
  return [run](Eager&, const std::vector<Tensor>& inputs) {
    return std::vector<Tensor>{weighted_activation(run, inputs[0], inputs[1])};
  };
}

/// The products of TEGroupedMLP. If the activation is recomputed, the second product saves its
/// input uncast under FP8.
Tensor multiply_grouped(const Runner& run, const ExpertWeights& weights, const Tensor& tokens,
                        const Tensor& probabilities) {
  OffloadedPart up(run, &MegatronOffload::expert_up);
  Tensor inner = up.run(tokens, [&](const Tensor& inside) {
    return grouped_linear(run, inside, weights.up, KeptInput::kCast, weights.up_bias);
  });
  inner = up.commit(inner, {&tokens, 1});
  OffloadedPart activation(run, &MegatronOffload::expert_activation);
  if (!recomputes(run, &MegatronModules::moe_activation)) {
    const Tensor activated = activation.run(inner, [&](const Tensor& inside) {
      return weighted_activation(run, inside, probabilities);
    });
    const Tensor output = grouped_linear(run, activated, weights.down);
    return activation.commit(output, {&inner, 1});
  }
  DiscardedRegion again = activation.run(inner, [&](const Tensor& inside) {
    return DiscardedRegion(run, {inside, probabilities}, activation_region(run));
  });
  Tensor output = grouped_linear(run, again.take_outputs()[0], weights.down, KeptInput::kOriginal);
  again.discard_until(output);
  return activation.commit(output, {&inner, 1});
}

/// TEGroupedMLP.
Tensor run_grouped(const Runner& run, const ExpertWeights& weights, const Tensor& tokens,
                   const Tensor& probabilities) {
  if (run.context.spec.moe->expert_bias) {
    const Tensor shares =
        torch::view(run.eager(), probabilities, {probabilities.elements(), std::int64_t{1}});
    const Tensor output = multiply_grouped(run, weights, tokens, shares);
    return add_expert_biases(run, output, weights.down_bias, shares);
  }
  if (!run.context.fp8()) {
    return multiply_grouped(run, weights, tokens, probabilities);
  }
  const std::size_t count = weights.up.size();
  const Tensor padded = pad_experts(run, tokens, count);
  const Tensor shares = pad_experts(run, probabilities, count);
  const Tensor output = multiply_grouped(run, weights, padded, shares);
  return unpad_experts(run, output, tokens.shape()[0]);
}

/// SequentialMLP: one expert after the other.
Tensor run_sequential(const Runner& run, const ExpertWeights& weights, const Tensor& tokens,
                      const Tensor& probabilities) {
  const auto product = [&run](const Tensor& rows, const Tensor& weight) {
    return run.context.local() ? own_linear(run, rows, weight)
                               : linear(run, rows, weight, Cut::kNone);
  };
  const auto expert = [&](std::size_t at, const Tensor& own, const Tensor& shares) {
    const Tensor inner = product(own, weights.up[at]);
    const Tensor activated = weighted_activation(run, inner, shares);
    return product(activated, weights.down[at]);
  };
  const std::size_t count = weights.up.size();
  if (count == 1) {
    return expert(0, tokens, probabilities);
  }
  const std::vector<std::int64_t> rows = expert_rows(tokens.shape()[0], count);
  const std::vector<Tensor> parts = split_rows(run.eager(), tokens, rows);
  const std::vector<Tensor> shares = split_rows(run.eager(), probabilities, rows);
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < count; ++i) {
    outputs.push_back(expert(i, parts[i], shares[i]));
  }
  return join_rows(run.eager(), outputs);
}

}  // namespace

Tensor compute_experts(const Runner& run, const ExpertWeights& weights, const Tensor& tokens,
                       const Tensor& probabilities) {
  const auto compute = run.context.megatron.grouped_gemm ? run_grouped : run_sequential;
  return compute(run, weights, tokens, probabilities);
}

namespace {

/// Runs the experts of this rank on the tokens sent to it. Returns the results in the senders'
/// order.
Tensor run_experts(const Runner& run, const ExpertWeights& weights, Tensor tokens,
                   Tensor probabilities, const ExpertSizes& sizes) {
  const RankGrid& grid = run.context.grid;
  if (grid.expert_tensor.size > 1) {
    tokens = gather_parts(run, tokens);
    probabilities = gather_parts(run, probabilities);
  }
  const bool reorders = sizes.local > 1 && grid.expert.size * grid.expert_tensor.size > 1;
  if (reorders) {
    tokens = reorder(run, tokens);
    probabilities = reorder(run, probabilities);
  }
  Tensor output = compute_experts(run, weights, tokens, probabilities);
  if (reorders) {
    output = reorder(run, output);
  }
  return grid.expert_tensor.size > 1 ? scatter_parts(run, output) : output;
}

Tensor shared_experts(const Runner& run, const MlpWeights& weights, const Tensor& normed) {
  // The router saves the norm's output, too. A checkpoint saves it itself.
  const bool again = recomputes(run, &MegatronModules::shared_experts);
  Tensor inner = linear(run, normed, weights.up.weight, Cut::kColumn,
                        again ? KeptInput::kCast : KeptInput::kOriginal);
  inner = run.context.spec.gated_mlp ? swiglu(run, inner) : torch::gelu(run.eager(), inner);
  return linear(run, inner, weights.down.weight, Cut::kRow);
}

bool overlaps(const Runner& run, const LayerWeights& layer) {
  return run.context.megatron.shared_expert_overlap && layer.experts->shared.has_value();
}

bool is_hybrid(const Runner& run) {
  return run.context.megatron.dispatcher == MegatronDispatcher::kHybridEp;
}

bool is_remote(const Runner& run) {
  return run.context.grid.expert.size > 1;
}

/// The router. Its results are members of the token dispatcher.
Routing note_routing(const Runner& run, const LayerWeights& layer, const Tensor& normed,
                     const ExpertSizes& sizes) {
  run.eager().set_site("router", layer.layer);
  DispatcherState& state = run.process.dispatcher(layer.layer);
  {
    Routing routing = route(run, normed, *layer.experts, sizes);
    state.probabilities = std::move(routing.probabilities);
    state.map = std::move(routing.map);
  }
  run.eager().set_site("dispatch", layer.layer);
  if (run.context.megatron.permute_fusion) {
    state.counts = run.eager().empty({sizes.experts}, DType::kInt64);
  }
  return {.probabilities = state.probabilities, .map = state.map};
}

/// Sorts tokens by expert. The mapping is a member of the token dispatcher.
RoutedTokens permute(const Runner& run, const LayerWeights& layer, const Tensor& rows,
                     const Routing& routing, const ExpertSizes& sizes) {
  const auto sort = run.context.megatron.permute_fusion ? permute_fused : permute_unfused;
  Permuted permuted = sort(run, rows, routing, sizes);
  run.process.dispatcher(layer.layer).mapping = std::move(permuted.mapping);
  return {.tokens = std::move(permuted.tokens), .probabilities = std::move(permuted.probabilities)};
}

/// MoEAlltoAllTokenDispatcher around the experts. Local variables live as long as Python's names.
/// Source: megatron/core/transformer/moe/{moe_layer,token_dispatcher}.py.
Tensor dispatch(const Runner& run, const LayerWeights& layer, const Tensor& normed,
                const Tensor& shared) {
  const ExpertSizes sizes = expert_sizes(run, normed.shape()[0]);
  if (run.context.megatron.dispatcher != MegatronDispatcher::kAllToAll) {
    const bool gathers = run.context.megatron.dispatcher == MegatronDispatcher::kAllGather;
    const Tensor routed = gathers ? dispatch_gathered(run, layer, normed, sizes)
                                  : dispatch_hybrid(run, layer, normed, sizes);
    return shared.defined() ? torch::add(run.eager(), routed, shared) : routed;
  }
  const bool remote = is_remote(run);
  const Routing routing = note_routing(run, layer, normed, sizes);
  std::optional<OverlappedShared> beside;
  Tensor rows = normed;
  if (overlaps(run, layer)) {
    rows = torch::view(run.eager(), normed, normed.shape());
    beside.emplace(run, layer).gather_tokens(rows);
  }
  RoutedTokens permuted = permute(run, layer, rows, routing, sizes);
  Tensor tokens = permuted.tokens;
  Tensor probabilities = std::move(permuted.probabilities);
  const Tensor mapping = run.process.dispatcher(layer.layer).mapping;
  if (remote) {
    tokens = all_to_all(run, tokens, sizes.received);
    probabilities = all_to_all(run, probabilities, sizes.received);
  }
  if (beside) {
    tokens = remote ? tokens : torch::handed_on(run.eager(), tokens);
    beside->first_product(tokens);
  }
  run.eager().set_site("experts", layer.layer);
  Tensor output = run_experts(run, *layer.experts, tokens, probabilities, sizes);
  run.eager().set_site("combine", layer.layer);
  if (remote) {
    output = all_to_all(run, output, sizes.sent);
  }
  if (beside) {
    output = remote ? output : torch::handed_on(run.eager(), output);
    beside->second_product(output);
  }
  Tensor result = unpermute(run, output, mapping, sizes);
  if (beside) {
    return beside->add_to(result);
  }
  if (shared.defined()) {
    result = torch::add(run.eager(), result, shared);
  }
  return result;
}

}  // namespace

Tensor shared_output(const Runner& run, const LayerWeights& layer, const Tensor& normed) {
  if (!layer.experts->shared || overlaps(run, layer)) {
    return {};
  }
  run.eager().set_site("shared_experts", layer.layer);
  const MlpWeights& weights = *layer.experts->shared;
  const torch::Region region = [run, &weights](Eager&, const std::vector<Tensor>& inputs) {
    return std::vector<Tensor>{shared_experts(run, weights, inputs[0])};
  };
  const bool again = recomputes(run, &MegatronModules::shared_experts);
  return std::move(
      torch::run_region(run.eager(), {normed}, region,
                        again ? torch::RegionForm::kReentrant : torch::RegionForm::kKept)[0]);
}

RoutedTokens route_tokens(const Runner& run, const LayerWeights& layer, const Tensor& normed) {
  const ExpertSizes sizes = expert_sizes(run, normed.shape()[0]);
  return is_hybrid(run)
             ? route_hybrid(run, layer, normed, sizes)
             : permute(run, layer, normed, note_routing(run, layer, normed, sizes), sizes);
}

RoutedTokens send_tokens(const Runner& run, const LayerWeights& layer, const RoutedTokens& routed) {
  const ExpertSizes sizes = expert_sizes(run, run.context.stream_tokens());
  run.eager().set_site("dispatch", layer.layer);
  if (is_hybrid(run)) {
    return send_hybrid(run, layer, routed, sizes);
  }
  RoutedTokens received;
  received.tokens = all_to_all(run, routed.tokens, sizes.received);
  received.probabilities = all_to_all(run, routed.probabilities, sizes.received);
  return received;
}

Tensor process_tokens(const Runner& run, const LayerWeights& layer, const RoutedTokens& received) {
  run.eager().set_site("experts", layer.layer);
  return is_hybrid(run)
             ? compute_experts(run, *layer.experts, received.tokens, received.probabilities)
             : run_experts(run, *layer.experts, received.tokens, received.probabilities,
                           expert_sizes(run, run.context.stream_tokens()));
}

Tensor return_tokens(const Runner& run, const LayerWeights& layer, const Tensor& output,
                     const Tensor& shared) {
  const ExpertSizes sizes = expert_sizes(run, run.context.stream_tokens());
  run.eager().set_site("combine", layer.layer);
  const Tensor sent = is_hybrid(run) ? return_hybrid(run, layer, output, sizes)
                                     : all_to_all(run, output, sizes.sent);
  Tensor result = is_hybrid(run)
                      ? sent
                      : unpermute(run, sent, run.process.dispatcher(layer.layer).mapping, sizes);
  return shared.defined() ? torch::add(run.eager(), result, shared) : result;
}

namespace {

/// Shared experts, which backward recomputes separately if the plan says so, and routed experts.
Tensor whole_layer(const Runner& run, const LayerWeights& layer, const Tensor& normed) {
  return dispatch(run, layer, normed, shared_output(run, layer, normed));
}

}  // namespace

Tensor expert_layer(const Runner& run, const LayerWeights& layer, const Tensor& normed) {
  if (!recomputes(run, &MegatronModules::moe)) {
    return whole_layer(run, layer, normed);
  }
  const torch::Region region = [run, &layer](Eager&, const std::vector<Tensor>& inputs) {
    return std::vector<Tensor>{whole_layer(run, layer, inputs[0])};
  };
  return std::move(
      torch::run_region(run.eager(), {normed}, region, torch::RegionForm::kReentrant)[0]);
}

}  // namespace headroom::ir::megatron
