#include "runtimes/transformers/interpreter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/torch/checkpoint.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/transformers/adapter.h"
#include "runtimes/transformers/attention.h"
#include "runtimes/transformers/kv_cache.h"
#include "runtimes/transformers/liger.h"
#include "runtimes/transformers/modeling.h"
#include "runtimes/transformers/norm.h"

namespace headroom::ir::transformers {

using torch::Shape;
using torch::Tensor;

namespace {

/// Operators with parameters whose modules are hooked as a whole: their tensors are unchanged.
bool is_hooked_whole(const ModelSpec& spec, const Op& op) {
  return op.kind == OpKind::kAttention && spec.attention_sinks;
}

/// A module's rows of positions or token types. The model itself adds them to the tokens' rows: if
/// the table is frozen, the module gets no gradient.
Tensor table_rows(torch::Eager& eager, const Model& model, const Op& op, const Tensor& ids) {
  return call_module(model.hooks, module_of(op), ids, [&](const Tensor& given) {
    return torch::embedding(eager, parameter_of(model, op, 0), given);
  });
}

}  // namespace

Interpreter::Interpreter(torch::Eager& eager, Model& model)
    : eager_(eager),
      model_(model),
      modeling_(modeling_of(*model.spec, *model.plan)),
      library_(library_traits(*model.spec, *model.plan)),
      values_(model.graph->tensor_count()),
      producers_(model.graph->tensor_count()),
      entered_(model.graph->tensor_count(), false) {}

const Tensor& Interpreter::value(const Op& op, std::size_t index) const {
  const Tensor& tensor = values_[index_of(op.inputs.at(index))];
  HEADROOM_ASSERT(tensor.defined());
  return tensor;
}

Tensor Interpreter::parameter(const Op& op, std::size_t index) const {
  return parameter_of(model_, op, index);
}

void Interpreter::leave_module() {
  rows_.reset();
  block_names_.clear();
  // The module's own names first, then those that its caller held for it.
  for (std::vector<TensorId>* names : {&locals_, &arguments_}) {
    for (const TensorId id : *names) {
      values_[index_of(id)].reset();
    }
    if (names == &locals_) {
      frame_.clear();
      leave_block();
    }
    names->clear();
  }
  module_ = Module::kNone;
}

void Interpreter::enter_block(const Op& first) {
  const bool block = first.module == Module::kAttention ||
                     first.module == Module::kCrossAttention ||
                     (first.module == Module::kMlp && !modeling_.nests_modules);
  if (!block || !model_.hooks.enter) {
    return;
  }
  block_ = &first;
  const ModuleCall call{.part = ModuleCall::Part::kBlock, .layer = first.layer, .op = block_};
  if (first.module == Module::kMlp || modeling_.nests_modules || modeling_.drops_in_sum) {
    model_.hooks.enter(call, {&values_[index_of(first.inputs[0])]});
  } else {
    model_.hooks.enter(call, {});  // Attention is called with keyword arguments.
  }
}

void Interpreter::leave_block() {
  if (const Op* const first = std::exchange(block_, nullptr)) {
    const bool biased = modeling_.drops_in_sum && first->module != Module::kMlp;
    Tensor none;
    model_.hooks.leave({.part = ModuleCall::Part::kBlock, .layer = first->layer, .op = first},
                       {&values_[index_of(block_output_)],
                        !biased                                    ? &none
                        : first->module == Module::kCrossAttention ? &shared_.cross_bias
                                                                   : &shared_.position_bias});
  }
}

bool Interpreter::made_here(TensorId id, std::int32_t layer, OpKind kind) const {
  const std::optional<NodeId>& producer = producers_[index_of(id)];
  return producer && model_.graph->op(*producer).layer == layer &&
         model_.graph->op(*producer).kind == kind;
}

Interpreter::Holder Interpreter::holder_of(const Op& op, TensorId input) const {
  if (const std::optional<Holder> holder = bidirectional_holder(op, input)) {
    return *holder;
  }
  const bool in_module = op.module != Module::kNone && op.module != Module::kHead;
  if (in_module && entered_[index_of(input)]) {
    if (modeling_.normed == NormedName::kCall || !made_here(input, op.layer, OpKind::kNorm)) {
      return Holder::kCaller;
    }
    const Op& norm = model_.graph->op(*producers_[index_of(input)]);
    switch (modeling_.normed) {
      case NormedName::kAddition:
        return Holder::kAddition;
      case NormedName::kNext:
        return Holder::kNorm;
      case NormedName::kLayer:
        return Holder::kLayer;
      default:
        return norm.role == OpRole::kAttentionNorm ? Holder::kLayer : Holder::kCaller;
    }
  }
  // The fused output has a name, and so has the gate that is split from it.
  const bool last =
      modeling_.names_inputs && (op.role == OpRole::kAttentionOutput || op.role == OpRole::kDown);
  const bool gate =
      op.kind == OpKind::kActivation && made_here(input, op.layer, OpKind::kSplitGateUp);
  if (is_local(op, input) || op.kind == OpKind::kSplitQkv || gate || last) {
    return Holder::kModule;
  }
  if (op.kind == OpKind::kScale && op.layer >= 0 && op.role == OpRole::kNone) {
    return Holder::kAddition;  // residual + hidden_states * multiplier
  }
  const std::optional<NodeId>& producer = producers_[index_of(input)];
  const bool sublayer = producer && model_.graph->op(*producer).layer == op.layer &&
                        model_.graph->op(*producer).kind != OpKind::kAdd;
  return op.kind == OpKind::kAdd && op.layer >= 0 && sublayer && modeling_.names_sublayers
             ? Holder::kLayer
             : Holder::kNobody;
}

void Interpreter::drop_inputs(NodeId id) {
  const Op& op = model_.graph->op(id);
  // The value added to the residual stream is released first, because its name is assigned again.
  const bool last_first = op.kind == OpKind::kAdd;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const TensorId input = op.inputs[last_first ? op.inputs.size() - 1 - i : i];
    Tensor& value = values_[index_of(input)];
    if (model_.graph->last_reader(input) != id || !value.defined()) {
      continue;
    }
    switch (holder_of(op, input)) {
      case Holder::kNobody:
        value.reset();
        break;
      case Holder::kModule:
        locals_.push_back(input);
        break;
      case Holder::kCaller:
        arguments_.push_back(input);
        break;
      case Holder::kAddition:
        until_addition_.insert(
            is_reassigned(op, input) ? until_addition_.begin() : until_addition_.end(),
            std::move(value));
        break;
      case Holder::kNorm:
        until_norm_.push_back(std::move(value));
        break;
      case Holder::kLayer:
        layer_names_.push_back(std::move(value));
        break;
    }
  }
  if (op.kind == OpKind::kAdd && op.module == Module::kNone) {
    until_addition_.clear();
    earlier_weights_.reset();
  }
}

void Interpreter::run(NodeId first, NodeId last) {
  for (std::size_t at = index_of(first); at <= index_of(last); ++at) {
    const NodeId id{static_cast<std::uint32_t>(at)};
    const Op& op = model_.graph->op(id);
    if (modeling_.flattens_mlp && (op.role == OpRole::kMlpNorm || op.role == OpRole::kUp)) {
      flatten(op);
    }
    if (op.module != module_) {
      leave_module();
      module_ = op.module;
      for (std::size_t i = 0; module_ != Module::kNone && i < op.inputs.size(); ++i) {
        entered_[index_of(op.inputs[i])] = true;
      }
      enter_block(op);
    }
    if (modeling_.nests_modules && op.role == OpRole::kAttentionOutput) {
      frame_.clear();  // The inner module has returned.
    }
    enter_parts(id);
    eager_.set_site(name_of(op.kind), op.layer);
    if (modeling_.adds_to_scores && op.role == OpRole::kCrossAttentionNorm) {
      // query_length=cache_position[-1] + 1
      until_addition_.push_back(torch::computed(eager_, {}, DType::kInt64));
    }
    const bool whole = model_.hooks.enter && is_hooked_whole(*model_.spec, op);
    if (whole) {
      model_.hooks.enter(module_of(op), {});
    }
    run_op(id);
    if (whole) {
      model_.hooks.leave(module_of(op), {&values_[index_of(op.outputs[0])]});
    }
    block_output_ = op.outputs.empty() ? block_output_ : op.outputs[0];
    if (op.kind == OpKind::kNorm) {
      until_norm_.clear();
    }
    for (const TensorId output : op.outputs) {
      producers_[index_of(output)] = id;
    }
    drop_inputs(id);
    leave_parts(op);
    keep_finite(op);
  }
  leave_module();
}

Tensor Interpreter::run_linear(const Op& op) {
  if (modeling_.widens_down && op.role == OpRole::kDown) {
    if (model_.hooks.read) {  // T5DenseActDense reads the type of `wo`.
      model_.hooks.read({.part = ModuleCall::Part::kBlock, .layer = op.layer, .op = block_},
                        parameter(op, 0));
    }
    Tensor& input = values_[index_of(op.inputs[0])];
    input = torch::to(eager_, input, parameter(op, 0).dtype());
  }
  if (op.role == OpRole::kLatentKvUp && !modeling_.expands_first) {
    rotate_latent(eager_, model_, {shared_.cos, shared_.sin}, latent_);
    latent_query_ = join_query(eager_, latent_);
  }
  const Tensor& input = reads_rows(op) ? rows(op) : value(op, 0);
  ModuleCall call = module_of(op);
  if (!model_.adapters.contains(static_cast<std::uint32_t>(op.parameters[0]))) {
    return call_module(model_.hooks, call, input, [&](const Tensor& given) {
      return frozen_linear(eager_, model_, op, given);
    });
  }
  call.part = ModuleCall::Part::kAdapted;
  return call_module(model_.hooks, call, input, [&](const Tensor& given) {
    return adapted_linear(eager_, model_, op, given);
  });
}

Tensor Interpreter::run_embedding(const Op& op) {
  if (!model_.hooks.before) {
    return call_module(model_.hooks, module_of(op), value(op, 0), [&](const Tensor& ids) {
      Tensor rows = torch::embedding(eager_, parameter(op, 0), ids);
      // PEFT's hook that requires a gradient of the embedding runs before a wrapper's.
      rows->requires_grad |= model_.hooks.enter && model_.plan->lora && recomputes(model_);
      return rows;
    });
  }
  std::vector<Tensor> ids{value(op, 0)};
  model_.hooks.before(kEmbeddingModule, ids);
  Tensor rows = torch::embedding(eager_, parameter(op, 0), ids[0]);
  model_.hooks.after(kEmbeddingModule, {rows});
  return rows;
}

/// A scaling factor that is a buffer is cast to the type of the rows.
Tensor Interpreter::run_scale(const Op& op) {
  const Tensor& input = value(op, 0);
  const bool rows = made_here(op.inputs[0], -1, OpKind::kEmbedding);
  const bool buffered = rows && !model_.buffers.empty() && model_.buffers.front().elements() == 1;
  if (!buffered || model_.buffers.front().dtype() == input.dtype()) {
    return torch::scale(eager_, input);
  }
  return torch::mul(eager_, input, torch::to(eager_, model_.buffers.front(), input.dtype()));
}

Tensor Interpreter::run_head(const Op& op) {
  if (!model_.hooks.before) {
    return run_linear(op);
  }
  std::vector<Tensor> hidden{value(op, 0)};
  model_.hooks.before(kHeadModule, hidden);
  values_[index_of(op.inputs[0])] = std::move(hidden[0]);
  Tensor logits = run_linear(op);
  model_.hooks.after(kHeadModule, {logits});
  return logits;
}

Tensor Interpreter::run_norm(const Op& op, const Tensor& input) {
  const bool patched =
      model_.plan->liger && (op.kind != OpKind::kHeadNorm || modeling_.liger_head_norms);
  const bool in_place = op.role == OpRole::kFinalNorm ? modeling_.liger_final_in_place
                                                      : modeling_.liger_norms_in_place;
  return call_module(model_.hooks, module_of(op), input, [&](const Tensor& given) {
    return patched ? liger_rms_norm(eager_, given, parameter(op, 0), in_place)
                   : norm(eager_, op.norm, given, parameter(op, 0), parameter(op, 1));
  });
}

Tensor Interpreter::run_activation(const Op& op) {
  if (model_.plan->liger) {
    return value(op, 0);  // Part of the product's kernel.
  }
  return call_module(model_.hooks, module_of(op), value(op, 0), [&](const Tensor& given) {
    return modeling_.python_gelu ? python_gelu(eager_, given)
                                 : activation(eager_, op.activation, given);
  });
}

Tensor Interpreter::run_dropout(const Op& op) {
  const auto drop = [&](const Tensor& given) {
    return torch::dropout(eager_, given, model_.training ? op.probability : 0);
  };
  return modeling_.dropout_modules ? call_module(model_.hooks, module_of(op), value(op, 0), drop)
                                   : drop(value(op, 0));
}

Tensor Interpreter::run_head_norm(const Op& op) {
  const Tensor& input = value(op, 0);
  const Shape& shape = input.shape();
  if (model_.spec->qk_norm == QkNorm::kFull || shape.rank() == 4) {
    return run_norm(op, input);
  }
  const std::int64_t dim = model_.spec->head_dim;
  const Tensor heads = torch::view(eager_, input, {shape[0], shape[1], shape[2] / dim, dim});
  const Tensor normalised = run_norm(op, heads);
  return torch::transpose_heads(eager_, normalised);
}

/// Queries, keys and values are viewed as heads as soon as they are made, unless a norm comes
/// first.
Tensor Interpreter::as_heads(const Op& op, Tensor projected) {
  const bool projection =
      op.role == OpRole::kQuery || op.role == OpRole::kKey || op.role == OpRole::kValue;
  if (model_.spec->latent && (op.role == OpRole::kQuery || op.role == OpRole::kLatentQueryUp)) {
    latent_ = cut_query(eager_, *model_.spec, projected);
    return latent_.query;
  }
  if (!projection) {
    return projected;
  }
  const Op& reader = model_.graph->op(model_.graph->last_reader(op.outputs[0]));
  const bool later = modeling_.views == HeadViews::kLast ||
                     (modeling_.views_query_last && op.role == OpRole::kQuery) ||
                     (modeling_.views == HeadViews::kQuery && op.role != OpRole::kQuery) ||
                     (modeling_.views == HeadViews::kEach && reader.kind == OpKind::kHeadNorm);
  return later ? projected : split(eager_, projected, model_.spec->head_dim);
}

void Interpreter::flatten(const Op& op) {
  Tensor& input = values_[index_of(op.inputs[0])];
  const Shape shape = input.shape();
  if (shape.rank() == 3) {
    input = torch::view(eager_, input, {shape[0] * shape[1], shape[2]});
  }
}

bool Interpreter::adds_in_place(const Op& op) const {
  return modeling_.adds_in_place && !made_here(op.inputs[1], op.layer, OpKind::kAdd);
}

void Interpreter::run_op(NodeId id) {
  const Op& op = model_.graph->op(id);
  const auto store = [&](Tensor result) {
    values_[index_of(op.outputs.at(0))] = std::move(result);
  };
  switch (op.kind) {
    case OpKind::kEmbedding:
      return store(run_embedding(op));
    case OpKind::kPositions: {
      {
        // OPT's table begins with two rows that no position uses.
        const Tensor ids =
            model_.spec->position_rows > model_.spec->max_positions
                ? torch::computed(eager_, shared_.position_ids.shape(), DType::kInt64)
                : shared_.position_ids;
        shared_.position_rows = table_rows(eager_, model_, op, ids);
      }
      return store(modeling_.sums_in_place
                       ? torch::add_in_place(eager_, value(op, 0), shared_.position_rows)
                       : torch::add(eager_, value(op, 0), shared_.position_rows));
    }
    case OpKind::kTokenTypes:
      shared_.token_type_rows = table_rows(eager_, model_, op, shared_.token_type_ids);
      return store(torch::add(eager_, value(op, 0), shared_.token_type_rows));
    case OpKind::kNorm:
      if (op.role == OpRole::kLatentKvNorm) {
        return store(run_latent_norm(op));
      }
      return store(run_norm(op, value(op, 0)));
    case OpKind::kHeadNorm:
      return store(run_head_norm(op));
    case OpKind::kLinear:
      return store(op.role == OpRole::kHead ? run_head(op) : as_heads(op, run_linear(op)));
    case OpKind::kSplitQkv:
      return run_split_qkv(op);
    case OpKind::kRope:
      return run_rope(op);
    case OpKind::kAttention:
      return run_attention(op);
    case OpKind::kActivation:
      return store(run_activation(op));
    case OpKind::kSplitGateUp:
      return run_split_gate_up(op);
    case OpKind::kMultiply:
      return store(model_.plan->liger ? liger_gate(eager_, value(op, 0), value(op, 1),
                                                   parts_if(model_.spec->fused_gate_up))
                                      : torch::mul(eager_, value(op, 0), value(op, 1)));
    case OpKind::kAdd:
      if (value(op, 0).shape().rank() == 2) {
        const Tensor sum = torch::add(eager_, value(op, 0), value(op, 1));
        const std::int64_t batch = model_.plan->workload.micro_batch;
        return store(torch::view(eager_, sum, {batch, sum.shape()[0] / batch, sum.shape()[1]}));
      }
      return store(adds_in_place(op) ? torch::add_in_place(eager_, value(op, 1), value(op, 0))
                                     : torch::add(eager_, value(op, 0), value(op, 1)));
    case OpKind::kScale:
      return store(run_scale(op));
    case OpKind::kSoftcap: {
      Tensor logits = torch::scale(eager_, value(op, 0));
      values_[index_of(op.inputs[0])].reset();  // The name is assigned again.
      logits = torch::tanh(eager_, logits);
      return store(torch::scale(eager_, logits));
    }
    case OpKind::kDropout:
      return store(run_dropout(op));
    case OpKind::kLatentQkv:
      return run_latent_qkv(op);
    case OpKind::kRouter:
      return run_router(op);
    case OpKind::kExperts:
      return run_experts(op);
    case OpKind::kSharedGate:
      return store(run_shared_gate(op));
    case OpKind::kPool:
      return store(torch::select_token(eager_, value(op, 0)));
    case OpKind::kCrossEntropy:
    case OpKind::kSquaredError:
      break;
  }
  HEADROOM_ASSERT(false);
}

void Interpreter::run_split_qkv(const Op& op) {
  const Tensor& fused = value(op, 0);
  std::vector<Tensor> parts;
  switch (modeling_.split) {
    case QkvSplit::kOneOperator: {
      std::vector<std::int64_t> widths;
      for (const TensorId output : op.outputs) {
        widths.push_back(model_.graph->tensor(output).dims.back());
      }
      parts = torch::split_last(eager_, fused, widths);
      break;
    }
    case QkvSplit::kHeadChunks:
    case QkvSplit::kHeadSelects:
      parts = torch::split_fused_heads(eager_, fused, model_.spec->head_dim,
                                       modeling_.split == QkvSplit::kHeadChunks
                                           ? torch::FusedHeads::kChunked
                                           : torch::FusedHeads::kSelected);
      break;
    case QkvSplit::kMultiQuery:
      if (model_.spec->kv_heads == 1) {
        parts = torch::split_multi_query(eager_, fused, model_.spec->head_dim);
        break;
      }
      [[fallthrough]];
    case QkvSplit::kSlices:
      for (const TensorId output : op.outputs) {
        parts.push_back(torch::slice_last(eager_, fused, model_.graph->tensor(output).dims.back()));
      }
      break;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    values_[index_of(op.outputs[i])] = std::move(parts[i]);
  }
}

void Interpreter::run_split_gate_up(const Op& op) {
  auto [gate, up] = torch::chunk_last(eager_, value(op, 0));
  values_[index_of(op.outputs[0])] = std::move(gate);
  values_[index_of(op.outputs[1])] = std::move(up);
}

void Interpreter::run_rope(const Op& op) {
  const std::int64_t dim = model_.spec->head_dim;
  const bool local = model_.spec->local_rope &&
                     model_.spec->layers[static_cast<std::size_t>(op.layer)].window.has_value();
  const RopeTable table =
      local ? RopeTable{shared_.local_cos, shared_.local_sin} : RopeTable{shared_.cos, shared_.sin};
  const QueryKey heads{split(eager_, value(op, 0), dim), split(eager_, value(op, 1), dim)};
  if (modeling_.views == HeadViews::kLast) {
    const Op& reader = model_.graph->op(model_.graph->last_reader(op.outputs[0]));
    Tensor& value_states = values_[index_of(reader.inputs[2])];
    value_states = split(eager_, value_states, dim);
  }
  const bool kernel = model_.plan->liger && modeling_.liger_rotates;
  const LigerOperands operands = parts_if(model_.spec->qkv == QkvLayout::kFused);
  QueryKey rotated = kernel ? liger_rope(eager_, heads, table, operands)
                            : apply_rope(eager_, *model_.spec, heads, table, frame_);
  values_[index_of(op.outputs[0])] = std::move(rotated.q);
  values_[index_of(op.outputs[1])] = std::move(rotated.k);
}

void Interpreter::run_attention(const Op& op) {
  const std::int64_t dim = model_.spec->head_dim;
  AttentionInput input;
  // GPT-2 views its queries as heads last, so backward reaches them first.
  // Source: huggingface/transformers models/gpt2/modeling_gpt2.py, GPT2Attention.forward.
  const bool query_last = model_.spec->qkv == QkvLayout::kFusedConv1d || modeling_.views_query_last;
  if (!query_last) {
    input.q = split(eager_, value(op, 0), dim);
  }
  input.k = split(eager_, value(op, 1), dim);
  input.v = split(eager_, value(op, 2), dim);
  if (query_last) {
    input.q = split(eager_, value(op, 0), dim);
  }
  if (library_.attention_classes && modeling_.scores != EagerScores::kInPlace) {
    const std::int64_t groups = input.q.shape()[1] / input.k.shape()[1];
    values_[index_of(op.inputs[1])] = input.k = torch::repeat_heads(eager_, input.k, groups);
    values_[index_of(op.inputs[2])] = input.v = torch::repeat_heads(eager_, input.v, groups);
  }
  input.dropout = model_.training ? op.probability : 0;
  input.causal = op.causal;
  if (op.causal || model_.spec->architecture == Architecture::kMaskedLm) {
    input.mask = layer_mask_;
  }
  if (modeling_.adds_to_scores) {
    return run_biased_attention(op, input);
  }
  if (model_.spec->position == PositionKind::kRelativeBias) {
    input.bias = position_bias(op, input.q, input.k);
  }
  input.alibi = shared_.alibi;
  if (model_.spec->attention_sinks) {
    input.sinks = parameter(op, 0);
    input.casts_weights = !library_.fourth;
  }
  if (model_.cache != nullptr) {
    model_.cache->update(eager_, op.layer, input.k, input.v);
    values_[index_of(op.inputs[1])] = input.k;
    values_[index_of(op.inputs[2])] = input.v;
    input.causal = input.causal && input.q.shape()[2] > 1;
  }
  AttentionOutput result = attention(eager_, model_, input, frame_);
  values_[index_of(op.outputs[0])] = std::move(result.output);
  if (op.module == Module::kCrossAttention) {
    earlier_weights_ = std::move(attention_weights_);
  }
  if (modeling_.drops_weights) {
    frame_.push_back(std::move(result.weights));
  } else {
    attention_weights_ = std::move(result.weights);
  }
}

}  // namespace headroom::ir::transformers
