#include "runtimes/torchtitan/experts.h"

#include <utility>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/functions_grouped.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torchtitan/expert_exchange.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {
namespace {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

/// TOKEN_GROUP_ALIGN_SIZE_M: the rows of an expert are a multiple of it, and at least as many.
constexpr std::int64_t kGroupRows = 8;

const MoeSpec& moe_of(const LayerRun& run) {
  return *run.context.model.spec->moe;
}

/// Results of TokenChoiceTopKRouter.forward.
struct Choice {
  Tensor scores;   ///< [T, k], fp32.
  Tensor indices;  ///< [T, k].
  Tensor counts;   ///< [E].
};

/// TokenChoiceTopKRouter.forward on rows [T, H].
Choice choose(const LayerRun& run, const Tensor& rows) {
  Eager& eager = run.context.eager;
  const MoeSpec& moe = moe_of(run);
  // Selective checkpointing neither keeps nor counts the gate's product
  // (per_op_sac_force_recompute_mm_shapes_by_fqns).
  Tensor scores = torch::linear(eager, rows, run.block.mixture.router, {});
  const auto probabilities = [&] {
    const Tensor wide = torch::to(eager, scores, DType::kFp32);
    return torch::softmax_last(eager, wide, DType::kFp32);
  };
  scores = probabilities();
  Tensor candidates = torch::add(eager, scores, run.block.mixture.bias);
  torch::TopK best = torch::top_k(eager, candidates, moe.top_k);
  Choice choice;
  choice.indices = std::move(best.indices);
  choice.scores = torch::gather_last(eager, scores, choice.indices);
  Tensor denominator;
  if (moe.normalise_top_k) {
    denominator = torch::sum_rows(eager, choice.scores);
    denominator = torch::shift(eager, denominator);
    choice.scores = torch::divide(eager, choice.scores, denominator);
  }
  choice.scores = torch::scale(eager, choice.scores);
  choice.counts = torch::histogram(eager, choice.indices, moe.experts);
  scores.reset();  // The names of a Python function that returns are freed, in their order.
  candidates.reset();
  best.values.reset();
  return choice;
}

/// Results of TokenReorderer.forward for this rank's share of the tokens.
struct Order {
  Tensor scores;  ///< [T' k], sorted by expert.
  Tensor rows;    ///< [T' k]: the choice at each position.
  Tensor counts;  ///< [E].
};

/// The number of tensor-parallel ranks that divide the tokens among them before experts run
/// (ReordererSequenceParallel). They do if experts are also distributed over these ranks.
std::int64_t token_shares(const LayerRun& run) {
  const Mesh& mesh = run.context.model.plan->mesh;
  return mesh.expert > 1 && titan_expert_tensor(mesh) == 1 ? mesh.tensor : 1;
}

Order reorder(const LayerRun& run, const Choice& choice) {
  Eager& eager = run.context.eager;
  const std::int64_t shares = token_shares(run);
  const std::int64_t own = choice.scores.elements() / shares;
  const Tensor indices = eager.alias(choice.indices, {own}, true);
  const Tensor flat = torch::view(eager, choice.scores, {choice.scores.elements()});
  const Tensor scores = shares > 1 ? torch::first_rows(eager, flat, own) : flat;
  Order order;
  order.counts = torch::histogram(eager, indices, moe_of(run).experts);
  torch::Sorted sorted = torch::sort_ids(eager, indices);
  sorted.values.reset();
  order.rows = std::move(sorted.indices);
  order.scores = torch::gather_rows(eager, scores, order.rows);
  if (shares > 1) {  // Indices among the tokens of all ranks.
    order.rows = torch::computed(eager, order.rows.shape(), DType::kInt64, {&order.rows});
  }
  return order;
}

/// Results of _permute.
struct Permuted {
  Tensor rows;     ///< [R, H], where R is T k rows and eight for each expert of this rank.
  Tensor indices;  ///< [R], int32.
  Tensor counts;   ///< Padded rows of each expert of this rank; int32.
};

/// generate_permute_indices, outside autograd. `counts`: [e E'] for e ranks and E' experts of this
/// rank.
Permuted padded_indices(Eager& eager, const Tensor& counts, std::int64_t experts,
                        std::int64_t length) {
  const auto wide = [&](std::int64_t size) {
    return torch::computed(eager, {size}, DType::kInt64, TensorRole::kTemporary);
  };
  Tensor starts;
  {
    const Tensor sums = torch::cumulative_sum(eager, counts);
    starts = wide(counts.elements());
  }
  Tensor totals = wide(experts);
  totals = wide(experts);  // clamp_min
  Permuted result;
  {
    Tensor sizes = wide(experts);
    sizes = wide(experts);
    sizes = wide(experts);
    sizes = wide(experts);
    result.counts = torch::computed(eager, {experts}, DType::kInt32, {&sizes});
  }
  Tensor offsets = torch::cumulative_sum(eager, result.counts);
  Tensor targets = wide(experts);
  result.indices = torch::filled(eager, {length}, DType::kInt32);
  torch::launch_fill(eager, result.indices);
  // m_offsets.to(int32), which nobody reads.
  result.rows = torch::computed(eager, {experts}, DType::kInt32, {&offsets});
  starts.reset();
  totals.reset();
  targets.reset();
  offsets.reset();
  return result;
}

/// _permute: rows sorted by the experts of this rank, with each expert's rows padded.
Permuted permute(Eager& eager, const Tensor& rows, const Tensor& counts, std::int64_t experts) {
  const std::int64_t length = align_up(rows.shape()[0] + experts * kGroupRows, kGroupRows);
  Permuted result = padded_indices(eager, counts, experts, length);
  Tensor offsets = std::move(result.rows);
  Tensor longer = torch::append_zero_row(eager, rows);
  result.rows = torch::gather_rows(eager, longer, result.indices);
  longer.reset();
  offsets.reset();
  return result;
}

/// _unpermute: rows in their original order, without the padding.
Tensor unpermute(Eager& eager, const Tensor& rows, const Tensor& indices, std::int64_t count) {
  const Tensor longer = eager.empty({count + 1, rows.shape()[1]}, rows.dtype());
  const Tensor filled = torch::put_rows(eager, longer, indices, rows);
  return torch::first_rows(eager, filled, count);
}

/// _run_experts_grouped_mm.
Tensor grouped_experts(Eager& eager, const Mixture& mixture, const Permuted& input) {
  const Tensor offsets = torch::cumulative_counts(eager, input.counts);
  const auto product = [&](const Tensor& rows, const Tensor& weight) {
    return torch::grouped_mm(eager, rows, weight, offsets, torch::GroupedWeight::kOutIn);
  };
  Tensor hidden;
  {
    const Tensor gate = product(input.rows, mixture.w1);
    hidden = torch::silu(eager, gate);
  }
  {
    const Tensor up = product(input.rows, mixture.w3);
    hidden = torch::mul(eager, hidden, up);
  }
  return product(hidden, mixture.w2);
}

/// Rows for experts of which each tensor-parallel rank holds a shard (TensorParallel,
/// ExpertTensorParallel): from_local as Replicate, and to_local with partial gradients.
Tensor share_experts(const LayerRun& run, const Tensor& rows) {
  return token_shares(run) == 1 ? run.context.mesh.sum_gradients(rows) : rows;
}

/// GroupedExperts.forward without expert parallelism, with indices_padding_wrapper.
Tensor padded_experts(const LayerRun& run, const Tensor& rows, const Tensor& counts) {
  Eager& eager = run.context.eager;
  Permuted permuted = permute(eager, share_experts(run, rows), counts, counts.elements());
  Tensor output = grouped_experts(eager, run.block.mixture, permuted);
  output = unpermute(eager, output, permuted.indices, rows.shape()[0]);
  permuted.rows.reset();
  permuted.counts.reset();
  return output;
}

/// The same with expert parallelism: rows are sent to the ranks of their experts and back.
Tensor exchanged_experts(const LayerRun& run, const Tensor& rows, const Tensor& counts,
                         ExpertExchange& exchange) {
  Eager& eager = run.context.eager;
  const std::int64_t experts = counts.elements() / exchange.ranks();
  std::vector<Tensor> inputs{rows};
  run.context.hooks.before(experts_module(run.layer), inputs);
  Tensor received_counts = exchange.counts(counts);
  Tensor received = exchange.all_to_all(share_experts(run, inputs.front()));
  Permuted permuted = permute(eager, received, received_counts, experts);
  received.reset();
  *run.block.mixture.permutation = permuted.indices;
  received_counts.reset();
  Tensor output = grouped_experts(eager, run.block.mixture, permuted);
  {
    const Tensor back = unpermute(eager, output, permuted.indices, rows.shape()[0]);
    Tensor sent = exchange.all_to_all(back);
    exchange.hold(back);
    output = std::move(sent);
  }
  run.context.hooks.after(experts_module(run.layer), {output});
  return output;
}

/// Restores the rows to the order of the tokens and sums them with their scores: [T, H].
Tensor combine(Eager& eager, const Choice& choice, const Tensor& unsorted) {
  const std::int64_t tokens = choice.scores.shape()[0];
  const std::int64_t k = choice.scores.shape()[1];
  const std::int64_t width = unsorted.shape()[1];
  Tensor sums;
  {
    const Tensor groups = torch::view(eager, unsorted, {tokens, 1, k, width});
    const Tensor weights = torch::view(eager, choice.scores, {tokens, 1, 1, k});
    const Tensor wide = torch::to(eager, groups, DType::kFp32);
    sums = torch::batched_matmul(eager, weights, wide, {tokens, 1, 1, width});
  }
  const Tensor narrow = torch::to(eager, sums, unsorted.dtype());
  return torch::view(eager, narrow, {tokens, width});
}

}  // namespace

Tensor run_mixture(const LayerRun& run, const Tensor& x) {
  Eager& eager = run.context.eager;
  const std::int64_t width = x.shape()[-1];
  const Tensor rows = torch::view(eager, x, {x.elements() / width, width});
  Choice choice = choose(run, rows);
  torch::launch_fill(eager, run.block.mixture.counts);  // tokens_per_expert.add_
  Order order = reorder(run, choice);
  choice.counts.reset();
  Tensor input;
  {
    const Tensor tokens = torch::computed(eager, order.rows.shape(), DType::kInt64, {&order.rows});
    input = torch::gather_rows(eager, rows, tokens);
  }
  const Mesh& mesh = run.context.model.plan->mesh;
  ExpertExchange exchange(eager, mesh.expert, titan_expert_tensor(mesh));
  Tensor routed = exchange.ranks() > 1 ? exchanged_experts(run, input, order.counts, exchange)
                                       : padded_experts(run, input, order.counts);
  Tensor unsorted = torch::filled(eager, {choice.scores.elements(), width}, routed.dtype());
  exchange.wait();
  unsorted = torch::put_rows(eager, unsorted, order.rows, routed);
  const Tensor output = combine(eager, choice, unsorted);
  order.counts.reset();  // The names of a Python function that returns are freed, in their order.
  order.scores.reset();
  input.reset();
  routed.reset();
  unsorted.reset();
  return torch::view(eager, output, x.shape());
}

}  // namespace headroom::ir::torchtitan
