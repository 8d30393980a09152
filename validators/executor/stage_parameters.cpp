// The parameters of a rank: Megatron-LM's division of a layer (Shoeybi et al. 2019,
// arXiv:1909.08053, section 3), for attention, MLP, experts, embedding and head.

#include "validators/executor/stage.h"

#include <string>
#include <utility>

namespace headroom::exec {
namespace {

/// Spread of the random parameters. Source: GPT-2's initializer_range, which Llama has, too.
constexpr double kDeviation = 0.02;

}  // namespace

/// The parameters of a unit, while they are collected.
struct Stage::Names {
  std::vector<ParameterShape> shapes;
  std::int64_t ranks = 1;
  std::int64_t rank = 0;
  /// Ranks see only their own tokens where parameters are not divided.
  bool shares_tokens = false;

  std::size_t add(ParameterShape shape) {
    shapes.push_back(std::move(shape));
    return shapes.size() - 1;
  }
  /// [rows, columns], of which a rank has the same share of rows.
  std::size_t rows(const std::string& name, std::int64_t rows, std::int64_t columns) {
    const std::int64_t own = rows / ranks;
    return add({.name = name,
                .rows = own,
                .columns = columns,
                .row_offset = own * rank,
                .whole_columns = columns,
                .deviation = kDeviation,
                .divided = true});
  }
  /// The same with a share of the columns.
  std::size_t columns(const std::string& name, std::int64_t rows, std::int64_t columns) {
    const std::int64_t own = columns / ranks;
    return add({.name = name,
                .rows = rows,
                .columns = own,
                .column_offset = own * rank,
                .whole_columns = columns,
                .deviation = kDeviation,
                .divided = true});
  }
  std::size_t vector(const std::string& name, std::int64_t elements, double mean) {
    return add({.name = name,
                .rows = 1,
                .columns = elements,
                .whole_columns = elements,
                .mean = mean,
                .deviation = kDeviation,
                .summed = shares_tokens});
  }
  /// `count` matrices below each other, of which a rank has the same rows of each.
  std::size_t expert_rows(const std::string& name, std::int64_t count, std::int64_t rows,
                          std::int64_t columns) {
    const std::int64_t own = rows / ranks;
    return add({.name = name,
                .rows = count * own,
                .columns = columns,
                .row_offset = own * rank,
                .whole_columns = columns,
                .deviation = kDeviation,
                .divided = true,
                .repeat = own,
                .whole_repeat = rows});
  }
};

/// A unit whose parameters get the numbers of `seed`.
Unit& Stage::add_unit(std::uint64_t seed) {
  units_.push_back(std::make_unique<Unit>(context_, execution_.units));
  seeds_.push_back(seed);
  return *units_.back();
}

void Stage::build_embedding() {
  const ir::ModelSpec& model = execution_.model;
  Names names;
  embedding_ = &add_unit(1);
  const std::size_t table = names.add({.name = "embedding",
                                       .rows = vocabulary_.end - vocabulary_.first,
                                       .columns = model.hidden,
                                       .row_offset = vocabulary_.first,
                                       .whole_columns = model.hidden,
                                       .deviation = kDeviation,
                                       .divided = true});
  std::size_t positions = 0;
  if (model.position == ir::PositionKind::kLearned) {
    positions =
        names.add({.name = "positions",
                   .rows = model.position_rows > 0 ? model.position_rows : model.max_positions,
                   .columns = model.hidden,
                   .whole_columns = model.hidden,
                   .deviation = kDeviation});
  }
  embedding_->define(std::move(names.shapes));
  table_ = {embedding_, table};
  if (model.position == ir::PositionKind::kLearned) {
    positions_ = {embedding_, positions};
  }
}

void Stage::add_attention(Names& names, LayerWeights& layer) {
  const ir::ModelSpec& model = execution_.model;
  const std::int64_t q = model.heads * model.head_dim;
  const std::int64_t kv = model.kv_heads * model.head_dim;
  const auto bias = [&](const char* name, std::int64_t elements) {
    return Weight{layer.unit, names.columns(name, 1, elements)};
  };
  layer.q = {layer.unit, names.rows("q", q, model.hidden)};
  layer.k = {layer.unit, names.rows("k", kv, model.hidden)};
  layer.v = {layer.unit, names.rows("v", kv, model.hidden)};
  layer.o = {layer.unit, names.columns("o", model.hidden, q)};
  if (model.qkv_bias) {
    layer.q_bias = bias("q_bias", q);
    layer.k_bias = bias("k_bias", kv);
    layer.v_bias = bias("v_bias", kv);
  }
  if (model.output_bias) {
    layer.o_bias = {layer.unit, names.vector("o_bias", model.hidden, 0)};
  }
  if (model.qk_norm == ir::QkNorm::kPerHead) {
    layer.q_norm = {layer.unit, names.vector("q_norm", model.head_dim, 1)};
    layer.k_norm = {layer.unit, names.vector("k_norm", model.head_dim, 1)};
    names.shapes[layer.q_norm.index].summed = true;
    names.shapes[layer.k_norm.index].summed = true;
  }
}

void Stage::add_mlp(Names& names, LayerWeights& layer, bool moe) {
  const ir::ModelSpec& model = execution_.model;
  const std::int64_t hidden = model.hidden;
  if (moe) {
    const std::int64_t count = model.moe->experts;
    const std::int64_t width = model.moe->expert_ffn;
    layer.router = {layer.unit, names.add({.name = "router",
                                           .rows = count,
                                           .columns = hidden,
                                           .whole_columns = hidden,
                                           .deviation = kDeviation,
                                           .summed = names.shares_tokens})};
    layer.gate = {layer.unit, names.expert_rows("gate", count, width, hidden)};
    layer.up = {layer.unit, names.expert_rows("up", count, width, hidden)};
    layer.down = {layer.unit, names.columns("down", count * hidden, width)};
    return;
  }
  const auto bias = [&](const char* name) {
    return Weight{layer.unit, names.columns(name, 1, model.ffn)};
  };
  if (model.gated_mlp) {
    layer.gate = {layer.unit, names.rows("gate", model.ffn, hidden)};
    if (model.mlp_bias) {
      layer.gate_bias = bias("gate_bias");
    }
  }
  layer.up = {layer.unit, names.rows("up", model.ffn, hidden)};
  layer.down = {layer.unit, names.columns("down", hidden, model.ffn)};
  if (model.mlp_bias) {
    layer.up_bias = bias("up_bias");
    layer.down_bias = {layer.unit, names.vector("down_bias", hidden, 0)};
  }
}

void Stage::build_layer(std::int64_t index) {
  const ir::ModelSpec& model = execution_.model;
  LayerWeights& layer = layers_[static_cast<std::size_t>(index - range_.first)];
  layer.unit = &add_unit(3 + static_cast<std::uint64_t>(index));
  Names names{.shapes = {},
              .ranks = execution_.division.tensor,
              .rank = execution_.division.tensor_rank(),
              .shares_tokens = execution_.sequence_parallel};
  const bool centred = model.norm == ir::NormKind::kLayer;
  const std::size_t norm1 = names.vector("norm1", model.hidden, 1);
  const std::size_t norm2 = names.vector("norm2", model.hidden, 1);
  const std::size_t bias1 = centred ? names.vector("norm1_bias", model.hidden, 0) : 0;
  const std::size_t bias2 = centred ? names.vector("norm2_bias", model.hidden, 0) : 0;
  add_attention(names, layer);
  add_mlp(names, layer, model.layers[static_cast<std::size_t>(index)].moe);
  layer.unit->define(std::move(names.shapes));
  layer.norm1 = {layer.unit, norm1};
  layer.norm2 = {layer.unit, norm2};
  if (centred) {
    layer.bias1 = {layer.unit, bias1};
    layer.bias2 = {layer.unit, bias2};
  }
}

void Stage::build_head() {
  const ir::ModelSpec& model = execution_.model;
  Names names{.shapes = {}, .shares_tokens = execution_.sequence_parallel};
  const bool centred = model.norm == ir::NormKind::kLayer;
  const std::size_t scale = names.vector("final_norm", model.hidden, 1);
  const std::size_t shift = centred ? names.vector("final_norm_bias", model.hidden, 0) : 0;
  std::size_t output = 0;
  if (!model.tied_embeddings) {
    output = names.add({.name = "head",
                        .rows = vocabulary_.end - vocabulary_.first,
                        .columns = model.hidden,
                        .row_offset = vocabulary_.first,
                        .whole_columns = model.hidden,
                        .deviation = kDeviation,
                        .divided = true});
  }
  head_ = &add_unit(2);
  head_->define(std::move(names.shapes));
  final_norm_ = {head_, scale};
  if (centred) {
    final_bias_ = {head_, shift};
  }
  output_ = model.tied_embeddings ? table_ : Weight{head_, output};
}

}  // namespace headroom::exec
