#include "runtimes/megatron/grouped_linear.h"

#include <algorithm>
#include <utility>

#include "runtimes/megatron/expert_rows.h"
#include "runtimes/megatron/fp8_grouped.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

/// A copy with another number of rows; backward copies the gradient in the opposite direction.
Tensor refilled(const Runner& run, const Tensor& input, std::int64_t rows) {
  Eager& eager = run.eager();
  Record record(eager, {&input});
  Tensor output = torch::computed(eager, input.shape().with(0, rows), input.dtype(), {&input});
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    return {torch::computed(e, node.input_shapes[0], grads[0].dtype(), {&grads[0]})};
  });
  return output;
}

}  // namespace

Tensor pad_experts(const Runner& run, const Tensor& input, std::size_t count) {
  const std::int64_t padded = padded_rows(run, input.shape()[0], count);
  return padded == input.shape()[0] ? input : refilled(run, input, padded);
}

Tensor unpad_experts(const Runner& run, const Tensor& padded, std::int64_t rows) {
  return padded.shape()[0] == rows ? padded : refilled(run, padded, rows);
}

Tensor grouped_linear(const Runner& run, const Tensor& input, const std::vector<Tensor>& weights,
                      KeptInput kept, const std::vector<Tensor>& biases) {
  if (run.context.fp8()) {
    return fp8_grouped_linear(run, input, weights, kept);
  }
  Eager& eager = run.eager();
  std::vector<Tensor> edges{input};
  edges.insert(edges.end(), weights.begin(), weights.end());
  edges.insert(edges.end(), biases.begin(), biases.end());
  const Shape shape = weights.front().shape();
  const std::int64_t rows = input.shape()[0];
  Record record(eager, edges);
  const auto experts = static_cast<std::int64_t>(weights.size());
  const DType dtype = input.dtype();
  run_per_expert(eager, {.m = rows,
                         .n = shape[0],
                         .k = shape[1],
                         .count = experts,
                         .dtype = dtype,
                         .batch = GemmBatch::kSeries});
  Tensor output = eager.empty({rows, shape[0]}, input.dtype());
  run.process.touch_grouped_workspaces();
  if (record.active()) {
    {
      const SavedAs pieces(run.process.layer_offload(), SavedForm::kPieces,
                           expert_rows(rows, weights.size()));
      record.save(input);
    }
    for (const Tensor& weight : weights) {
      record.save(weight);
    }
  }
  record.finish(
      output,
      [run, shape, rows, experts, dtype](Eager& e, Gradients& grads, Node& node) -> Gradients {
        const torch::Unpacked saved(e, node);
        Gradients result(node.next.size());
        run_per_expert(e, {.m = rows,
                           .n = shape[1],
                           .k = shape[0],
                           .count = experts,
                           .dtype = dtype,
                           .layout = GemmLayout::kNN,
                           .batch = GemmBatch::kSeries});
        result[0] = e.empty(node.input_shapes[0], grads[0].dtype());
        run.process.run_or_owe(
            [run, shape, rows, experts, dtype, input = saved[0], gradient = grads[0]] {
              run_per_expert(run.eager(), {.m = shape[0],
                                           .n = shape[1],
                                           .k = rows,
                                           .count = experts,
                                           .dtype = dtype,
                                           .layout = GemmLayout::kNT,
                                           .batch = GemmBatch::kSeries,
                                           .accumulate = run.context.megatron.accumulation_fusion});
            });
        const bool fused = run.context.megatron.accumulation_fusion;
        const std::size_t weights_end = 1 + static_cast<std::size_t>(experts);
        // They have the type of the weights' gradients, because the same products compute both.
        const DType summed = fused ? run.context.grad_dtype : dtype;
        for (std::size_t i = weights_end; i < result.size(); ++i) {
          result[i] = e.empty({shape[0]}, summed);
        }
        for (std::size_t i = 1; i < weights_end; ++i) {
          result[i] = fused ? run.process.dummy_gradient(shape)
                            : e.empty(shape, grads[0].dtype(), TensorRole::kGradient);
        }
        return result;
      });
  return output;
}

}  // namespace headroom::ir::megatron
