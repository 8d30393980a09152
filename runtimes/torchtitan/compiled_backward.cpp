// Steps of a compiled block's backward.
#include <utility>

#include "runtimes/torch/flash_kernel.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/split_reduction.h"
#include "runtimes/torchtitan/compiled_steps.h"

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

/// The gradient of the tensors that the second norm and the residual read. With selective
/// checkpointing by operators, the same kernel recomputes the first norm.
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

/// Recomputes queries from their product, and keys from the norm's output.
void Steps::rotate_again() {
  values.q_product = values.q;
  if (sizes_.norms_heads) {
    values.q = norm_heads(values.q, {weights.q_norm, sizes_.heads}, &values.q_rstd);
    values.k_product = columns(values.normed1, weights.wk, sizes_.hidden, sizes_.keys());
    values.k = norm_heads(values.k_product, {weights.k_norm, sizes_.kv_heads}, &values.k_rstd);
    return;
  }
  const Id wide_q = widened(values.q, sizes_.queries());
  const Id turned_q = turned(graph.view(wide_q));
  values.q = narrowed(graph.view(turned_q), sizes_.queries());
  values.k_product = columns(values.normed1, weights.wk, sizes_.hidden, sizes_.keys());
  const Id wide_k = widened(values.k_product, sizes_.keys());
  const Id turned_k = turned(graph.view(wide_k));
  values.k = narrowed(graph.view(turned_k), sizes_.keys());
}

/// Small tensors are summed over rows in a separate kernel, large ones within a kernel that reads
/// along the rows. Source: torch/_inductor/scheduler.py, MixOrderReduction.can_fuse.
bool Steps::mixes_reductions(std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t kElements = 5 << 20;
  constexpr std::int64_t kRows = 4096;
  constexpr std::int64_t kMostColumns = 1024 * 16;
  return rows * width >= kElements && rows >= 2 * width && rows >= kRows && width <= kMostColumns;
}

/// The number of partial sums that such a kernel writes, each over some of the rows.
/// Source: torch/_inductor/codegen/simd.py, _codegen_mix_order_reduction.
std::int64_t Steps::mixed_parts(std::int64_t rows) const {
  constexpr std::int64_t kFewest = 16;
  constexpr std::int64_t kMost = 128;
  std::int64_t split = kFewest;
  while (split < kMost && 2 * split * graph.multiprocessors() * 8 <= rows) {
    split *= 2;
  }
  return ceil_div(rows, split);
}

Made Steps::partial_sum(std::int64_t rows, std::int64_t width) const {
  return {{width, torch::parts_of_sum(graph.multiprocessors(), rows, width)}, DType::kFp32, {}};
}

torch::CompiledGraph::Call Steps::sums_of_parts(std::vector<Id> reads, std::int64_t bytes,
                                                Shape parts) {
  return [this, reads = std::move(reads), bytes, parts](Eager& eager) {
    const Tensor workspace = eager.empty(parts, DType::kFp32, TensorRole::kWorkspace);
    std::int64_t traffic = bytes + torch::bytes_of(workspace);
    for (const Id id : reads) {
      traffic += torch::bytes_of(graph.tensor(id));
    }
    torch::launch_kernels(eager, traffic);
    const Tensor part = eager.alias(workspace, {parts[1], parts[2]}, false);
    std::vector<Tensor> results;
    for (std::int64_t i = 0; i < parts[0]; ++i) {
      results.push_back(torch::reduce_second_last(eager, part, false));
    }
    return results;
  };
}

/// A kernel along the rows that also makes `sums` sums over them, each as wide as its output.
std::vector<Id> Steps::mix(std::vector<Id> reads, Made made, std::int64_t parts, std::size_t sums) {
  const std::int64_t width = made.shape[-1];
  const Made sum{{width}, DType::kFp32, {}};
  auto run = sums_of_parts(reads, ir::bytes_of(made.shape.elements(), made.dtype).value(),
                           {static_cast<std::int64_t>(sums), parts, width});
  return graph.kernel_and_sums(std::move(reads), std::move(made), std::vector<Made>(sums, sum),
                               std::move(run));
}

/// The gradient of a norm's weight from its partial sums.
Id Steps::summed(Id partial, std::int64_t width) {
  return graph.kernel_of({partial}, {{width}, sizes_.dtype, {}});
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

/// The gradient of the complex numbers before rotation, which overwrites that of the result, in
/// fp32. The first call makes the conjugate table.
Id Steps::turned_look(Id gradient, std::int64_t width, bool first) {
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
  return graph.view(back);
}

Id Steps::turned_back(Id gradient, std::int64_t width, bool first) {
  return narrowed(turned_look(gradient, width, first), width);
}

/// The gradient of queries or keys before their rotation and their norm.
Id Steps::rotated_back(Id gradient, bool queries) {
  const std::int64_t heads = queries ? sizes_.heads : sizes_.kv_heads;
  const std::int64_t width = heads * sizes_.head_dim;
  if (!sizes_.norms_heads) {
    return turned_back(gradient, width, !queries);
  }
  const Id product = queries ? values.q_product : values.k_product;
  const Id rstd = queries ? values.q_rstd : values.k_rstd;
  const Id weight = queries ? weights.q_norm : weights.k_norm;
  const Made wide{sizes_.wide(width), DType::kFp32, {}};
  HeadSums& sums = head_sums_[queries ? 0 : 1];
  const std::int64_t rows = sizes_.rows() * heads;
  sums.mixed = mixes_reductions(rows, sizes_.head_dim);
  if (!sums.mixed) {
    const std::vector<Id> ids = graph.kernel({gradient, values.table, product, rstd, weight},
                                             {wide, {sizes_.wide(width), sizes_.dtype, {}}});
    sums = {.wide = ids[0], .product = product, .rstd = rstd};
    return ids[1];
  }
  const Id plain = graph.kernel_of({gradient, values.table}, wide);
  const Made made{{sizes_.batch, sizes_.sequence, heads, sizes_.head_dim}, sizes_.dtype, {}};
  const std::vector<Id> ids = mix({product, rstd, plain, weight}, made, mixed_parts(rows), 1);
  sums.sum = ids[1];
  return ids[0];
}

/// Gradients of the weights of the norms of keys and of queries.
void Steps::finish_heads(std::vector<Id>& grads) {
  if (!sizes_.norms_heads) {
    return;
  }
  for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    HeadSums& sums = head_sums_[i];
    if (!sums.mixed) {
      const std::int64_t heads = i == 0 ? sizes_.heads : sizes_.kv_heads;
      sums.sum = graph.kernel_of({sums.wide, sums.product, sums.rstd},
                                 partial_sum(sizes_.rows() * heads, sizes_.head_dim));
    }
    grads[10 + i] = summed(sums.sum, sizes_.head_dim);
  }
}

/// Gradients of both norms' weights, of the projections' weights, and of the block's input.
void Steps::finish(Id residual, const Inner& inner, const std::array<Id, 3>& heads,
                   const std::array<Id, 3>& inputs, std::vector<Id>& grads) {
  const std::vector<Id> outer = {values.x, values.rstd1, inputs[0], inputs[1], inputs[2]};
  std::vector<Id> reads = outer;
  reads.insert(reads.end(), {values.projected, values.rstd2, inner.up, inner.gate});
  std::array<Id, 2> sums{};
  const bool mixes = mixes_reductions(sizes_.rows(), sizes_.hidden);
  if (mixes) {
    reads.insert(reads.end(), {residual, weights.norm1});
    const std::vector<Id> ids = mix(std::move(reads), hidden(), mixed_parts(sizes_.rows()), 2);
    grads[1] = ids[0];
    sums = {ids[1], ids[2]};
  } else {
    const Made made = partial_sum(sizes_.rows(), sizes_.hidden);
    const std::vector<Id> ids = graph.kernel(std::move(reads), {made, made});
    sums = {ids[0], ids[1]};
  }
  grads[6] = summed(sums[0], sizes_.hidden);
  grads[5] = weight_gradient(residual, values.attended, sizes_.queries(), sizes_.hidden);
  finish_heads(grads);
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
  grads[0] = summed(sums[1], sizes_.hidden);
}

std::vector<Id> Steps::backward(Id tangent) {
  std::vector<Id> grads(sizes_.norms_heads ? 12 : 10);
  if (memory_ != BlockMemory::kAll) {
    graph.set_again(true);
    again();
    graph.set_again(false);
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
  heads[1] = rotated_back(heads[1], false);
  inputs[1] = input_gradient(heads[1], weights.wk, sizes_.hidden, sizes_.keys());
  heads[0] = rotated_back(heads[0], true);
  inputs[0] = input_gradient(heads[0], weights.wq, sizes_.hidden, sizes_.queries());
  finish(residual, inner, heads, inputs, grads);
  for (const Id gradient : grads) {
    graph.keep(gradient);
  }
  return grads;
}

}  // namespace headroom::ir::torchtitan
