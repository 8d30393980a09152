#include "model_ir/runtime/transformers/forward.h"

#include <memory>
#include <utility>

#include "model_ir/runtime/torch/checkpoint.h"
#include "model_ir/runtime/torch/functions.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

/// arange(S) + past: [1, S] ids.
Tensor make_position_ids(Eager& eager, std::int64_t sequence) {
  const Tensor range = eager.empty({sequence}, DType::kInt64, TensorRole::kInput);
  return eager.empty({1, sequence}, DType::kInt64, TensorRole::kInput);
}

/// Temporaries of a scan (cumsum) over `rows` rows of `width`: cub's, for a single row only.
void scan_scratch(Eager& eager, std::int64_t rows) {
  if (rows == 1) {
    const Tensor scratch = eager.empty({1279}, DType::kUInt8, TensorRole::kWorkspace);
  }
}

/// The check for packed sequences that precedes mask creation.
/// Source: huggingface/transformers masking_utils.py, find_packed_sequence_indices.
void check_packed(Eager& eager, std::int64_t batch, std::int64_t sequence) {
  const auto temporary = [&](const Shape& shape, DType dtype) {
    return eager.empty(shape, dtype, TensorRole::kTemporary);
  };
  Tensor first = temporary({batch, 1}, DType::kInt64);
  Tensor joined = temporary({batch, sequence + 1}, DType::kInt64);
  Tensor differences = temporary({batch, sequence}, DType::kInt64);
  joined.reset();
  Tensor breaks = temporary({batch, sequence}, DType::kBool);
  Tensor breaks_wide = temporary({batch, sequence}, DType::kInt64);
  Tensor indices = temporary({batch, sequence}, DType::kInt64);
  scan_scratch(eager, batch);
  breaks_wide.reset();
  breaks.reset();
  Tensor same = temporary({batch}, DType::kBool);
  Tensor all = temporary({}, DType::kBool);
  same.reset();
  all.reset();
  first.reset();
  differences.reset();
  indices.reset();
}

/// The additive causal mask [1, 1, S, S] that eager attention adds.
/// Source: masking_utils.py, eager_mask and sdpa_mask.
Tensor make_causal_mask(Eager& eager, std::int64_t sequence, DType dtype) {
  const auto temporary = [&](const Shape& shape, DType type) {
    return eager.empty(shape, type, TensorRole::kTemporary);
  };
  Tensor allowed;
  {
    Tensor batch_range = temporary({1}, DType::kInt64);
    Tensor head_range = temporary({1}, DType::kInt64);
    Tensor queries = temporary({sequence}, DType::kInt64);
    Tensor query_offset = temporary({sequence}, DType::kInt64);
    queries.reset();
    Tensor keys = temporary({sequence}, DType::kInt64);
    Tensor key_offset = temporary({sequence}, DType::kInt64);
    keys.reset();
    allowed = temporary({sequence, sequence}, DType::kBool);
    batch_range.reset();
    head_range.reset();
    query_offset.reset();
    key_offset.reset();
  }
  Tensor zero = temporary({}, dtype);
  Tensor lowest = temporary({}, dtype);
  Tensor mask = eager.empty({1, 1, sequence, sequence}, dtype, TensorRole::kTemporary);
  zero.reset();
  lowest.reset();
  return mask;
}

struct RopeTable {
  Tensor cos, sin;
};

/// Source: modeling_llama.py, LlamaRotaryEmbedding.forward.
RopeTable make_rope_table(Eager& eager, std::int64_t dim, std::int64_t sequence, DType dtype) {
  const auto temporary = [&](const Shape& shape) {
    return eager.empty(shape, DType::kFp32, TensorRole::kTemporary);
  };
  Tensor positions = temporary({1, 1, sequence});
  Tensor frequencies = temporary({1, dim / 2, sequence});
  eager.touch_cublas();
  eager.count_gemm(dim / 2, sequence, 1);
  Tensor angles = temporary({1, sequence, dim});
  const auto factor = [&] {
    Tensor plain = temporary({1, sequence, dim});
    Tensor scaled = temporary({1, sequence, dim});
    plain.reset();
    return scaled;
  };
  Tensor cos = factor();
  Tensor sin = factor();
  RopeTable table;
  table.cos = torch::to(eager, cos, dtype);
  table.sin = torch::to(eager, sin, dtype);
  positions.reset();
  frequencies.reset();
  angles.reset();
  cos.reset();
  sin.reset();
  return table;
}

bool needs_masks(const ParallelPlan& plan) {
  return plan.attention == AttentionKind::kEager;
}

NodeId next(NodeId id) {
  return NodeId{static_cast<std::uint32_t>(index_of(id) + 1)};
}

/// Masks in the order of the model's forward: after the positions, before any dropout.
void make_masks(Eager& eager, const Model& model, Shared& shared, DType dtype) {
  const std::int64_t sequence = model.plan->sequence;
  eager.set_site("masks", -1);
  check_packed(eager, model.plan->micro_batch, sequence);
  if (needs_masks(*model.plan)) {
    shared.mask = make_causal_mask(eager, sequence, dtype);
    shared.window_mask = shared.mask;
  }
}

/// Everything before the layers: embedding, positions, masks, dropout.
Tensor embed(Eager& eager, Model& model, Interpreter& interpreter, const Tensor& ids) {
  const Graph& graph = *model.graph;
  Shared& shared = interpreter.shared();
  const TensorId output = graph.layers().front().input;
  bool masked = false;
  for (NodeId id{0}; id != graph.layers().front().first; id = next(id)) {
    const OpKind kind = graph.op(id).kind;
    if (!shared.position_ids.defined() && kind != OpKind::kEmbedding && kind != OpKind::kScale) {
      shared.position_ids = make_position_ids(eager, ids.shape()[1]);
    }
    if (kind == OpKind::kDropout && !masked) {
      make_masks(eager, model, shared, param_dtype(model.plan->precision));
      masked = true;
    }
    interpreter.run(id, id);
    if (kind == OpKind::kEmbedding || kind == OpKind::kScale) {
      shared.token_rows = interpreter.peek(graph.op(id).outputs[0]);
    }
  }
  if (!shared.position_ids.defined()) {
    eager.set_site("positions", -1);
    shared.position_ids = make_position_ids(eager, ids.shape()[1]);
  }
  if (!masked) {
    make_masks(eager, model, shared, interpreter.peek(output).dtype());
  }
  return interpreter.take(output);
}

/// Dims of a head that are rotated.
std::int64_t rotated_dims(const ModelSpec& spec) {
  if (spec.latent) {
    return spec.latent->rope_dim;
  }
  return static_cast<std::int64_t>(static_cast<double>(spec.head_dim) * spec.rope_fraction);
}

void make_rope_tables(Eager& eager, const Model& model, Shared& shared, DType dtype) {
  const ModelSpec& spec = *model.spec;
  if (spec.position != PositionKind::kRope) {
    return;
  }
  eager.set_site("rotary_embedding", -1);
  const RopeTable table = make_rope_table(eager, rotated_dims(spec), model.plan->sequence, dtype);
  shared.cos = table.cos;
  shared.sin = table.sin;
  if (spec.local_rope) {
    const RopeTable local = make_rope_table(eager, rotated_dims(spec), model.plan->sequence, dtype);
    shared.local_cos = local.cos;
    shared.local_sin = local.sin;
  }
}

/// Checkpointed layers keep `interpreter`, and with it the tensors that all layers share, until
/// backward has run them again.
Tensor run_layers(Eager& eager, Model& model, const std::shared_ptr<Interpreter>& interpreter,
                  Tensor hidden) {
  const ParallelPlan& plan = *model.plan;
  for (const LayerRange& range : model.graph->layers()) {
    eager.set_layer(range.layer);
    const auto region = [interpreter, range](Eager&, const Tensor& input) {
      return interpreter->run_layer(range, input);
    };
    const bool recompute = model.training && plan.recompute != Recompute::kNone &&
                           range.layer % plan.recompute_every == 0;
    if (!recompute) {
      hidden = region(eager, hidden);
    } else if (plan.recompute == Recompute::kFull) {
      hidden = torch::checkpoint(eager, hidden, region);
    } else {
      hidden = torch::checkpoint_reentrant(eager, hidden, region);
    }
  }
  eager.set_layer(-1);
  return hidden;
}

/// ForCausalLMLoss: fp32 logits, shifted labels, mean cross entropy.
/// Source: huggingface/transformers loss/loss_utils.py.
Tensor causal_lm_loss(Eager& eager, const Tensor& logits, const Tensor& ids) {
  const std::int64_t batch = ids.shape()[0];
  const std::int64_t sequence = ids.shape()[1];
  Tensor padded;
  Tensor wide = torch::to(eager, logits, DType::kFp32);
  padded = eager.empty({batch, sequence + 1}, DType::kInt64);
  Tensor labels = batch > 1 ? eager.empty({batch, sequence}, DType::kInt64)
                            : eager.alias(padded, {batch, sequence}, true);
  const Tensor log_probabilities = torch::log_softmax(eager, wide, DType::kFp32);
  return torch::nll_loss(eager, log_probabilities, labels);
}

bool recomputes(const Model& model) {
  return model.training && model.plan->recompute != Recompute::kNone;
}

void release_positions(const Model& model, Shared& shared) {
  if (!recomputes(model)) {
    shared.position_ids.reset();
    shared.token_rows.reset();
    shared.position_rows.reset();
  }
}

/// The model's own names go when it returns. Checkpointed layers hold theirs longer.
void release_shared(const Model& model, Shared& shared) {
  if (!recomputes(model)) {
    shared = Shared{};
  }
}

}  // namespace

ModelOutput forward(Eager& eager, Model& model, const Tensor& ids) {
  const Graph& graph = *model.graph;
  const auto interpreter_owner = std::make_shared<Interpreter>(eager, model);
  Interpreter& interpreter = *interpreter_owner;
  Shared& shared = interpreter.shared();
  const NodeId last_layer = graph.layers().back().last;
  NodeId head = next(last_layer);
  interpreter.set(graph.op(NodeId{0}).inputs[0], ids);
  eager.set_role(TensorRole::kTemporary);
  {
    const Tensor embedded = embed(eager, model, interpreter, ids);
    if (model.plan->lora && recomputes(model)) {
      embedded->requires_grad = true;  // enable_input_require_grads()
    }
    make_rope_tables(eager, model, shared, embedded.dtype());
    Tensor hidden = run_layers(eager, model, interpreter_owner, embedded);
    interpreter.set(graph.layers().back().output, std::move(hidden));
    while (graph.op(head).module != Module::kHead) {
      interpreter.run(head, head);
      head = next(head);
    }
    release_positions(model, shared);
  }
  release_shared(model, shared);
  // The last hidden states are a name of the outer module and live as long as its forward.
  const Tensor last_hidden = interpreter.peek(graph.op(head).inputs[0]);
  ModelOutput output;
  const NodeId loss{static_cast<std::uint32_t>(graph.op_count() - 1)};
  eager.set_role(TensorRole::kLogits);
  while (head != loss) {
    interpreter.run(head, head);
    head = next(head);
  }
  output.logits = interpreter.take(graph.op(loss).inputs[0]);
  eager.set_site("cross_entropy", -1);
  output.loss = causal_lm_loss(eager, output.logits, ids);
  eager.set_role(TensorRole::kTemporary);
  return output;
}

}  // namespace headroom::ir::transformers
