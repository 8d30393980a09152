#include "runtimes/transformers/attention.h"

#include <utility>

#include "runtimes/torch/flash_package.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/functions_grouped.h"
#include "runtimes/torch/functions_latent.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/sdpa_mask.h"
#include "runtimes/transformers/library_version.h"
#include "runtimes/transformers/modeling.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

namespace {

/// cat((-x2, x1)) of the halves of the last dim.
Tensor rotate_half(Eager& eager, const Tensor& x) {
  const std::int64_t half = x.shape()[-1] / 2;
  const Tensor first = torch::slice_last(eager, x, half);
  const Tensor second = torch::slice_last(eager, x, half);
  Tensor negated = torch::negate(eager, second);
  return torch::cat_last(eager, negated, first);
}

/// A head, split into the rotated part and the rest.
struct CutHead {
  CutHead(Eager& eager, const Tensor& x, std::int64_t rotated)
      : turning(torch::slice_last(eager, x, rotated)),
        passing(torch::slice_last(eager, x, x.shape()[-1] - rotated)) {}
  Tensor turning, passing;
};

/// The tables, expanded by repeat_interleave(2) as GLM-4 does in every layer.
RopeTable repeated(Eager& eager, const RopeTable& table) {
  RopeTable wide;
  wide.cos = torch::computed(eager, table.cos.shape(), table.cos.dtype());
  wide.sin = torch::computed(eager, table.sin.shape(), table.sin.dtype());
  return wide;
}

QueryKey rotate_parts(Eager& eager, const QueryKey& heads, const RopeTable& table) {
  const std::int64_t rotated = table.cos.shape()[-1];
  CutHead q(eager, heads.q, rotated);
  CutHead k(eager, heads.k, rotated);
  Tensor q_turned = rotate(eager, q.turning, table.cos, table.sin);
  Tensor k_turned = rotate(eager, k.turning, table.cos, table.sin);
  q_turned = torch::cat_last(eager, q_turned, q.passing);
  k_turned = torch::cat_last(eager, k_turned, k.passing);
  return {std::move(q_turned), std::move(k_turned)};
}

QueryKey rotate_named(Eager& eager, const QueryKey& heads, const RopeTable& table,
                      std::vector<Tensor>& frame) {
  const std::int64_t rotated = table.cos.shape()[-1];
  CutHead q(eager, heads.q, rotated);
  CutHead k(eager, heads.k, rotated);
  q.turning = rotate(eager, q.turning, table.cos, table.sin);
  k.turning = rotate(eager, k.turning, table.cos, table.sin);
  frame.insert(frame.end(), {q.turning, q.passing, k.turning, k.passing});
  Tensor q_joined = torch::cat_last(eager, q.turning, q.passing);
  return {std::move(q_joined), torch::cat_last(eager, k.turning, k.passing)};
}

QueryKey rotate_each(Eager& eager, const QueryKey& heads, const RopeTable& table) {
  const std::int64_t rotated = table.cos.shape()[-1];
  const CutHead q(eager, heads.q, rotated);
  const CutHead k(eager, heads.k, rotated);
  const auto join = [&](const CutHead& head) {
    const Tensor turned = rotate(eager, head.turning, table.cos, table.sin);
    return torch::cat_last(eager, turned, head.passing);
  };
  Tensor q_turned = join(q);
  return {std::move(q_turned), join(k)};
}

/// Rotates in fp32 and casts back. `widens`: queries and keys themselves are cast; otherwise the
/// tables promote them.
QueryKey rotate_wide(Eager& eager, const QueryKey& heads, const RopeTable& table, bool widens) {
  const DType dtype = heads.q.dtype();
  Tensor q = widens ? torch::to(eager, heads.q, DType::kFp32) : heads.q;
  Tensor k = widens ? torch::to(eager, heads.k, DType::kFp32) : heads.k;
  Tensor q_turned = rotate(eager, q, table.cos, table.sin);
  Tensor k_turned = rotate(eager, k, table.cos, table.sin);
  QueryKey result;
  result.q = torch::to(eager, q_turned, dtype);
  result.k = torch::to(eager, k_turned, dtype);
  for (Tensor* name : {&q, &k, &q_turned, &k_turned}) {
    name->reset();
  }
  return result;
}

/// Queries, keys and values in the form in which eager attention multiplies them.
struct EagerHeads {
  Tensor q, k, v;  ///< [B, A, S, D]
};

EagerHeads eager_heads(Eager& eager, const AttentionInput& input, EagerScores form) {
  if (form == EagerScores::kBiased && input.q.shape()[0] > 1) {
    // reshape(B * A, S, D) of strided parts.
    EagerHeads heads;
    heads.q = torch::contiguous(eager, input.q);
    heads.k = torch::contiguous(eager, input.k);
    heads.v = torch::contiguous(eager, input.v);
    return heads;
  }
  if (form == EagerScores::kInPlace || form == EagerScores::kBiased) {
    return {input.q, input.k, input.v};  // matmul broadcasts.
  }
  const std::int64_t groups = input.q.shape()[1] / input.k.shape()[1];
  Tensor keys = torch::repeat_heads(eager, input.k, groups);
  return {input.q, std::move(keys), torch::repeat_heads(eager, input.v, groups)};
}

/// GPT-2's scores, divided by a tensor. Where its buffer hides a token, they become the lowest
/// number.
Tensor chosen_scores(Eager& eager, const Model& model, const EagerHeads& heads,
                     std::vector<Tensor>& frame) {
  const Shape& q = heads.q.shape();
  const Shape shape{q[0], q[1], q[2], heads.k.shape()[2]};
  Tensor scores = torch::batched_matmul(eager, heads.q, heads.k, shape);
  {
    const Tensor root = torch::computed(eager, {}, scores.dtype());
    scores = torch::mul(eager, scores, root);
  }
  frame.push_back(torch::computed(eager, {}, scores.dtype()));  // The lowest number.
  const Tensor seen = eager.alias(model.buffers.front(), {1, 1, shape[2], shape[3]}, true);
  return torch::masked_fill(eager, scores, seen);
}

/// Scores before the mask. `frame` gets those of BLOOM, which have a name.
Tensor scores_of(Eager& eager, const Model& model, const EagerHeads& heads, const Tensor& alibi,
                 std::vector<Tensor>& frame) {
  const ModelSpec& spec = *model.spec;
  const EagerScores form = modeling_of(spec, *model.plan).scores;
  if (form == EagerScores::kBiased) {
    frame.push_back(torch::biased_scores(eager, alibi, heads.q, heads.k));
    return frame.back();
  }
  const Shape& q = heads.q.shape();
  const Shape shape{q[0], q[1], q[2], heads.k.shape()[2]};
  if (form == EagerScores::kInPlace) {
    const Tensor scores = torch::batched_matmul(eager, heads.q, heads.k, shape);
    return torch::scale_in_place(eager, scores);
  }
  if (form == EagerScores::kWhere) {
    return chosen_scores(eager, model, heads, frame);
  }
  Tensor scores = torch::batched_matmul(eager, heads.q, heads.k, shape);
  Tensor scaled = torch::scale(eager, scores);
  scores.reset();
  if (spec.attention_softcap > 0) {
    scaled = torch::scale(eager, scaled);
    scaled = torch::tanh(eager, scaled);
    scaled = torch::scale(eager, scaled);
  }
  return scaled;
}

/// The type in which a softmax without `dtype` runs: fp32 under autocast.
DType plain_softmax_type(const Eager& eager, const Tensor& scores) {
  return eager.autocast() ? DType::kFp32 : scores.dtype();
}

/// The softmax of masked scores; its result is assigned to their name.
Tensor weights_of(Eager& eager, EagerScores form, Tensor& masked, DType dtype) {
  switch (form) {
    case EagerScores::kNarrow:
    case EagerScores::kWhere:
      masked = torch::softmax_last(eager, masked, plain_softmax_type(eager, masked));
      return torch::to(eager, masked, dtype);
    case EagerScores::kPlain:
    case EagerScores::kNamed:
      return torch::softmax_last(eager, masked, plain_softmax_type(eager, masked));
    case EagerScores::kInPlace:
      return torch::softmax_last(eager, masked, dtype);
    case EagerScores::kWide:
    case EagerScores::kMaskedInPlace:
    case EagerScores::kBiased:
      break;
  }
  const Tensor wide = torch::softmax_last(eager, masked, DType::kFp32);
  return torch::to(eager, wide, dtype);
}

/// Softmax attention in Python: scores, mask, softmax, product.
AttentionOutput eager_attention(Eager& eager, const Model& model, const AttentionInput& input,
                                std::vector<Tensor>& frame) {
  const EagerScores form = modeling_of(*model.spec, *model.plan).scores;
  const EagerHeads heads = eager_heads(eager, input, form);
  if (form == EagerScores::kBiased) {
    frame.insert(frame.end(), {heads.q, heads.k, heads.v});
  }
  Tensor scores = scores_of(eager, model, heads, input.alibi, frame);
  if (input.bias.defined()) {
    scores = torch::add(eager, scores, input.bias);
  }
  Tensor masked = scores;
  if (input.mask.defined() && form == EagerScores::kMaskedInPlace) {
    torch::launch(eager, {&scores, &input.mask, &scores});
  } else if (input.mask.defined()) {
    masked = torch::add_constant(eager, scores, input.mask);
  }
  if (form == EagerScores::kBiased || form == EagerScores::kNamed) {
    frame.push_back(masked);
  }
  if (form != EagerScores::kInPlace) {
    scores.reset();  // The masked scores are assigned to this name.
  }
  Tensor weights = weights_of(eager, form, masked, input.q.dtype());
  masked.reset();
  scores.reset();
  weights = torch::dropout(eager, weights, input.dropout);
  const Shape& q = heads.q.shape();
  Tensor output =
      torch::batched_matmul(eager, weights, heads.v, {q[0], q[1], q[2], heads.v.shape()[3]});
  Tensor merged = torch::merge_heads(eager, output);
  output.reset();
  return {std::move(merged), std::move(weights)};
}

/// The bias of relative positions as sdpa's mask, combined with the causal mask.
/// Source: integrations/sdpa_attention.py, create_position_bias_mask.
Tensor position_bias_mask(Eager& eager, const AttentionInput& input) {
  if (!input.causal) {
    return input.bias;
  }
  const std::int64_t queries = input.q.shape()[2];
  const std::int64_t keys = input.k.shape()[2];
  Tensor allowed;
  {
    const Tensor rows = eager.empty({queries}, DType::kInt64);
    const Tensor columns = eager.empty({keys}, DType::kInt64);
    allowed = eager.empty({1, 1, queries, keys}, DType::kBool);
  }
  return torch::masked_bias(eager, allowed, input.bias);
}

Tensor sdpa_attention(Eager& eager, const Model& model, const AttentionInput& input) {
  const LibraryTraits library = library_traits(*model.spec, *model.plan);
  torch::SdpaOptions options;
  options.dropout = input.dropout;
  options.causal = input.causal && !input.mask.defined() && !input.bias.defined();
  if (input.bias.defined()) {
    options.mask = position_bias_mask(eager, input);
  } else if (input.mask.defined()) {
    options.mask = input.mask;
  }
  // Falcon's own call repeats no heads; transformers repeats them if there is a mask.
  options.broadcast = modeling_of(*model.spec, *model.plan).scores == EagerScores::kInPlace;
  // Releases before 5.0 are older than PyTorch's preference for cuDNN (2.10).
  options.cudnn = model.plan->attention == AttentionKind::kSdpa &&
                  !model.plan->runtime_version.starts_with("4.");
  const std::int64_t groups = input.q.shape()[1] / input.k.shape()[1];
  Tensor query = input.q;
  Tensor keys = input.k;
  Tensor values = input.v;
  const bool own = library.attention_classes;  // They have already repeated the heads.
  if (!own && ((options.mask && !options.broadcast) || library.repeats_heads)) {
    keys = torch::repeat_heads(eager, keys, groups);
    values = torch::repeat_heads(eager, values, groups);
  }
  if (own ? options.mask.has_value() : library.contiguous_heads) {
    query = torch::contiguous(eager, query);
    keys = torch::contiguous(eager, keys);
    values = torch::contiguous(eager, values);
  }
  const Tensor output = torch::sdpa(eager, query, keys, values, options);
  return torch::merge_heads(eager, output);
}

/// Checks whether positions restart within a sequence, as in packed batches. Every layer of a
/// decoder runs the check. For a batch of one, the host reads the result, which lives as long as
/// the returned tensor.
///     rising = torch.arange(S) + position_ids.min()
///     batch_size == 1 and (rising - position_ids).abs().sum().bool()
/// Source: modeling_flash_attention_utils.py, _is_packed_sequence.
Tensor check_positions(Eager& eager, const Shape& heads) {
  const auto temporary = [&](const Shape& shape, DType dtype) {
    return torch::computed(eager, shape, dtype, TensorRole::kTemporary);
  };
  Tensor rising;
  {
    const Tensor range = temporary({heads[2]}, DType::kInt64);
    const Tensor first = temporary({}, DType::kInt64);
    rising = temporary({heads[2]}, DType::kInt64);
  }
  if (heads[0] > 1) {
    return {};
  }
  Tensor steps = temporary({1, heads[2]}, DType::kInt64);
  steps = temporary({1, heads[2]}, DType::kInt64);  // abs()
  const Tensor sum = temporary({}, DType::kInt64);
  steps.reset();
  return temporary({}, DType::kBool);
}

/// The 16-bit type to which tensors are cast that the rotation or an fp32 norm left in fp32:
/// autocast's type, otherwise the weights' (a quantised model's configuration names it; bf16 if the
/// rest is fp32).
/// Source: integrations/flash_attention.py, get_target_dtype.
DType flash_type(const Eager& eager, const Model& model) {
  if (eager.autocast()) {
    return *eager.autocast();
  }
  const DType weights = param_dtype(model.plan->precision);
  return weights == DType::kFp32 ? DType::kBf16 : weights;
}

/// The package flash-attn: values are as wide as queries; inputs have 16 bits.
/// Source: integrations/flash_attention.py, flash_attention_forward.
Tensor flash_attention(Eager& eager, const Model& model, const AttentionInput& input) {
  Tensor output;
  {
    Tensor values = torch::pad_rows(eager, input.v, input.q.shape()[3], torch::Layout::kSwapped);
    Tensor query = input.q;
    Tensor keys = input.k;
    if (query.dtype() == DType::kFp32) {
      const DType narrow = flash_type(eager, model);
      query = torch::to(eager, query, narrow);
      keys = torch::to(eager, keys, narrow);
      values = torch::to(eager, values, narrow);
    }
    const Tensor packed = input.causal ? check_positions(eager, query.shape()) : Tensor{};
    output = torch::flash_package(eager, query, keys, values,
                                  {.dropout = input.dropout, .causal = input.causal});
    output = torch::cut_rows(eager, output, input.v.shape()[3]);
  }
  return torch::merge_heads(eager, output);
}

/// Probabilities of keys and sink. The caller has a name for the shifted logits.
struct SinkSoftmax {
  Tensor shifted;
  Tensor probabilities;
};

SinkSoftmax softmax_with_sinks(Eager& eager, const Tensor& scores, const Tensor& sinks) {
  Tensor combined = torch::append_sinks(eager, scores, sinks);
  {
    Tensor largest = torch::max_last(eager, combined);
    Tensor shifted = torch::sub(eager, combined, largest);
    largest.reset();
    combined = std::move(shifted);
  }
  Tensor probabilities = torch::softmax_last(eager, combined, combined.dtype());
  return {std::move(combined), std::move(probabilities)};
}

Tensor rotate_half_tables(Eager& eager, const Tensor& x, const RopeTable& table) {
  const auto [first, second] = torch::chunk_last(eager, x);
  const auto products = [&](const Tensor& left, const Tensor& right, bool difference) {
    const Tensor a = torch::mul(eager, left, table.cos);
    const Tensor b = torch::mul(eager, right, table.sin);
    return difference ? torch::sub(eager, a, b) : torch::add(eager, a, b);
  };
  const Tensor low = products(first, second, true);
  const Tensor high = products(second, first, false);
  return torch::cat_last(eager, low, high);
}

/// gpt-oss's eager attention: a learned logit per head is appended to the scores before the softmax
/// and dropped after it. Requires `input.sinks` and, for causality, a mask.
/// Source: huggingface/transformers 5.17 modeling_gpt_oss.py, eager_attention_forward.
AttentionOutput attend_with_sinks(Eager& eager, const AttentionInput& input) {
  const torch::Shape& q = input.q.shape();
  const std::int64_t groups = q[1] / input.k.shape()[1];
  Tensor keys = torch::repeat_heads(eager, input.k, groups);
  Tensor values = torch::repeat_heads(eager, input.v, groups);
  Tensor scores = torch::batched_matmul(eager, input.q, keys, {q[0], q[1], q[2], keys.shape()[2]});
  Tensor weights = torch::scale(eager, scores);
  scores.reset();
  if (input.mask.defined()) {
    weights = torch::add_constant(eager, weights, input.mask);
  }
  const SinkSoftmax softmax = softmax_with_sinks(eager, weights, input.sinks);
  {
    const Tensor kept = torch::slice_last(eager, softmax.probabilities, keys.shape()[2]);
    const Tensor dropped = torch::dropout(eager, kept, input.dropout);
    weights = input.casts_weights ? torch::to(eager, dropped, values.dtype()) : dropped;
  }
  Tensor output =
      torch::batched_matmul(eager, weights, values, {q[0], q[1], q[2], values.shape()[3]});
  Tensor merged = torch::merge_heads(eager, output);
  output.reset();
  keys.reset();
  values.reset();
  return {std::move(merged), std::move(weights)};
}

/// Rotary position embedding with tables of half a head: each half of a head is multiplied by both
/// tables. Source: modeling_gpt_oss.py, apply_rotary_pos_emb.
QueryKey rotate_halves(Eager& eager, const QueryKey& heads, const RopeTable& table) {
  Tensor q = rotate_half_tables(eager, heads.q, table);
  return {std::move(q), rotate_half_tables(eager, heads.k, table)};
}

}  // namespace

Tensor split(Eager& eager, const Tensor& input, std::int64_t head_dim) {
  return input.shape().rank() == 4 ? input
                                   : torch::split_heads(eager, input, input.shape()[2] / head_dim);
}

Tensor rotate(Eager& eager, const Tensor& x, const Tensor& cos, const Tensor& sin) {
  Tensor left = torch::mul(eager, x, cos);
  Tensor turned = rotate_half(eager, x);
  Tensor right = torch::mul(eager, turned, sin);
  turned.reset();
  return torch::add(eager, left, right);
}

QueryKey apply_rope(Eager& eager, const ModelSpec& spec, const QueryKey& heads,
                    const RopeTable& table, std::vector<Tensor>& frame) {
  const Modeling modeling = modeling_of(spec.family);
  const bool partial = table.cos.shape()[-1] != heads.q.shape()[-1];
  switch (modeling.rope) {
    case RopeForm::kNamed:
      return rotate_named(eager, heads, table, frame);
    case RopeForm::kEach:
      return rotate_each(eager, heads, table);
    case RopeForm::kWidened:
    case RopeForm::kPromoted:
      return rotate_wide(eager, heads, table, modeling.rope == RopeForm::kWidened);
    case RopeForm::kSliced:
      return rotate_parts(eager, heads, modeling.repeats_table ? repeated(eager, table) : table);
    case RopeForm::kHalfTables:
      return rotate_halves(eager, heads, table);
    case RopeForm::kComplex:
    case RopeForm::kWhole:
      break;
  }
  if (partial) {
    return rotate_parts(eager, heads, table);
  }
  Tensor q = rotate(eager, heads.q, table.cos, table.sin);
  return {std::move(q), rotate(eager, heads.k, table.cos, table.sin)};
}

AttentionOutput attention(Eager& eager, const Model& model, const AttentionInput& input,
                          std::vector<Tensor>& frame) {
  const ModelSpec& spec = *model.spec;
  if (input.sinks.defined()) {
    return attend_with_sinks(eager, input);
  }
  if (runs_eager(spec, *model.plan)) {
    return eager_attention(eager, model, input, frame);
  }
  if (model.plan->attention == AttentionKind::kFlash) {
    return {flash_attention(eager, model, input), {}};
  }
  return {sdpa_attention(eager, model, input), {}};
}

}  // namespace headroom::ir::transformers
