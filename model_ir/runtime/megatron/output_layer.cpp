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

void communicate(const Runner& run, CollectiveKind kind, std::int64_t elements) {
  run.eager().run(CollectiveShape{.kind = kind,
                                  .bytes = bytes_of(elements, run.context.dtype).value(),
                                  .group = run.context.mesh.tensor.group()});
}

/// The hidden states of all tensor-parallel ranks, in the buffer that the process keeps.
void gather_input(const Runner& run) {
  const std::int64_t elements = run.context.tokens() * run.context.spec.hidden;
  run.process.touch_memory_buffer(elements);
  communicate(run, CollectiveKind::kAllGather, elements);
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
  eager.run(GemmShape{.m = tokens,
                      .n = weight[1],
                      .k = weight[0],
                      .dtype = run.context.dtype,
                      .layout = GemmLayout::kNN});
  Tensor part;
  if (sequence) {
    part = eager.empty(node.input_shapes[0], run.context.dtype);
    communicate(run, CollectiveKind::kReduceScatter, input.elements());
  } else if (run.context.mesh.tensor.size > 1) {
    communicate(run, CollectiveKind::kAllReduce, input.elements());
  }
  eager.run(GemmShape{.m = weight[0],
                      .n = weight[1],
                      .k = tokens,
                      .dtype = run.context.dtype,
                      .layout = GemmLayout::kNT,
                      .accumulate = run.context.megatron.accumulation_fusion});
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
  eager.run(GemmShape{.m = run.context.tokens(),
                      .n = weight.shape()[0],
                      .k = weight.shape()[1],
                      .dtype = run.context.dtype});
  record.save(hidden);
  record.save(weight);
  record.finish(logits, [run](Eager&, Gradients&, Node& node) -> Gradients {
    return output_gradients(run, node);
  });
  return logits;
}

}  // namespace headroom::ir::megatron
