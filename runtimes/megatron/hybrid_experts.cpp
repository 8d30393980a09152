// Mixture of experts with MoEFlexTokenDispatcher's HybridEP manager.
#include <cmath>
#include <utility>
#include <vector>

#include "model_ir/plan/device_work.h"
#include "runtimes/megatron/expert_rows.h"
#include "runtimes/megatron/experts.h"
#include "runtimes/megatron/grouped_linear.h"
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

/// The routing information of dispatch and combine. Autograd keeps it until the graph is freed.
using Handle = std::vector<Tensor>;

/// Ranks that NVLink connects, which the handle's maps count as one node. In a larger NVLink
/// domain, the maps per node are smaller by a few bytes per token.
constexpr std::int64_t kNodeRanks = 8;

/// Sends one copy of every token to each rank that has one of its experts, and over the network one
/// copy to each such node. Combine sends results back the same way and sums them where copies meet.
CollectiveShape token_exchange(const Runner& run, const ExpertSizes& sizes, DType dtype) {
  return {.kind = CollectiveKind::kTokenExchange,
          .bytes = bytes_of(sizes.tokens * sizes.hidden, dtype).value(),
          .group = run.context.grid.expert.group(),
          .axis = MeshAxis::kExpert,
          .experts = static_cast<std::int32_t>(sizes.experts),
          .top_k = static_cast<std::int32_t>(sizes.top_k)};
}

/// Copies rows between the exchange's buffer, which has each received token once, and the order of
/// the experts. HybridEP has kernels of its own for this, which copy whole rows with vectorised
/// accesses and reach the rate of other kernels: 5.2 to 5.6 TB/s on a GB200.
/// Source: deepseek-ai/DeepEP, branch hybrid-ep, csrc/hybrid_ep/extension/permute.cu;
///         measured: pull requests 605 (copies of "expanded dispatch", 2026-04-29) and 588 (with
///         and without permutation, 2026-04-14).
void launch_permutation(Eager& eager, const CollectiveShape& exchange, const ExpertSizes& sizes,
                        DType dtype) {
  const auto ranks = static_cast<double>(exchange.group.ranks());
  const double came = static_cast<double>(exchange.bytes) * ranks * reached_share(exchange, ranks);
  const std::int64_t ordered = bytes_of(sizes.received * sizes.hidden, dtype).value();
  torch::launch_kernels(eager, std::llround(came) + ordered, 1);
}

/// metadata_preprocessing. Source: deepseek-ai/DeepEP (branch hybrid-ep, 94a9f8f)
/// csrc/hybrid_ep/executor/executor.cu, allgather_routing_map, metadata_preprocess_core.
Handle prepare(const Runner& run, const Tensor& map, const ExpertSizes& sizes) {
  constexpr std::int64_t kChunk = 64;  // NUM_OF_TOKENS_PER_CHUNK_PREPROCESSING_API
  constexpr std::int64_t kMapRows = 16;
  Eager& eager = run.eager();
  const std::int64_t ranks = run.context.grid.expert.size;
  const std::int64_t nodes = ceil_div(ranks, kNodeRanks);
  const std::int64_t gathered = sizes.tokens * ranks;
  const Tensor whole = eager.empty({gathered, sizes.experts}, DType::kBool);
  eager.run(CollectiveShape{.kind = CollectiveKind::kAllGather,
                            .bytes = torch::bytes_of(whole),
                            .group = run.context.grid.expert.group(),
                            .axis = MeshAxis::kExpert});
  Handle handle;
  handle.push_back(eager.empty({sizes.tokens * nodes, ranks / nodes}, DType::kInt32));
  handle.push_back(eager.empty({ceil_div(sizes.tokens, kMapRows) * kMapRows, nodes}, DType::kBool));
  if (nodes > 1) {
    handle.push_back(eager.empty({sizes.tokens, nodes - 1}, DType::kBool));
  }
  // The number of received rows is known in advance, so the counts stay on the device.
  if (sizes.capacity) {
    handle.push_back(eager.empty({1}, DType::kInt32));
  }
  handle.push_back(eager.empty({gathered, sizes.local}, DType::kBool));
  handle.push_back(eager.empty({1}, DType::kInt32));  // overflow_flag
  handle.push_back(eager.empty({ceil_div(sizes.tokens, kChunk) * ranks}, DType::kInt32));
  handle.push_back(eager.empty({gathered, sizes.local}, DType::kInt32));  // dense_to_expert_map
  handle.push_back(eager.empty({sizes.local}, DType::kInt32));
  torch::launch_kernels(eager, torch::bytes_of(map) * ranks, 2);
  if (!sizes.capacity) {
    eager.host_wait(eager.record_mark(eager.stream()));  // Waits for the number of received rows.
  }
  return handle;
}

/// HybridEPDispatch. Source: megatron/core/transformer/moe/fused_a2a.py;
/// csrc/hybrid_ep/hybrid_ep.cu.
RoutedTokens dispatch_tokens(const Runner& run, const Tensor& hidden, const Tensor& probabilities,
                             const ExpertSizes& sizes, const Handle& handle) {
  Eager& eager = run.eager();
  Record record(eager, {&hidden, &probabilities});
  const CollectiveShape exchange = token_exchange(run, sizes, hidden.dtype());
  RoutedTokens result;  // Sorted by this rank's experts; the probabilities are fp32.
  result.tokens = eager.empty({sizes.received, sizes.hidden}, hidden.dtype());
  result.probabilities = eager.empty({sizes.received}, DType::kFp32);
  eager.run(exchange);
  launch_permutation(eager, exchange, sizes, hidden.dtype());
  Tensor* const outputs[] = {&result.tokens, &result.probabilities};
  record.finish(outputs,
                [exchange, sizes, handle](Eager& e, Gradients& grads, Node& node) -> Gradients {
                  Gradients inputs(2);
                  inputs[0] = e.empty(node.input_shapes[0], grads[0].dtype());
                  inputs[1] = e.empty({sizes.tokens, sizes.experts}, DType::kFp32);
                  launch_permutation(e, exchange, sizes, grads[0].dtype());
                  e.run(exchange);
                  return inputs;
                });
  return result;
}

/// HybridEPCombine
Tensor combine_tokens(const Runner& run, const Tensor& output, const ExpertSizes& sizes,
                      const Handle& handle) {
  Eager& eager = run.eager();
  Record record(eager, {&output});
  const CollectiveShape exchange = token_exchange(run, sizes, output.dtype());
  Tensor combined = eager.empty({sizes.tokens, sizes.hidden}, output.dtype());
  launch_permutation(eager, exchange, sizes, output.dtype());
  eager.run(exchange);
  record.finish(combined,
                [exchange, sizes, handle](Eager& e, Gradients& grads, Node& node) -> Gradients {
                  Gradients inputs{e.empty(node.input_shapes[0], grads[0].dtype())};
                  e.run(exchange);
                  launch_permutation(e, exchange, sizes, grads[0].dtype());
                  return inputs;
                });
  return combined;
}

/// Rows that this rank receives, with the padding of FP8 products.
ExpertSizes padded_sizes(const Runner& run, const LayerWeights& layer, ExpertSizes sizes) {
  if (run.context.fp8()) {
    sizes.received = padded_rows(run, sizes.received, layer.experts->up.size());
  }
  return sizes;
}

}  // namespace

RoutedTokens route_hybrid(const Runner& run, const LayerWeights& layer, const Tensor& normed,
                          const ExpertSizes& sizes) {
  Eager& eager = run.eager();
  eager.set_site("router", layer.layer);
  DispatcherState& state = run.process.dispatcher(layer.layer);
  Routing routing = route(run, normed, *layer.experts, sizes);
  eager.set_site("dispatch", layer.layer);
  state.map = std::move(routing.map);
  state.probabilities = torch::to(eager, routing.probabilities, DType::kFp32);
  return {.tokens = normed, .probabilities = state.probabilities};
}

RoutedTokens send_hybrid(const Runner& run, const LayerWeights& layer, const RoutedTokens& routed,
                         const ExpertSizes& sizes) {
  Eager& eager = run.eager();
  DispatcherState& state = run.process.dispatcher(layer.layer);
  state.handle = prepare(run, state.map, sizes);
  if (sizes.capacity) {  // Tokens of each expert, which the host does not read.
    state.padded = eager.empty({sizes.local}, DType::kInt64);
  }
  RoutedTokens dispatched = dispatch_tokens(run, routed.tokens, routed.probabilities,
                                            padded_sizes(run, layer, sizes), state.handle);
  state.dispatched = dispatched.probabilities;
  return dispatched;
}

Tensor return_hybrid(const Runner& run, const LayerWeights& layer, const Tensor& output,
                     const ExpertSizes& sizes) {
  DispatcherState& state = run.process.dispatcher(layer.layer);
  Tensor combined = combine_tokens(run, output, padded_sizes(run, layer, sizes), state.handle);
  state.padded.reset();
  state.handle.clear();
  return combined;
}

Tensor dispatch_hybrid(const Runner& run, const LayerWeights& layer, const Tensor& normed,
                       const ExpertSizes& sizes) {
  const RoutedTokens routed = route_hybrid(run, layer, normed, sizes);
  const RoutedTokens dispatched = send_hybrid(run, layer, routed, sizes);
  run.eager().set_site("experts", layer.layer);
  const Tensor output =
      compute_experts(run, *layer.experts, dispatched.tokens, dispatched.probabilities);
  run.eager().set_site("combine", layer.layer);
  return return_hybrid(run, layer, output, sizes);
}

}  // namespace headroom::ir::megatron
