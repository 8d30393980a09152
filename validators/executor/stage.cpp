#include "validators/executor/stage.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model_ir/base/check.h"

namespace headroom::exec {
namespace {

HeadroomActivation activation_of(ir::Activation activation) {
  return static_cast<HeadroomActivation>(activation);
}

/// `drop_entered` for the input of a layer's linear operators. In 8 bits they keep copies of their
/// own, so that nobody needs the gathered rows in backward.
void drop_input(Tape& tape, Var& input, const Var& x) {
  if (tape.context().types.fp8_products) {
    input.tensor = {};
  } else {
    drop_entered(tape, input, x);
  }
}

}  // namespace

LayerRange layers_of_stage(std::int64_t layers, int stages, int stage) {
  const std::int64_t even = layers / stages;
  const std::int64_t more = layers % stages;
  const std::int64_t first = even * stage + std::min<std::int64_t>(more, stage);
  return {.first = first, .end = first + even + (stage < more ? 1 : 0)};
}

Stage::Stage(Context& context, const Execution& execution)
    : context_(context), execution_(execution) {
  const ir::ModelSpec& model = execution.model;
  range_ = layers_of_stage(static_cast<std::int64_t>(model.layers.size()),
                           execution.division.pipeline, execution.division.stage());
  const std::int64_t rows = ceil_div(model.vocabulary, execution.division.tensor);
  vocabulary_.first = rows * execution.division.tensor_rank();
  vocabulary_.end = std::min(model.vocabulary, vocabulary_.first + rows);
  const bool centred = model.norm == ir::NormKind::kLayer;
  // Epsilon as in the configurations of Llama and GPT-2.
  norm_ = {.kind = centred ? HEADROOM_LAYER_NORM : HEADROOM_RMS_NORM, .epsilon = 1e-5};
  if (is_first()) {
    build_embedding();
  }
  layers_.resize(static_cast<std::size_t>(range_.end - range_.first));
  for (std::int64_t index = range_.first; index < range_.end; ++index) {
    build_layer(index);
  }
  if (is_last()) {
    build_head();
  }
}

void Stage::load(CopyStream* copies) {
  for (std::size_t index = 0; index < units_.size(); ++index) {
    context_.begin("load");
    units_[index]->load(execution_.seed * 7919 + seeds_[index] * 104729, copies);
  }
  const ir::ModelSpec& model = execution_.model;
  if (model.position == ir::PositionKind::kRope) {
    const auto pairs =
        static_cast<std::int64_t>(model.rope_fraction * static_cast<double>(model.head_dim) / 2);
    const ir::DType type = context_.types.stat();
    context_.begin("rope_table");
    rope_ = {.table = context_.make(execution_.sequence, 2 * pairs, type, ir::TensorRole::kBuffer),
             .rotated = 2 * pairs,
             .interleaved = model.rope_interleaved};
    // Base of the angles as in Su et al. 2021, arXiv:2104.09864, section 3.2.2.
    constexpr double kTheta = 10000;
    context_.device.run(&HeadroomDeviceTable::rope_table, kComputeStream, rope_.table.data(),
                        code_of(type), execution_.sequence, rope_.rotated, kTheta);
  }
}

// --- Forward ------------------------------------------------------------------------------------

Var Stage::embed(Tape& tape, const Tensor& tokens) {
  embedding_->acquire();
  mark(tape, [unit = embedding_] { unit->end_backward(); });
  Var x = leave_tensor_ranks(tape, embedding(tape, tokens, table_, vocabulary_.first));
  if (!positions_.empty()) {
    x = add_positions(tape, x, positions_, execution_.sequence);
  }
  mark(tape, [unit = embedding_] { unit->begin_backward(); });
  embedding_->release();
  return x;
}

Var Stage::attention(Tape& tape, const Var& x, const LayerWeights& layer, std::int64_t index) {
  const ir::ModelSpec& model = execution_.model;
  const int ranks = execution_.division.tensor;
  const AttentionSizes sizes{
      .batch = execution_.micro_batch,
      .sequence = execution_.sequence,
      .heads = model.heads / ranks,
      .kv_heads = model.kv_heads / ranks,
      .head_dim = model.head_dim,
      .window = model.layers[static_cast<std::size_t>(index)].window.value_or(0),
      .scale = model.attention_scale != 0 ? model.attention_scale
                                          : 1 / std::sqrt(static_cast<double>(model.head_dim))};
  Var input = enter_tensor_ranks(tape, x);
  Quantised read = quantise_input(tape, input);
  Var q = linear(tape, input, read, layer.q, layer.q_bias);
  Var k = linear(tape, input, read, layer.k, layer.k_bias);
  Var v = linear(tape, input, read, layer.v, layer.v_bias);
  read = {};
  drop_input(tape, input, x);
  if (!layer.q_norm.empty()) {
    q = norm(tape, norm_, q, layer.q_norm, {});
    k = norm(tape, norm_, k, layer.k_norm, {});
  }
  if (model.position == ir::PositionKind::kRope) {
    q = rope(tape, rope_, q, sizes.sequence, sizes.head_dim);
    k = rope(tape, rope_, k, sizes.sequence, sizes.head_dim);
  }
  const auto core = [sizes, flash = execution_.flash](Tape& t, const std::vector<Var>& in) {
    return flash ? flash_attention(t, sizes, in[0], in[1], in[2])
                 : eager_attention(t, sizes, in[0], in[1], in[2]);
  };
  const bool again = execution_.layers[static_cast<std::size_t>(index)].attention;
  Var out = again ? recompute(tape, {q, k, v}, core) : core(tape, {q, k, v});
  q.tensor = {};
  k.tensor = {};
  v.tensor = {};
  out = project(tape, out, layer.o, {});
  return add_bias(tape, leave_tensor_ranks(tape, out), layer.o_bias);
}

Var Stage::mlp(Tape& tape, const Var& x, const LayerWeights& layer, std::int64_t index) {
  const ir::ModelSpec& model = execution_.model;
  const HeadroomActivation function = activation_of(model.activation);
  if (model.layers[static_cast<std::size_t>(index)].moe) {
    const ExpertSpec spec{.experts = model.moe->experts,
                          .top_k = model.moe->top_k,
                          .normalise = model.moe->normalise_top_k,
                          .activation = function};
    return experts(tape, spec,
                   {.router = layer.router, .gate = layer.gate, .up = layer.up, .down = layer.down},
                   x);
  }
  Var input = enter_tensor_ranks(tape, x);
  Quantised read = quantise_input(tape, input);
  Var hidden;
  if (model.gated_mlp) {
    Var gate = linear(tape, input, read, layer.gate, layer.gate_bias);
    const Var up = linear(tape, input, read, layer.up, layer.up_bias);
    hidden = gated(tape, gate, up, function);
  } else {
    hidden = activation(tape, linear(tape, input, read, layer.up, layer.up_bias), function);
  }
  read = {};
  drop_input(tape, input, x);
  const Var out = project(tape, hidden, layer.down, {});
  hidden.tensor = {};
  return add_bias(tape, leave_tensor_ranks(tape, out), layer.down_bias);
}

Var Stage::layer_body(Tape& tape, const Var& x, std::int64_t index) {
  const LayerWeights& layer = layer_at(index);
  const Var attended =
      add(tape, x, attention(tape, norm(tape, norm_, x, layer.norm1, layer.bias1), layer, index));
  const Var normed = norm(tape, norm_, attended, layer.norm2, layer.bias2);
  if (execution_.layers[static_cast<std::size_t>(index)].mlp) {
    const auto body = [this, index](Tape& t, const std::vector<Var>& in) {
      return mlp(t, in[0], layer_at(index), index);
    };
    return add(tape, attended, recompute(tape, {normed}, body));
  }
  return add(tape, attended, mlp(tape, normed, layer, index));
}

Var Stage::run_layer(Tape& tape, const Var& x, std::int64_t index) {
  Unit& unit = *layer_at(index).unit;
  context_.layer = static_cast<int>(index);
  unit.acquire();
  mark(tape, [&unit] { unit.end_backward(); });
  Var out;
  if (execution_.layers[static_cast<std::size_t>(index)].layer) {
    out = recompute(tape, {x}, [this, index](Tape& t, const std::vector<Var>& in) {
      return layer_body(t, in[0], index);
    });
  } else {
    out = layer_body(tape, x, index);
  }
  mark(tape, [&unit] { unit.begin_backward(); });
  unit.release();
  context_.layer = -1;
  return out;
}

void Stage::head(Tape& tape, const LossSpec& loss, const Var& x) {
  const bool is_tied = embedding_ == output_.unit;
  std::vector<Unit*> units{head_};
  if (is_tied) {
    units.push_back(embedding_);
  }
  for (Unit* const unit : units) {
    unit->acquire();
    mark(tape, [unit] { unit->end_backward(); });
  }
  Var normed = x;
  if (!final_norm_.empty()) {
    normed = norm(tape, norm_, x, final_norm_, final_bias_);
  }
  Var entered = enter_tensor_ranks(tape, normed);
  if (execution_.chunked_loss) {
    chunked_loss(tape, loss, entered, output_, execution_.model.vocabulary);
  } else {
    full_loss(tape, loss, entered, output_);
  }
  drop_entered(tape, entered, normed);
  for (Unit* const unit : units) {
    mark(tape, [unit] { unit->begin_backward(); });
    unit->release();
  }
}

Var Stage::forward(Tape& tape, const Batch& batch, const Var& input,
                   ActivationOffload::Pass* pass) {
  Var x = is_first() ? embed(tape, batch.tokens) : input;
  for (std::int64_t index = range_.first; index < range_.end; ++index) {
    const std::size_t begin = tape.size();
    x = run_layer(tape, x, index);
    if (offload_ != nullptr) {
      const auto number = static_cast<std::size_t>(index - range_.first);
      if (index + 1 < range_.end) {
        offload_->leave(*pass, tape.saved_since(begin));
      } else {
        offload_->settle(*pass);
      }
      mark(tape, [this, pass, number] { offload_->enter(*pass, number); });
    }
  }
  if (is_last()) {
    head(tape, batch.loss, x);
    return {};
  }
  return x;
}

}  // namespace headroom::exec
