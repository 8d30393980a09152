#include "runtimes/megatron/stage.h"

#include <utility>

#include "runtimes/megatron/head.h"
#include "runtimes/megatron/layer.h"
#include "runtimes/torch/collective.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/range_scope.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

/// An operator on one element, whose result is freed at once.
void scalar(Eager& eager) {
  const Tensor result = torch::computed(eager, {1}, DType::kFp32, TensorRole::kLogits);
}

Tensor sum_all(Eager& eager, std::int64_t elements) {
  return torch::reduce(eager, {}, DType::kFp32,
                       {.outputs = 1,
                        .inputs_per_output = elements,
                        .innermost = true,
                        .accumulator_bytes = 4,
                        .element_bytes = 4});
}

}  // namespace

Stage::Stage(const Runner& run, std::span<Chunk> chunks)
    : run_(run), chunks_(chunks), inputs_(chunks.size()) {}

Stage::Batch Stage::make_batch(const Chunk& chunk) {
  Batch batch;
  if (!chunk.first && !chunk.last) {
    return batch;
  }
  Eager& eager = run_.eager();
  eager.set_site("batch", -1);
  const std::int64_t sequence = run_.context.plan.workload.sequence;
  const Shape tokens{run_.context.plan.workload.micro_batch, sequence};
  const auto make = [&](const Shape& shape, DType dtype) {
    return eager.empty(shape, dtype, TensorRole::kInput);
  };
  batch.tokens = make(tokens, DType::kInt64);
  batch.labels = make(tokens, DType::kInt64);
  batch.loss_mask = make(tokens, DType::kFp32);
  if (run_.context.megatron.mask_in_dataloader) {
    batch.mask = make({tokens[0], 1, sequence, sequence}, DType::kBool);
  }
  batch.positions = make(tokens, DType::kInt64);
  const RankGrid& grid = run_.context.grid;
  if (grid.tensor.rank != 0 && grid.pipeline.size > 1) {
    // Only the first tensor-parallel rank reads the data. The other ranks drop what their stage
    // does not need.
    if (chunk.first) {
      batch.labels.reset();
      batch.loss_mask.reset();
    } else if (run_.context.megatron.mtp_layers == 0) {
      batch.tokens.reset();
      batch.positions.reset();
    }
  }
  if (grid.context.size > 1) {
    cut_for_context(batch);
  }
  return batch;
}

/// get_batch_on_this_cp_rank: selects two parts of the sequence by index.
void Stage::cut_for_context(Batch& batch) {
  Eager& eager = run_.eager();
  const Batch whole = batch;
  const std::int64_t part = run_.context.plan.workload.sequence / run_.context.grid.context.size;
  Tensor index;
  for (Tensor* const each :
       {&batch.tokens, &batch.labels, &batch.loss_mask, &batch.mask, &batch.positions}) {
    if (each->defined()) {
      index = torch::computed(eager, {2}, DType::kInt64, TensorRole::kInput);
      torch::launch_kernels(eager, 2 * torch::bytes_of(index), 2);  // The two elements of `index`.
      *each = torch::computed(eager, each->shape().with(each->shape().rank() == 4 ? 2 : 1, part),
                              each->dtype(), TensorRole::kInput);
    }
  }
}

Tensor Stage::run_model(const Chunk& chunk, const Batch& batch, const Tensor& input) {
  const Tensor decoder_input =
      chunk.first ? embed(run_, chunk, batch.tokens, batch.positions) : input;
  LayerInput shared{.mask = batch.mask, .angles = {}};
  if (chunk.frequencies.defined()) {
    run_.eager().set_site("rotary_table", -1);
    shared.angles = run_.process.rotary_table(chunk);
  }
  Tensor hidden = run_layers(run_, chunk, decoder_input, shared);
  if (chunk.normed) {
    run_.eager().set_site("final_norm", -1);
    hidden = norm(run_, hidden, chunk.final_norm);
    make_viewless(run_);
  } else if (chunk.layers.empty() && !chunk.first) {
    // No operator copies the input, so it is cloned.
    hidden = torch::clone(run_.eager(), hidden);
  }
  if (!chunk.last) {
    return hidden;
  }
  if (!chunk.predictions.empty()) {
    const TokenInput tokens{batch.tokens, batch.positions, batch.labels, batch.loss_mask};
    return losses_with_predictions(run_, chunk, std::move(hidden), tokens, shared);
  }
  const Tensor logits = output_layer(run_, hidden, chunk.head);
  return token_losses(run_, logits, batch.labels);
}

/// loss_func of the training script, and forward_step_calc_loss.
Tensor Stage::scaled_loss(const Tensor& losses, const Tensor& loss_mask) {
  Eager& eager = run_.eager();
  eager.set_site("loss", -1);
  Record record(eager, {&losses});
  record.save(loss_mask);
  Tensor loss;
  {
    const Tensor product =
        torch::computed(eager, losses.shape(), DType::kFp32, TensorRole::kLogits);
    loss = sum_all(eager, losses.elements());
  }
  {
    const Tensor clone = sum_all(eager, losses.elements());
    scalar(eager);
    token_count_ = torch::computed(eager, {1}, DType::kInt32, TensorRole::kLogits);
  }
  {
    const Tensor clone = eager.empty({1}, DType::kFp32, TensorRole::kLogits);
    reports_.push_back(torch::computed(eager, {2}, DType::kFp32, TensorRole::kLogits));
  }
  scalar(eager);  // isnan
  {
    const Tensor magnitude =
        torch::computed(eager, {1}, DType::kFp32, TensorRole::kLogits);  // isinf
    scalar(eager);
  }
  const Tensor clamped = torch::computed(eager, {1}, DType::kInt32, TensorRole::kLogits);
  record.save(clamped);
  torch::launch_kernels(eager, 16, 2);  // Divides by the tokens and by the micro-batches, in place.
  record.finish(loss, [](Eager& e, Gradients&, Node& node) -> Gradients {
    // Factors for the loss scale, the micro-batches, the context-parallel ranks and the tokens.
    Tensor scaled;
    for (int factor = 0; factor < 4; ++factor) {
      scaled = torch::computed(e, {1}, DType::kFp32, TensorRole::kLogits);
    }
    node.saved[1].reset();
    const torch::Unpacked saved(e, node);
    Gradients result{torch::computed(e, node.input_shapes[0], DType::kFp32, TensorRole::kLogits)};
    scaled.reset();
    return result;
  });
  return loss;
}

Tensor Stage::forward(std::size_t index, const Tensor& input) {
  const torch::RangeScope pass(run_.eager(), RangeKind::kForwardPass,
                               static_cast<std::int32_t>(index));
  const Chunk& chunk = chunks_[index];
  inputs_[index] = input;
  wait_for(input);
  Tensor loss_mask;
  Tensor output;
  {
    Batch batch = make_batch(chunk);
    run_.process.offload().begin_pass(index, chunks_.size());
    loss_mask = batch.loss_mask;
    output = run_model(chunk, batch, input);
    batch.loss_mask.reset();
  }
  if (chunk.last) {
    output = scaled_loss(output, loss_mask);
  }
  if (chunks_.size() > 1) {
    // A local name of forward_step_helper; in other schedules it is a name of the schedule itself.
    token_count_.reset();
  }
  note_scales(chunk);
  return output;
}

/// Tensors that stay alive for the losses other than the main one: the losses of multi-token
/// prediction for the log and, on every stage, the scales of their gradients.
/// Source: multi_token_prediction.py, MTPLossLoggingHelper, MTPLossAutoScaler; moe/moe_utils.py,
///         MoEAuxLossAutoScaler.
void Stage::note_scales(const Chunk& chunk) {
  Eager& eager = run_.eager();
  const std::int64_t predicted = run_.context.megatron.mtp_layers;
  if (chunk.last && predicted > 0 && !prediction_losses_.defined()) {
    prediction_losses_ = eager.empty({predicted}, DType::kFp32, TensorRole::kBuffer);
  }
  if (run_.context.spec.moe && !expert_scale_.defined()) {
    expert_scale_ = eager.empty({1}, DType::kFp32, TensorRole::kBuffer);
  }
  if (predicted > 0 && !prediction_scale_.defined()) {
    prediction_scale_ = eager.empty({1}, DType::kFp32, TensorRole::kBuffer);
  }
  // Kernels for a one, the loss scale, the context-parallel ranks and the micro-batches.
  const std::int64_t launches = (run_.context.spec.moe ? 4 : 0) + (predicted > 0 ? 3 : 0);
  eager.set_site("loss", -1);
  torch::launch_kernels(eager, 8 * launches, launches);
}

Tensor Stage::backward(std::size_t index, const Tensor& input, Tensor output,
                       const Tensor& gradient) {
  Eager& eager = run_.eager();
  const torch::RangeScope pass(eager, RangeKind::kBackwardPass, static_cast<std::int32_t>(index));
  Tensor seed = gradient;
  wait_for(gradient);
  Tensor scaled;
  if (!seed.defined()) {
    eager.set_site("loss", -1);
    scaled = torch::computed(eager, {1}, DType::kFp32, TensorRole::kLogits);
    seed = torch::computed(eager, {1}, DType::kFp32, TensorRole::kLogits);
  }
  if (output.requires_grad()) {
    eager.backward(output, seed);
  }
  run_.process.layer_offload().finish_backward();
  return input.defined() ? Tensor(eager, input->grad) : Tensor{};
}

/// GPTModel.build_schedule_plan. The plan keeps the batch; the function of the loss keeps its mask.
std::shared_ptr<ChunkSchedule> Stage::make_schedule(const Ahead& ahead) {
  const Chunk& chunk = chunks_[ahead.chunk];
  const Batch batch = make_batch(chunk);
  inputs_[ahead.chunk] = ahead.input;
  ChunkSchedule::Ends ends;
  ends.before = [this, &chunk, batch, input = ahead.input](ChunkSchedule& schedule) {
    Tensor hidden = chunk.first ? embed(run_, chunk, batch.tokens, batch.positions) : input;
    schedule.shared.mask = batch.mask;
    if (chunk.frequencies.defined()) {
      run_.eager().set_site("rotary_table", -1);
      schedule.shared.angles = run_.process.rotary_table(chunk);
    }
    if (chunk.first && !run_.context.sequence_parallel()) {  // A view of the embedding.
      make_viewless(run_);
    }
    schedule.decoder_input = hidden;
    run_.process.begin_fp8_layers();
    return hidden;
  };
  if (chunk.last) {
    ends.after = [this, &chunk, labels = batch.labels](const Tensor& hidden) {
      Tensor states = hidden;
      if (chunk.layers.empty()) {  // No layer's part has the final norm.
        run_.eager().set_site("final_norm", -1);
        states = norm(run_, hidden, chunk.final_norm);
        make_viewless(run_);
      }
      Tensor losses = token_losses(run_, output_layer(run_, states, chunk.head), labels);
      make_viewless(run_);
      return losses;
    };
  }
  auto made = std::make_shared<ChunkSchedule>(run_, chunk, std::move(ends));
  made->loss_mask = batch.loss_mask;
  return made;
}

Stage::Together Stage::run_together(const std::optional<Ahead>& ahead,
                                    const std::optional<Behind>& behind,
                                    ChunkSchedule::Calls calls) {
  Eager& eager = run_.eager();
  const RangeKind kind = !ahead    ? RangeKind::kBackwardPass
                         : !behind ? RangeKind::kForwardPass
                                   : RangeKind::kJointPass;
  const torch::RangeScope pass(eager, kind,
                               static_cast<std::int32_t>(ahead ? ahead->chunk : behind->chunk));
  Together result;
  if (ahead) {
    wait_for(ahead->input);
    result.schedule = make_schedule(*ahead);
  }
  Tensor gradient;
  Tensor scaled;
  if (behind) {
    wait_for(behind->gradient);
    gradient = behind->gradient;
    if (!gradient.defined()) {
      eager.set_site("loss", -1);
      scaled = torch::computed(eager, {1}, DType::kFp32, TensorRole::kLogits);
      eager.backward(behind->output,
                     torch::computed(eager, {1}, DType::kFp32, TensorRole::kLogits));
      gradient = behind->schedule->loss_gradient();
    }
  }
  result.output = ChunkSchedule::run(run_, result.schedule.get(),
                                     behind ? behind->schedule.get() : nullptr, gradient, calls);
  run_.process.reduce_fp8_scales(true);
  if (behind && chunks_[behind->chunk].last) {
    garbage_.push_back(behind->schedule->take_loss());
  }
  if (ahead) {
    if (chunks_[ahead->chunk].last) {
      result.output = result.schedule->run_loss(
          result.output,
          [this, mask = result.schedule->loss_mask](
              ScheduleNode&, const ScheduleNode::Tensors& in) -> ScheduleNode::Tensors {
            const Tensor loss = scaled_loss(in[0], mask);
            return {loss, std::exchange(token_count_, {})};
          });
    }
    note_scales(chunks_[ahead->chunk]);
  }
  if (behind && behind->input.defined()) {
    result.gradient = Tensor(eager, behind->input->grad);
  }
  return result;
}

void Stage::deallocate(const Tensor& output) {
  if (output.defined()) {
    const Tensor scalar = run_.eager().empty({1}, run_.context.dtype, TensorRole::kCommunication);
    run_.eager().move_storage(output, scalar);
  }
}

/// Interleaved stages overlap sending and receiving with computation, and wait for a received
/// tensor when they need it. Other stages, and their host, wait at once.
/// Source: megatron/core/pipeline_parallel/p2p_communication.py, batch_p2p_sync.
void Stage::transfer(const Tensor& tensor, CollectiveKind kind) {
  Eager& eager = run_.eager();
  const bool receives = kind == CollectiveKind::kReceive;
  const std::uint32_t mark =
      torch::start_collective(eager,
                              {.kind = kind,
                               .bytes = bytes_of(tensor.elements(), run_.context.dtype).value(),
                               .group = {.size = 2, .stride = run_.context.grid.pipeline.stride},
                               .axis = MeshAxis::kPipeline},
                              receives ? "receive" : "send");
  if (chunks_.size() == 1) {
    eager.wait_mark(eager.stream(), mark);
    eager.host_wait(mark);
  } else if (receives) {
    received_[tensor.impl()] = mark;
  }
}

void Stage::wait_for(const Tensor& received) {
  const auto found = received_.find(received.impl());
  if (found != received_.end()) {
    run_.eager().wait_mark(run_.eager().stream(), found->second);
    received_.erase(found);
  }
}

Tensor Stage::receive() {
  const Context& context = run_.context;
  run_.eager().set_site("receive", -1);
  Tensor tensor = run_.eager().empty({context.stream_tokens(), context.spec.hidden}, context.dtype,
                                     TensorRole::kActivation);
  tensor->requires_grad = true;
  run_.eager().record_stream(tensor);
  transfer(tensor, CollectiveKind::kReceive);
  return tensor;
}

void Stage::send(const Tensor& tensor) {
  run_.eager().record_stream(tensor);
  transfer(tensor, CollectiveKind::kSend);
}

}  // namespace headroom::ir::megatron
