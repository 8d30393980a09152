#include "runtimes/transformers/sinks.h"

#include <utility>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/functions_latent.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Tensor;

namespace {

/// Probabilities of keys and sink. The shifted logits are a name of the caller.
struct SinkSoftmax {
  Tensor shifted;
  Tensor probabilities;
};

SinkSoftmax softmax_with_sinks(Eager& eager, const Tensor& scores, const Tensor& sinks) {
  Tensor combined = torch::append_sinks(eager, scores, sinks);
  {
    Tensor largest = torch::max_last(eager, combined);
    Tensor shifted = torch::sub(eager, combined, largest);
    largest.reset();
    combined = std::move(shifted);
  }
  Tensor probabilities = torch::softmax_last(eager, combined, combined.dtype());
  return {std::move(combined), std::move(probabilities)};
}

Tensor rotate_half_tables(Eager& eager, const Tensor& x, const RopeTable& table) {
  const auto [first, second] = torch::chunk_last(eager, x);
  const auto products = [&](const Tensor& left, const Tensor& right, bool difference) {
    const Tensor a = torch::mul(eager, left, table.cos);
    const Tensor b = torch::mul(eager, right, table.sin);
    return difference ? torch::sub(eager, a, b) : torch::add(eager, a, b);
  };
  const Tensor low = products(first, second, true);
  const Tensor high = products(second, first, false);
  return torch::cat_last(eager, low, high);
}

}  // namespace

AttentionOutput attend_with_sinks(Eager& eager, const AttentionInput& input) {
  const torch::Shape& q = input.q.shape();
  const std::int64_t groups = q[1] / input.k.shape()[1];
  Tensor keys = torch::repeat_heads(eager, input.k, groups);
  Tensor values = torch::repeat_heads(eager, input.v, groups);
  Tensor scores = torch::batched_matmul(eager, input.q, keys, {q[0], q[1], q[2], keys.shape()[2]});
  Tensor weights = torch::scale(eager, scores);
  scores.reset();
  if (input.mask.defined()) {
    weights = torch::add_constant(eager, weights, input.mask);
  }
  const SinkSoftmax softmax = softmax_with_sinks(eager, weights, input.sinks);
  {
    const Tensor kept = torch::slice_last(eager, softmax.probabilities, keys.shape()[2]);
    const Tensor dropped = torch::dropout(eager, kept, input.dropout);
    weights = input.casts_weights ? torch::to(eager, dropped, values.dtype()) : dropped;
  }
  Tensor output =
      torch::batched_matmul(eager, weights, values, {q[0], q[1], q[2], values.shape()[3]});
  Tensor merged = torch::merge_heads(eager, output);
  output.reset();
  keys.reset();
  values.reset();
  return {std::move(merged), std::move(weights)};
}

QueryKey rotate_halves(Eager& eager, const QueryKey& heads, const RopeTable& table) {
  Tensor q = rotate_half_tables(eager, heads.q, table);
  return {std::move(q), rotate_half_tables(eager, heads.k, table)};
}

}  // namespace headroom::ir::transformers
