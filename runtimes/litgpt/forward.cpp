#include "runtimes/litgpt/forward.h"

#include <algorithm>
#include <utility>

#include "runtimes/litgpt/adapted_linear.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::litgpt {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

/// RMSNorm since the version with Gemma 2, which applies the weight in fp32.
Tensor wide_norm(Eager& eager, const Norm& norm, const Tensor& input) {
  const Tensor x = torch::to(eager, input, DType::kFp32);
  Tensor squares = torch::mul(eager, x, x);
  const Tensor mean = torch::mean_last(eager, squares);
  squares.reset();
  Tensor shifted = torch::shift(eager, mean);
  Tensor inverse = torch::rsqrt(eager, shifted);
  shifted.reset();
  const Tensor normed = torch::mul(eager, x, inverse);
  inverse.reset();
  const Tensor weight = torch::shift(eager, norm.weight);
  Tensor wide = torch::to(eager, weight, DType::kFp32);
  const Tensor product = torch::mul(eager, normed, wide);
  wide.reset();
  return torch::to(eager, product, input.dtype());
}

/// RMSNorm in fp32, cast back before the weight is applied, or torch's LayerNorm.
Tensor apply_norm(Eager& eager, const Model& model, const Norm& norm, const Tensor& input) {
  if (model.spec->norm == NormKind::kLayer) {
    return torch::layer_norm(eager, input, norm.weight, norm.bias);
  }
  if (model.spec->norm_placement == NormPlacement::kSandwich) {
    return wide_norm(eager, norm, input);
  }
  const Tensor x = torch::to(eager, input, DType::kFp32);
  Tensor squares = torch::mul(eager, x, x);
  const Tensor mean = torch::mean_last(eager, squares);
  squares.reset();
  Tensor shifted = torch::shift(eager, mean);
  Tensor inverse = torch::rsqrt(eager, shifted);
  shifted.reset();
  Tensor wide = torch::mul(eager, x, inverse);
  inverse.reset();
  const Tensor normed = torch::to(eager, wide, input.dtype());
  wide.reset();
  if (model.spec->norm == NormKind::kRmsGemma) {
    const Tensor offset = torch::shift(eager, norm.weight);
    return torch::mul(eager, normed, offset);
  }
  return torch::mul(eager, normed, norm.weight);
}

struct Heads {
  Tensor q, k, v;  ///< [B, A or K, T, D]
};

/// view, permute, split: queries, keys and values are views of the fused output. Backward joins
/// their gradients and makes the permuted sum contiguous.
Heads split_groups(Eager& eager, const ModelSpec& spec, const Tensor& fused) {
  const Shape whole = fused.shape();
  Heads heads;
  Record record(eager, {&fused});
  const auto part = [&](std::int64_t count) {
    Tensor view = eager.alias(fused, {whole[0], count, whole[1], spec.head_dim}, true);
    view->layout = torch::Layout::kSwapped;
    return view;
  };
  heads.q = part(spec.heads);
  heads.k = part(spec.kv_heads);
  heads.v = part(spec.kv_heads);
  if (record.active()) {
    std::vector<Tensor*> outputs = {&heads.q, &heads.k, &heads.v};
    record.finish(outputs, [whole](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const Tensor joined = e.empty(whole, node.input_dtypes[0]);
      grads.clear();
      return {e.empty(whole, node.input_dtypes[0])};
    });
  }
  return heads;
}

Tensor apply_rope(Eager& eager, const Model& model, const Tensor& x) {
  const std::int64_t half = x.shape()[-1] / 2;
  const Tensor first = torch::slice_last(eager, x, half);
  const Tensor second = torch::slice_last(eager, x, half);
  Tensor negated = torch::negate(eager, second);
  const Tensor rotated = torch::cat_last(eager, negated, first);
  negated.reset();
  Tensor straight = torch::mul(eager, x, model.cos);
  Tensor turned = torch::mul(eager, rotated, model.sin);
  const Tensor roped = torch::add(eager, straight, turned);
  straight.reset();
  turned.reset();
  return torch::to(eager, roped, x.dtype());
}

/// torch.ones(T, T).triu(), then masked_fill_ at its ones.
Tensor triangle(Eager& eager, std::int64_t length, DType dtype) {
  Tensor ones = eager.empty({length, length}, dtype);
  Tensor mask = eager.empty({length, length}, dtype);
  ones.reset();
  const Tensor chosen = eager.empty({length, length}, DType::kBool);
  return mask;
}

/// The attention of Gemma 2. No SDPA kernel caps scores.
Tensor capped_attention(Eager& eager, const Heads& heads, Tensor mask) {
  const Shape& q = heads.q.shape();
  Tensor product = torch::batched_matmul(eager, heads.q, heads.k, {q[0], q[1], q[2], q[2]});
  Tensor scores = torch::scale(eager, product);
  product.reset();
  Tensor divided = torch::scale(eager, scores);
  Tensor bounded = torch::tanh(eager, divided);
  divided.reset();
  scores = torch::scale(eager, bounded);
  bounded.reset();
  if (!mask.defined()) {
    mask = triangle(eager, q[2], heads.q.dtype());
  }
  scores = torch::add_constant(eager, scores, mask);
  Tensor weights = torch::softmax_last(eager, scores, DType::kFp32);
  scores = torch::to(eager, weights, heads.q.dtype());
  weights.reset();
  return torch::batched_matmul(eager, scores, heads.v, q);
}

Tensor attend(Eager& eager, const Model& model, std::size_t layer, const Tensor& x) {
  const Block& block = model.blocks[layer];
  const ModelSpec& spec = *model.spec;
  Tensor qkv = apply_fused(eager, model, block.qkv, x);
  Heads heads = split_groups(eager, spec, qkv);
  const bool grouped = spec.kv_heads > 1 && spec.kv_heads < spec.heads;
  if (grouped) {  // reshape: a view is impossible here.
    heads.q = torch::clone(eager, heads.q);
  }
  heads.k = torch::repeat_heads(eager, heads.k, spec.heads / spec.kv_heads);
  heads.v = torch::repeat_heads(eager, heads.v, spec.heads / spec.kv_heads);
  const std::int64_t rotated = model.cos.shape()[-1];
  const std::int64_t rest = spec.head_dim - rotated;
  const Tensor q_roped = apply_rope(eager, model, torch::slice_last(eager, heads.q, rotated));
  const Tensor k_roped = apply_rope(eager, model, torch::slice_last(eager, heads.k, rotated));
  heads.q = torch::cat_last(eager, q_roped, torch::slice_last(eager, heads.q, rest));
  heads.k = torch::cat_last(eager, k_roped, torch::slice_last(eager, heads.k, rest));
  Tensor mask;
  Tensor window;
  const bool capped = spec.attention_softcap > 0;
  if (capped && layer % 2 == 0) {  // interleaved sliding windows
    mask = triangle(eager, x.shape()[1], x.dtype());
    window = triangle(eager, x.shape()[1], x.dtype());
  }
  torch::SdpaOptions options;
  options.cudnn = model.plan->attention == AttentionKind::kSdpa;
  Tensor y = capped ? capped_attention(eager, heads, mask)
                    : torch::sdpa(eager, heads.q, heads.k, heads.v, options);
  y = torch::merge_heads(eager, y);
  return apply_linear(eager, model, block.projection, y);
}

Tensor activate(Eager& eager, const ModelSpec& spec, const Tensor& x) {
  return spec.activation == Activation::kSilu ? torch::silu(eager, x) : torch::gelu(eager, x);
}

Tensor apply_mlp(Eager& eager, const Model& model, const Block& block, const Tensor& input) {
  Tensor x = apply_linear(eager, model, block.fc, input);
  if (!model.spec->gated_mlp) {
    x = activate(eager, *model.spec, x);
    return apply_linear(eager, model, block.mlp_projection, x);
  }
  const Tensor other = apply_linear(eager, model, block.fc_two, input);
  Tensor active = activate(eager, *model.spec, x);
  const Tensor product = torch::mul(eager, active, other);
  active.reset();
  return apply_linear(eager, model, block.mlp_projection, product);
}

Tensor run_block(Eager& eager, const Model& model, std::size_t layer, Tensor x) {
  const Block& block = model.blocks[layer];
  Tensor normed = apply_norm(eager, model, block.first, x);
  Tensor attended = attend(eager, model, layer, normed);
  if (block.after_attention.weight.defined()) {
    attended = apply_norm(eager, model, block.after_attention, attended);
  }
  if (model.spec->residual == ResidualForm::kSequential) {
    x = torch::add(eager, attended, x);
    Tensor second = apply_norm(eager, model, block.second, x);
    Tensor out = apply_mlp(eager, model, block, second);
    second.reset();
    if (block.after_mlp.weight.defined()) {
      out = apply_norm(eager, model, block.after_mlp, out);
    }
    return torch::add(eager, out, x);
  }
  if (block.second.weight.defined()) {
    normed = apply_norm(eager, model, block.second, x);
  }
  Tensor out = apply_mlp(eager, model, block, normed);
  Tensor sum = torch::add(eager, out, attended);
  out.reset();
  return torch::add(eager, sum, x);
}

constexpr std::int64_t kChunk = 128;  ///< lm_head_chunk_size and the loss's chunk_size.

/// `x.split(128, dim)` returns views. Backward joins their gradients.
std::vector<Tensor> split(Eager& eager, const Tensor& x, int dim) {
  const Shape whole = x.shape();
  Record record(eager, {&x});
  std::vector<Tensor> parts;
  for (std::int64_t start = 0; start < whole[dim]; start += kChunk) {
    const std::int64_t size = std::min(kChunk, whole[dim] - start);
    parts.push_back(eager.alias(x, whole.with(dim, size), true));
  }
  if (record.active()) {
    std::vector<Tensor*> outputs;
    for (Tensor& part : parts) {
      outputs.push_back(&part);
    }
    record.finish(outputs, [whole](Eager& e, Gradients& grads, Node& node) -> Gradients {
      static_cast<void>(grads);
      return {e.empty(whole, node.input_dtypes[0])};
    });
  }
  return parts;
}

/// `logits[..., :-1, :]`, whose backward fills a tensor of the whole size with zeros.
Tensor without_last(Eager& eager, const Tensor& logits) {
  const Shape whole = logits.shape();
  Record record(eager, {&logits});
  Tensor output = eager.alias(logits, whole.with(1, whole[1] - 1), true);
  if (record.active()) {
    record.finish(output, [whole](Eager& e, Gradients& grads, Node&) -> Gradients {
      return {e.empty(whole, grads[0].dtype())};
    });
  }
  return output;
}

/// `reshape(-1, V)`, which copies if a position is missing between two sequences.
Tensor as_rows(Eager& eager, const Tensor& logits, bool gap) {
  const Shape& shape = logits.shape();
  const Tensor whole = gap && shape[0] > 1 ? torch::clone(eager, logits) : logits;
  return torch::view(eager, whole, {shape[0] * shape[1], shape[2]});
}

/// torch.cat of the losses, then their mean.
Tensor mean_of(Eager& eager, const std::vector<Tensor>& losses) {
  Tensor total = losses[0];
  for (std::size_t i = 1; i < losses.size(); ++i) {
    total = torch::add(eager, total, losses[i]);
  }
  return torch::scale(eager, total);
}

}  // namespace

std::vector<Tensor> forward(Eager& eager, const Model& model, const Tensor& ids) {
  eager.set_site("embedding", -1);
  Tensor x = torch::embedding(eager, model.embedding, ids);
  if (model.spec->scales_embedding) {
    x = torch::scale(eager, x);
  }
  for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
    eager.set_site("litgpt.block", static_cast<std::int32_t>(layer));
    x = run_block(eager, model, layer, std::move(x));
  }
  eager.set_site("litgpt.lm_head", -1);
  x = apply_norm(eager, model, model.final, x);
  eager.set_role(TensorRole::kLogits);
  std::vector<Tensor> half;
  if (model.plan->lora) {
    for (const Tensor& piece : split(eager, x, 1)) {
      half.push_back(apply_linear(eager, model, model.head, piece));
    }
  } else {
    half.push_back(apply_linear(eager, model, model.head, x));
    if (model.spec->logit_softcap > 0) {  // Pieces, with adapters, are not capped.
      half.back() = torch::scale(eager, half.back());
      half.back() = torch::tanh(eager, half.back());
      half.back() = torch::scale(eager, half.back());
    }
  }
  x.reset();
  std::vector<Tensor> logits;
  for (const Tensor& each : half) {
    logits.push_back(torch::to(eager, each, DType::kFp32));
  }
  eager.set_role(TensorRole::kTemporary);
  return logits;
}

Tensor loss(Eager& eager, std::vector<Tensor>& logits, const Tensor& targets) {
  eager.set_site("cross_entropy", -1);
  eager.set_role(TensorRole::kLogits);
  const bool chunked = logits.size() > 1 || logits[0].shape()[1] <= kChunk;
  logits.back() = without_last(eager, logits.back());
  std::vector<Tensor> pieces;
  if (chunked) {
    for (const Tensor& each : logits) {
      pieces.push_back(as_rows(eager, each, &each == &logits.back()));
    }
  } else {
    pieces = split(eager, as_rows(eager, logits[0], true), 0);
  }
  std::vector<Tensor> losses;
  for (const Tensor& piece : pieces) {
    const Tensor labels = eager.alias(targets, {piece.shape()[0]}, true);
    const Tensor log_probabilities = torch::log_softmax(eager, piece, DType::kFp32);
    losses.push_back(torch::nll_loss(eager, log_probabilities, labels));
  }
  Tensor mean = mean_of(eager, losses);
  eager.set_role(TensorRole::kTemporary);
  return mean;
}

}  // namespace headroom::ir::litgpt
