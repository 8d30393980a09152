#include "runtimes/transformers/recording/recorded_node.h"

#include <algorithm>
#include <utility>

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Tensor;

/// The tensors that a template reads in one run.
struct BackwardFrame {
  const Gradients& gradients;
  const std::vector<Tensor>& saved;
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

Gradients run_template(Eager& eager, const Replay& replay, const RecordedGradient& gradient,
                       const std::vector<int>& positions, const Gradients& incoming, Node& node) {
  std::vector<Tensor> saved(positions.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] >= 0) {
      saved[i] = node.saved[static_cast<std::size_t>(positions[i])].unpack(eager);
    }
  }
  std::uint64_t wanted = 0;
  for (std::size_t edge = 0; edge < gradient.edges.size(); ++edge) {
    wanted |= node.wants(edge) ? std::uint64_t{1} << edge : 0;
  }
  BackwardFrame frame{
      .gradients = incoming, .saved = saved, .values = Values(gradient.code.values)};
  const std::vector<Instruction>& code = gradient.code.instructions;
  for (std::size_t i = 0; i < code.size(); ++i) {
    if ((gradient.needed_by[i] & wanted) == 0) {
      continue;
    }
    const Instruction& instruction = code[i];
    if (instruction.kind == Instruction::Kind::kDrop) {
      for (const Reference& dropped : instruction.inputs) {
        frame.values.drop(dropped.index);
      }
      continue;
    }
    std::vector<Tensor> inputs;
    inputs.reserve(instruction.inputs.size());
    for (const Reference& input : instruction.inputs) {
      inputs.push_back(frame.operand(input));
    }
    std::vector<Tensor> outputs = run_operator(eager, replay, instruction, inputs);
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

RecordedNode::RecordedNode(Eager& eager, std::shared_ptr<const Replay> replay,
                           const Instruction& instruction, const Operands& operands)
    : eager_(eager), replay_(std::move(replay)), instruction_(instruction) {
  if (!instruction.gradient || !eager.grad_enabled()) {
    return;
  }
  gradient_ = &replay_->recording.gradients[*instruction.gradient];
  std::vector<Tensor> edges;
  edges.reserve(gradient_->edges.size());
  for (const std::int32_t edge : gradient_->edges) {
    edges.push_back(edge == kOutsideEdge ? Tensor{}
                    : edge == kBaseEdge  ? operands.base
                                         : operands.inputs[static_cast<std::size_t>(edge)]);
    wanted_ |= edges.back().requires_grad() ? std::uint64_t{1} << (edges.size() - 1) : 0;
  }
  if (wanted_ == 0) {
    return;
  }
  record_ = std::make_unique<torch::Record>(eager, std::span<const Tensor>(edges));
  positions_.assign(instruction.saves.size(), -1);
  for (std::size_t i = 0; i < instruction.saves.size(); ++i) {
    const SavedReference& saved = instruction.saves[i];
    if (saved.kind != SavedReference::Kind::kOutput) {
      save(i, saved.kind == SavedReference::Kind::kInput ? operands.inputs[saved.index]
                                                         : operands.others[i]);
    }
  }
}

void RecordedNode::save(std::size_t index, const Tensor& tensor) {
  if (tensor.defined() && (gradient_->saved_for[index] & wanted_) != 0) {
    record_->save(tensor);
    positions_[index] = saved_++;
  }
}

void RecordedNode::finish(std::vector<Tensor>& outputs) {
  if (record_ == nullptr) {
    return;
  }
  for (std::size_t i = 0; i < instruction_.saves.size(); ++i) {
    if (instruction_.saves[i].kind == SavedReference::Kind::kOutput) {
      save(i, outputs[instruction_.saves[i].index]);
    }
  }
  Tensor none;
  std::vector<Tensor*> differentiable;
  differentiable.reserve(outputs.size());
  for (Tensor& output : outputs) {
    differentiable.push_back(output.defined() && is_floating(output.dtype()) ? &output : &none);
  }
  record_->finish(differentiable,
                  [replay = replay_, gradient = gradient_, positions = std::move(positions_)](
                      Eager& eager, Gradients& incoming, Node& node) {
                    return run_template(eager, *replay, *gradient, positions, incoming, node);
                  });
}

}  // namespace headroom::ir::transformers
