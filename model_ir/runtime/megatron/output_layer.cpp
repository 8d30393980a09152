#include <utility>

#include "model_ir/runtime/megatron/head.h"
#include "model_ir/runtime/torch/ddp.h"
#include "model_ir/runtime/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

void count(const Runner& run, const char* operation, std::int64_t elements) {
  torch::count_collective(run.eager(), {operation, run.context.mesh.tensor.size, 1,
                                        bytes_of(elements, run.context.dtype).value()});
}

/// The hidden states of all tensor-parallel ranks, in the buffer that the process keeps.
void gather_input(const Runner& run) {
  const std::int64_t elements = run.context.tokens() * run.context.spec.hidden;
  run.process.touch_memory_buffer(elements);
  count(run, "all_gather", elements);
}

Gradients output_gradients(const Runner& run, Node& node) {
  Eager& eager = run.eager();
  const torch::Unpacked saved(eager, node);
  const bool sequence = run.context.sequence_parallel();
  const std::int64_t tokens = run.context.tokens();
  const Shape weight = node.input_shapes[1];
  if (sequence) {
    gather_input(run);
  }
  Gradients result(2);
  Tensor input = eager.empty({tokens, weight[1]}, run.context.dtype);
  eager.touch_cublas();
  eager.count_gemm(tokens, weight[1], weight[0]);
  Tensor part;
  if (sequence) {
    part = eager.empty(node.input_shapes[0], run.context.dtype);
    count(run, "reduce_scatter", input.elements());
  } else if (run.context.mesh.tensor.size > 1) {
    count(run, "all_reduce", input.elements());
  }
  eager.count_gemm(weight[0], weight[1], tokens);
  if (run.context.megatron.accumulation_fusion) {
    eager.program().phases.back().work.apex_gemm_flops +=
        2.0 * static_cast<double>(weight.elements()) * static_cast<double>(tokens);
  }
  result[1] = run.context.megatron.accumulation_fusion ? run.process.dummy_gradient(weight)
                                                       : eager.empty(weight, run.context.dtype);
  result[0] = sequence ? std::move(part) : std::move(input);
  return result;
}

}  // namespace

Tensor output_layer(const Runner& run, const Tensor& hidden, const Tensor& weight) {
  Eager& eager = run.eager();
  eager.set_site("output_layer", -1);
  Record record(eager, {&hidden, &weight});
  if (run.context.sequence_parallel()) {
    gather_input(run);
  }
  Tensor logits = eager.empty({run.context.tokens(), weight.shape()[0]}, run.context.dtype,
                              TensorRole::kLogits);
  eager.touch_cublas();
  eager.count_gemm(run.context.tokens(), weight.shape()[0], weight.shape()[1]);
  record.save(hidden);
  record.save(weight);
  record.finish(logits, [run](Eager&, Gradients&, Node& node) -> Gradients {
    return output_gradients(run, node);
  });
  return logits;
}

}  // namespace headroom::ir::megatron
