#include "runtimes/transformers/recording/code_runner.h"

#include <string_view>
#include <unordered_map>
#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/torch/functions.h"
#include "runtimes/transformers/adapter.h"
#include "runtimes/transformers/layers.h"
#include "runtimes/transformers/recording/recorded_node.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Tensor;

namespace {

/// The one operator that is recorded as a whole.
constexpr std::string_view kWholeAttention = "scaled_dot_product_attention";

}  // namespace

CodeRunner::CodeRunner(Eager& eager, Model& model, const RecordedVariant& variant,
                       const BatchSizes& sizes)
    : eager_(eager),
      model_(model),
      variant_(variant),
      replay_(std::make_shared<const Replay>(
          Replay{.recording = *model.spec->recording, .sizes = sizes})),
      linears_(model.spec->recording->modules.size()) {
  const Graph& graph = *model.graph;
  std::unordered_map<std::string_view, const Op*> by_path;
  for (std::size_t node = 0; node < graph.op_count(); ++node) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(node)});
    if (op.kind == OpKind::kLinear) {
      by_path.emplace(graph.tensor(op.outputs[0]).name, &op);
    }
  }
  for (std::size_t i = 0; i < linears_.size(); ++i) {
    const auto found = by_path.find(replay_->recording.modules[i].path);
    linears_[i] = found == by_path.end() ? nullptr : found->second;
  }
}

Tensor CodeRunner::operand(const Reference& reference, const Frame& frame) const {
  switch (reference.kind) {
    case Reference::Kind::kValue:
      return frame.values[reference.index];
    case Reference::Kind::kParameter:
      return model_.parameters[frame.scope.parameters[reference.index]];
    case Reference::Kind::kBuffer:
      return model_.buffers[frame.scope.buffers[reference.index]];
    default:
      return {};
  }
}

std::vector<Tensor> CodeRunner::operands(const Instruction& instruction, const Frame& frame) const {
  std::vector<Tensor> inputs;
  inputs.reserve(instruction.inputs.size());
  for (const Reference& input : instruction.inputs) {
    inputs.push_back(operand(input, frame));
  }
  return inputs;
}

std::vector<Tensor> CodeRunner::forward(const Batch& batch) {
  Frame frame{.scope = variant_.forward_scope, .values = Values(variant_.forward.values)};
  frame.values.set(0, batch.ids);
  for (std::size_t i = 0; i < batch.others.size(); ++i) {
    frame.values.set(static_cast<std::uint32_t>(i + 1), batch.others[i]);
  }
  std::vector<Tensor> result;
  run(variant_.forward, frame, &result);
  return result;
}

void CodeRunner::load() {
  Frame frame{.scope = variant_.load_scope, .values = Values(variant_.load.values)};
  for (const Instruction& instruction : variant_.load.instructions) {
    if (instruction.kind == Instruction::Kind::kOp) {
      run_constructor(instruction, frame);
    } else if (instruction.kind == Instruction::Kind::kDrop) {
      for (const Reference& dropped : instruction.inputs) {
        frame.values.drop(dropped.index);
      }
    }
  }
}

/// An operator outside autograd whose outputs may be parameters and buffers of the model.
void CodeRunner::run_constructor(const Instruction& instruction, Frame& frame) {
  const std::vector<Tensor> inputs = operands(instruction, frame);
  std::vector<Tensor> outputs = run_operator(eager_, *replay_, instruction, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (instruction.outputs[i].target.kind == Reference::Kind::kValue) {
      frame.values.put(instruction, i, std::move(outputs[i]));
    } else {
      put_loaded(instruction.outputs[i], frame, std::move(outputs[i]));
    }
  }
}

void CodeRunner::put_loaded(const RecordedOutput& output, const Frame& frame, Tensor tensor) {
  if (output.target.kind == Reference::Kind::kBuffer) {
    eager_.relabel(tensor, TensorRole::kBuffer);
    model_.buffers[frame.scope.buffers[output.target.index]] = std::move(tensor);
    return;
  }
  const std::uint32_t index = frame.scope.parameters[output.target.index];
  eager_.relabel(tensor, TensorRole::kParameter);
  tensor->leaf_parameter = true;
  tensor->tracked_view = false;
  tensor->requires_grad = !model_.plan->lora && replay_->recording.parameters[index].trainable;
  model_.parameters[index] = std::move(tensor);
}

void CodeRunner::run(const RecordedCode& code, Frame& frame, std::vector<Tensor>* result) {
  using Kind = Instruction::Kind;
  for (const Instruction& instruction : code.instructions) {
    switch (instruction.kind) {
      case Kind::kOp:
        run_op(instruction, frame);
        break;
      case Kind::kLinear:
        run_linear(instruction, frame);
        break;
      case Kind::kDrop:
        for (const Reference& dropped : instruction.inputs) {
          frame.values.drop(dropped.index);
        }
        break;
      case Kind::kEnter:
      case Kind::kLeave:
        call_hook(instruction, frame);
        break;
      case Kind::kLayer:
        run_layer(instruction, frame);
        break;
      case Kind::kRepeat:
        run_loop(instruction, frame);
        break;
      case Kind::kNode:
        attach_node(instruction, frame);
        break;
      case Kind::kResult:
        *result = operands(instruction, frame);
        break;
    }
  }
}

/// torch.nn.functional.scaled_dot_product_attention, which chooses its kernel by device and sizes.
Tensor CodeRunner::run_attention(const Instruction& instruction,
                                 const std::vector<Tensor>& inputs) {
  for (std::size_t i = 0; i < instruction.rows_first.size(); ++i) {
    inputs[i]->layout =
        instruction.rows_first[i] ? torch::Layout::kSwapped : torch::Layout::kContiguous;
  }
  torch::SdpaOptions options{
      .dropout = model_.training ? instruction.dropout : 0,
      .causal = instruction.causal,
      .mask = {},
      .broadcast = !instruction.groups && inputs[1].shape()[1] == 1 && inputs[0].shape()[1] > 1,
      .cudnn = model_.plan->attention == AttentionKind::kSdpa};
  if (inputs.size() > 3 && inputs[3].defined()) {
    options.mask = inputs[3];
    if (instruction.mask_strided) {
      inputs[3]->layout = torch::Layout::kSwapped;
    }
  }
  return torch::sdpa(eager_, inputs[0], inputs[1], inputs[2], options);
}

void CodeRunner::run_op(const Instruction& instruction, Frame& frame) {
  const std::vector<Tensor> inputs = operands(instruction, frame);
  eager_.set_site(instruction.name, eager_.layer());
  if (instruction.name == kWholeAttention) {
    frame.values.set(instruction.outputs[0].target.index, run_attention(instruction, inputs));
    return;
  }
  if (instruction.kept && eager_.autocast()) {
    const auto cached = eager_.autocast_cache().find(inputs[0].impl());
    if (cached != eager_.autocast_cache().end()) {
      frame.values.set(instruction.outputs[0].target.index, cached->second);
      return;
    }
  }
  RecordedNode node(eager_, replay_, instruction, node_operands(instruction, inputs, frame));
  std::vector<Tensor> outputs = run_operator(eager_, *replay_, instruction, inputs);
  if (instruction.base) {
    // The base's node is that of the write; it is the same memory.
    const Tensor& base = frame.values[*instruction.base];
    std::vector<Tensor> written{eager_.alias(base, base.shape(), false)};
    node.finish(written);
    frame.values.replace(*instruction.base, std::move(written.front()));
  } else {
    node.finish(outputs);
  }
  if (instruction.kept && eager_.autocast()) {
    eager_.autocast_cache().emplace(inputs[0].impl(), outputs[0]);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    frame.values.put(instruction, i, std::move(outputs[i]));
  }
}

RecordedNode::Operands CodeRunner::node_operands(const Instruction& instruction,
                                                 std::vector<Tensor> inputs,
                                                 const Frame& frame) const {
  RecordedNode::Operands operands{.inputs = std::move(inputs), .others = {}, .base = {}};
  if (instruction.base) {
    operands.base = frame.values[*instruction.base];
  }
  for (const SavedReference& saved : instruction.saves) {
    operands.others.push_back(operand(saved.other, frame));
  }
  return operands;
}

void CodeRunner::attach_node(const Instruction& instruction, const Frame& frame) {
  eager_.set_site(instruction.name, eager_.layer());
  RecordedNode node(eager_, replay_, instruction,
                    node_operands(instruction, operands(instruction, frame), frame));
  std::vector<Tensor> outputs;
  for (const RecordedOutput& output : instruction.outputs) {
    outputs.push_back(operand(output.target, frame));
  }
  node.finish(outputs);
}

void CodeRunner::run_linear(const Instruction& instruction, Frame& frame) {
  const std::uint32_t module = frame.scope.modules[instruction.index];
  const Op* const op = linears_[module];
  HEADROOM_ASSERT(op != nullptr);
  const Tensor input = operand(instruction.inputs[0], frame);
  eager_.set_site("linear", eager_.layer());
  const bool adapted = model_.adapters.contains(static_cast<std::uint32_t>(op->parameters[0]));
  const bool head = op->role == OpRole::kHead && model_.hooks.before;
  std::vector<Tensor> given{input};
  if (head) {
    model_.hooks.before(kHeadModule, given);
  }
  Tensor output = adapted ? adapted_linear(eager_, model_, *op, given[0])
                          : frozen_linear(eager_, model_, *op, given[0]);
  if (head) {
    model_.hooks.after(kHeadModule, {output});
  }
  frame.values.set(instruction.outputs[0].target.index, std::move(output));
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

void CodeRunner::run_loop(const Instruction& instruction, Frame& frame) {
  const RecordedLoop& loop = *instruction.loop;
  const std::int64_t turns = loop.turns.at(replay_->sizes).value_or(0);
  std::vector<Tensor> arguments = hand_over(instruction, loop.body, frame);
  std::vector<Tensor> outputs(loop.body.outputs.size());
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    Frame inner{.scope = frame.scope, .values = Values(loop.body.code.values)};
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      inner.values.set(static_cast<std::uint32_t>(i),
                       loop.next[i] ? std::move(arguments[i]) : arguments[i]);
    }
    run(loop.body.code, inner, nullptr);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (loop.next[i]) {
        arguments[i] = inner.values[*loop.next[i]];
      }
    }
    if (turn + 1 == turns) {
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        outputs[i] = inner.values[loop.body.outputs[i]];
      }
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    frame.values.set(instruction.outputs[i].target.index, std::move(outputs[i]));
  }
}

std::vector<Tensor> CodeRunner::run_body(const RecordedLayer& layer,
                                         std::vector<Tensor> arguments) {
  const RecordedBody& body = variant_.bodies[layer.body];
  Frame frame{.scope = layer.scope, .values = Values(body.code.values)};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    frame.values.set(static_cast<std::uint32_t>(i), std::move(arguments[i]));
  }
  run(body.code, frame, nullptr);
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
  std::vector<Tensor> outputs =
      run_body(variant_.layers[static_cast<std::size_t>(layer)], std::move(arguments));
  if (hooked) {
    model_.hooks.after(layer, outputs);
  }
  return outputs;
}

std::vector<Tensor> CodeRunner::run_recomputed(std::int32_t layer, std::vector<Tensor> arguments,
                                               torch::RegionForm form) {
  std::vector<Tensor> given{std::move(arguments[0])};
  arguments[0] = {};
  torch::Region region = [self = shared_from_this(), layer, rest = std::move(arguments)](
                             Eager&, const std::vector<Tensor>& inputs) {
    std::vector<Tensor> all = rest;
    all[0] = inputs[0];
    return self->run_hooked(layer, std::move(all));
  };
  return torch::run_region(eager_, given, region, form);
}

void CodeRunner::run_layer(const Instruction& instruction, Frame& frame) {
  const auto layer = static_cast<std::int32_t>(instruction.index);
  eager_.set_layer(layer);
  const RecordedLayer& called = variant_.layers[instruction.index];
  std::vector<Tensor> arguments = hand_over(instruction, variant_.bodies[called.body], frame);
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
    frame.values.set(instruction.outputs[i].target.index, std::move(outputs[i]));
  }
  eager_.set_layer(-1);
}

void CodeRunner::call_hook(const Instruction& instruction, const Frame& frame) {
  const std::uint32_t module = frame.scope.modules[instruction.index];
  const bool embedding =
      model_.hooks.before && module == replay_->recording.parameters.front().module;
  if (!embedding) {
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
