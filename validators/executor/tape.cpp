#include "validators/executor/tape.h"

#include <algorithm>
#include <utility>

#include "model_ir/base/check.h"

namespace headroom::exec {

Var Tape::variable(const Tensor& tensor) {
  if (!records()) {
    return {.tensor = tensor};
  }
  gradients_.emplace_back();
  return {.tensor = tensor, .slot = static_cast<Slot>(gradients_.size() - 1)};
}

void Tape::record(std::string_view operation, std::vector<Tensor> saved,
                  std::function<void(Tape&, Node&)> backward) {
  if (records()) {
    nodes_.push_back({.operation = operation,
                      .layer = context_.layer,
                      .saved = std::move(saved),
                      .backward = std::move(backward)});
  }
}

void Tape::backward() {
  const int layer = std::exchange(context_.layer, -1);
  const bool before = std::exchange(context_.backward, true);
  while (!nodes_.empty() && !context_.device.failed()) {
    Node node = std::move(nodes_.back());
    nodes_.pop_back();
    context_.layer = node.layer;
    context_.begin(node.operation);
    node.backward(*this, node);
  }
  nodes_.clear();
  context_.layer = layer;
  context_.backward = before;
}

Tensor Tape::take(Slot slot) {
  if (slot == Slot::kNone) {
    return {};
  }
  return std::exchange(gradient(slot), Tensor{});
}

void Tape::add(Slot slot, const Tensor& added) {
  if (slot == Slot::kNone || added.empty()) {
    return;
  }
  Tensor& sum = gradient(slot);
  if (sum.empty()) {
    sum = added;
    return;
  }
  HEADROOM_ASSERT(sum.elements() == added.elements() && sum.type == added.type);
  const Tensor out =
      sum.is_alone() ? sum
                     : context_.make(sum.rows, sum.columns, sum.type, ir::TensorRole::kTemporary);
  context_.device.run(&HeadroomDeviceTable::add, kComputeStream, out.data(), sum.data(),
                      added.data(), code_of(sum.type), sum.elements());
  sum = out;
}

Tensor Tape::to_add_to(Slot slot) const {
  if (slot == Slot::kNone) {
    return {};
  }
  const Tensor& sum = gradients_[static_cast<std::size_t>(slot)];
  return sum.empty() || !sum.is_alone() ? Tensor{} : sum;
}

std::vector<std::shared_ptr<Storage>> Tape::saved_since(std::size_t first) const {
  std::vector<std::shared_ptr<Storage>> found;
  for (std::size_t index = first; index < nodes_.size(); ++index) {
    for (const Tensor& tensor : nodes_[index].saved) {
      if (!tensor.empty() && tensor.storage->role() == ir::TensorRole::kActivation &&
          std::ranges::find(found, tensor.storage) == found.end()) {
        found.push_back(tensor.storage);
      }
    }
  }
  return found;
}

Var recompute(Tape& tape, const std::vector<Var>& inputs,
              const std::function<Var(Tape&, const std::vector<Var>&)>& body) {
  if (!tape.records()) {
    return body(tape, inputs);
  }
  std::vector<Var> silent;
  std::vector<Tensor> saved;
  std::vector<Slot> slots;
  for (const Var& input : inputs) {
    silent.push_back({.tensor = input.tensor});
    saved.push_back(input.tensor);
    slots.push_back(input.slot);
  }
  Tape once(tape.context(), Tape::Mode::kSilent);
  const Var out = tape.variable(body(once, silent).tensor);
  tape.record("recompute", std::move(saved),
              [body, slots, slot = out.slot](Tape& outer, Tape::Node& node) {
                Tape again(outer.context(), Tape::Mode::kRecord);
                std::vector<Var> variables;
                for (const Tensor& tensor : node.saved) {
                  variables.push_back(again.variable(tensor));
                }
                node.saved.clear();
                std::vector<Slot> inner;
                for (const Var& variable : variables) {
                  inner.push_back(variable.slot);
                }
                Var result = body(again, variables);
                variables.clear();
                result.tensor = {};
                again.add(result.slot, outer.take(slot));
                again.backward();
                for (std::size_t index = 0; index < slots.size(); ++index) {
                  outer.add(slots[index], again.take(inner[index]));
                }
              });
  return out;
}

}  // namespace headroom::exec
