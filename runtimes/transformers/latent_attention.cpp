#include "runtimes/transformers/latent_attention.h"

#include <array>
#include <cstdint>
#include <utility>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/functions_latent.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/transformers/modeling.h"
#include "runtimes/transformers/norm.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Layout;
using torch::Shape;
using torch::Tensor;

namespace {

/// Two parts of the last dim of heads with memory order [B, S, A, D].
std::array<Tensor, 2> cut_heads(Eager& eager, const Tensor& heads, std::int64_t first) {
  const std::array<std::int64_t, 2> sizes = {first, heads.shape()[-1] - first};
  std::vector<Tensor> parts = torch::split_last(eager, heads, sizes);
  for (Tensor& part : parts) {
    part->layout = heads->layout;
  }
  return {std::move(parts[0]), std::move(parts[1])};
}

/// Even and odd elements of the last dim.
struct Pairs {
  Pairs(Eager& eager, const Tensor& x)
      : even(torch::slice_last(eager, x, x.shape()[-1] / 2)),
        odd(torch::slice_last(eager, x, x.shape()[-1] / 2)) {}
  Tensor even, odd;
};

/// cat(even * cos - odd * sin, odd * cos + even * sin)
Tensor rotate_pairs(Eager& eager, const Pairs& x, const RopeTable& table) {
  const auto products = [&](const Tensor& left, const Tensor& right, bool difference) {
    const Tensor a = torch::mul(eager, left, table.cos);
    const Tensor b = torch::mul(eager, right, table.sin);
    return difference ? torch::sub(eager, a, b) : torch::add(eager, a, b);
  };
  const Tensor first = products(x.even, x.odd, true);
  const Tensor second = products(x.odd, x.even, false);
  return torch::cat_last(eager, first, second);
}

/// Both halves of the tables have the same angles.
RopeTable half_table(Eager& eager, const RopeTable& table) {
  const Shape half = table.cos.shape().with(-1, table.cos.shape()[-1] / 2);
  return {eager.alias(table.cos, half, false), eager.alias(table.sin, half, false)};
}

QueryKey rotate_interleaved(Eager& eager, const QueryKey& heads, const RopeTable& table) {
  const RopeTable half = half_table(eager, table);
  const Pairs q(eager, heads.q);
  const Pairs k(eager, heads.k);
  Tensor q_turned = rotate_pairs(eager, q, half);
  return {std::move(q_turned), rotate_pairs(eager, k, half)};
}

QueryKey rotate_complex(Eager& eager, const QueryKey& heads, const Tensor& table) {
  const DType dtype = heads.q.dtype();
  Tensor q = torch::to(eager, heads.q, DType::kFp32);
  Tensor k = torch::to(eager, heads.k, DType::kFp32);
  const auto turn = [&](const Tensor& x) {
    const Tensor product = torch::complex_mul(eager, x, table);
    return torch::to(eager, product, dtype);
  };
  QueryKey turned;
  turned.q = turn(q);
  turned.k = turn(k);
  q.reset();
  k.reset();
  return turned;
}

/// x.view(..., d / 2, 2).transpose(4, 3).reshape(...): halves of the even and of the odd elements.
Tensor separate_pairs(Eager& eager, const Tensor& x) {
  torch::Record record(eager, {&x});
  Tensor separated = torch::computed(eager, x.shape(), x.dtype(), {&x});
  record.finish(separated, [](Eager& e, torch::Gradients& grads, torch::Node&) -> torch::Gradients {
    return {torch::computed(e, grads[0].shape(), grads[0].dtype(), {&grads[0]})};
  });
  return separated;
}

/// Rotates interleaved heads as 4.x does: as a whole, after their pairs have been separated.
QueryKey rotate_separated(Eager& eager, const QueryKey& heads, const RopeTable& table) {
  Tensor q = separate_pairs(eager, heads.q);
  Tensor k = separate_pairs(eager, heads.k);
  Tensor q_turned = rotate(eager, q, table.cos, table.sin);
  Tensor k_turned = rotate(eager, k, table.cos, table.sin);
  q.reset();
  k.reset();
  return {std::move(q_turned), std::move(k_turned)};
}

QueryKey rotate_heads(Eager& eager, const Model& model, const QueryKey& heads,
                      const RopeTable& table) {
  const Modeling modeling = modeling_of(*model.spec, *model.plan);
  if (modeling.rope == RopeForm::kComplex) {
    return rotate_complex(eager, heads, table.cos);
  }
  if (model.spec->rope_interleaved) {
    return modeling.expands_first ? rotate_separated(eager, heads, table)
                                  : rotate_interleaved(eager, heads, table);
  }
  Tensor q = rotate(eager, heads.q, table.cos, table.sin);
  return {std::move(q), rotate(eager, heads.k, table.cos, table.sin)};
}

}  // namespace

LatentFrame cut_query(Eager& eager, const ModelSpec& spec, const Tensor& projected) {
  LatentFrame frame;
  frame.query = torch::split_heads(eager, projected, spec.heads);
  auto parts = cut_heads(eager, frame.query, spec.latent->nope_dim);
  frame.query_nope = std::move(parts[0]);
  frame.query_rope = std::move(parts[1]);
  return frame;
}

Tensor cut_compressed(Eager& eager, const LatentAttention& latent, const Tensor& compressed,
                      LatentFrame& frame) {
  const Shape& shape = compressed.shape();
  const std::array<std::int64_t, 2> sizes = {latent.kv_rank, latent.rope_dim};
  std::vector<Tensor> parts = torch::split_last(eager, compressed, sizes);
  frame.key_rope = torch::view(eager, parts[1], {shape[0], 1, shape[1], latent.rope_dim});
  return std::move(parts[0]);
}

void rotate_latent(Eager& eager, const Model& model, const RopeTable& table, LatentFrame& frame) {
  QueryKey turned = rotate_heads(eager, model, {frame.query_rope, frame.key_rope}, table);
  frame.query_rope = std::move(turned.q);
  frame.key_rope = std::move(turned.k);
}

Tensor join_query(Eager& eager, const LatentFrame& frame) {
  return torch::cat_last(eager, frame.query_nope, frame.query_rope);
}

KeyValue cut_expanded(Eager& eager, const ModelSpec& spec, const Tensor& expanded) {
  const Tensor heads = torch::split_heads(eager, expanded, spec.heads);
  auto parts = cut_heads(eager, heads, spec.latent->nope_dim);
  return {std::move(parts[0]), std::move(parts[1])};
}

KeyValue expand_latent(Eager& eager, const ModelSpec& spec, const Tensor& expanded,
                       const Tensor& key_rope) {
  KeyValue made = cut_expanded(eager, spec, expanded);
  const Tensor everywhere = torch::expand_heads(eager, key_rope, spec.heads);
  made.key = torch::copy_side_by_side(eager, made.key, everywhere);
  return made;
}

Tensor complex_rope_table(Eager& eager, std::int64_t dim, std::int64_t sequence) {
  const auto temporary = [&](const Shape& shape) {
    return eager.empty(shape, DType::kFp32, TensorRole::kTemporary);
  };
  const auto made = [&](const Shape& shape) {
    return torch::computed(eager, shape, DType::kFp32, TensorRole::kTemporary);
  };
  Tensor positions = made({1, 1, sequence});
  Tensor angles = temporary({1, dim / 2, sequence});
  eager.touch_cublas();
  eager.run(GemmShape{
      .m = dim / 2, .n = sequence, .k = 1, .dtype = DType::kFp32, .layout = GemmLayout::kNN});
  Tensor ones = made({1, sequence, dim / 2});
  Tensor polar = made({1, sequence, dim});
  ones.reset();
  Tensor scaled = made({1, sequence, dim});
  polar.reset();
  positions.reset();
  angles.reset();
  return scaled;
}

}  // namespace headroom::ir::transformers
