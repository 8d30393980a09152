// Copies and views around Transformer Engine's attention.
#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

QueryKeyValue split_heads(const Runner& run, const Tensor& fused, std::int64_t query,
                          std::int64_t key) {
  Eager& eager = run.eager();
  const std::int64_t rows = fused.shape()[0];
  Record record(eager, {&fused});
  QueryKeyValue parts{.query = eager.alias(fused, {rows, query}, true),
                      .key = eager.alias(fused, {rows, key}, true),
                      .value = eager.alias(fused, {rows, key}, true)};
  Tensor* const outputs[] = {&parts.query, &parts.key, &parts.value};
  record.finish(outputs, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    return {torch::computed(e, node.input_shapes[0], grads[0].dtype(),
                            {&grads[0], &grads[1], &grads[2]})};
  });
  return parts;
}

Tensor rotate(const Runner& run, const Tensor& input, const Tensor& table) {
  Eager& eager = run.eager();
  Record record(eager, {&input});
  Tensor output = torch::computed(eager, input.shape(), input.dtype(), {&input});
  record.save(table);
  record.finish(output, [](Eager& e, Gradients& grads, Node&) -> Gradients {
    return {torch::computed(e, grads[0].shape(), grads[0].dtype(), {&grads[0]})};
  });
  return output;
}

Tensor reshaped_copy(const Runner& run, const Tensor& input) {
  Eager& eager = run.eager();
  Record record(eager, {&input});
  Tensor output = torch::computed(eager, input.shape(), input.dtype(), {&input});
  record.finish(output, [](Eager& e, Gradients& grads, Node&) -> Gradients {
    const bool fits = grads[0]->layout == torch::Layout::kContiguous;
    return {fits ? grads[0] : torch::computed(e, grads[0].shape(), grads[0].dtype(), {&grads[0]})};
  });
  return output;
}

Tensor contiguous_copy(const Runner& run, const Tensor& input) {
  Eager& eager = run.eager();
  Record record(eager, {&input});
  Tensor output = torch::computed(eager, input.shape(), input.dtype(), {&input});
  record.finish(output, [](Eager&, Gradients& grads, Node&) -> Gradients { return {grads[0]}; });
  return output;
}

}  // namespace headroom::ir::megatron
