#include "runtimes/megatron/schedule.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "model_ir/plan/pipeline_schedule.h"

namespace headroom::ir::megatron {
namespace {

using torch::Tensor;

PipelineShape pipeline_of(const Runner& run, std::int64_t chunks) {
  return {.kind = chunks > 1 ? PipelineKind::kInterleaved : PipelineKind::kOneForwardOneBackward,
          .stages = run.context.grid.pipeline.size,
          .micro_batches = run.context.plan.workload.accumulation,
          .chunks = chunks,
          .group = run.context.megatron.micro_batch_group,
          .together = run.context.megatron.overlap_expert_exchange};
}

void run_without_pipeline(const Runner& run, Stage& stage, GradientSync& sync) {
  Tensor output;
  for (std::int64_t i = 0; i < run.context.plan.workload.accumulation; ++i) {
    sync.set_enabled(i == run.context.plan.workload.accumulation - 1);
    // The previous loss is freed once the new one has been computed.
    output = stage.forward(0, {});
    const Tensor none = stage.backward(0, {}, output, {});
  }
  sync.finish();
}

/// combined_1f1b_schedule_for_no_pipelining: each micro-batch runs forward while the one before it
/// runs backward.
void run_together_without_pipeline(const Runner& run, Stage& stage, GradientSync& sync) {
  const std::int64_t count = run.context.plan.workload.accumulation;
  Stage::Together last;
  for (std::int64_t i = 0; i <= count; ++i) {
    sync.set_enabled(i == count);
    std::optional<Stage::Ahead> ahead;
    std::optional<Stage::Behind> behind;
    if (i < count) {
      ahead.emplace();
    }
    if (i > 0) {
      behind.emplace(Stage::Behind{.output = last.output, .schedule = std::move(last.schedule)});
    }
    last = stage.run_together(ahead, behind);
  }
  stage.collect_garbage();
  sync.finish();
}

/// forward_backward_pipelining_without_interleaving. Members live as long as Python's names.
class OneForwardOneBackward {
 public:
  OneForwardOneBackward(const Runner& run, Stage& stage, GradientSync& sync)
      : grid_(run.context.grid),
        stage_(stage),
        sync_(sync),
        count_(run.context.plan.workload.accumulation),
        warmup_(warmup_of_stage(pipeline_of(run, 1), grid_.pipeline.rank)) {}

  void operator()() {
    for (std::int64_t i = 0; i < warmup_; ++i) {
      input_ = receive_forward();
      output_ = stage_.forward(0, input_);
      send_forward();
      push();
    }
    if (count_ > warmup_) {
      input_ = receive_forward();
    }
    for (std::int64_t i = 0; i < count_ - warmup_; ++i) {
      steady(i == count_ - warmup_ - 1);
    }
    for (std::int64_t i = 0; i < warmup_; ++i) {
      pop();
      sync_.set_enabled(i == warmup_ - 1);
      gradient_ = receive_backward();
      input_gradient_ = stage_.backward(0, input_, output_, gradient_);
      send_backward();
    }
  }

 private:
  void steady(bool last) {
    output_ = stage_.forward(0, input_);
    if (!grid_.last_stage()) {
      gradient_ = stage_.receive();
      stage_.send(output_);
    }
    push();
    pop();
    sync_.set_enabled(last && warmup_ == 0);
    input_gradient_ = stage_.backward(0, input_, output_, gradient_);
    if (last) {
      input_.reset();
      send_backward();
    } else {
      send_backward();
      input_ = receive_forward();
    }
  }
  void push() {
    inputs_.push_back(input_);
    outputs_.push_back(output_);
    if (!grid_.last_stage()) {
      stage_.deallocate(output_);
    }
  }
  void pop() {
    input_ = std::move(inputs_.front());
    inputs_.pop_front();
    output_ = std::move(outputs_.front());
    outputs_.pop_front();
  }
  [[nodiscard]] Tensor receive_forward() {
    return grid_.first_stage() ? Tensor{} : stage_.receive();
  }
  [[nodiscard]] Tensor receive_backward() {
    if (grid_.last_stage()) {
      return {};
    }
    Tensor gradient = stage_.receive();
    gradient->requires_grad = false;
    return gradient;
  }
  void send_forward() {
    if (!grid_.last_stage()) {
      stage_.send(output_);
    }
  }
  void send_backward() {
    if (!grid_.first_stage()) {
      stage_.send(input_gradient_);
    }
  }

  const RankGrid& grid_;
  Stage& stage_;
  GradientSync& sync_;
  std::int64_t count_;
  std::int64_t warmup_;
  std::deque<Tensor> inputs_;
  std::deque<Tensor> outputs_;
  Tensor input_;
  Tensor output_;
  Tensor gradient_;
  Tensor input_gradient_;
};

/// microbatch_group_size_per_vp_stage.
std::int64_t group_of(const Runner& run) {
  const std::int64_t group = run.context.megatron.micro_batch_group;
  return group > 0 ? group : run.context.grid.pipeline.size;
}

/// forward_backward_pipelining_with_interleaving.
class Interleaved {
 public:
  Interleaved(const Runner& run, Stage& stage, GradientSync& sync)
      : grid_(run.context.grid),
        stage_(stage),
        sync_(sync),
        overlapped_(run.context.megatron.overlap_grad_reduce),
        together_(run.context.megatron.overlap_expert_exchange),
        flush_(run.context.megatron.overlap_warmup_flush),
        chunks_(static_cast<std::int64_t>(stage.chunk_count())),
        order_(chunk_order(run.context.plan.workload.accumulation, chunks_, group_of(run))),
        total_(run.context.plan.workload.accumulation * chunks_),
        warmup_(warmup_of_stage(pipeline_of(run, chunks_), grid_.pipeline.rank)),
        inputs_(stage.chunk_count()),
        outputs_(stage.chunk_count()),
        gradients_(stage.chunk_count()),
        schedules_(stage.chunk_count()) {}

  void operator()() {
    inputs_[0].push_back(grid_.first_stage() ? Tensor{} : stage_.receive());
    for (std::int64_t k = 0; k < warmup_; ++k) {
      warm_up(k);
    }
    for (std::int64_t k = 0; k < total_ - warmup_; ++k) {
      if (together_) {
        steady_together(k);
      } else {
        steady(k);
      }
    }
    stage_.deallocate(output_);
    if (warmup_ == total_) {
      gradients_.back().push_back(grid_.last_stage() ? Tensor{} : stage_.receive());
    }
    for (std::int64_t k = total_ - warmup_; k < total_; ++k) {
      cool_down(k);
    }
  }

 private:
  struct Transfer {
    bool receives = true;
    std::size_t chunk = 0;  ///< The chunk that the tensor is for.
  };

  [[nodiscard]] std::size_t chunk_of(std::int64_t k, bool forward) const {
    const std::int64_t chunk = order_[static_cast<std::size_t>(k % total_)];
    return static_cast<std::size_t>(forward ? chunk : chunks_ - chunk - 1);
  }

  /// recv_tensor_from_previous_stage.
  [[nodiscard]] Transfer transfer(std::int64_t k, bool forward) const {
    const bool leading = forward ? grid_.first_stage() : grid_.last_stage();
    Transfer result;
    if (!leading) {
      result.chunk = chunk_of(k + 1, forward);
      return result;
    }
    const std::int64_t ahead = grid_.pipeline.size - 1;
    if (k < ahead) {
      result.receives = false;
      return result;
    }
    const auto next = static_cast<std::int64_t>(chunk_of(k - ahead, forward));
    result.receives = next != (forward ? chunks_ - 1 : 0);
    if (result.receives) {
      result.chunk = static_cast<std::size_t>(forward ? next + 1 : next - 1);
    }
    return result;
  }

  [[nodiscard]] Stage::Ahead ahead_of(std::int64_t k) {
    const std::size_t chunk = chunk_of(k, true);
    std::deque<Tensor>& inputs = inputs_[chunk];
    if (stage_.chunk(chunk).first && inputs.size() == outputs_[chunk].size()) {
      inputs.emplace_back();
    }
    return {.chunk = chunk, .input = inputs[outputs_[chunk].size()]};
  }
  [[nodiscard]] Stage::Behind behind_of(std::int64_t k) {
    const std::size_t chunk = chunk_of(k, false);
    std::deque<Tensor>& gradients = gradients_[chunk];
    if (stage_.chunk(chunk).last && gradients.empty()) {
      gradients.emplace_back();
    }
    Stage::Behind behind{.chunk = chunk,
                         .input = take(inputs_[chunk]),
                         .output = take(outputs_[chunk]),
                         .gradient = take(gradients)};
    if (together_) {
      behind.schedule = take(schedules_[chunk]);
    }
    return behind;
  }
  void keep(std::size_t chunk, Stage::Together result) {
    outputs_[chunk].push_back(std::move(result.output));
    schedules_[chunk].push_back(std::move(result.schedule));
  }

  [[nodiscard]] Tensor run_forward(std::int64_t k) {
    const Stage::Ahead ahead = ahead_of(k);
    if (together_) {
      keep(ahead.chunk, stage_.run_together(ahead, std::nullopt));
    } else {
      outputs_[ahead.chunk].push_back(stage_.forward(ahead.chunk, ahead.input));
    }
    return outputs_[ahead.chunk].back();
  }

  [[nodiscard]] Tensor run_backward(std::int64_t k) {
    Stage::Behind behind = behind_of(k);
    Tensor input_gradient =
        together_ ? stage_.run_together(std::nullopt, behind).gradient
                  : stage_.backward(behind.chunk, behind.input, behind.output, behind.gradient);
    if (together_) {
      behind.release();
    }
    synchronize(k);
    return input_gradient;
  }

  /// grad_sync_func: all stages start their reductions at the same time.
  void synchronize(std::int64_t k) {
    const std::int64_t aligned = k - grid_.pipeline.rank;
    // combined_1f1b.py asks `if b_model_chunk_id`, which leaves chunk 0 out.
    const bool left_out = together_ && chunk_of(k, false) == 0;
    if (!overlapped_ || aligned < 0 || left_out) {
      return;
    }
    const std::size_t chunk = chunk_of(aligned, false);
    const auto runs_chunk = [&](std::int64_t other) { return chunk_of(other, false) == chunk; };
    for (std::int64_t later = aligned + 1; later < total_; ++later) {
      if (runs_chunk(later)) {
        return;
      }
    }
    sync_.start(stage_.chunk(chunk));
  }

  /// Runs a chunk forward. A loss is neither sent nor kept by the schedule, because its graph would
  /// keep the chunk's input alive.
  void forward(std::int64_t k) {
    output_ = run_forward(k);
    if (stage_.chunk(chunk_of(k, true)).last) {
      output_.reset();
    }
  }

  void warm_up(std::int64_t k) {
    Transfer next = transfer(k, true);
    next.receives = next.receives && k != total_ - 1;
    if (flush_ && k != 0 && !stage_.chunk(chunk_of(k, true)).first) {
      waited_input_ = ahead_of(k).input;
    }
    const bool before = flush_ && !grid_.first_stage();
    Tensor received = before && next.receives ? stage_.receive() : Tensor{};
    forward(k);
    if (before) {
      static_cast<void>(exchange(output_, false));
    } else {
      received = exchange(output_, next.receives);
    }
    if (next.receives) {
      inputs_[next.chunk].push_back(received);
    }
    if (!flush_) {
      input_ = std::move(received);
    }
    stage_.deallocate(output_);
    if (k == warmup_ - 1 && warmup_ != total_ && !grid_.last_stage()) {
      buffered_ = stage_.receive();
      gradients_.back().push_back(buffered_);
    }
  }

  void steady(std::int64_t k) {
    const std::int64_t ahead = k + warmup_;
    stage_.deallocate(output_);  // pp_pre_forward
    forward(ahead);
    Transfer next = transfer(ahead, true);
    next.receives = next.receives && k != total_ - warmup_ - 1;
    Tensor received = exchange(output_, next.receives);
    if (next.receives) {
      inputs_[next.chunk].push_back(std::move(received));
    }
    static_cast<void>(wait(k));
    Tensor gradient = run_backward(k);
    const bool sends = !stage_.chunk(chunk_of(k, false)).first;
    // Its send request keeps it alive until the next backward.
    sent_gradient_ = sends ? gradient : Tensor{};
    if (Tensor coming = send_back(gradient, k, true); coming.defined()) {
      requests_.push_back(std::move(coming));
    }
    input_gradient_ = sends ? std::move(gradient) : Tensor{};
    buffered_.reset();
  }

  /// A forward and a backward at the same time. What they send and receive overlaps with them.
  void steady_together(std::int64_t k) {
    const std::int64_t ahead = k + warmup_;
    const Stage::Ahead next = ahead_of(ahead);
    const bool ends = stage_.chunk(next.chunk).last;
    const bool sends = !stage_.chunk(chunk_of(k, false)).first;
    ChunkSchedule::Calls calls;
    calls.before_forward = [this] { stage_.deallocate(output_); };  // pp_pre_forward
    calls.after_forward = [&](const Tensor& output) {
      Transfer coming = transfer(ahead, true);
      coming.receives = coming.receives && k != total_ - warmup_ - 1;
      Tensor received = exchange(ends ? Tensor{} : output, coming.receives);
      if (coming.receives) {
        inputs_[coming.chunk].push_back(std::move(received));
      }
    };
    calls.before_backward = [this, k] { static_cast<void>(wait(k)); };
    calls.after_backward = [&](const Tensor& gradient) {
      sent_gradient_ = sends ? gradient : Tensor{};
      if (Tensor coming = send_back(gradient, k, true); coming.defined()) {
        requests_.push_back(std::move(coming));
      }
    };
    Stage::Behind behind = behind_of(k);
    Stage::Together result = stage_.run_together(next, behind, std::move(calls));
    behind.release();
    synchronize(k);
    input_gradient_ = std::move(result.gradient);
    output_ = result.output;
    keep(next.chunk, std::move(result));
    buffered_.reset();
  }

  void cool_down(std::int64_t k) {
    if (Tensor request = wait(k); request.defined()) {
      // A local name of the Python function, which keeps it alive to the end.
      last_request_ = std::move(request);
    }
    const bool before = flush_ && !grid_.last_stage();
    const Tensor early = before ? receive_gradient(k, k != total_ - 1) : Tensor{};
    input_gradient_ = run_backward(k);
    const bool sends = !stage_.chunk(chunk_of(k, false)).first;
    if (!sends) {
      input_gradient_.reset();
    }
    Tensor received = before ? early : receive_gradient(k, k != total_ - 1);
    if (sends) {
      stage_.send(input_gradient_);
    }
    if (!flush_) {
      received_gradient_ = std::move(received);
      return;
    }
    sent_gradient_ = input_gradient_;
    if (received.defined()) {
      requests_.push_back(std::move(received));
    }
  }

  /// Takes the oldest request for a gradient. A backward waits for it unless it begins with the
  /// loss. Requests keep what they receive alive.
  [[nodiscard]] Tensor wait(std::int64_t k) {
    return requests_.empty() || stage_.chunk(chunk_of(k, false)).last ? Tensor{} : take(requests_);
  }

  /// The gradient that is received in exchange for that of pass `k`; none if no stage sends one.
  [[nodiscard]] Tensor receive_gradient(std::int64_t k, bool may_receive) {
    const Transfer next = transfer(k, false);
    if (!next.receives || !may_receive) {
      return {};
    }
    Tensor received = stage_.receive();
    gradients_[next.chunk].push_back(received);
    return received;
  }

  /// Sends a gradient back and returns the one that is received in exchange.
  [[nodiscard]] Tensor send_back(const Tensor& gradient, std::int64_t k, bool may_receive) {
    Tensor received = receive_gradient(k, may_receive);
    if (!stage_.chunk(chunk_of(k, false)).first) {
      stage_.send(gradient);
    }
    return received;
  }

  [[nodiscard]] Tensor exchange(const Tensor& output, bool receives) {
    if (output.defined()) {
      stage_.send(output);
    }
    return receives ? stage_.receive() : Tensor{};
  }

  template <class T>
  [[nodiscard]] static T take(std::deque<T>& queue) {
    T front = std::move(queue.front());
    queue.pop_front();
    return front;
  }

  const RankGrid& grid_;
  Stage& stage_;
  GradientSync& sync_;
  bool overlapped_;  ///< Gradients are reduced while backward runs.
  bool together_;    ///< Forward and backward run at the same time.
  bool flush_;       ///< The next tensor is received during a pass, also outside the steady state.
  std::int64_t chunks_;
  std::vector<std::int64_t> order_;
  std::int64_t total_;
  std::int64_t warmup_;
  std::vector<std::deque<Tensor>> inputs_;
  std::vector<std::deque<Tensor>> outputs_;
  std::vector<std::deque<Tensor>> gradients_;
  std::vector<std::deque<std::shared_ptr<ChunkSchedule>>> schedules_;
  Tensor input_;
  Tensor output_;
  Tensor input_gradient_;
  Tensor sent_gradient_;
  Tensor received_gradient_;
  Tensor buffered_;  ///< The first gradient; it is alive until the next one replaces it.
  std::deque<Tensor> requests_;
  Tensor last_request_;
  Tensor waited_input_;  ///< The last request that a forward of the warm-up has waited for.
};

}  // namespace

void run_step(const Runner& run, Stage& stage, GradientSync& sync) {
  if (run.context.grid.pipeline.size == 1 && run.context.megatron.overlap_expert_exchange) {
    run_together_without_pipeline(run, stage, sync);
  } else if (run.context.grid.pipeline.size == 1) {
    run_without_pipeline(run, stage, sync);
  } else if (stage.chunk_count() > 1) {
    Interleaved schedule(run, stage, sync);
    schedule();
    stage.collect_garbage();
    sync.finish();
  } else {
    OneForwardOneBackward schedule(run, stage, sync);
    schedule();
    sync.finish();
  }
}

}  // namespace headroom::ir::megatron
