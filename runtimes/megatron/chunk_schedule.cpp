#include "runtimes/megatron/chunk_schedule.h"

#include <algorithm>
#include <utility>

#include "runtimes/megatron/experts.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/streams.h"
#include "runtimes/torch/stream_scope.h"

namespace headroom::ir::megatron {

using torch::Eager;
using torch::Tensor;

namespace {

/// Nobody reads the inputs of these parts after forward. HybridEP needs the experts' inputs and
/// the tokens that it sends.
/// Source: fine_grained_callables.py, should_free_input.
bool frees_inputs(const Runner& run, LayerSchedule::Part part) {
  const bool hybrid = run.context.megatron.dispatcher == MegatronDispatcher::kHybridEp;
  switch (part) {
    case LayerSchedule::Part::kAttention:
      return false;
    case LayerSchedule::Part::kDispatch:
    case LayerSchedule::Part::kExperts:
      return !hybrid;
    case LayerSchedule::Part::kCombine:
      return true;
  }
  return false;
}

}  // namespace

LayerSchedule::LayerSchedule(const Runner& run, const LayerWeights& layer,
                             const NormWeights* final_norm,
                             const std::shared_ptr<ChunkEvent>& event)
    : run_(run), layer_(&layer), final_norm_(final_norm) {
  for (const Part part : {Part::kAttention, Part::kDispatch, Part::kExperts, Part::kCombine}) {
    const bool communicates = part == Part::kDispatch || part == Part::kCombine;
    nodes_.emplace_back(
        run, event,
        ScheduleNode::Place{
            .stream = communicates ? kExchangeStream : StreamId{0},
            .frees_inputs = layer.experts.has_value() && frees_inputs(run, part),
            .owes = run.context.megatron.delayed_weight_gradients && !communicates});
  }
}

bool LayerSchedule::runs(Part part) const {
  return layer_->experts.has_value() || part == Part::kAttention || part == Part::kExperts;
}

LayerSchedule::Tensors LayerSchedule::forward(Part part, const Tensors& inputs,
                                              const LayerInput& shared) {
  if (!runs(part)) {
    return inputs;
  }
  return nodes_[static_cast<std::size_t>(part)].forward(
      inputs, [&](ScheduleNode& node, const Tensors& in) -> Tensors {
        switch (part) {
          case Part::kAttention:
            return attend(node, in[0], shared);
          case Part::kDispatch: {
            RoutedTokens received = send_tokens(run_, *layer_, {in[0], in[1]});
            state_.probabilities = node.detach(received.probabilities);
            return {std::move(received.tokens)};
          }
          case Part::kExperts: {
            if (!layer_->experts) {
              return {mlp_half(run_, *layer_, in[0])};
            }
            Tensor output = process_tokens(run_, *layer_, {in[0], state_.probabilities});
            if (state_.norm) {
              state_.norm->discard_until(output);
              state_.norm.reset();
            }
            state_.probabilities.reset();
            make_viewless(run_);
            return {std::move(output)};
          }
          case Part::kCombine:
            return combine(in[0]);
        }
        return {};
      });
}

LayerSchedule::Tensors LayerSchedule::backward(Part part, const Tensors& gradients) {
  return runs(part) ? nodes_[static_cast<std::size_t>(part)].backward(gradients) : gradients;
}

void LayerSchedule::run_owed(Part part) {
  run_.eager().set_site(part == Part::kAttention ? "qkv" : "experts", layer_->layer);
  nodes_[static_cast<std::size_t>(part)].run_owed();
}

LayerSchedule::Tensors LayerSchedule::attend(ScheduleNode& node, const Tensor& hidden,
                                             const LayerInput& shared) {
  run_.process.wait_for_parameters(layer_->layer);
  const Tensor middle = attention_half(run_, *layer_, hidden, shared);
  if (!layer_->experts) {
    return {middle};
  }
  RoutedTokens routed;
  Tensor shared_part;
  {
    run_.eager().set_site("norm", layer_->layer);
    const bool again = recomputes(run_, &MegatronModules::norms);
    RecomputableNorm norm(run_, middle, layer_->mlp_norm, again);
    shared_part = shared_output(run_, *layer_, norm.output());
    routed = route_tokens(run_, *layer_, norm.output());
    if (again) {
      state_.norm.emplace(std::move(norm));
    }
  }
  state_.residual = node.detach(middle);
  if (shared_part.defined()) {
    state_.shared_output = node.detach(shared_part);
  }
  return {std::move(routed.tokens), std::move(routed.probabilities)};
}

LayerSchedule::Tensors LayerSchedule::combine(const Tensor& output) {
  Eager& eager = run_.eager();
  // Python's names keep the first two results alive to the end.
  const Tensor combined = return_tokens(run_, *layer_, output, state_.shared_output);
  const Tensor added = add_second_half(run_, *layer_, combined, state_.residual);
  eager.record_stream(state_.residual);
  state_.residual.reset();
  if (final_norm_ == nullptr) {
    return {added};
  }
  eager.set_site("final_norm", -1);
  Tensor normed = norm(run_, added, *final_norm_);
  make_viewless(run_);
  return {std::move(normed)};
}

ChunkSchedule::ChunkSchedule(const Runner& run, const Chunk& chunk, Ends ends)
    : run_(run), ends_(std::move(ends)), event_(std::make_shared<ChunkEvent>(run.eager())) {
  before_.emplace(run, event_, ScheduleNode::Place{});
  for (const LayerWeights& layer : chunk.layers) {
    const bool last = &layer == &chunk.layers.back();
    layers_.push_back(std::make_unique<LayerSchedule>(
        run, layer, last && chunk.normed ? &chunk.final_norm : nullptr, event_));
  }
  if (ends_.after) {
    after_.emplace(run, event_, ScheduleNode::Place{});
  }
}

Tensor ChunkSchedule::run_loss(const Tensor& losses, const ScheduleNode::Function& function) {
  loss_ = std::make_shared<Loss>(
      Loss{.node = {run_, event_, ScheduleNode::Place{}}, .input = {}, .mask = loss_mask});
  const ScheduleNode::Function noting = [&](ScheduleNode& node, const Tensors& inputs) {
    loss_->input = inputs[0];
    return function(node, inputs);
  };
  return loss_->node.forward({losses}, noting)[0];
}

Tensor ChunkSchedule::loss_gradient() const {
  return {run_.eager(), loss_->input->grad};
}

namespace {

using Part = LayerSchedule::Part;

/// The input of the next layer's forward and the gradient for the next layer's backward.
struct Between {
  LayerSchedule::Tensors input;
  LayerSchedule::Tensors gradient;
};

/// TransformerLayerSchedulePlan.run: one layer forward and one backward; either may be missing. The
/// caller keeps what it hands over. `last`: the backward is the last one of its chunk, whose
/// attention's weights wait for the pipeline's communication.
Between run_layers_together(LayerSchedule* forward, LayerSchedule* backward,
                            const LayerInput* shared, Between now, bool last) {
  const auto go = [&](Part part) {
    if (forward != nullptr) {
      now.input = forward->forward(part, now.input, *shared);
    }
  };
  const auto back = [&](Part part) {
    if (backward != nullptr) {
      now.gradient = backward->backward(part, now.gradient);
    }
  };
  back(Part::kCombine);
  go(Part::kAttention);
  back(Part::kExperts);
  go(Part::kDispatch);
  if (backward != nullptr) {
    backward->run_owed(Part::kExperts);
  }
  back(Part::kDispatch);
  go(Part::kExperts);
  go(Part::kCombine);
  back(Part::kAttention);
  if (backward != nullptr && !last) {
    backward->run_owed(Part::kAttention);
  }
  return now;
}

}  // namespace

Tensor ChunkSchedule::run(const Runner& run, ChunkSchedule* forward, ChunkSchedule* backward,
                          Tensor gradient, const Calls& calls) {
  Eager& eager = run.eager();
  Between now;
  if (forward != nullptr) {
    if (calls.before_forward) {
      calls.before_forward();
    }
    forward->event_->record(eager.stream());
    now.input = forward->before_->forward({}, [&](ScheduleNode&, const Tensors&) {
      return Tensors{forward->ends_.before(*forward)};
    });
  }
  if (backward != nullptr) {
    backward->event_->record(eager.stream());
    if (calls.before_backward) {
      calls.before_backward();
      backward->event_->record(eager.stream());
    }
    now.gradient = {std::move(gradient)};
    if (backward->after_) {
      now.gradient = backward->after_->backward(now.gradient);
    }
  }
  const std::size_t ahead = forward != nullptr ? forward->layers_.size() : 0;
  const std::size_t behind = backward != nullptr ? backward->layers_.size() : 0;
  for (std::size_t i = 0; i < std::max(ahead, behind); ++i) {
    LayerSchedule* const goes = i < ahead ? forward->layers_[i].get() : nullptr;
    LayerSchedule* const returns = i < behind ? backward->layers_[behind - 1 - i].get() : nullptr;
    now = run_layers_together(goes, returns, forward != nullptr ? &forward->shared : nullptr, now,
                              i + 1 == behind);
    if (i + 1 < behind) {
      backward->layers_.pop_back();
    }
  }
  if (forward != nullptr && calls.after_forward) {
    const torch::StreamScope scope(eager, kExchangeStream);
    forward->event_->wait(kExchangeStream);
    calls.after_forward(now.input[0]);
  }
  if (backward != nullptr) {
    if (calls.after_backward) {
      backward->event_->wait(eager.stream());
      calls.after_backward(now.gradient[0]);
    }
    if (!backward->layers_.empty()) {
      backward->layers_.front()->run_owed(Part::kAttention);
    }
    backward->layers_.clear();
  }
  if (forward != nullptr && forward->after_) {
    now.input = forward->after_->forward(now.input, [&](ScheduleNode&, const Tensors& inputs) {
      return Tensors{forward->ends_.after(inputs[0])};
    });
  }
  if (backward != nullptr) {
    static_cast<void>(backward->before_->backward(now.gradient));
  }
  if (forward != nullptr) {
    forward->event_->wait(eager.stream());
  }
  if (backward != nullptr) {
    backward->event_->wait(eager.stream());
    backward->before_.reset();
    backward->after_.reset();
  }
  return now.input.empty() ? Tensor{} : now.input[0];
}

}  // namespace headroom::ir::megatron
