#include <algorithm>

#include "model_ir/runtime/torch/functions.h"
#include "model_ir/runtime/torch/record.h"

namespace headroom::ir::torch {
namespace {

/// Rows up to which the embedding's backward needs no sorting.
/// Source: aten/src/ATen/native/cuda/Embedding.cu, embedding_dense_backward_cuda.
constexpr std::int64_t kUnsortedRows = 3072;
/// Source: aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu, NROWS_PER_THREAD.
constexpr std::int64_t kRowsPerThread = 10;
/// Temporary storage of cub::DeviceScan for some thousand elements, observed on PyTorch 2.11.
constexpr std::int64_t kScanBytes = 1279;

/// Temporaries of the sorted embedding backward: sort, segment search, partial sums.
/// Source: EmbeddingBackwardKernel.cu, embedding_backward_cuda_kernel.
void sorted_embedding_gradient(Eager& eager, std::int64_t rows, const Shape& weight, DType dtype,
                               Tensor& gradient) {
  const auto ids = [&] { return eager.empty({rows}, DType::kInt64, TensorRole::kWorkspace); };
  Tensor sorted = ids();
  Tensor order = ids();
  {
    Tensor range = ids();
    // cub::DeviceRadixSort: keys and values once more, histograms and look-back state.
    Tensor scratch = eager.empty({rows * 16 + 18'432}, DType::kUInt8, TensorRole::kWorkspace);
    scratch.reset();
  }
  gradient = eager.empty(weight, dtype);
  const std::int64_t segments = std::min(rows, weight[0]);
  const std::int64_t partial = rows / kRowsPerThread + segments;
  const auto scan = [&] {
    const Tensor scratch = eager.empty({kScanBytes}, DType::kUInt8, TensorRole::kWorkspace);
  };
  Tensor flags = ids();
  Tensor count = eager.empty({1}, DType::kInt64, TensorRole::kWorkspace);
  Tensor offsets = ids();
  scan();
  flags.reset();
  Tensor sizes = ids();
  Tensor starts = ids();
  scan();
  Tensor partial_count = eager.empty({1}, DType::kInt64, TensorRole::kWorkspace);
  Tensor partial_offsets = eager.empty({partial}, DType::kInt64, TensorRole::kWorkspace);
  Tensor sums = eager.empty({partial, weight[1]}, DType::kFp32, TensorRole::kWorkspace);
  sums.reset();
  partial_offsets.reset();
  partial_count.reset();
  starts.reset();
  sizes.reset();
  count.reset();
  offsets.reset();
}

}  // namespace

Tensor embedding(Eager& eager, const Tensor& weight, const Tensor& ids) {
  Record record(eager, {&weight});
  record.save(ids);
  const Shape& rows = ids.shape();
  Tensor output = eager.empty({rows[0], rows[1], weight.shape()[1]}, weight.dtype());
  if (record.active()) {
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      const Shape& weight_shape = node.input_shapes[0];
      Tensor gradient;
      if (saved.elements() <= kUnsortedRows) {
        gradient = e.empty(weight_shape, grads[0].dtype());
      } else {
        sorted_embedding_gradient(e, saved.elements(), weight_shape, grads[0].dtype(), gradient);
      }
      return {gradient};
    });
  }
  return output;
}

Tensor log_softmax(Eager& eager, const Tensor& input, DType dtype) {
  const Tensor x = to(eager, input, dtype);
  Record record(eager, {&x});
  Tensor output = eager.empty(x.shape(), dtype);
  if (record.active()) {
    record.save(output);
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      return {e.empty(grads[0].shape(), node.input_dtypes[0])};
    });
  }
  return output;
}

Tensor nll_loss(Eager& eager, const Tensor& log_probabilities, const Tensor& labels) {
  Record record(eager, {&log_probabilities});
  record.save(log_probabilities);
  record.save(labels);
  Tensor loss = eager.empty({}, log_probabilities.dtype());
  Tensor total_weight = eager.empty({}, log_probabilities.dtype());
  if (record.active()) {
    record.save(total_weight);
    record.finish(loss, [](Eager& e, Gradients&, Node& node) -> Gradients {
      const Tensor saved = node.saved[0].unpack(e);
      return {e.empty(saved.shape(), saved.dtype())};
    });
  }
  return loss;
}

}  // namespace headroom::ir::torch
