#include "runtimes/megatron/rows.h"

#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

std::vector<Tensor> split_rows(Eager& eager, const Tensor& input,
                               const std::vector<std::int64_t>& rows) {
  Record record(eager, {&input});
  std::vector<Tensor> parts;
  std::vector<Tensor*> outputs;
  parts.reserve(rows.size());
  for (const std::int64_t count : rows) {
    parts.push_back(eager.alias(input, input.shape().with(0, count), true));
    outputs.push_back(&parts.back());
  }
  record.finish(outputs, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    return {torch::computed(e, node.input_shapes[0], grads[0].dtype())};
  });
  return parts;
}

Tensor join_rows(Eager& eager, const std::vector<Tensor>& parts) {
  Record record(eager, parts);
  std::int64_t rows = 0;
  for (const Tensor& part : parts) {
    rows += part.shape()[0];
  }
  Tensor output =
      torch::computed(eager, parts.front().shape().with(0, rows), parts.front().dtype());
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    Gradients result;
    for (std::size_t i = 0; i < node.next.size(); ++i) {
      result.push_back(e.alias(grads[0], node.input_shapes[i], true));
    }
    return result;
  });
  return output;
}

}  // namespace headroom::ir::megatron
