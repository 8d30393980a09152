#include "runtimes/transformers/forward.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/transformers/classification.h"
#include "runtimes/transformers/encoder.h"
#include "runtimes/transformers/encoder_decoder.h"
#include "runtimes/transformers/kv_cache.h"
#include "runtimes/transformers/layers.h"
#include "runtimes/transformers/library_version.h"
#include "runtimes/transformers/losses.h"
#include "runtimes/transformers/masks.h"
#include "runtimes/transformers/modeling.h"
#include "runtimes/transformers/recording/replayed_model.h"
#include "runtimes/transformers/router_loss.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

/// arange(S) + past: [1, S] ids.
Tensor make_position_ids(Eager& eager, std::int64_t sequence, bool alone) {
  const Tensor range = torch::computed(eager, {sequence}, DType::kInt64, TensorRole::kInput);
  if (alone) {
    return eager.alias(range, {1, sequence}, true);  // unsqueeze(0)
  }
  return torch::computed(eager, {1, sequence}, DType::kInt64, TensorRole::kInput);
}

struct RopeRequest {
  RopeForm form;
  Shape sizes;  ///< [S, D]
  bool copies;  ///< The frequencies are first cast or copied to the device.
  bool late;    ///< Both tables are made before they are scaled.
  DType dtype;
};

/// Source: modeling_llama.py, LlamaRotaryEmbedding.forward.
RopeTable make_rope_table(Eager& eager, const RopeRequest& request) {
  const auto& [form, sizes, copies, late, dtype] = request;
  const std::int64_t sequence = sizes[0];
  const std::int64_t dim = sizes[1];
  const auto temporary = [&](const Shape& shape) {
    return eager.empty(shape, DType::kFp32, TensorRole::kTemporary);
  };
  const auto made = [&](const Shape& shape) {
    return torch::computed(eager, shape, DType::kFp32, TensorRole::kTemporary);
  };
  Tensor own = copies ? made({1, dim / 2, 1}) : Tensor{};
  if (form == RopeForm::kComplex) {
    return {complex_rope_table(eager, dim, sequence), {}};
  }
  Tensor positions = made({1, 1, sequence});
  Tensor frequencies = temporary({1, dim / 2, sequence});
  eager.touch_cublas();
  eager.run(GemmShape{
      .m = dim / 2, .n = sequence, .k = 1, .dtype = DType::kFp32, .layout = GemmLayout::kNN});
  // gpt-oss does not double the frequencies: tables of half a head.
  const bool halves = form == RopeForm::kHalfTables;
  const std::int64_t width = halves ? dim / 2 : dim;
  Tensor angles = halves ? Tensor{} : made({1, sequence, width});
  const auto factor = [&] { return made({1, sequence, width}); };
  Tensor cos = factor();
  Tensor late_sin = late ? factor() : Tensor{};
  cos = factor();  // The scaled table.
  Tensor sin = late ? std::move(late_sin) : factor();
  sin = factor();
  RopeTable table;
  table.cos = torch::to(eager, cos, dtype);
  table.sin = torch::to(eager, sin, dtype);
  own.reset();
  positions.reset();
  frequencies.reset();
  angles.reset();
  cos.reset();
  sin.reset();
  return table;
}

/// The fp32 ones that a model makes itself if the collator passes no mask.
void make_padding(Eager& eager, const Model& model, Shared& shared) {
  const ParallelPlan& plan = *model.plan;
  if (!shared.padding.defined() && makes_padding_mask(model.spec->family)) {
    eager.set_site("masks", -1);
    shared.padding = eager.empty({plan.workload.micro_batch, plan.workload.sequence}, DType::kFp32);
  }
}

/// Positions counted along the padding mask: [B, S] ids. Source: modeling_opt.py, OPTDecoder.
Tensor count_positions(Eager& eager, const Tensor& padding) {
  const Shape& shape = padding.shape();
  Tensor counts = torch::computed(eager, shape, DType::kFp32);
  scan_scratch(eager, shape[0], DType::kFp32);
  Tensor masked = torch::computed(eager, shape, DType::kFp32);
  Tensor shifted = torch::computed(eager, shape, DType::kFp32);
  masked.reset();
  Tensor ids = torch::computed(eager, shape, DType::kInt64, TensorRole::kInput);
  shifted.reset();
  counts.reset();
  return ids;
}

/// Masks in the order of the model's forward: after the positions, before any dropout.
void add_masks(Eager& eager, const Model& model, Shared& shared, DType dtype) {
  eager.set_site("masks", -1);
  make_padding(eager, model, shared);
  if (model.spec->position == PositionKind::kAlibi) {
    shared.alibi = make_alibi(eager, model, dtype);
  }
  const Masks masks = make_masks(eager, model, {.padding = shared.padding, .dtype = dtype});
  shared.mask = masks.full;
  shared.window_mask = masks.window;
}

/// The ids of the positions, made once: counted along a padding mask, or 0, 1, 2...
void make_positions(Eager& eager, const Model& model, Shared& shared) {
  if (shared.position_ids.defined() || model.spec->position == PositionKind::kAlibi) {
    return;
  }
  eager.set_site("positions", -1);
  make_padding(eager, model, shared);
  shared.position_ids = makes_padding_mask(model.spec->family)
                            ? count_positions(eager, shared.padding)
                            : make_position_ids(eager, model.plan->workload.sequence,
                                                library_traits(*model.spec, *model.plan).fourth);
}

/// Whether an operator of the stem reads the positions or runs after the masks.
bool comes_after_masks(const Model& model, OpKind kind) {
  return kind == OpKind::kDropout ||
         (kind == OpKind::kPositions && makes_padding_mask(model.spec->family));
}

/// Whether the embedding module scales its rows itself, in the operator after `id`.
bool scales_next(const Graph& graph, const Modeling& modeling, NodeId id) {
  return modeling.embedding_scales && graph.op(next(id)).kind == OpKind::kScale;
}

/// Type of the stream that enters the layers. If it is scaled later, it has the type of its rows.
DType stem_dtype(const Model& model, Interpreter& interpreter) {
  const Tensor& output = interpreter.peek(model.graph->layers().front().input);
  return output.defined() ? output.dtype() : interpreter.shared().token_rows.dtype();
}

/// Everything before the layers: embedding, positions, masks, dropout.
void embed(Eager& eager, Model& model, Interpreter& interpreter) {
  const Graph& graph = *model.graph;
  Shared& shared = interpreter.shared();
  const Modeling modeling = modeling_of(*model.spec, *model.plan);
  const bool ones_of_four =
      makes_padding_mask(model.spec->family) && library_traits(*model.spec, *model.plan).fourth;
  bool masked = false;
  if (model.cache != nullptr) {
    shared.padding = model.cache->given.mask;
    shared.position_ids = model.cache->given.positions;
  }
  for (NodeId id{0}; id != graph.layers().front().first; id = next(id)) {
    const OpKind kind = graph.op(id).kind;
    if (ones_of_four && kind != OpKind::kEmbedding && !shared.cache_positions.defined()) {
      eager.set_site("positions", -1);
      shared.cache_positions = torch::computed(eager, {model.plan->workload.sequence},
                                               DType::kInt64, TensorRole::kInput);
    }
    if (ones_of_four && kind == OpKind::kPositions) {  // Masks come before positions.
      add_masks(eager, model, shared, param_dtype(model.plan->precision));
      masked = true;
    }
    if (kind == OpKind::kPositions || kind == OpKind::kDropout) {
      make_positions(eager, model, shared);
    }
    if (comes_after_masks(model, kind) && !masked) {
      add_masks(eager, model, shared, param_dtype(model.plan->precision));
      masked = true;
    }
    const bool scaled = kind == OpKind::kScale;
    if (scaled && modeling.scales_after_tables) {
      break;
    }
    interpreter.run(id, id);
    if (kind == OpKind::kEmbedding || scaled) {
      shared.token_rows = interpreter.peek(graph.op(id).outputs[0]);
    }
    if ((kind == OpKind::kEmbedding && !scales_next(graph, modeling, id)) ||
        (scaled && modeling.embedding_scales)) {
      require_gradient(model, shared.token_rows);
    }
  }
  make_positions(eager, model, shared);
  if (!masked) {
    add_masks(eager, model, shared, stem_dtype(model, interpreter));
  }
}

/// The layers' input: the embedding, or its scaled form in families that scale it last.
Tensor finish_embedding(const Model& model, Interpreter& interpreter) {
  const Graph& graph = *model.graph;
  if (modeling_of(*model.spec, *model.plan).scales_after_tables) {
    for (NodeId id{0}; id != graph.layers().front().first; id = next(id)) {
      if (graph.op(id).kind == OpKind::kScale) {
        interpreter.run(id, id);
      }
    }
  }
  return interpreter.take(graph.layers().front().input);
}

void make_rope_tables(Eager& eager, const Model& model, Shared& shared, DType dtype) {
  const ModelSpec& spec = *model.spec;
  if (spec.position != PositionKind::kRope) {
    return;
  }
  const ModuleCall call{.part = ModuleCall::Part::kRotary, .layer = -1, .op = nullptr};
  enter_part(model.hooks, call, {});
  eager.set_site("rotary_embedding", -1);
  const RopeForm form = modeling_of(spec, *model.plan).rope;
  if (form == RopeForm::kPromoted) {
    dtype = DType::kFp32;
  }
  // Positions that are passed are those of every sequence.
  const std::int64_t sequences = model.cache != nullptr ? model.plan->workload.micro_batch : 1;
  const Shape sizes{sequences * model.plan->workload.sequence, rotated_dims(spec)};
  const bool copies = model.setting.buffers_on_host ||
                      (!model.buffers.empty() && model.buffers.back().dtype() != DType::kFp32);
  const RopeRequest request{.form = form,
                            .sizes = sizes,
                            .copies = copies,
                            .late = library_traits(*model.spec, *model.plan).scales_tables_late,
                            .dtype = dtype};
  const RopeTable table = make_rope_table(eager, request);
  shared.cos = table.cos;
  shared.sin = table.sin;
  if (spec.local_rope) {
    const RopeTable local = make_rope_table(eager, request);
    shared.local_cos = local.cos;
    shared.local_sin = local.sin;
  }
  leave_part(model.hooks, call, {});
}

/// Hooks around the outermost module and the decoder in it, whose arguments are keywords.
void enter_model(const Model& model) {
  enter_part(model.hooks, {.part = ModuleCall::Part::kModel}, {});
  enter_part(model.hooks, {.part = ModuleCall::Part::kDecoder}, {});
}

/// The embeddings are released when the inner model returns. A checkpointed layer's arguments hold
/// the positions longer; so do the arguments of masks that do not check them (gpt-oss, 4.x:
/// `mask_kwargs`).
void release_positions(const Model& model, Shared& shared) {
  if (library_traits(*model.spec, *model.plan).masks_packed &&
      modeling_of(model.spec->family).mask == MaskSource::kUnchecked) {
    if (!recomputes(model)) {
      shared.mask.reset();
      shared.window_mask.reset();
    }
    shared.token_rows.reset();
  }
  if (!recomputes(model)) {
    shared.position_ids.reset();
    shared.cache_positions.reset();
  }
  shared.token_rows.reset();
  shared.position_rows.reset();
  shared.padding.reset();
}

/// The model's own names are released when it returns. Checkpointed layers hold theirs longer.
void release_shared(const Model& model, Shared& shared) {
  if (!recomputes(model)) {
    shared = Shared{};
    return;
  }
  if (casts_tables(model, shared)) {
    shared.cos.reset();
    shared.sin.reset();
  }
  shared.mask.reset();  // Each layer's arguments hold its own mask.
  shared.window_mask.reset();
}

}  // namespace

Batch make_batch(Eager& eager, const Model& model) {
  eager.set_site("input_ids", -1);
  Batch batch;
  batch.ids =
      torch::computed(eager, {model.plan->workload.micro_batch, model.plan->workload.sequence},
                      DType::kInt64, TensorRole::kInput);
  if (model.spec->recording) {
    batch.others = recorded_inputs(eager, model, batch.ids);
  }
  const bool labels_recorded =
      model.spec->recording &&
      (model.spec->task != Task::kLanguage || model.spec->recording->task == kSpeechTask);
  batch.labels = labels_recorded ? Tensor{} : labels_of(eager, *model.spec, batch.ids);
  if (model.plan->workload.padded_batch && !makes_padding_mask(model.spec->family)) {
    batch.mask = torch::filled(eager, batch.ids.shape(), DType::kInt64);
  }
  return batch;
}

namespace {

/// `loss += router_aux_loss_coef * aux_loss`; the model also returns the routers' logits.
void add_router_loss(Eager& eager, const Model& model, const Batch& batch, Interpreter& interpreter,
                     ModelOutput& output) {
  if (!model.spec->moe || !model.spec->moe->auxiliary_loss) {
    return;
  }
  eager.set_site("auxiliary_loss", -1);
  output.router_logits = interpreter.take_router_logits();
  output.auxiliary_loss =
      load_balancing_loss(eager, *model.spec->moe, output.router_logits, batch.mask);
  const Tensor weighed = torch::scale(eager, output.auxiliary_loss);
  output.loss = torch::add_in_place(eager, output.loss, weighed);
}

/// Logits and loss of a language model, from operator `head` on.
ModelOutput run_language_head(Eager& eager, Model& model, Interpreter& interpreter,
                              const Batch& batch, NodeId head) {
  const Tensor& ids = batch.ids;
  const Graph& graph = *model.graph;
  ModelOutput output;
  const NodeId loss{static_cast<std::uint32_t>(graph.op_count() - 1)};
  eager.set_role(TensorRole::kLogits);
  if (model.training && model.plan->loss != LossKind::kHf) {
    eager.set_site("cross_entropy", -1);
    const HeadInput input = head_input(model, head, interpreter.take(graph.op(head).inputs[0]));
    output.loss = model.plan->loss == LossKind::kFusedLinear ? fused_linear_loss(eager, input, ids)
                                                             : chunked_loss(eager, input, ids);
    leave_part(model.hooks, {.part = ModuleCall::Part::kModel}, {&output.loss});
    eager.set_role(TensorRole::kTemporary);
    return output;
  }
  if (model.cache != nullptr) {  // logits_to_keep=1
    const TensorId last = graph.op(head).inputs[0];
    const Tensor states = interpreter.take(last);
    interpreter.set(last, eager.alias(states, states.shape().with(1, 1), false));
  }
  while (head != loss) {
    interpreter.run(head, head);
    head = next(head);
  }
  output.logits = interpreter.take(graph.op(loss).inputs[0]);
  if (model.cache != nullptr) {
    eager.set_role(TensorRole::kTemporary);
    return output;
  }
  eager.set_site("cross_entropy", -1);
  const LibraryTraits library = library_traits(*model.spec, *model.plan);
  if (library.widens_logits) {
    output.logits = torch::to(eager, output.logits, DType::kFp32);
  }
  output.loss = library.shifts_logits
                    ? shifted_logits_loss(eager, output.logits, ids, !library.narrow_loss)
                    : causal_lm_loss(eager, output.logits, ids);
  add_router_loss(eager, model, batch, interpreter, output);
  leave_part(model.hooks, {.part = ModuleCall::Part::kModel}, {&output.loss});
  eager.set_role(TensorRole::kTemporary);
  return output;
}

}  // namespace

ModelOutput forward(Eager& eager, Model& model, const Batch& batch) {
  if (model.spec->recording) {
    return forward_recorded(eager, model, batch);
  }
  const Tensor& ids = batch.ids;
  switch (model.spec->architecture) {
    case Architecture::kMaskedLm:
      return forward_masked(eager, model, batch);
    case Architecture::kEncoderDecoder:
      return forward_encoder_decoder(eager, model, ids);
    case Architecture::kCausalLm:
      break;
  }
  const Graph& graph = *model.graph;
  const auto interpreter_owner = std::make_shared<Interpreter>(eager, model);
  Interpreter& interpreter = *interpreter_owner;
  Shared& shared = interpreter.shared();
  const NodeId last_layer = graph.layers().back().last;
  NodeId head = next(last_layer);
  interpreter.set(graph.op(NodeId{0}).inputs[0], ids);
  shared.padding = batch.mask;
  eager.set_role(TensorRole::kTemporary);
  enter_model(model);
  {
    embed(eager, model, interpreter);
    make_rope_tables(eager, model, shared, stem_dtype(model, interpreter));
    Tensor embedded = finish_embedding(model, interpreter);
    Tensor hidden = run_layers(eager, model, interpreter_owner, std::move(embedded));
    interpreter.set(graph.layers().back().output, std::move(hidden));
    while (graph.op(head).module != Module::kHead) {
      interpreter.run(head, head);
      head = next(head);
    }
    interpreter.leave_layers();
    release_positions(model, shared);
  }
  release_shared(model, shared);
  if (model.hooks.leave) {
    const TensorId last = graph.op(head).inputs[0];
    Tensor states = interpreter.take(last);
    leave_part(model.hooks, {.part = ModuleCall::Part::kDecoder}, {&states});
    interpreter.set(last, std::move(states));
  }
  // The outer module has a name for the last hidden states, which live as long as its forward.
  const Tensor last_hidden = interpreter.peek(graph.op(head).inputs[0]);
  if (model.spec->task != Task::kLanguage) {
    ModelOutput output = run_classifier(eager, model, interpreter, batch, head);
    leave_part(model.hooks, {.part = ModuleCall::Part::kModel}, {&output.loss});
    return output;
  }
  return run_language_head(eager, model, interpreter, batch, head);
}

}  // namespace headroom::ir::transformers
