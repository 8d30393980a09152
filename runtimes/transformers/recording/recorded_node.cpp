#include "runtimes/transformers/recording/recorded_node.h"

#include <utility>
#include <vector>

#include "runtimes/transformers/recording/operator_run.h"
#include "runtimes/transformers/recording/tensor_list.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Tensor;

/// The tensors that a template reads in one run.
struct BackwardFrame {
  const Gradients& gradients;
  std::span<const Tensor> saved;
  Values values;

  [[nodiscard]] Tensor operand(const Reference& reference) const {
    switch (reference.kind) {
      case Reference::Kind::kValue:
        return values[reference.index];
      case Reference::Kind::kGradient:
        return reference.index < gradients.size() ? gradients[reference.index] : Tensor{};
      case Reference::Kind::kSaved:
        return reference.index < saved.size() ? saved[reference.index] : Tensor{};
      default:
        return {};
    }
  }
};

bool is_output(const SavedReference& saved) {
  return saved.kind == SavedReference::Kind::kOutput;
}

/// Unpacks what the node keeps. It has kept inputs and others first, then outputs.
void unpack(Eager& eager, const Instruction& instruction, std::uint64_t kept, Node& node,
            std::span<Tensor> saved) {
  std::size_t inputs = 0;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if ((kept >> i & 1U) != 0 && !is_output(instruction.saves[i])) {
      ++inputs;
    }
  }
  std::size_t input = 0;
  std::size_t output = inputs;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if ((kept >> i & 1U) != 0) {
      saved[i] = node.saved[is_output(instruction.saves[i]) ? output++ : input++].unpack(eager);
    }
  }
}

Gradients run_template(Eager& eager, const PreparedInstruction& owner, std::uint64_t kept,
                       const Gradients& incoming, Node& node) {
  const RecordedGradient& gradient = *owner.gradient->recorded;
  const PreparedCode& code = owner.gradient->code;
  TensorList saved(owner.recorded->saves.size());
  unpack(eager, *owner.recorded, kept, node, saved.all());
  std::uint64_t wanted = 0;
  for (std::size_t edge = 0; edge < gradient.edges.size(); ++edge) {
    wanted |= node.wants(edge) ? edge_bit(edge) : 0;
  }
  BackwardFrame frame{.gradients = incoming, .saved = saved.all(), .values = Values(code.values)};
  for (std::size_t i = 0; i < code.instructions.size(); ++i) {
    if ((gradient.needed_by[i] & wanted) == 0) {
      continue;
    }
    const Instruction& instruction = *code.instructions[i].recorded;
    if (instruction.kind == Instruction::Kind::kDrop) {
      for (const Reference& dropped : instruction.inputs) {
        frame.values.drop(dropped.index);
      }
      continue;
    }
    TensorList inputs(instruction.inputs.size());
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      inputs[k] = frame.operand(instruction.inputs[k]);
    }
    if (returns_input(code.instructions[i], inputs.all())) {
      frame.values.set(instruction.outputs.front().target.index, std::move(inputs[0]));
      continue;
    }
    TensorList outputs(instruction.outputs.size());
    run_operator(eager, code.instructions[i], inputs.all(), outputs.all());
    inputs.clear();
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      frame.values.put(instruction, k, std::move(outputs[k]));
    }
  }
  Gradients results(gradient.results.size());
  for (std::size_t edge = 0; edge < results.size(); ++edge) {
    if (!node.wants(edge)) {
      continue;
    }
    const Reference& result = gradient.results[edge];
    results[edge] = frame.operand(result);
  }
  return results;
}

}  // namespace

RecordedNode::RecordedNode(Eager& eager, const PreparedInstruction& instruction,
                           const Operands& operands)
    : instruction_(instruction) {
  if (instruction.gradient == nullptr || !eager.grad_enabled()) {
    return;
  }
  const RecordedGradient& gradient = *instruction.gradient->recorded;
  TensorList edges(gradient.edges.size());
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const std::int32_t edge = gradient.edges[i];
    if (edge != kOutsideEdge) {
      edges[i] =
          edge == kBaseEdge ? operands.base : operands.inputs[static_cast<std::size_t>(edge)];
    }
    wanted_ |= edges[i].requires_grad() ? edge_bit(i) : 0;
  }
  if (wanted_ == 0) {
    return;
  }
  record_.emplace(eager, std::span<const Tensor>(edges.all()));
  const std::vector<SavedReference>& saves = instruction.recorded->saves;
  for (std::size_t i = 0; i < saves.size(); ++i) {
    if (is_output(saves[i])) {
      continue;
    }
    const Tensor& tensor = saves[i].kind == SavedReference::Kind::kInput
                               ? operands.inputs[saves[i].index]
                               : operands.others[i];
    if (keeps(i, tensor)) {
      record_->save(tensor);
    }
  }
}

bool RecordedNode::keeps(std::size_t index, const Tensor& tensor) {
  const bool kept =
      tensor.defined() && (instruction_.gradient->recorded->saved_for[index] & wanted_) != 0;
  kept_ |= kept ? std::uint64_t{1} << index : 0;
  return kept;
}

void RecordedNode::finish(std::span<Tensor> outputs) {
  if (!record_) {
    return;
  }
  const std::vector<SavedReference>& saves = instruction_.recorded->saves;
  for (std::size_t i = 0; i < saves.size(); ++i) {
    if (is_output(saves[i]) && keeps(i, outputs[saves[i].index])) {
      record_->save_output(outputs[saves[i].index]);
    }
  }
  Tensor none;
  std::vector<Tensor*> differentiable;
  differentiable.reserve(outputs.size());
  for (Tensor& output : outputs) {
    differentiable.push_back(output.defined() && is_floating(output.dtype()) ? &output : &none);
  }
  record_->finish(differentiable, [instruction = &instruction_, kept = kept_](
                                      Eager& eager, Gradients& incoming, Node& node) {
    return run_template(eager, *instruction, kept, incoming, node);
  });
}

}  // namespace headroom::ir::transformers
