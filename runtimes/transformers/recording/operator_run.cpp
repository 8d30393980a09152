#include "runtimes/transformers/recording/operator_run.h"

#include <algorithm>
#include <array>
#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/transformers/recording/operator_work.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

namespace {

std::int64_t value_of(const SizeExpression& size, const BatchSizes& sizes) {
  const std::optional<std::int64_t> value = size.at(sizes);
  HEADROOM_ASSERT(value.has_value());  // `check_sizes` has evaluated all of them.
  return *value;
}

Tensor make_output(Eager& eager, const Replay& replay, const RecordedOutput& output,
                   const std::vector<Tensor>& inputs) {
  const Shape shape = replay.shape_of(output.shape);
  if (output.how == RecordedOutput::How::kNew && output.bytes) {
    const Tensor storage = eager.empty({value_of(*output.bytes, replay.sizes)}, DType::kUInt8);
    Tensor seen = eager.alias(storage, shape, false);
    seen->dtype = output.dtype;
    return seen;
  }
  if (output.how == RecordedOutput::How::kNew) {
    return eager.empty(shape, output.dtype);
  }
  const Tensor& base = inputs[output.input];
  if (!base.defined()) {
    return {};
  }
  Tensor seen = eager.alias(base, shape, output.how == RecordedOutput::How::kView);
  seen->dtype = output.dtype;
  if (output.how == RecordedOutput::How::kSame) {
    seen->layout = base->layout;
  }
  return seen;
}

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

Shape Replay::shape_of(const RecordedShape& shape) const {
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    dims[i] = value_of(shape[i], sizes);
  }
  return Shape(std::span<const std::int64_t>(dims.data(), shape.size()));
}

std::vector<Tensor> run_operator(Eager& eager, const Replay& replay, const Instruction& instruction,
                                 const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs(instruction.outputs.size());
  touch_workspaces(eager, instruction, inputs);
  std::vector<BlockId> inner;
  std::vector<bool> live;
  for (const InnerStep& step : instruction.inside) {
    switch (step.kind) {
      case InnerStep::Kind::kOutput:
        outputs[step.index] = make_output(eager, replay, instruction.outputs[step.index], inputs);
        break;
      case InnerStep::Kind::kAllocate:
        inner.resize(std::max<std::size_t>(inner.size(), std::size_t{step.index} + 1));
        live.resize(inner.size());
        inner[step.index] =
            eager.allocate(value_of(step.bytes, replay.sizes), TensorRole::kWorkspace);
        live[step.index] = true;
        break;
      case InnerStep::Kind::kFree:
        eager.release(inner[step.index]);
        live[step.index] = false;
        break;
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) {
      outputs[i] = make_output(eager, replay, instruction.outputs[i], inputs);
    }
  }
  if (instruction.name == "transpose" && !inputs.empty() && inputs[0].defined() &&
      !outputs.empty() && outputs[0].defined()) {
    follow_transpose(inputs[0], outputs[0]);
  }
  for (std::size_t i = 0; i < inner.size(); ++i) {
    if (live[i]) {
      eager.release(inner[i]);
    }
  }
  give_work(eager, instruction, inputs, outputs);
  return outputs;
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
  tensors_[value] = std::move(tensor);
  roots_[value] = roots_[base];
  next_[value] = std::exchange(next_[roots_[base]], value);
}

void Values::drop(std::uint32_t value) {
  for (std::uint32_t each = roots_[value]; each != kNone; each = next_[each]) {
    tensors_[each].reset();
  }
}

}  // namespace headroom::ir::transformers
