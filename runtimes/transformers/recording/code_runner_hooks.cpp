// Where a wrapper's hooks run around recorded calls.

#include <algorithm>
#include <array>
#include <utility>

#include "runtimes/transformers/recording/code_runner.h"

namespace headroom::ir::transformers {

using torch::Tensor;

std::uint32_t CodeRunner::slot_of(const Frame& frame, std::size_t call) {
  return frame.values.count() - static_cast<std::uint32_t>(frame.hooked.calls.size() - call);
}

/// Runs a wrapper's hooks before the calls that begin at an instruction.
void CodeRunner::begin_calls(std::uint32_t at, Frame& frame) {
  for (; frame.next < frame.hooked.calls.size() && frame.hooked.calls[frame.next].first == at;
       ++frame.next) {
    const CodeCall& call = frame.hooked.calls[frame.next];
    Tensor given = call.input ? frame.values[*call.input] : Tensor{};
    const bool passed = given.defined();
    if (passed) {  // The caller keeps its own tensor.
      frame.values.set_shared(slot_of(frame, frame.next), *call.input, given);
    }
    model_.hooks.enter({.part = ModuleCall::Part::kRecorded,
                        .layer = eager_.layer(),
                        .module = frame.hooked.modules[frame.next]},
                       {&given});
    if (passed) {
      frame.values.replace(*call.input, std::move(given));
    }
    frame.open.push_back(frame.next);
  }
}

/// The same after the calls that end at an instruction.
void CodeRunner::end_calls(std::uint32_t at, Frame& frame) {
  while (!frame.open.empty() && frame.hooked.calls[frame.open.back()].last == at) {
    const std::size_t index = frame.open.back();
    const CodeCall& call = frame.hooked.calls[index];
    frame.open.pop_back();
    if (const Tensor own = frame.values[slot_of(frame, index)]; own.defined()) {
      frame.values.replace(*call.input, own);
      frame.values.replace(slot_of(frame, index), {});
    }
    std::array<Tensor, 3> outputs;
    const std::size_t count = std::min(outputs.size(), call.outputs.size());
    for (std::size_t i = 0; i < count; ++i) {
      outputs[i] = frame.values[call.outputs[i]];
    }
    model_.hooks.leave({.part = ModuleCall::Part::kRecorded,
                        .layer = eager_.layer(),
                        .module = frame.hooked.modules[index]},
                       {&outputs[0], &outputs[1], &outputs[2]});
    for (std::size_t i = 0; i < count; ++i) {
      frame.values.replace(call.outputs[i], std::move(outputs[i]));
    }
  }
}

/// A wrapper learns of parameters that the running module takes from another one.
void CodeRunner::read_attributes(const PreparedInstruction& instruction, const Frame& frame) {
  for (const Reference& input : instruction.recorded->inputs) {
    if (input.kind != Reference::Kind::kParameter) {
      continue;
    }
    const std::uint32_t index = frame.scope.parameters[input.index];
    const std::uint32_t owner = prepared_->recording().parameters[index].module;
    const bool runs = std::ranges::any_of(
        frame.open, [&](std::size_t call) { return frame.hooked.modules[call] == owner; });
    if (!runs) {
      const ModuleCall outer{
          .part = eager_.layer() < 0 ? ModuleCall::Part::kModel : ModuleCall::Part::kLayer,
          .layer = eager_.layer()};
      const ModuleCall inner{
          .part = ModuleCall::Part::kRecorded,
          .layer = eager_.layer(),
          .module = frame.open.empty() ? 0 : frame.hooked.modules[frame.open.back()]};
      model_.hooks.read(frame.open.empty() ? outer : inner, model_.parameters[index]);
    }
  }
}

}  // namespace headroom::ir::transformers
