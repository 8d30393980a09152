// Mixture of experts with the all-gather dispatcher.
#include <utility>
#include <vector>

#include "runtimes/megatron/experts.h"
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

/// The ranks that share tokens: expert-parallel ranks and ranks that share an expert's weights.
RankGroup sharing_group(const Runner& run) {
  const RankGrid& grid = run.context.grid;
  return {.size = grid.expert.size * grid.expert_tensor.size, .stride = grid.expert_tensor.stride};
}

CollectiveShape collective(const Runner& run, CollectiveKind kind, const Tensor& whole) {
  return {.kind = kind,
          .bytes = bytes_of(whole.elements(), whole.dtype()).value(),
          .group = sharing_group(run),
          .axis = MeshAxis::kExpert};
}

/// Gathers the tokens of all ranks in the process's global buffer and copies those for this rank's
/// experts, sorted by expert. Backward scatters their gradient in the same buffer.
Tensor select_tokens(const Runner& run, const Tensor& hidden, const Tensor& mapping,
                     std::int64_t gathered) {
  Eager& eager = run.eager();
  Record record(eager, {&hidden});
  const std::int64_t width = hidden.shape()[1];
  Tensor output = torch::computed(eager, {mapping.elements(), width}, hidden.dtype(), {&mapping});
  record.save(mapping);
  record.finish(output, [run, gathered](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const torch::Unpacked saved(e, node);
    const torch::Shape shape = node.input_shapes[0];
    const Tensor whole = torch::filled(e, shape.with(0, gathered), grads[0].dtype());
    torch::launch(e, {&grads[0], &whole});
    grads[0].reset();
    if (sharing_group(run).size == 1) {
      return {whole};
    }
    e.run(collective(run, CollectiveKind::kReduceScatter, whole));
    return {run.process.buffered(shape)};
  });
  return output;
}

/// masked_select of the probabilities of this rank's experts, column by column.
Tensor select_probabilities(const Runner& run, const Tensor& probabilities, std::int64_t local,
                            std::int64_t received) {
  Eager& eager = run.eager();
  Record record(eager, {&probabilities});
  const std::int64_t gathered = probabilities.shape()[0];
  const DType dtype = probabilities.dtype();
  Tensor own = torch::computed(eager, {gathered, local}, dtype);
  const Tensor columns = torch::computed(eager, {local, gathered}, dtype, {&own});
  const Tensor map = torch::computed(eager, {local, gathered}, DType::kBool);
  Tensor output = torch::computed(eager, {received}, dtype, {&columns, &map});
  own.reset();
  record.save(columns);
  record.save(map);
  record.finish(output, [local](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const torch::Shape all = node.input_shapes[0];
    const Tensor gradient = torch::filled(e, {local, all[0]}, grads[0].dtype());
    grads[0].reset();
    node.saved[1].reset();
    node.saved[0].reset();
    return {torch::filled(e, all, gradient.dtype())};  // Zeros for the experts of other ranks.
  });
  return output;
}

/// The tokens of all ranks that are routed to this rank's experts. The dispatcher keeps the routing
/// map and the probabilities until its next micro-batch.
Tensor select(const Runner& run, const Tensor& normed, Routing routing, const ExpertSizes& sizes,
              DispatcherState& state) {
  Eager& eager = run.eager();
  const std::int64_t ranks = sharing_group(run).size;
  const std::int64_t gathered = sizes.tokens * ranks;
  const std::int64_t received = sizes.received * run.context.grid.expert_tensor.size;
  Tensor probabilities = routing.probabilities;
  if (ranks > 1) {
    routing.map = eager.empty({gathered, sizes.experts}, DType::kBool);
    eager.run(collective(run, CollectiveKind::kAllGather, routing.map));
    probabilities =
        exchange(run, routing.probabilities, gathered,
                 {.kind = CollectiveKind::kAllGather,
                  .bytes = bytes_of(gathered * sizes.experts, probabilities.dtype()).value(),
                  .group = sharing_group(run),
                  .axis = MeshAxis::kExpert},
                 CollectiveKind::kReduceScatter);
    eager.run(collective(run, CollectiveKind::kAllGather,
                         run.process.buffered({gathered, sizes.hidden})));
    routing.probabilities.reset();
  }
  state.map = torch::computed(eager, {gathered, sizes.local}, DType::kBool);
  { const Tensor counts = torch::computed(eager, {gathered, sizes.local}, DType::kInt64); }
  Tensor tokens;
  {
    const Tensor columns =
        torch::computed(eager, {sizes.local, gathered}, DType::kBool, {&state.map});
    const Tensor positions = torch::filled(eager, {gathered}, DType::kInt64);
    state.mapping = torch::computed(eager, {received}, DType::kInt64, {&columns, &positions});
    tokens = select_tokens(run, normed, state.mapping, gathered);
  }
  state.probabilities = select_probabilities(run, probabilities, sizes.local, received);
  return tokens;
}

}  // namespace

Tensor dispatch_gathered(const Runner& run, const LayerWeights& layer, const Tensor& normed,
                         const ExpertSizes& sizes) {
  Eager& eager = run.eager();
  eager.set_site("router", layer.layer);
  Routing routing = route(run, normed, *layer.experts, sizes);
  eager.set_site("dispatch", layer.layer);
  DispatcherState& state = run.process.dispatcher(layer.layer);
  Tensor output;
  {
    const Tensor tokens = select(run, normed, std::move(routing), sizes, state);
    eager.set_site("experts", layer.layer);
    output = compute_experts(run, *layer.experts, tokens, state.probabilities);
  }
  eager.set_site("combine", layer.layer);
  const std::int64_t ranks = sharing_group(run).size;
  ExpertSizes whole = sizes;
  whole.tokens = sizes.tokens * ranks;
  Tensor sums = unpermute(run, output, state.mapping, whole);
  if (ranks == 1) {
    return sums;
  }
  const DType narrow = sums.dtype();
  sums = torch::to(eager, sums, state.probabilities.dtype());
  const CollectiveShape scatter = collective(run, CollectiveKind::kReduceScatter, sums);
  sums = exchange(run, sums, sizes.tokens, scatter, CollectiveKind::kAllGather);
  return torch::to(eager, sums, narrow);
}

}  // namespace headroom::ir::megatron
