#include "runtimes/transformers/recording/operator_run.h"

#include <algorithm>

#include "runtimes/torch/functions.h"
#include "runtimes/transformers/recording/operator_work.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

namespace {

Tensor make_output(Eager& eager, const RecordedOutput& output, const PreparedOutput& sizes,
                   std::span<const Tensor> inputs) {
  if (output.how == RecordedOutput::How::kNew && sizes.bytes >= 0) {
    const Tensor storage = eager.empty({sizes.bytes}, DType::kUInt8);
    Tensor seen = eager.alias(storage, sizes.shape, false);
    seen->dtype = sizes.dtype;
    return seen;
  }
  if (output.how == RecordedOutput::How::kNew) {
    return eager.empty(sizes.shape, sizes.dtype);
  }
  const Tensor& base = inputs[output.input];
  if (!base.defined()) {
    return {};
  }
  Tensor seen = eager.alias(base, sizes.shape, output.how == RecordedOutput::How::kView);
  seen->dtype = sizes.dtype;
  if (output.how == RecordedOutput::How::kSame) {
    seen->layout = base->layout;
  }
  return seen;
}

/// Runs the allocations inside an operator. What it does not free itself is freed when it returns.
class InnerSteps {
 public:
  explicit InnerSteps(Eager& eager) : eager_(eager) {}

  void allocate(std::uint32_t number, std::int64_t bytes) {
    if (number >= live_.size()) {
      blocks_.resize(std::size_t{number} + 1);
      live_.resize(blocks_.size());
    }
    blocks_[number] = eager_.allocate(bytes, TensorRole::kWorkspace);
    live_[number] = true;
  }

  void free(std::uint32_t number) {
    eager_.release(blocks_[number]);
    live_[number] = false;
  }

  void free_all() {
    for (std::uint32_t i = 0; i < live_.size(); ++i) {
      if (live_[i]) {
        eager_.release(blocks_[i]);
      }
    }
  }

 private:
  Eager& eager_;
  std::vector<BlockId> blocks_;
  std::vector<bool> live_;
};

/// Transposing [B, S, A, D] to [B, A, S, D], or back, changes the order in memory; attention asks
/// for it.
void follow_transpose(const Tensor& input, const Tensor& output) {
  const Shape& from = input.shape();
  const Shape& to = output.shape();
  if (from.rank() == 4 && from[1] == to[2] && from[2] == to[1] && from[3] == to[3]) {
    output->layout = input->layout == torch::Layout::kSwapped ? torch::Layout::kContiguous
                                                              : torch::Layout::kSwapped;
  }
}

}  // namespace

bool returns_input(const PreparedInstruction& instruction, std::span<const Tensor> inputs) {
  if (inputs.empty() || !inputs[0].defined() || instruction.outputs.empty()) {
    return false;
  }
  return (instruction.may_return_input && inputs[0].dtype() == instruction.outputs[0].dtype) ||
         (instruction.leaves_fp16 && inputs[0].dtype() == DType::kFp16) ||
         (instruction.orders_heads && inputs[0]->layout == torch::Layout::kContiguous);
}

void run_operator(Eager& eager, const PreparedInstruction& instruction,
                  std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  const Instruction& recorded = *instruction.recorded;
  touch_workspaces(eager, instruction.traits, inputs);
  const auto make = [&](std::size_t i) {
    outputs[i] = make_output(eager, recorded.outputs[i], instruction.outputs[i], inputs);
  };
  if (instruction.traits.sums_rows && inputs.size() > 1 && inputs[1].defined() &&
      torch::sorts_embedding_rows(inputs[1].elements())) {
    const PreparedOutput& made = instruction.outputs.front();
    outputs.front() =
        torch::sorted_embedding_gradient(eager, inputs[1].elements(), made.shape, made.dtype);
    give_work(eager, instruction.traits, recorded, inputs, outputs);
    return;
  }
  InnerSteps steps(eager);
  for (std::size_t i = 0; i < instruction.inside.size(); ++i) {
    const InnerStep& step = recorded.inside[i];
    switch (step.kind) {
      case InnerStep::Kind::kOutput:
        make(step.index);
        break;
      case InnerStep::Kind::kAllocate:
        steps.allocate(step.index, instruction.inside[i]);
        break;
      case InnerStep::Kind::kFree:
        steps.free(step.index);
        break;
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) {
      make(i);
    }
  }
  if (instruction.traits.transposes && !inputs.empty() && inputs[0].defined() && !outputs.empty() &&
      outputs[0].defined()) {
    follow_transpose(inputs[0], outputs[0]);
  }
  steps.free_all();
  give_work(eager, instruction.traits, recorded, inputs, outputs);
}

void Values::put(const Instruction& instruction, std::size_t output, Tensor tensor) {
  const RecordedOutput& made = instruction.outputs[output];
  const bool own = made.how == RecordedOutput::How::kNew;
  if (!own && instruction.inputs[made.input].kind == Reference::Kind::kValue) {
    set_shared(made.target.index, instruction.inputs[made.input].index, std::move(tensor));
  } else {
    set(made.target.index, std::move(tensor));
  }
}

void Values::set_shared(std::uint32_t value, std::uint32_t base, Tensor tensor) {
  if (slots_[base].root == kNone) {  // The base was left out, since nobody wants its gradient.
    set(value, std::move(tensor));
    return;
  }
  Slot& slot = slots_[value];
  slot.tensor = std::move(tensor);
  slot.root = slots_[base].root;
  slot.next = std::exchange(slots_[slot.root].next, value);
}

void Values::forget(const Tensor& tensor) {
  for (Slot& slot : slots_) {
    if (slot.tensor.defined() && slot.tensor->storage == tensor->storage) {
      slot.tensor.reset();
    }
  }
}

void Values::drop(std::uint32_t value) {
  for (std::uint32_t each = slots_[value].root; each != kNone; each = slots_[each].next) {
    slots_[each].tensor.reset();
  }
}

}  // namespace headroom::ir::transformers
