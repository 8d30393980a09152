// Steps of a compiled block's backward.
#include <utility>

#include "model_ir/runtime/torch/flash_backward.h"
#include "model_ir/runtime/torch/launch.h"
#include "model_ir/runtime/torch/split_reduction.h"
#include "model_ir/runtime/torchtitan/compiled_steps.h"

namespace headroom::ir::torchtitan {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

Steps::Inner Steps::feed_forward_backward(Id tangent, std::vector<Id>& grads) {
  const Made wide{sizes_.wide(sizes_.ffn), sizes_.dtype, {}};
  Id down = 0;
  Id of_up = 0;
  Id of_gate = 0;
  if (memory_ == BlockMemory::kAll) {
    down = weight_gradient(tangent, values.active, sizes_.ffn, sizes_.hidden);
    const Id product = input_gradient(tangent, weights.w2, sizes_.ffn, sizes_.hidden);
    Made last = wide;
    last.over = {values.up};
    const std::vector<Id> ids =
        graph.kernel({product, values.gate, values.up}, {wide, std::move(last)});
    of_up = ids[0];
    of_gate = ids[1];
  } else {
    const Id product = input_gradient(tangent, weights.w2, sizes_.ffn, sizes_.hidden);
    const std::vector<Id> ids = graph.kernel({values.gate, values.up, product}, {wide, wide, wide});
    of_up = ids[1];
    of_gate = ids[2];
    down = weight_gradient(tangent, ids[0], sizes_.ffn, sizes_.hidden);
  }
  Inner inner;
  const Id third = weight_gradient(of_up, values.normed2, sizes_.hidden, sizes_.ffn);
  inner.up = input_gradient(of_up, weights.w3, sizes_.hidden, sizes_.ffn);
  const Id first = weight_gradient(of_gate, values.normed2, sizes_.hidden, sizes_.ffn);
  inner.gate = input_gradient(of_gate, weights.w1, sizes_.hidden, sizes_.ffn);
  grads[7] = first;
  grads[8] = third;
  grads[9] = down;
  return inner;
}

/// The gradient of what the second norm and the residual read. With operators kept the first norm
/// is run again in the same kernel.
Id Steps::second_norm_backward(Id tangent, const Inner& inner) {
  std::vector<Id> reads = {values.x,   values.projected, values.rstd2, inner.up,
                           inner.gate, weights.norm2,    tangent};
  if (memory_ != BlockMemory::kOperators) {
    return graph.kernel_of(std::move(reads), hidden());
  }
  reads.push_back(weights.norm1);
  const std::vector<Id> ids = graph.kernel(std::move(reads), {row_sums(), hidden(), hidden()});
  values.rstd1 = ids[0];
  values.normed1 = ids[2];
  return ids[1];
}

/// Queries from their product, keys from the norm's output.
void Steps::rotate_again() {
  const Id wide_q = widened(values.q, sizes_.queries());
  const Id turned_q = turned(graph.view(wide_q));
  values.q = narrowed(graph.view(turned_q), sizes_.queries());
  const Id k = columns(values.normed1, weights.wk, sizes_.hidden, sizes_.keys());
  const Id wide_k = widened(k, sizes_.keys());
  const Id turned_k = turned(graph.view(wide_k));
  values.k = narrowed(graph.view(turned_k), sizes_.keys());
}

/// Small tensors are summed over rows in a kernel of their own, large ones within that of the first
/// norm. Source: torch/_inductor/scheduler.py, MixOrderReduction.can_fuse.
bool Steps::mixes_reductions() const {
  constexpr std::int64_t kElements = 5 << 20;
  constexpr std::int64_t kRows = 4096;
  constexpr std::int64_t kMostColumns = 1024 * 16;
  return sizes_.rows() * sizes_.hidden >= kElements && sizes_.rows() >= 2 * sizes_.hidden &&
         sizes_.rows() >= kRows && sizes_.hidden <= kMostColumns;
}

/// The gradient of a norm's weight from parts of it.
Id Steps::summed(Id partial) {
  return graph.kernel_of({partial}, {{sizes_.hidden}, sizes_.dtype, {}});
}

/// Gradients of queries, keys and values.
std::array<Id, 3> Steps::attend_backward(Id gradient) {
  const Made keys{sizes_.wide(sizes_.keys()), sizes_.dtype, {}};
  const Values at = values;
  const std::vector<Id> ids = graph.call(
      {gradient, at.q, at.k, at.v, at.attended, at.log_sum, at.seed, at.offset},
      {{sizes_.wide(sizes_.queries()), sizes_.dtype, {}}, keys, keys},
      [this, at, gradient](Eager& eager) {
        const torch::FlashInputs inputs{.gradient = heads(eager, gradient, sizes_.heads),
                                        .query = heads(eager, at.q, sizes_.heads),
                                        .key = heads(eager, at.k, sizes_.kv_heads),
                                        .value = heads(eager, at.v, sizes_.kv_heads),
                                        .output = heads(eager, at.attended, sizes_.heads)};
        torch::FlashGradients made = torch::flash_backward(
            eager, inputs, torch::flash_shape(inputs.query, inputs.key, inputs.value, true));
        return std::vector<Tensor>{std::move(made.query), std::move(made.key),
                                   std::move(made.value)};
      });
  return {ids[0], ids[1], ids[2]};
}

/// The gradient of what was turned, over that of the result. The first makes the conjugate table.
Id Steps::turned_back(Id gradient, std::int64_t width, bool first) {
  const Id wide = widened(gradient, width);
  const Id look = graph.view(wide);
  if (first) {
    const Shape table = graph.shape(values.table);
    values.table = graph.call({values.table}, {{table, DType::kFp32, {}, true}},
                              [table](Eager& eager) -> std::vector<Tensor> {
                                return {torch::computed(eager, table, DType::kFp32)};
                              })[0];
  }
  const Id back = turned(look);
  return narrowed(graph.view(back), width);
}

/// Sums over rows for both norms' weights: parts of them.
std::array<Id, 2> Steps::sum_rows(const std::vector<Id>& reads) {
  const std::int64_t parts =
      torch::parts_of_sum(graph.multiprocessors(), sizes_.rows(), sizes_.hidden);
  const Made made{{sizes_.hidden, parts}, DType::kFp32, {}};
  const std::vector<Id> ids = graph.kernel(reads, {made, made});
  return {ids[0], ids[1]};
}

/// The first norm's backward with both sums in one kernel, which writes parts of `split` rows.
/// Source: torch/_inductor/codegen/simd.py, _codegen_mix_order_reduction.
Id Steps::mix_reductions(Id residual, std::vector<Id> reads, std::array<Id, 2>& sums) {
  constexpr std::int64_t kFewest = 16;
  constexpr std::int64_t kMost = 128;
  std::int64_t split = kFewest;
  while (split < kMost && 2 * split * graph.multiprocessors() * 8 <= sizes_.rows()) {
    split *= 2;
  }
  reads.insert(reads.end(), {residual, weights.norm1});
  const std::int64_t parts = ceil_div(sizes_.rows(), split);
  const Made sum{{sizes_.hidden}, DType::kFp32, {}};
  const std::vector<Id> ids = graph.call(
      reads, {hidden(), sum, sum}, [this, parts, reads](Eager& eager) -> std::vector<Tensor> {
        Tensor output = eager.empty(sizes_.wide(sizes_.hidden), sizes_.dtype);
        const Tensor workspace =
            eager.empty({2, parts, sizes_.hidden}, DType::kFp32, TensorRole::kWorkspace);
        std::int64_t bytes = torch::bytes_of(output) + torch::bytes_of(workspace);
        for (const Id id : reads) {
          bytes += torch::bytes_of(graph.tensor(id));
        }
        torch::launch_kernels(eager, bytes);
        const Tensor half = eager.alias(workspace, {parts, sizes_.hidden}, false);
        Tensor second = torch::reduce_second_last(eager, half, false);
        Tensor first = torch::reduce_second_last(eager, half, false);
        return {std::move(output), std::move(second), std::move(first)};
      });
  sums = {ids[1], ids[2]};
  return ids[0];
}

/// Both norms' weights, the projections' weights, and the block's input.
void Steps::finish(Id residual, const Inner& inner, const std::array<Id, 3>& heads,
                   const std::array<Id, 3>& inputs, std::vector<Id>& grads) {
  const std::vector<Id> outer = {values.x, values.rstd1, inputs[0], inputs[1], inputs[2]};
  std::vector<Id> reads = outer;
  reads.insert(reads.end(), {values.projected, values.rstd2, inner.up, inner.gate});
  std::array<Id, 2> sums{};
  const bool mixes = mixes_reductions();
  if (mixes) {
    grads[1] = mix_reductions(residual, reads, sums);
  } else {
    sums = sum_rows(reads);
  }
  grads[6] = summed(sums[0]);
  grads[5] = weight_gradient(residual, values.attended, sizes_.queries(), sizes_.hidden);
  grads[4] = weight_gradient(heads[2], values.normed1, sizes_.hidden, sizes_.keys());
  grads[3] = weight_gradient(heads[1], values.normed1, sizes_.hidden, sizes_.keys());
  grads[2] = weight_gradient(heads[0], values.normed1, sizes_.hidden, sizes_.queries());
  if (!mixes) {
    Made made = hidden();
    made.over = {residual};
    std::vector<Id> last = outer;
    last.insert(last.end(), {residual, weights.norm1});
    grads[1] = graph.kernel_of(std::move(last), std::move(made));
  }
  grads[0] = summed(sums[1]);
}

std::vector<Id> Steps::backward(Id tangent) {
  std::vector<Id> grads(10);
  if (memory_ != BlockMemory::kAll) {
    again();
  }
  const Inner inner = feed_forward_backward(tangent, grads);
  const Id residual = second_norm_backward(tangent, inner);
  const Id attended = input_gradient(residual, weights.wo, sizes_.queries(), sizes_.hidden);
  if (memory_ == BlockMemory::kOperators) {
    rotate_again();
  }
  std::array<Id, 3> heads = attend_backward(attended);
  std::array<Id, 3> inputs{};
  inputs[2] = input_gradient(heads[2], weights.wv, sizes_.hidden, sizes_.keys());
  heads[1] = turned_back(heads[1], sizes_.keys(), true);
  inputs[1] = input_gradient(heads[1], weights.wk, sizes_.hidden, sizes_.keys());
  heads[0] = turned_back(heads[0], sizes_.queries(), false);
  inputs[0] = input_gradient(heads[0], weights.wq, sizes_.hidden, sizes_.queries());
  finish(residual, inner, heads, inputs, grads);
  for (const Id gradient : grads) {
    graph.keep(gradient);
  }
  return grads;
}

}  // namespace headroom::ir::torchtitan
