// Multi-token prediction: layers after the last one. Each predicts one token further ahead, from
// the hidden states and the embedding of the tokens shifted by one.
// Source: megatron/core/transformer/multi_token_prediction.py; models/gpt/gpt_model.py,
//         _postprocess.
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtimes/megatron/head.h"
#include "runtimes/megatron/layer.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/rows.h"
#include "runtimes/megatron/te_gemm.h"
#include "runtimes/torch/checkpoint.h"
#include "runtimes/torch/collective.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

/// roll_tensor: the tensor shifted by one with its last column set to zero, and its sum. Callers
/// drop the sum or use it to count tokens.
struct Rolled {
  Tensor moved;
  Tensor sum;
};
Rolled roll_whole(const Runner& run, const Tensor& input) {
  Eager& eager = run.eager();
  Rolled result;
  result.moved = torch::computed(eager, input.shape(), input.dtype(), {&input});
  torch::launch_kernels(eager, 8 * input.shape()[0]);  // fill_
  result.sum = torch::computed(eager, {1}, input.dtype(), {&result.moved});
  return result;
}

/// Sends or receives one column, to or from a neighbour in the ring of context-parallel ranks.
void pass_column(const Runner& run, const Tensor& column, CollectiveKind kind) {
  run.eager().record_stream(column);
  torch::finish_collective(run.eager(),
                           {.kind = kind,
                            .bytes = torch::bytes_of(column),
                            .group = {.size = 2, .stride = run.context.grid.context.stride},
                            .axis = MeshAxis::kContext},
                           kind == CollectiveKind::kSend ? "roll_send" : "roll_receive");
}

/// The same if each rank has two parts of a sequence. The new last column of a part is the first
/// column of a part on another rank: the rank before or after this one, except at the two ends of
/// the ring.
Rolled roll_stretches(const Runner& run, const Tensor& input) {
  Eager& eager = run.eager();
  const Axis& ring = run.context.grid.context;
  const torch::Shape half = input.shape().with(1, input.shape()[1] / 2);
  const torch::Shape column{input.shape()[0]};
  const bool several = column[0] > 1;
  std::array<Tensor, 2> received;
  std::array<Tensor, 2> sent;
  std::array<Tensor, 2> moved;  // Freed first, like Python's names.
  for (Tensor& each : moved) {
    Tensor stretch;  // A part of several sequences is not contiguous and is copied.
    if (several) {
      stretch = torch::computed(eager, half, input.dtype());
    }
    each = torch::computed(eager, half, input.dtype());
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    // A column of one sequence is contiguous and is sent without a copy.
    sent[i] = several ? torch::computed(eager, column, input.dtype())
                      : eager.alias(moved[i], column, false);
    received[i] = eager.empty(column, input.dtype());
  }
  if (ring.rank > 0) {
    pass_column(run, sent[0], CollectiveKind::kSend);
    pass_column(run, received[1], CollectiveKind::kReceive);
  } else {
    received[1].reset();  // Zero instead of a received column.
  }
  if (ring.rank + 1 < ring.size) {
    pass_column(run, received[0], CollectiveKind::kReceive);
    pass_column(run, sent[1], CollectiveKind::kSend);
  } else {
    received[0] = sent[1];
  }
  torch::launch_kernels(eager, 4 * torch::bytes_of(sent[0]), 2);
  Rolled result;
  result.moved = torch::computed(eager, input.shape(), input.dtype(), {&input});  // cat
  result.sum = torch::computed(eager, {1}, input.dtype(), {&result.moved});
  return result;
}

Rolled roll(const Runner& run, const Tensor& input) {
  return run.context.grid.context.size > 1 ? roll_stretches(run, input) : roll_whole(run, input);
}

/// Multiplies by a factor, which backward does in the same way. `kept`: the tensor that backward
/// reads for it, if any.
Tensor scaled(const Runner& run, const Tensor& input, const Tensor& kept) {
  Eager& eager = run.eager();
  Record record(eager, {&input});
  Tensor output = torch::computed(eager, input.shape(), input.dtype(), {&input});
  record.save(kept);
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const torch::Unpacked saved(e, node);
    return {torch::computed(e, node.input_shapes[0], grads[0].dtype(), {&grads[0]})};
  });
  return output;
}

/// MTPLossAutoScaler: returns the hidden states unchanged and attaches the loss to them, so that
/// backward computes both gradients.
Tensor attach_loss(const Runner& run, const Tensor& hidden, const Tensor& loss) {
  Eager& eager = run.eager();
  Record record(eager, {&hidden, &loss});
  record.save(loss);
  Tensor output = eager.alias(hidden, hidden.shape(), true);
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const torch::Unpacked saved(e, node);
    const Tensor ones = torch::filled(e, node.input_shapes[1], saved[0].dtype());
    Tensor gradient = torch::computed(e, node.input_shapes[1], saved[0].dtype(), {&ones});
    return {grads[0], std::move(gradient)};
  });
  return output;
}

/// torch.cat of two equally wide tensors by columns. Their gradients are views of the incoming one.
Tensor join_columns(const Runner& run, const Tensor& first, const Tensor& second) {
  Eager& eager = run.eager();
  Record record(eager, {&first, &second});
  Tensor output = torch::computed(eager, {first.shape()[0], 2 * first.shape()[1]}, first.dtype(),
                                  {&first, &second});
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    Gradients result;
    for (const torch::Shape& shape : node.input_shapes) {
      result.push_back(e.alias(grads[0], shape, true));
      result.back()->layout = torch::Layout::kSwapped;  // Not contiguous.
    }
    return result;
  });
  return output;
}

/// MakeViewlessTensor of a view: a new node and a tensor on the same memory.
Tensor viewless(const Runner& run, const Tensor& input) {
  make_viewless(run);
  return torch::handed_on(run.eager(), input);
}

/// gather_from_tensor_model_parallel_region: concatenates the columns of all tensor-parallel ranks.
/// Backward keeps this rank's part of the gradient.
Tensor gather_columns(const Runner& run, const Tensor& part) {
  Eager& eager = run.eager();
  const std::int64_t ranks = run.context.grid.tensor.size;
  if (ranks == 1) {
    return part;
  }
  Record record(eager, {&part});
  const Tensor stacked = gather(run, part);
  const torch::Shape whole{part.shape()[0], part.shape()[1] * ranks};
  Tensor output = torch::computed(eager, whole, part.dtype(), {&stacked});
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    return {torch::computed(e, node.input_shapes[0], grads[0].dtype())};
  });
  return output;
}

/// scatter_to_sequence_parallel_region: a view of this rank's rows. Backward gathers their
/// gradient.
Tensor take_rows(const Runner& run, const Tensor& whole) {
  Eager& eager = run.eager();
  if (!run.context.sequence_parallel()) {
    return whole;
  }
  Record record(eager, {&whole});
  Tensor output = eager.alias(whole, whole.shape().with(0, run.context.stream_tokens()), false);
  record.finish(output, [run](Eager&, Gradients& grads, Node&) -> Gradients {
    return {gather(run, grads[0])};
  });
  return output;
}

/// _concat_embeddings. Python reuses the names, which frees the tensors that they held.
Tensor project(const Runner& run, const PredictionWeights& weights, const Tensor& hidden,
               const Tensor& embedded) {
  run.eager().set_site("mtp_projection", weights.layer.layer);
  const Tensor normed_tokens = norm(run, embedded, weights.embedding_norm);
  make_viewless(run);
  Tensor states = norm(run, hidden, weights.hidden_norm);
  make_viewless(run);
  states = join_columns(run, normed_tokens, states);
  run.process.begin_fp8_layers();
  states = linear(run, states, weights.projection.weight, Cut::kColumn);
  states = gather_columns(run, states);
  Tensor rows = take_rows(run, states);
  run.process.reduce_fp8_scales(true);
  return rows;
}

/// _proj_and_transformer_layer. Under FP8, projection and layer each have their own autocast
/// context, which reduces delayed scales on exit.
Tensor project_and_run(const Runner& run, const PredictionWeights& weights, const Tensor& hidden,
                       const Tensor& embedded, const LayerInput& input) {
  Tensor projected = project(run, weights, hidden, embedded);
  run.process.begin_fp8_layers();
  const Tensor output = run_layer(run, weights.layer, projected, input);
  run.process.reduce_fp8_scales(true);
  projected.reset();
  run.eager().set_site("final_norm", weights.layer.layer);
  Tensor normed = norm(run, output, weights.final_norm);
  make_viewless(run);
  return normed;
}

/// MultiTokenPredictionLayer.forward. Only uniform recomputation also recomputes these layers.
Tensor prediction_layer(const Runner& run, const PredictionWeights& weights, const Tensor& hidden,
                        const Tensor& embedded, const LayerInput& input) {
  if (run.context.megatron.recompute != MegatronRecompute::kFullUniform) {
    return project_and_run(run, weights, hidden, embedded, input);
  }
  const torch::Region region = [run, &weights](Eager&, const std::vector<Tensor>& inputs) {
    const LayerInput again{.mask = inputs[2], .angles = inputs[3]};
    return std::vector<Tensor>{project_and_run(run, weights, inputs[0], inputs[1], again)};
  };
  return std::move(torch::run_region(run.eager(), {hidden, embedded, input.mask, input.angles},
                                     region, torch::RegionForm::kReentrant)[0]);
}

/// MultiTokenPredictionBlock.forward: the hidden states of the model and of each prediction layer,
/// concatenated by rows.
Tensor prediction_block(const Runner& run, const Chunk& chunk, const Tensor& hidden,
                        const TokenInput& tokens, const LayerInput& input) {
  std::vector<Tensor> all = split_rows(run.eager(), hidden, {hidden.shape()[0]});
  Tensor ids = tokens.ids;
  Tensor positions = tokens.positions;
  for (const PredictionWeights& weights : chunk.predictions) {
    run.eager().set_site("mtp_tokens", weights.layer.layer);
    Tensor next_ids;  // These replace `ids` and `positions` once the layer has run.
    Tensor next_positions;
    Tensor embedded;
    {
      Rolled rolled = roll(run, ids);
      next_ids = rolled.moved;
      rolled = roll(run, positions);
      next_positions = rolled.moved;
      embedded = embed(run, chunk, next_ids, next_positions);
    }
    // Only the hidden states of the model itself are a view.
    const Tensor before = all.size() == 1 ? viewless(run, all.back()) : all.back();
    all.push_back(prediction_layer(run, weights, before, embedded, input));
    ids = next_ids;
    positions = next_positions;
  }
  return join_rows(run.eager(), all);
}

}  // namespace

Tensor losses_with_predictions(const Runner& run, const Chunk& chunk, Tensor hidden,
                               const TokenInput& tokens, const LayerInput& input) {
  Eager& eager = run.eager();
  const std::int64_t rows = hidden.shape()[0];
  hidden = prediction_block(run, chunk, hidden, tokens, input);
  eager.set_site("mtp_loss", -1);
  Tensor labels = torch::computed(eager, tokens.labels.shape(), DType::kInt64, {&tokens.labels});
  Tensor mask = tokens.loss_mask;
  const std::vector<std::int64_t> sizes(chunk.predictions.size() + 1, rows);
  const std::vector<Tensor> parts = split_rows(eager, hidden, sizes);
  hidden = parts[0];
  // `logits` and `masked` of the last prediction layer live as long as Python's names for them.
  Tensor logits;
  Tensor masked;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    logits = output_layer(run, parts[i], chunk.head);
    labels = roll(run, labels).moved;
    Rolled rolled = roll(run, mask);
    mask = std::move(rolled.moved);
    masked = token_losses(run, logits, labels);
    eager.set_site("mtp_loss", -1);
    masked = scaled(run, masked, mask);
    { const Tensor mean = torch::computed(eager, {1}, DType::kFp32, {&masked}); }
    Tensor loss = scaled(run, masked, {});
    loss = scaled(run, loss, rolled.sum);
    hidden = attach_loss(run, hidden, loss);
  }
  const Tensor own = output_layer(run, hidden, chunk.head);
  return token_losses(run, own, tokens.labels);
}

}  // namespace headroom::ir::megatron
