// Backward of a compiled block under a memory budget.
#include <utility>

#include "runtimes/torch/launch.h"
#include "runtimes/torchtitan/budget_block.h"

namespace headroom::ir::torchtitan {

/// If the sum is part of a kernel along the rows, `partial` is what that kernel returns.
BudgetBlock::WeightSum BudgetBlock::weight_sum(std::vector<Id> reads, std::int64_t rows,
                                               std::int64_t width, bool mixes) {
  WeightSum sum;
  const Made parts = s_.partial_sum(rows, width);
  Made whole{{width}, DType::kFp32, {}};
  whole.counted = ir::bytes_of(parts.shape.elements(), parts.dtype).value();
  sum.partial = s_.graph.kernel_of(std::move(reads), mixes ? whole : parts);
  sum.result = s_.summed(sum.partial, width);
  s_.graph.skip(1);  // Skips the numbers of the sum and of its cast.
  return sum;
}

BudgetBlock::Inner BudgetBlock::feed_forward_backward(Id tangent, std::vector<Id>& grads) {
  const Sizes& size = sizes();
  torchtitan::Values& at = s_.values;
  const Weights& w = s_.weights;
  demand({BlockValue::kActive});
  grads[9] = s_.weight_gradient(tangent, at.active, size.ffn, size.hidden);
  const Id product = s_.input_gradient(tangent, w.w2, size.ffn, size.hidden);
  demand({BlockValue::kGate, BlockValue::kUp});
  const Made wide{size.wide(size.ffn), size.dtype, {}};
  const Id of_up = s_.graph.kernel_of({product, at.gate}, wide);
  phase_ = Phase::kFeedForward;
  demand({BlockValue::kNormed2});
  Inner inner;
  grads[8] = s_.weight_gradient(of_up, at.normed2, size.hidden, size.ffn);
  inner.up = s_.input_gradient(of_up, w.w3, size.hidden, size.ffn);
  Made last = wide;
  last.over = {at.up};
  const Id of_gate = s_.graph.kernel_of({product, at.gate, at.up}, std::move(last));
  grads[7] = s_.weight_gradient(of_gate, at.normed2, size.hidden, size.ffn);
  inner.gate = s_.input_gradient(of_gate, w.w1, size.hidden, size.ffn);
  std::vector<Id> group{of_up, of_gate};
  if (active_) {
    group.insert(group.begin(), *active_);
  }
  s_.graph.fuse(std::move(group));
  return inner;
}

/// The gradient of the tensors that the second norm and the residual read.
Id BudgetBlock::second_norm_backward(Id tangent, const Inner& inner) {
  demand({BlockValue::kProjected, BlockValue::kRstd2});
  const std::vector<Id> rows = {s_.values.projected, s_.values.rstd2, inner.up, inner.gate,
                                s_.values.x};
  std::vector<Id> reads = rows;
  reads.push_back(s_.weights.norm2);
  residual_sums_ = s_.graph.kernel_of(reads, s_.row_sums());
  KeptValues wanted;
  for (const BlockValue value :
       {BlockValue::kAttended, BlockValue::kQueries, BlockValue::kKeys, BlockValue::kValues}) {
    collect(value, wanted);
  }
  // If the last kernel recomputes the first norm, the sums over its rows are not part of it.
  const bool late = !has(BlockValue::kRstd1) && !wanted.has(BlockValue::kRstd1);
  mixes_ = !late && Steps::mixes_reductions(sizes().rows(), sizes().hidden);
  second_weight_ = weight_sum(rows, sizes().rows(), sizes().hidden, mixes_);
  reads.insert(reads.end(), {residual_sums_, tangent});
  return s_.graph.kernel_of(std::move(reads), s_.hidden());
}

/// Fuses one kernel: the second norm's gradient, the second norm unless a product of the gates
/// needed it before, and the first norm if attention's backward needs it.
void BudgetBlock::fuse_second_norm(Id residual) {
  std::vector<Id> group;
  const bool second = second_.output && second_.phase != Phase::kGates;
  const bool first = first_.output && first_.phase == Phase::kAttention;
  if (second && second_.rstd) {
    group.push_back(*second_.rstd);
  }
  group.push_back(residual_sums_);
  if (first && first_.rstd) {
    group.push_back(*first_.rstd);
  }
  if (second) {
    group.push_back(*second_.output);
  }
  group.push_back(residual);
  if (first) {
    group.push_back(*first_.output);
  }
  s_.graph.fuse(std::move(group));
}

std::array<Id, 3> BudgetBlock::attention_backward(Id residual, std::vector<Id>& grads) {
  const Sizes& size = sizes();
  phase_ = Phase::kAttention;
  demand({BlockValue::kAttended});
  grads[5] = s_.weight_gradient(residual, s_.values.attended, size.queries(), size.hidden);
  const Id gradient = s_.input_gradient(residual, s_.weights.wo, size.queries(), size.hidden);
  demand({BlockValue::kQueries, BlockValue::kKeys, BlockValue::kValues});
  narrow_both(false);
  fuse_second_norm(residual);
  return s_.attend_backward(gradient);
}

/// Llama 3: rotates keys first, with the conjugate table.
void BudgetBlock::unrotate_complex(std::array<Id, 3>& heads) {
  torch::CompiledGraph& graph = s_.graph;
  const auto look_at = [&](Id gradient, std::int64_t width) {
    return graph.view(s_.widened(gradient, width));
  };
  const Id k = look_at(heads[1], sizes().keys());
  const Id conjugate = kept_.has(BlockValue::kConjugate) ? s_.values.table : graph.view(table());
  const torch::Shape shape = graph.shape(conjugate);
  s_.values.table = graph.call({conjugate}, {{shape, DType::kFp32, {}, true}},
                               [shape](torch::Eager& eager) -> std::vector<torch::Tensor> {
                                 return {torch::computed(eager, shape, DType::kFp32)};
                               })[0];
  const Id k_turned = s_.turned(k);
  const Id q = look_at(heads[0], sizes().queries());
  const Id q_turned = s_.turned(q);
  seen_back_[1] = graph.view(k_turned);
  seen_back_[0] = graph.view(q_turned);
}

/// Qwen3: gradients before the rotation, in fp32, and those of the norms' weights.
void BudgetBlock::unnorm_heads(std::array<Id, 3>& heads) {
  demand({BlockValue::kQueryProduct, BlockValue::kKeyProduct, BlockValue::kQueryRstd,
          BlockValue::kKeyRstd});
  for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    Heads& at = heads_[i];
    const std::int64_t count = i == 0 ? sizes().heads : sizes().kv_heads;
    const Id product = i == 0 ? s_.values.q_product : s_.values.k_product;
    const Id weight = i == 0 ? s_.weights.q_norm : s_.weights.k_norm;
    const std::int64_t rows = sizes().rows() * count;
    at.rstd = i == 0 ? s_.values.q_rstd : s_.values.k_rstd;
    at.mixed = Steps::mixes_reductions(rows, sizes().head_dim);
    at.wide = s_.graph.kernel_of({heads[i], s_.values.table},
                                 {sizes().wide(count * sizes().head_dim), DType::kFp32, {}});
    at.sums = s_.graph.kernel_of({at.wide, product, at.rstd, weight},
                                 {{sizes().batch, sizes().sequence, count}, DType::kFp32, {}});
    at.weight = weight_sum({at.wide, product, at.rstd}, rows, sizes().head_dim, at.mixed);
  }
}

/// The gradient of the product that makes queries or keys.
void BudgetBlock::result(std::array<Id, 3>& heads, bool queries) {
  const std::size_t i = queries ? 0 : 1;
  const std::int64_t count = queries ? sizes().heads : sizes().kv_heads;
  const std::int64_t width = count * sizes().head_dim;
  if (!sizes().norms_heads) {
    heads[i] = s_.narrowed(seen_back_[i], width);
    return;
  }
  const Heads& at = heads_[i];
  const Id product = queries ? s_.values.q_product : s_.values.k_product;
  const Id weight = queries ? s_.weights.q_norm : s_.weights.k_norm;
  heads[i] = s_.graph.kernel_of({at.wide, product, at.rstd, at.sums, weight},
                                {sizes().wide(width), sizes().dtype, {}});
  if (!at.mixed) {
    s_.graph.fuse({at.wide, at.sums, heads[i]});
    return;
  }
  const std::int64_t parts = s_.mixed_parts(sizes().rows() * count);
  const std::int64_t bytes = sizes().rows() * width * 2;
  s_.graph.fuse({at.sums, heads[i], at.weight.partial}, 1,
                s_.sums_of_parts({at.wide, product}, bytes, {1, parts, sizes().head_dim}));
}

/// Gradients of the first norm's weight and of the block's input.
void BudgetBlock::finish(Id residual, const Inner& inner, const std::array<Id, 3>& inputs,
                         std::vector<Id>& grads) {
  const Id x = s_.values.x;
  const Id rstd = s_.values.rstd1;
  const std::vector<Id> rows = {x, rstd, inputs[0], inputs[1], inputs[2]};
  std::vector<Id> reads = rows;
  reads.push_back(s_.weights.norm1);
  const Id sums = s_.graph.kernel_of(reads, s_.row_sums());
  const WeightSum weight = weight_sum(rows, sizes().rows(), sizes().hidden, mixes_);
  grads[0] = weight.result;
  grads[6] = second_weight_.result;
  Made made = s_.hidden();
  if (!mixes_) {
    made.over = {residual, inputs[2], inputs[1], inputs[0]};
  }
  reads.insert(reads.end(), {sums, residual});
  grads[1] = s_.graph.kernel_of(std::move(reads), std::move(made));
  std::vector<Id> group;
  const bool first = first_.output && first_.phase == Phase::kHeads;
  if (first && first_.rstd) {
    group.push_back(*first_.rstd);
  }
  group.push_back(sums);
  if (first) {
    group.push_back(*first_.output);
  }
  group.push_back(grads[1]);
  if (!mixes_) {
    s_.graph.fuse({second_weight_.partial, weight.partial});
    s_.graph.fuse(std::move(group));
    return;
  }
  group.insert(group.end(), {second_weight_.partial, weight.partial});
  const std::vector<Id> traffic = {x,        inputs[0],  inputs[1], inputs[2], s_.values.projected,
                                   inner.up, inner.gate, residual};
  const std::int64_t bytes = (first ? 2 : 1) * sizes().rows() * sizes().hidden * 2;
  s_.graph.fuse(
      std::move(group), 2,
      s_.sums_of_parts(traffic, bytes, {2, s_.mixed_parts(sizes().rows()), sizes().hidden}));
}

std::vector<Id> BudgetBlock::backward(Id tangent) {
  const Sizes& size = sizes();
  in_backward_ = true;
  std::vector<Id> grads(size.norms_heads ? 12 : 10);
  const Inner inner = feed_forward_backward(tangent, grads);
  const Id residual = second_norm_backward(tangent, inner);
  std::array<Id, 3> heads = attention_backward(residual, grads);
  phase_ = Phase::kHeads;
  if (size.norms_heads) {
    unnorm_heads(heads);
  } else {
    unrotate_complex(heads);
  }
  demand({BlockValue::kNormed1});
  std::array<Id, 3> inputs{};
  const auto product = [&](std::size_t i, Id weight, std::int64_t width) {
    grads[2 + i] = s_.weight_gradient(heads[i], s_.values.normed1, size.hidden, width);
    inputs[i] = s_.input_gradient(heads[i], weight, size.hidden, width);
  };
  product(2, s_.weights.wv, size.keys());
  result(heads, false);
  product(1, s_.weights.wk, size.keys());
  result(heads, true);
  product(0, s_.weights.wq, size.queries());
  finish(residual, inner, inputs, grads);
  if (size.norms_heads) {
    grads[10] = heads_[0].weight.result;
    grads[11] = heads_[1].weight.result;
  }
  for (const Id gradient : grads) {
    s_.graph.keep(gradient);
  }
  return grads;
}

}  // namespace headroom::ir::torchtitan
