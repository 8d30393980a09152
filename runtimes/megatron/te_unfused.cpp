#include "runtimes/megatron/te_unfused.h"

#include <utility>

#include "runtimes/megatron/plan.h"
#include "runtimes/torch/functions.h"
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

/// get_full_mask: makes the positions, their differences, the window's bounds, and the resulting
/// mask.
Tensor full_mask(const Runner& run, const AttentionSizes& sizes) {
  Eager& eager = run.eager();
  const std::int64_t length = sizes.sequence;
  const auto positions = [&](DType dtype) {
    return torch::computed(eager, {length, length}, dtype);
  };
  Tensor rows = torch::filled(eager, {length}, DType::kInt32);  // arange
  Tensor columns = torch::filled(eager, {length}, DType::kInt32);
  Tensor distance = positions(DType::kInt32);
  rows.reset();
  columns.reset();
  Tensor left = positions(DType::kInt32);
  Tensor right = positions(DType::kInt32);
  Tensor window;
  {
    Tensor below = positions(DType::kBool);
    Tensor above = positions(DType::kBool);
    Tensor outside = positions(DType::kBool);
    above.reset();
    Tensor inside = positions(DType::kBool);
    below.reset();
    outside.reset();
    window = positions(DType::kBool);
  }
  if (!run.context.megatron.mask_in_dataloader) {
    return window;
  }
  return torch::computed(eager, {sizes.batch, 1, length, length}, DType::kBool);
}

/// The batched products of unfused attention.
enum class Product : std::uint8_t {
  kScores,
  kContext,
  kValueGradient,
  kProbabilityGradient,
  kQueryGradient,  ///< Also for the keys' gradient, which has the same dimensions.
};

GemmShape shape_of(const Runner& run, const AttentionSizes& sizes, Product product) {
  const std::int64_t tokens = sizes.sequence;
  GemmShape shape{.m = tokens,
                  .n = sizes.value_dim,
                  .k = tokens,
                  .count = sizes.batch * sizes.heads,
                  .dtype = run.context.dtype,
                  .layout = GemmLayout::kNN};
  switch (product) {
    case Product::kScores:
      shape.n = tokens;
      shape.k = sizes.head_dim;
      shape.layout = GemmLayout::kTN;
      break;
    case Product::kContext:
      break;
    case Product::kValueGradient:
      shape.layout = GemmLayout::kNT;
      break;
    case Product::kProbabilityGradient:
      shape.n = tokens;
      shape.k = sizes.value_dim;
      shape.layout = GemmLayout::kTN;
      break;
    case Product::kQueryGradient:
      shape.n = sizes.head_dim;
      break;
  }
  return shape;
}

/// A batched product and its factor: the gradient and its scaled copy.
Tensor scaled_product(const Runner& run, const Shape& shape, const AttentionSizes& sizes) {
  Eager& eager = run.eager();
  eager.touch_cublas();
  eager.run(shape_of(run, sizes, Product::kQueryGradient));
  const Tensor raw = eager.empty(shape, run.context.dtype);
  return torch::computed(eager, shape, run.context.dtype);
}

/// Tensors that the unfused forward saves. Backward frees them from the end of this list.
enum UnfusedSaved : std::uint8_t {
  kQuery,
  kKey,
  kValue,
  kProbabilities,
  kMask,
  kDropoutMask,
  kDropped
};

/// Gradient of the scores: first that of softmax, then that of the masking in place (CopySlices).
Tensor scores_gradient(const Runner& run, const Shape& scores, Tensor probabilities, Node& node) {
  Eager& eager = run.eager();
  const DType dtype = run.context.dtype;
  Tensor softmax = torch::computed(eager, scores, dtype, {&probabilities});
  { const Tensor product = torch::computed(eager, scores, dtype, {&probabilities, &softmax}); }
  probabilities.reset();
  node.saved[kProbabilities].reset();
  Tensor base = torch::computed(eager, scores, dtype, {&softmax});
  softmax.reset();
  Tensor result = torch::computed(eager, scores, dtype, {&base});
  {
    const Tensor slice = torch::computed(eager, scores, dtype);
    const Tensor filled = torch::computed(eager, scores, dtype);
  }
  base.reset();
  node.saved[kMask].reset();
  return result;
}

/// FusedScaleMaskSoftmax.is_kernel_available: one kernel scales, masks and normalises. Its backward
/// overwrites the gradient that it reads.
bool softmax_is_fused(const Runner& run, const AttentionSizes& sizes) {
  constexpr std::int64_t kShortest = 16;
  constexpr std::int64_t kLongest = 16384;
  const std::int64_t length = sizes.sequence;
  if (run.context.local()) {
    return true;  // Plans whose sizes it does not support are refused.
  }
  return run.context.dtype != DType::kFp32 && length > kShortest && length < kLongest &&
         length % 8 == 0 && sizes.batch * sizes.heads % 4 == 0;
}

/// Backward of UnfusedDotProductAttention down to queries, keys and values. Saved tensors are freed
/// one by one as its operators run.
Gradients unfused_backward(const Runner& run, const AttentionSizes& sizes, Gradients& grads,
                           Node& node) {
  Eager& eager = run.eager();
  const DType dtype = run.context.dtype;
  const Shape scores{sizes.batch * sizes.heads, sizes.sequence, sizes.sequence};
  Gradients result(3);
  result[kValue] = eager.empty(node.input_shapes[kValue], dtype);
  eager.touch_cublas();
  eager.run(shape_of(run, sizes, Product::kValueGradient));
  Tensor probabilities = eager.empty(scores, dtype);
  eager.run(shape_of(run, sizes, Product::kProbabilityGradient));
  grads[0].reset();
  node.saved[kValue].reset();
  const bool fused = softmax_is_fused(run, sizes);
  if (sizes.dropout > 0) {
    // The operator that fills the scores saves their mask.
    const std::size_t absent = fused ? 1 : 0;
    node.saved[kDropped - absent].reset();
    probabilities = torch::computed(eager, scores, dtype);
    node.saved[kDropoutMask - absent].reset();
  }
  Tensor gradient;
  if (fused) {
    gradient = std::move(probabilities);
    node.saved[kProbabilities].reset();
  } else {
    gradient = scores_gradient(run, scores, std::move(probabilities), node);
  }
  result[kQuery] = scaled_product(run, node.input_shapes[kQuery], sizes);
  result[kKey] = scaled_product(run, node.input_shapes[kKey], sizes);
  // The products are [heads, tokens, dim], so none is contiguous as [tokens, heads, dim].
  result[kQuery]->layout = torch::Layout::kSwapped;
  result[kKey]->layout = torch::Layout::kColumns;
  result[kValue]->layout = torch::Layout::kSwapped;
  return result;
}

/// repeat_interleave: copies each head for every query head of its group.
Tensor repeat_heads(const Runner& run, const Tensor& input, std::int64_t factor) {
  Eager& eager = run.eager();
  const Shape& shape = input.shape();
  Record record(eager, {&input});
  Tensor output = torch::computed(eager, shape.with(1, shape[1] * factor), input.dtype(), {&input});
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    return {torch::computed(e, node.input_shapes[0], grads[0].dtype(), {&grads[0]})};
  });
  return output;
}

/// The scores, a mask, softmax and a second product.
Tensor masked_attention(const Runner& run, const QueryKeyValue& qkv, const AttentionSizes& sizes) {
  Eager& eager = run.eager();
  const DType dtype = run.context.dtype;
  const Shape scores{sizes.batch * sizes.heads, sizes.sequence, sizes.sequence};
  Record record(eager, {&qkv.query, &qkv.key, &qkv.value});
  Tensor masked;
  {
    Tensor added;  // The tensor that the product is added to, with a factor of zero.
    if (run.context.local()) {
      run.process.touch_memory_buffer(scores.elements());
    } else {
      added = eager.empty(scores, dtype);
    }
    masked = eager.empty(scores, dtype);
    eager.touch_cublas();
    eager.run(shape_of(run, sizes, Product::kScores));
  }
  Tensor kept_mask;
  if (!softmax_is_fused(run, sizes)) {
    run.process.touch_causal_mask();
    // The causal mask and, if the script makes one, the script's mask.
    const std::int64_t masks = run.context.megatron.mask_in_dataloader ? sizes.batch : 1;
    kept_mask = eager.empty({masks, 1, sizes.sequence, sizes.sequence}, DType::kBool);
    torch::launch(eager, {&masked, &kept_mask, &masked});  // masked_fill_
  }
  Tensor probabilities = torch::computed(eager, scores, dtype, {&masked});
  if (!record.active()) {
    kept_mask.reset();
  }
  Tensor dropped;
  Tensor dropout_mask;
  if (sizes.dropout > 0) {
    dropout_mask = eager.empty(scores, DType::kBool);
    dropped = torch::computed(eager, scores, dtype, {&probabilities, &dropout_mask});
    if (!record.active()) {  // The Python name is rebound to the result.
      dropout_mask.reset();
      probabilities.reset();
    }
  }
  Tensor output;
  {
    const Tensor batched =
        eager.empty({sizes.batch * sizes.sequence, sizes.heads * sizes.value_dim}, dtype);
    eager.run(shape_of(run, sizes, Product::kContext));
    output = torch::computed(eager, batched.shape(), dtype, {&batched});
  }
  if (record.active()) {
    {
      const SavedAs views(run.process.layer_offload(), SavedForm::kStaying);
      record.save(qkv.query);
      record.save(qkv.key);
      record.save(qkv.value);
    }
    record.save(probabilities);
    record.save(kept_mask);
    record.save(dropout_mask);
    record.save(dropped);
    record.finish(output, [run, sizes](Eager&, Gradients& grads, Node& node) -> Gradients {
      return unfused_backward(run, sizes, grads, node);
    });
  }
  return output;
}

}  // namespace

Tensor unfused_attention(const Runner& run, const QueryKeyValue& qkv, const AttentionSizes& sizes) {
  Tensor mask;
  if (!run.context.local()) {
    run.process.touch_sequence_lengths();
    mask = full_mask(run, sizes);
  }
  QueryKeyValue heads = qkv;
  if (const std::int64_t group = sizes.heads / sizes.kv_heads; group > 1) {
    heads.key = repeat_heads(run, qkv.key, group);
    heads.value = repeat_heads(run, qkv.value, group);
  }
  return masked_attention(run, heads, sizes);
}

}  // namespace headroom::ir::megatron
