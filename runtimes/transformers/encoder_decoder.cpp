#include "runtimes/transformers/encoder_decoder.h"

#include <memory>
#include <utility>
#include <vector>

#include "runtimes/torch/checkpoint.h"
#include "runtimes/torch/launch.h"
#include "runtimes/transformers/encoder.h"
#include "runtimes/transformers/layers.h"
#include "runtimes/transformers/library_version.h"
#include "runtimes/transformers/masks.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Tensor;

/// The operators of one stack and the places of its inputs.
struct StackNodes {
  NodeId first;  ///< The embedding.
  NodeId end;    ///< After the last operator: the decoder's embedding, or the head.
  std::int32_t first_layer;
  std::int32_t end_layer;
};

StackNodes encoder_nodes(const Model& model) {
  const Graph& graph = *model.graph;
  const auto layers = static_cast<std::int32_t>(model.spec->encoder->layers);
  NodeId end = graph.layers()[static_cast<std::size_t>(layers) - 1].last;
  while (graph.op(end).kind != OpKind::kEmbedding) {
    end = next(end);
  }
  return {.first = NodeId{0}, .end = end, .first_layer = 0, .end_layer = layers};
}

StackNodes decoder_nodes(const Model& model) {
  const Graph& graph = *model.graph;
  const StackNodes encoder = encoder_nodes(model);
  NodeId end = graph.layers().back().last;
  while (graph.op(end).module != Module::kHead) {
    end = next(end);
  }
  return {.first = encoder.end,
          .end = end,
          .first_layer = encoder.end_layer,
          .end_layer = static_cast<std::int32_t>(graph.layers().size())};
}

/// What T5Stack passes from layer to layer.
struct LayerState {
  Tensor hidden;
  Tensor bias;        ///< Bias of self-attention, made by the first layer.
  Tensor memory;      ///< Decoder: the encoder's output.
  Tensor cross_bias;  ///< Decoder: bias of cross-attention, zeros.
};

/// A layer's names in `Interpreter`: they are released when the layer returns or is unwound.
class LayerNames {
 public:
  LayerNames(Interpreter& interpreter, TensorId memory, const LayerState& state)
      : interpreter_(interpreter), memory_(memory) {
    interpreter.shared().position_bias = state.bias;
    interpreter.shared().cross_bias = state.cross_bias;
    if (state.memory.defined()) {
      interpreter.set(memory, state.memory);
    }
  }
  ~LayerNames() {
    interpreter_.shared().position_bias.reset();
    interpreter_.shared().cross_bias.reset();
    static_cast<void>(interpreter_.take(memory_));
  }
  LayerNames(const LayerNames&) = delete;
  LayerNames& operator=(const LayerNames&) = delete;

 private:
  Interpreter& interpreter_;
  TensorId memory_;
};

/// T5Stack.forward.
class Stack {
 public:
  Stack(Eager& eager, Model& model, std::shared_ptr<Interpreter> interpreter, StackNodes nodes)
      : eager_(eager),
        model_(model),
        graph_(*model.graph),
        interpreter_(std::move(interpreter)),
        nodes_(nodes),
        // The encoder's last operator makes the decoder's memory.
        memory_(
            graph_.op(NodeId{static_cast<std::uint32_t>(index_of(encoder_nodes(model).end) - 1)})
                .outputs[0]),
        fourth_(library_traits(*model.spec, *model.plan).fourth) {}

  /// The stack's output. `memory`: undefined for the encoder.
  Tensor run(const Tensor& ids, const Tensor& memory) {
    const ModuleCall call{
        .part = ModuleCall::Part::kDecoder, .layer = nodes_.first_layer, .op = nullptr};
    enter_part(model_.hooks, call, {});
    interpreter_->set(graph_.op(nodes_.first).inputs[0], ids);
    interpreter_->run(nodes_.first, nodes_.first);
    Tensor embedded = interpreter_->peek(graph_.op(nodes_.first).outputs[0]);
    require_gradient(model_, embedded);
    Tensor mask;
    if (fourth_) {
      mask = make_masks_of_four(embedded.dtype(), memory);
    } else if (memory.defined()) {
      eager_.set_site("masks", -1);
      mask = make_masks(eager_, model_, {.padding = {}, .dtype = embedded.dtype()}).full;
    }
    const LayerRange& first = graph_.layers()[static_cast<std::size_t>(nodes_.first_layer)];
    for (NodeId id = next(nodes_.first); id != first.first; id = next(id)) {
      interpreter_->run(id, id);
    }
    LayerState state;
    state.hidden = interpreter_->take(first.input);
    state.memory = memory;
    for (std::int32_t layer = nodes_.first_layer; layer < nodes_.end_layer; ++layer) {
      run_layer(graph_.layers()[static_cast<std::size_t>(layer)], mask, state);
    }
    eager_.set_layer(-1);
    Tensor output = run_tail(std::move(state.hidden));
    mask.reset();
    names_.clear();
    interpreter_->shared().cross_mask.reset();
    embedded.reset();
    state.bias.reset();
    state.cross_bias.reset();
    leave_part(model_.hooks, call, {&output});
    return output;
  }

 private:
  /// The masks that a stack makes until 4.57 if it gets none: an encoder's [B, 1, 1, S], or a
  /// decoder's causal mask and the mask of the memory.
  Tensor make_masks_of_four(DType dtype, const Tensor& memory) {
    eager_.set_site("masks", -1);
    const torch::Shape shape{model_.plan->workload.micro_batch, model_.plan->workload.sequence};
    names_.push_back(torch::computed(eager_, {shape[1]}, DType::kInt64));  // cache_position
    const Tensor ones = torch::computed(eager_, shape, DType::kFp32);
    names_.push_back(ones);
    if (!memory.defined()) {
      return inverted_mask(eager_, ones, dtype);
    }
    Tensor mask = make_masks(eager_, model_, {.padding = ones, .dtype = dtype}).full;
    names_.push_back(torch::computed(eager_, shape, DType::kInt64));
    interpreter_->shared().cross_mask = inverted_mask(eager_, names_.back(), dtype);
    return mask;
  }

  void run_layer(const LayerRange& range, const Tensor& mask, LayerState& state) {
    eager_.set_layer(range.layer);
    const bool around = model_.hooks.around_checkpoint;
    const Tensor positions = fourth_ ? names_.front() : Tensor{};
    const Tensor cross_mask = interpreter_->shared().cross_mask;
    const auto region = [interpreter = interpreter_, &model = model_, memory = memory_, range,
                         around, positions,
                         cross_mask](Eager&, const std::vector<Tensor>& arguments) {
      std::vector<Tensor> inputs = arguments;
      if (model.hooks.before && !around) {
        model.hooks.before(range.layer, inputs);
      }
      const ModuleCall call{.part = ModuleCall::Part::kLayer, .layer = range.layer, .op = nullptr};
      enter_part(model.hooks, call, {&inputs[0], &inputs[1], &inputs[2], &inputs[3]});
      interpreter->shared().cross_mask = cross_mask;
      const LayerNames names(
          *interpreter, memory,
          {.hidden = {}, .bias = inputs[1], .memory = inputs[2], .cross_bias = inputs[3]});
      std::vector<Tensor> outputs(3);
      outputs[0] = interpreter->run_layer(range, inputs[0], inputs[4]);
      outputs[1] = interpreter->shared().position_bias;
      outputs[2] = interpreter->shared().cross_bias;
      leave_part(model.hooks, call, {&outputs[0], &outputs[1], &outputs[2]});
      if (model.hooks.after && !around) {
        model.hooks.after(range.layer, outputs);
      }
      return outputs;
    };
    std::vector<Tensor> inputs{state.hidden, state.bias, state.memory, state.cross_bias, mask};
    if (around) {
      model_.hooks.before(range.layer, inputs);
    }
    std::vector<Tensor> outputs = torch::run_region(eager_, inputs, region, recompute_of(range));
    if (around) {
      model_.hooks.after(range.layer, outputs);
    }
    inputs.clear();
    state.hidden = std::move(outputs[0]);
    state.bias = std::move(outputs[1]);
    state.cross_bias = std::move(outputs[2]);
  }

  [[nodiscard]] torch::RegionForm recompute_of(const LayerRange& range) const {
    const ParallelPlan& plan = *model_.plan;
    if (!recomputes(model_) || !recomputes_layer(plan, range.layer)) {
      return torch::RegionForm::kKept;
    }
    return plan.recompute == Recompute::kFull ? torch::RegionForm::kRecomputed
                                              : torch::RegionForm::kReentrant;
  }

  /// The final norm and dropout.
  Tensor run_tail(Tensor hidden) {
    const LayerRange& last = graph_.layers()[static_cast<std::size_t>(nodes_.end_layer) - 1];
    interpreter_->set(last.output, std::move(hidden));
    NodeId id = next(last.last);
    TensorId output = last.output;
    for (; id != nodes_.end; id = next(id)) {
      interpreter_->run(id, id);
      output = graph_.op(id).outputs[0];
    }
    return interpreter_->peek(output);
  }

  Eager& eager_;
  Model& model_;
  const Graph& graph_;
  std::shared_ptr<Interpreter> interpreter_;
  StackNodes nodes_;
  TensorId memory_;
  bool fourth_;                ///< Release before 5.0.
  std::vector<Tensor> names_;  ///< Local names of the stack's forward.
};

/// The labels after a start token. Source: T5PreTrainedModel._shift_right.
Tensor shift_right(Eager& eager, const Tensor& labels) {
  const torch::Shape& shape = labels.shape();
  Tensor shifted = torch::computed(eager, shape, DType::kInt64, TensorRole::kInput);
  { const Tensor copy = torch::computed(eager, shape.with(1, shape[1] - 1), DType::kInt64); }
  const Tensor ignored = torch::computed(eager, shape, DType::kBool);
  return shifted;
}

}  // namespace

ModelOutput forward_encoder_decoder(Eager& eager, Model& model, const Tensor& ids) {
  const auto interpreter = std::make_shared<Interpreter>(eager, model);
  eager.set_role(TensorRole::kTemporary);
  const StackNodes decoder = decoder_nodes(model);
  enter_part(model.hooks, {.part = ModuleCall::Part::kModel}, {});
  Tensor encoded = Stack(eager, model, interpreter, encoder_nodes(model)).run(ids, {});
  eager.set_site("decoder_input_ids", -1);
  Tensor decoder_ids = shift_right(eager, ids);
  Tensor decoded = Stack(eager, model, interpreter, decoder).run(decoder_ids, encoded);
  Tensor scaled;
  NodeId head = decoder.end;
  eager.set_role(TensorRole::kLogits);
  if (model.graph->op(head).kind == OpKind::kScale) {  // Not the name of the decoder's output.
    interpreter->run(head, head);
    scaled = interpreter->peek(model.graph->op(head).outputs[0]);
    head = next(head);
  }
  ModelOutput output = run_plain_head(eager, model, *interpreter, ids, head);
  decoder_ids.reset();
  decoded.reset();
  scaled.reset();
  output.memory = std::move(encoded);
  return output;
}

}  // namespace headroom::ir::transformers
