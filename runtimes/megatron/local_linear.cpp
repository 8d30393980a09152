#include <utility>

#include "runtimes/megatron/head.h"
#include "runtimes/megatron/local_modules.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

void communicate(const Runner& run, CollectiveKind kind, std::int64_t elements) {
  run.eager().run(CollectiveShape{.kind = kind,
                                  .bytes = bytes_of(elements, run.context.dtype).value(),
                                  .group = run.context.grid.tensor.group(),
                                  .axis = MeshAxis::kTensor});
}

/// Gathers the inputs of all tensor-parallel ranks in the process's global buffer.
void gather_input(const Runner& run, std::int64_t width) {
  const std::int64_t elements = run.context.tokens() * width;
  run.process.touch_memory_buffer(elements);
  communicate(run, CollectiveKind::kAllGather, elements);
}

/// How the layer's input is distributed over the tensor-parallel ranks.
enum class Spread : std::uint8_t {
  kColumns,  ///< ColumnParallelLinear: all ranks have it, or each has a part of the sequence.
  kRows,     ///< RowParallelLinear and experts: each rank has its own input and its gradient.
};

/// The gradient of the weight: accumulated in the gradient buffer by its product, or a new tensor.
Tensor weight_gradient(const Runner& run, const Shape& weight, std::int64_t tokens) {
  Eager& eager = run.eager();
  const bool fused = run.context.megatron.accumulation_fusion;
  eager.run(GemmShape{.m = weight[0],
                      .n = weight[1],
                      .k = tokens,
                      .dtype = run.context.dtype,
                      .layout = GemmLayout::kNT,
                      .accumulate = fused});
  if (fused) {
    eager.program().phases.back().work.apex_gemm_flops +=
        2.0 * static_cast<double>(weight.elements()) * static_cast<double>(tokens);
  }
  return fused ? run.process.dummy_gradient(weight) : eager.empty(weight, run.context.dtype);
}

/// Gradients of input, weight and bias.
Gradients product_gradients(const Runner& run, std::int64_t tokens, Node& node, Spread spread) {
  Eager& eager = run.eager();
  const torch::Unpacked saved(eager, node);
  const bool columns = spread == Spread::kColumns;
  const bool sequence = columns && run.context.sequence_parallel();
  const Shape weight = node.input_shapes[1];
  if (sequence) {
    gather_input(run, weight[1]);
  }
  Gradients result(3);
  Tensor input = eager.empty({tokens, weight[1]}, run.context.dtype);
  eager.touch_cublas();
  eager.run(GemmShape{.m = tokens,
                      .n = weight[1],
                      .k = weight[0],
                      .dtype = run.context.dtype,
                      .layout = GemmLayout::kNN});
  Tensor part;
  if (sequence) {
    part = eager.empty(node.input_shapes[0], run.context.dtype);
    communicate(run, CollectiveKind::kReduceScatter, input.elements());
  } else if (columns && run.context.grid.tensor.size > 1) {
    communicate(run, CollectiveKind::kAllReduce, input.elements());
  }
  result[1] = weight_gradient(run, weight, tokens);
  if (node.wants(2)) {
    result[2] = torch::reduce(eager, {weight[0]}, run.context.dtype,
                              {.outputs = weight[0], .inputs_per_output = tokens});
  }
  result[0] = sequence ? std::move(part) : std::move(input);
  return result;
}

/// The product of all tokens with a weight, including its bias.
Tensor product(const Runner& run, std::int64_t tokens, const LinearWeights& linear,
               TensorRole role) {
  Eager& eager = run.eager();
  const Shape& weight = linear.weight.shape();
  Tensor output = eager.empty({tokens, weight[0]}, run.context.dtype, role);
  eager.touch_cublas();
  eager.run(GemmShape{.m = tokens, .n = weight[0], .k = weight[1], .dtype = run.context.dtype});
  if (linear.bias.defined()) {
    output = torch::computed(eager, output.shape(), output.dtype(), {&output, &linear.bias});
  }
  return output;
}

/// reduce_scatter_to_sequence_parallel_region.
Tensor scatter_output(const Runner& run, const Tensor& input) {
  Eager& eager = run.eager();
  const Shape& shape = input.shape();
  Record record(eager, {&input});
  Tensor output =
      eager.empty(shape.with(0, shape[0] / run.context.grid.tensor.size), input.dtype());
  communicate(run, CollectiveKind::kReduceScatter, input.elements());
  record.finish(output, [run](Eager& e, Gradients& grads, Node& node) -> Gradients {
    Tensor whole = e.empty(node.input_shapes[0], grads[0].dtype());
    communicate(run, CollectiveKind::kAllGather, whole.elements());
    return {std::move(whole)};
  });
  return output;
}

}  // namespace

Tensor column_linear(const Runner& run, const Tensor& input, const LinearWeights& linear,
                     TensorRole role) {
  Record record(run.eager(), {&input, &linear.weight, &linear.bias});
  if (run.context.sequence_parallel()) {
    gather_input(run, linear.weight.shape()[1]);
  }
  Tensor output = product(run, run.context.tokens(), linear, role);
  record.save(input);
  record.save(linear.weight);
  record.finish(output, [run](Eager&, Gradients& grads, Node& node) -> Gradients {
    return product_gradients(run, grads[0].shape()[0], node, Spread::kColumns);
  });
  return output;
}

Tensor own_linear(const Runner& run, const Tensor& input, const Tensor& weight) {
  const LinearWeights alone{.weight = weight, .bias = {}};
  Record record(run.eager(), {&input, &alone.weight, &alone.bias});
  Tensor output = product(run, input.shape()[0], alone, TensorRole::kActivation);
  record.save(input);
  record.save(weight);
  record.finish(output, [run](Eager&, Gradients& grads, Node& node) -> Gradients {
    return product_gradients(run, grads[0].shape()[0], node, Spread::kRows);
  });
  return output;
}

Tensor row_linear(const Runner& run, const Tensor& input, const Tensor& weight) {
  Tensor output = own_linear(run, input, weight);
  if (run.context.sequence_parallel()) {
    return scatter_output(run, output);
  }
  if (run.context.grid.tensor.size > 1) {
    communicate(run, CollectiveKind::kAllReduce, output.elements());
  }
  return output;
}

Tensor output_layer(const Runner& run, const Tensor& hidden, const Tensor& weight) {
  run.eager().set_site("output_layer", -1);
  return column_linear(run, hidden, {.weight = weight, .bias = {}}, TensorRole::kLogits);
}

}  // namespace headroom::ir::megatron
