#include "runtimes/transformers/recording/code_runner.h"

#include <algorithm>
#include <array>
#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/transformers/adapter.h"
#include "runtimes/transformers/layers.h"
#include "runtimes/transformers/losses.h"
#include "runtimes/transformers/recording/padded_batch.h"
#include "runtimes/transformers/recording/recorded_attention.h"
#include "runtimes/transformers/recording/recorded_node.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Tensor;

CodeRunner::CodeRunner(Eager& eager, Model& model)
    : eager_(eager), model_(model), prepared_(model.recorded), adapted_(model) {
  HEADROOM_ASSERT(prepared_ != nullptr);
  if (model.training && model.plan->loss == LossKind::kFusedLinear) {
    fused_ = find_causal_loss(prepared_->variant().forward);
  }
}

Tensor CodeRunner::operand(const Reference& reference, const Frame& frame) const {
  switch (reference.kind) {
    case Reference::Kind::kValue:
      return frame.values[reference.index];
    case Reference::Kind::kParameter:
      return parameter(frame.scope.parameters[reference.index]);
    case Reference::Kind::kBuffer:
      return model_.buffers[frame.scope.buffers[reference.index]];
    default:
      return {};
  }
}

/// The parameter, or the copy of it that is trained in its place.
const Tensor& CodeRunner::parameter(std::uint32_t index) const {
  if (!model_.retrained.empty()) {
    const auto copy = model_.retrained.find({index, ParameterReader::kModule});
    if (copy != model_.retrained.end()) {
      return copy->second;
    }
  }
  return model_.parameters[index];
}

std::vector<Tensor> CodeRunner::operands(const Instruction& instruction, const Frame& frame) const {
  std::vector<Tensor> inputs;
  inputs.reserve(instruction.inputs.size());
  for (const Reference& input : instruction.inputs) {
    inputs.push_back(operand(input, frame));
  }
  return inputs;
}

void CodeRunner::read(std::span<const Reference> references, const Frame& frame,
                      TensorList& tensors) const {
  for (std::size_t i = 0; i < references.size(); ++i) {
    tensors[i] = operand(references[i], frame);
  }
}

void CodeRunner::read_others(const PreparedInstruction& instruction, const Frame& frame,
                             TensorList& others) const {
  for (std::size_t i = 0; i < others.size(); ++i) {
    others[i] = operand(instruction.recorded->saves[i].other, frame);
  }
}

CodeRunner::Frame CodeRunner::frame_of(const PreparedCode& code, const RecordedScope& scope,
                                       const ModuleCalls::Code& hooked) const {
  const auto slots = static_cast<std::uint32_t>(hooked.calls.size());
  return {.scope = scope, .values = Values(code.values + slots), .hooked = hooked};
}

std::vector<Tensor> CodeRunner::forward(const Batch& batch) {
  const bool hooked = model_.hooks.enter && prepared_->calls();
  Frame frame = frame_of(prepared_->forward(), prepared_->variant().forward_scope,
                         hooked ? prepared_->calls()->forward() : ModuleCalls::Code{});
  frame.values.set(0, batch.ids);
  padding_ = batch.mask;
  for (std::size_t i = 0; i < batch.others.size(); ++i) {
    frame.values.set(static_cast<std::uint32_t>(i + 1), batch.others[i]);
  }
  enter_part(model_.hooks, {.part = ModuleCall::Part::kModel}, {});
  std::vector<Tensor> result;
  run(prepared_->forward(), frame, &result);
  leave_part(model_.hooks, {.part = ModuleCall::Part::kModel}, {&result[0]});
  return result;
}

void CodeRunner::run(const PreparedCode& code, Frame& frame, std::vector<Tensor>* result) {
  using Kind = Instruction::Kind;
  for (std::uint32_t at = 0; at < code.instructions.size(); ++at) {
    const PreparedInstruction& prepared = code.instructions[at];
    const Instruction& instruction = *prepared.recorded;
    if (fused_ && result != nullptr && at == fused_->head) {
      run_fused_loss(code, frame);
      at = fused_->last;
      continue;
    }
    begin_calls(at, frame);
    switch (instruction.kind) {
      case Kind::kOp:
        if (instruction.takes_lists) {
          run_join(prepared, frame, frame.values);
        } else {
          run_op(prepared, frame);
        }
        break;
      case Kind::kLinear:
        run_linear(instruction, frame);
        break;
      case Kind::kDrop:
        for (const Reference& dropped : instruction.inputs) {
          frame.values.drop(dropped.index);
          frame.lists.erase(dropped.index);
        }
        break;
      case Kind::kEnter:
        call_hook(instruction, frame);
        break;
      case Kind::kLeave:
        require_gradient_of(code, at, frame);
        call_hook(instruction, frame);
        break;
      case Kind::kLayer:
        run_layer(instruction, frame);
        break;
      case Kind::kRepeat:
        run_loop(prepared, frame);
        break;
      case Kind::kNode:
        attach_node(prepared, frame);
        break;
      case Kind::kResult:
        *result = operands(instruction, frame);
        break;
    }
    end_calls(at, frame);
  }
}

/// A buffer that a wrapper keeps in another type is cast for the arithmetic. The cast of a view,
/// for which the recording has no end, is gone at once.
void CodeRunner::cast_buffers(const PreparedInstruction& instruction, const Frame& frame,
                              TensorList& inputs) {
  const std::vector<Reference>& references = instruction.recorded->inputs;
  const bool views = std::ranges::any_of(
      instruction.recorded->outputs,
      [](const RecordedOutput& output) { return output.how != RecordedOutput::How::kNew; });
  for (std::size_t i = 0; i < references.size(); ++i) {
    if (references[i].kind != Reference::Kind::kBuffer || !inputs[i].defined()) {
      continue;
    }
    const DType recorded = prepared_->buffer_type(frame.scope.buffers[references[i].index]);
    if (inputs[i].dtype() != recorded && is_floating(recorded)) {
      Tensor cast = torch::computed(eager_, inputs[i].shape(), recorded);
      if (!views) {
        inputs[i] = std::move(cast);
      }
    }
  }
}

/// Parameters with adapters that are no linear layers: the operator reads the sum of both.
void CodeRunner::put_adapted(const PreparedInstruction& instruction, Frame& frame,
                             TensorList& inputs) {
  const std::vector<Reference>& references = instruction.recorded->inputs;
  for (std::size_t i = 0; i < references.size(); ++i) {
    if (references[i].kind != Reference::Kind::kParameter) {
      continue;
    }
    const std::uint32_t index = frame.scope.parameters[references[i].index];
    if (adapted_.contains(index)) {
      inputs[i] = adapted_.sum_for(eager_, model_, index, frame.scope, frame.adapted);
    }
  }
}

void CodeRunner::run_op(const PreparedInstruction& instruction, Frame& frame) {
  const Instruction& recorded = *instruction.recorded;
  if (instruction.traits.keeps) {
    model_.kept[&recorded] = operand(recorded.inputs.front(), frame);
    return;
  }
  if (instruction.traits.drops && !model_.training) {  // nn.functional.dropout: its input.
    frame.values.set(recorded.outputs.front().target.index,
                     operand(recorded.inputs.front(), frame));
    return;
  }
  if (model_.hooks.read) {
    read_attributes(instruction, frame);
  }
  TensorList inputs(recorded.inputs.size());
  read(recorded.inputs, frame, inputs);
  eager_.set_site(instruction.operation, eager_.layer());
  if (instruction.buffered) {
    cast_buffers(instruction, frame, inputs);
  }
  if (!adapted_.empty()) {
    put_adapted(instruction, frame, inputs);
  }
  if (returns_input(instruction, inputs.all())) {
    frame.values.set(recorded.outputs.front().target.index, std::move(inputs[0]));
    return;
  }
  // Autocast keeps casts of parameters, not of sums.
  const bool kept = recorded.kept && eager_.autocast() && !inputs[0]->grad_fn;
  if (instruction.traits.attends) {
    frame.values.set(recorded.outputs[0].target.index,
                     recorded_attention(eager_, model_, {recorded, inputs.all(), mask_}));
    return;
  }
  if (kept) {
    const auto cached = eager_.autocast_cache().find(inputs[0].impl());
    if (cached != eager_.autocast_cache().end()) {
      frame.values.set(recorded.outputs[0].target.index, cached->second);
      return;
    }
  }
  TensorList others(instruction.refers ? recorded.saves.size() : 0);
  read_others(instruction, frame, others);
  RecordedNode node(eager_, instruction,
                    {.inputs = inputs.all(),
                     .others = others.all(),
                     .base = recorded.base ? frame.values[*recorded.base] : Tensor{}});
  TensorList outputs(recorded.outputs.size());
  run_operator(eager_, instruction, inputs.all(), outputs.all());
  if (recorded.base) {
    // The base's node is that of the write; it is the same memory.
    const Tensor& base = frame.values[*recorded.base];
    Tensor written = eager_.alias(base, base.shape(), false);
    node.finish({&written, 1});
    frame.values.replace(*recorded.base, std::move(written));
  } else {
    node.finish(outputs.all());
  }
  if (kept) {
    eager_.autocast_cache().emplace(inputs[0].impl(), outputs[0]);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    frame.values.put(recorded, i, std::move(outputs[i]));
  }
}

/// An operator that joins tensors of lists, whose number depends on the sequence. Each gets a view
/// of the gradient.
void CodeRunner::run_join(const PreparedInstruction& instruction, const Frame& frame,
                          Values& values) {
  const Instruction& recorded = *instruction.recorded;
  std::vector<Tensor> inputs;
  for (const Reference& reference : recorded.inputs) {
    const auto list = reference.kind == Reference::Kind::kValue ? frame.lists.find(reference.index)
                                                                : frame.lists.end();
    if (list == frame.lists.end()) {
      inputs.push_back(operand(reference, frame));
    } else {
      inputs.insert(inputs.end(), list->second.begin(), list->second.end());
    }
  }
  eager_.set_site(instruction.operation, eager_.layer());
  torch::Record record(eager_, inputs);
  Tensor output;
  run_operator(eager_, instruction, inputs, {&output, 1});
  std::vector<torch::Shape> shapes;
  for (const Tensor& input : inputs) {
    shapes.push_back(input.defined() ? input.shape() : torch::Shape());
  }
  inputs.clear();
  record.finish(output, [shapes = std::move(shapes)](Eager& eager, torch::Gradients& incoming,
                                                     torch::Node& node) {
    torch::Gradients results(shapes.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (node.wants(i)) {
        results[i] = eager.alias(incoming.front(), shapes[i], false);
      }
    }
    return results;
  });
  values.put(recorded, 0, std::move(output));
}

void CodeRunner::attach_node(const PreparedInstruction& instruction, const Frame& frame) {
  const Instruction& recorded = *instruction.recorded;
  eager_.set_site(instruction.operation, eager_.layer());
  TensorList inputs(recorded.inputs.size());
  read(recorded.inputs, frame, inputs);
  TensorList others(instruction.refers ? recorded.saves.size() : 0);
  read_others(instruction, frame, others);
  RecordedNode node(eager_, instruction,
                    {.inputs = inputs.all(),
                     .others = others.all(),
                     .base = recorded.base ? frame.values[*recorded.base] : Tensor{}});
  TensorList outputs(recorded.outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = operand(recorded.outputs[i].target, frame);
  }
  node.finish(outputs.all());
}

void CodeRunner::run_linear(const Instruction& instruction, Frame& frame) {
  const std::uint32_t module = frame.scope.modules[instruction.index];
  const Op* const op = prepared_->linear(module);
  HEADROOM_ASSERT(op != nullptr);
  const Tensor input = operand(instruction.inputs[0], frame);
  eager_.set_site("linear", eager_.layer());
  const bool adapted = model_.adapters.contains(static_cast<std::uint32_t>(op->parameters[0]));
  const bool head = op->role == OpRole::kHead && model_.hooks.before;
  std::vector<Tensor> given{input};
  if (head) {
    model_.hooks.before(kHeadModule, given);
  }
  ModuleCall call = module_of(*op);
  call.part = adapted ? ModuleCall::Part::kAdapted : call.part;
  Tensor output = call_module(model_.hooks, call, given[0], [&](const Tensor& x) {
    return adapted ? adapted_linear(eager_, model_, *op, x) : frozen_linear(eager_, model_, *op, x);
  });
  if (head) {
    model_.hooks.after(kHeadModule, {output});
  }
  frame.values.set(instruction.outputs[0].target.index, std::move(output));
}

/// The model's own forward reads the weight of the output layer, which it does not call.
void CodeRunner::run_fused_loss(const PreparedCode& code, Frame& frame) {
  const Instruction& head = *code.instructions[fused_->head].recorded;
  const Op* const op = prepared_->linear(frame.scope.modules[head.index]);
  HEADROOM_ASSERT(op != nullptr);
  eager_.set_role(TensorRole::kLogits);
  eager_.set_site("cross_entropy", -1);
  HeadInput input{.hidden = operand(head.inputs[0], frame),
                  .weight = parameter(static_cast<std::uint32_t>(op->parameters[0])),
                  .bias = {}};
  Tensor loss = fused_linear_loss(eager_, input, frame.values[0]);
  eager_.set_role(TensorRole::kTemporary);
  for (std::uint32_t at = fused_->head; at <= fused_->last; ++at) {
    const Instruction& skipped = *code.instructions[at].recorded;
    for (const Reference& dropped : skipped.inputs) {
      if (skipped.kind == Instruction::Kind::kDrop) {
        frame.values.drop(dropped.index);
      }
    }
    while (frame.next < frame.hooked.calls.size() && frame.hooked.calls[frame.next].first == at) {
      ++frame.next;
    }
  }
  const Instruction& last = *code.instructions[fused_->last].recorded;
  frame.values.set(last.outputs[0].target.index, std::move(loss));
}

/// The arguments of a call. The caller has no name for those that the called code drops.
std::vector<Tensor> CodeRunner::hand_over(const Instruction& instruction, const RecordedBody& body,
                                          Frame& frame) const {
  std::vector<Tensor> arguments = operands(instruction, frame);
  for (const std::uint32_t consumed : body.consumed) {
    const Reference& given = instruction.inputs[consumed];
    if (given.kind == Reference::Kind::kValue) {
      frame.values.drop(given.index);
    }
  }
  return arguments;
}

void CodeRunner::run_loop(const PreparedInstruction& prepared, Frame& frame) {
  const Instruction& instruction = *prepared.recorded;
  const RecordedLoop& loop = *instruction.loop;
  const std::int64_t turns = prepared.turns;
  std::vector<Tensor> arguments = hand_over(instruction, loop.body, frame);
  const std::vector<std::uint32_t>& made = loop.body.outputs;
  const std::size_t last = made.size() - loop.lists;  // Outputs of the last turn.
  std::vector<Tensor> outputs(last);
  std::vector<std::vector<Tensor>> lists(loop.lists);
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    Frame inner = frame_of(*prepared.loop, frame.scope, {});
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      inner.values.set(static_cast<std::uint32_t>(i),
                       loop.next[i] ? std::move(arguments[i]) : arguments[i]);
    }
    run(*prepared.loop, inner, nullptr);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (loop.next[i]) {
        arguments[i] = inner.values[*loop.next[i]];
      }
    }
    for (std::size_t i = 0; i < lists.size(); ++i) {
      lists[i].push_back(inner.values[made[last + i]]);
    }
    if (turn + 1 == turns) {
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        outputs[i] = inner.values[made[i]];
      }
    }
  }
  for (std::size_t i = 0; i < lists.size(); ++i) {
    frame.lists[instruction.outputs[last + i].target.index] = std::move(lists[i]);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    frame.values.set(instruction.outputs[i].target.index, std::move(outputs[i]));
  }
}

std::vector<Tensor> CodeRunner::run_body(std::int32_t index, std::vector<Tensor> arguments) {
  const RecordedLayer& layer = prepared_->variant().layers[static_cast<std::size_t>(index)];
  const bool hooked = model_.hooks.enter && prepared_->calls();
  const RecordedBody& body = prepared_->variant().bodies[layer.body];
  Frame frame = frame_of(
      prepared_->body(layer.body), layer.scope,
      hooked ? prepared_->calls()->layer(static_cast<std::size_t>(index)) : ModuleCalls::Code{});
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    frame.values.set(static_cast<std::uint32_t>(i), std::move(arguments[i]));
  }
  run(prepared_->body(layer.body), frame, nullptr);
  std::vector<Tensor> outputs;
  for (const std::uint32_t output : body.outputs) {
    outputs.push_back(frame.values[output]);
  }
  return outputs;
}

std::vector<Tensor> CodeRunner::run_hooked(std::int32_t layer, std::vector<Tensor> arguments) {
  const bool hooked = model_.hooks.before && !model_.hooks.around_checkpoint;
  if (hooked) {
    model_.hooks.before(layer, arguments);
  }
  const ModuleCall call{.part = ModuleCall::Part::kLayer, .layer = layer};
  enter_part(model_.hooks, call, {&arguments[0]});
  std::vector<Tensor> outputs = run_body(layer, std::move(arguments));
  leave_part(model_.hooks, call, {&outputs[0]});
  if (hooked) {
    model_.hooks.after(layer, outputs);
  }
  return outputs;
}

std::vector<Tensor> CodeRunner::run_recomputed(std::int32_t layer, std::vector<Tensor> arguments,
                                               torch::RegionForm form) {
  std::vector<Tensor> given{std::move(arguments[0])};
  arguments[0] = {};
  torch::Region region = [self = shared_from_this(), layer, rest = std::move(arguments),
                          mask = mask_](Eager&, const std::vector<Tensor>& inputs) {
    std::vector<Tensor> all = rest;
    all[0] = inputs[0];
    const Tensor outer = std::exchange(self->mask_, mask);
    std::vector<Tensor> outputs = self->run_hooked(layer, std::move(all));
    self->mask_ = outer;
    return outputs;
  };
  return torch::run_region(eager_, given, region, form);
}

void CodeRunner::run_layer(const Instruction& instruction, Frame& frame) {
  const auto layer = static_cast<std::int32_t>(instruction.index);
  if (padding_.defined()) {
    mask_ = make_padded_mask(eager_, model_, padding_);
    padding_.reset();
  }
  eager_.set_layer(layer);
  const RecordedLayer& called = prepared_->variant().layers[instruction.index];
  std::vector<Tensor> arguments =
      hand_over(instruction, prepared_->variant().bodies[called.body], frame);
  const ParallelPlan& plan = *model_.plan;
  if (model_.hooks.around_checkpoint) {
    model_.hooks.before(layer, arguments);
  }
  const bool recomputed = model_.training && recomputes_layer(plan, layer);
  std::vector<Tensor> outputs = recomputed ? run_recomputed(layer, std::move(arguments),
                                                            plan.recompute == Recompute::kFull
                                                                ? torch::RegionForm::kRecomputed
                                                                : torch::RegionForm::kReentrant)
                                           : run_hooked(layer, std::move(arguments));
  if (model_.hooks.around_checkpoint) {
    model_.hooks.after(layer, outputs);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    // A layer that is recomputed keeps no keys and values: transformers then turns use_cache off
    // (modeling_layers.py, GradientCheckpointingLayer).
    const std::uint32_t value = instruction.outputs[i].target.index;
    if (!recomputed || !prepared_->is_cached(value)) {
      frame.values.set(value, std::move(outputs[i]));
    }
  }
  outputs.clear();
  eager_.set_layer(-1);
  if (instruction.index + 1 == prepared_->variant().layers.size()) {
    mask_.reset();  // Layers that are recomputed hold their arguments.
  }
}

bool CodeRunner::is_embedding(const Instruction& instruction, const Frame& frame) const {
  const std::vector<RecordedParameter>& parameters = prepared_->recording().parameters;
  return !parameters.empty() && frame.scope.modules[instruction.index] == parameters.front().module;
}

/// Whether an operator reads rows of tokens or cuts patches of images.
bool CodeRunner::embeds(const Instruction& made) const {
  const bool reads_tokens = made.name == "embedding" && made.inputs.size() > 1 &&
                            made.inputs[1] == Reference{Reference::Kind::kValue, 0};
  const bool reads_images =
      made.name == "convolution" && prepared_->variant().images.kind != RecordedImages::Kind::kNone;
  return eager_.layer() < 0 && (reads_tokens || reads_images);
}

/// The hooks of input embeddings, which require a gradient of their rows where layers with adapters
/// are recomputed. Source: transformers modeling_utils.py, enable_input_require_grads.
void CodeRunner::require_gradient_of(const PreparedCode& code, std::size_t leave,
                                     const Frame& frame) {
  using Kind = Instruction::Kind;
  bool found = is_embedding(*code.instructions[leave].recorded, frame);
  Tensor rows;
  for (std::size_t at = leave; at-- > 0;) {
    const Instruction& instruction = *code.instructions[at].recorded;
    if (instruction.kind == Kind::kOp && !instruction.outputs.empty()) {
      rows = rows.defined() ? rows : operand(instruction.outputs.front().target, frame);
      found = found || embeds(instruction);
    }
    if (rows.defined() && (found || instruction.kind == Kind::kEnter)) {
      break;
    }
  }
  if (found && rows.defined()) {
    require_gradient(model_, rows);
  }
}

void CodeRunner::call_hook(const Instruction& instruction, const Frame& frame) {
  if (!model_.hooks.before || !is_embedding(instruction, frame)) {
    return;
  }
  std::vector<Tensor> none;
  if (instruction.kind == Instruction::Kind::kEnter) {
    model_.hooks.before(kEmbeddingModule, none);
  } else {
    model_.hooks.after(kEmbeddingModule, none);
  }
}

}  // namespace headroom::ir::transformers
