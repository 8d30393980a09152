#include "runtimes/transformers/recording/constructors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtimes/transformers/recording/constructor_code.h"
#include "runtimes/transformers/recording/operator_run.h"
#include "runtimes/transformers/recording/prepared_code.h"
#include "runtimes/transformers/recording/tensor_list.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Tensor;

class Constructors {
 public:
  Constructors(Eager& eager, Model& model, const std::function<void(const Tensor&)>& created)
      : eager_(eager),
        model_(model),
        recording_(model.recorded->recording()),
        scope_(model.recorded->load().scope),
        created_(created) {}

  void run(const RecordedCode& recorded) {
    const PreparedCode code = model_.recorded->prepare_load(eager_, recorded);
    eager_.set_site("parameters", -1);
    note_order(recorded);
    Values values(code.values);
    for (const PreparedInstruction& instruction : code.instructions) {
      if (instruction.recorded->kind == Instruction::Kind::kOp) {
        run_operation(instruction, values);
      } else if (instruction.recorded->kind == Instruction::Kind::kDrop) {
        for (const Reference& dropped : instruction.recorded->inputs) {
          values.drop(dropped.index);
        }
      }
    }
  }

 private:
  /// The parameters in the order in which they are made.
  void note_order(const RecordedCode& code) {
    for (const Instruction& instruction : code.instructions) {
      for (const RecordedOutput& output : instruction.outputs) {
        if (output.target.kind == Reference::Kind::kParameter) {
          order_.push_back(scope_.parameters[output.target.index]);
        }
      }
    }
  }

  /// An operator outside autograd whose outputs may be parameters and buffers of the model.
  void run_operation(const PreparedInstruction& instruction, Values& values) {
    const Instruction& recorded = *instruction.recorded;
    TensorList inputs(recorded.inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = operand(recorded.inputs[i], values);
    }
    TensorList outputs(recorded.outputs.size());
    if (returns_input(instruction, inputs.all())) {
      outputs[0] = inputs[0];
    } else {
      run_operator(eager_, instruction, inputs.all(), outputs.all());
    }
    inputs.clear();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const RecordedOutput& output = recorded.outputs[i];
      if (output.target.kind == Reference::Kind::kParameter) {
        put_parameter(scope_.parameters[output.target.index], std::move(outputs[i]), values);
      } else if (output.target.kind == Reference::Kind::kBuffer) {
        eager_.relabel(outputs[i], TensorRole::kBuffer);
        model_.buffers[scope_.buffers[output.target.index]] = std::move(outputs[i]);
      } else if (created_ && is_tied_copy(instruction)) {
        eager_.relabel(outputs[i], TensorRole::kParameter);
        created_(outputs[i]);
      } else {
        values.put(recorded, i, std::move(outputs[i]));
      }
    }
  }

  [[nodiscard]] Tensor operand(const Reference& reference, const Values& values) const {
    switch (reference.kind) {
      case Reference::Kind::kValue:
        return values[reference.index];
      case Reference::Kind::kParameter:
        return model_.parameters[scope_.parameters[reference.index]];
      case Reference::Kind::kBuffer:
        return model_.buffers[scope_.buffers[reference.index]];
      default:
        return {};
    }
  }

  /// Whether it makes a module's own parameter, in whose place a tied one comes later.
  [[nodiscard]] bool is_tied_copy(const PreparedInstruction& instruction) const {
    return instruction.recorded->name == "empty" &&
           std::ranges::any_of(recording_.parameters, [&](const RecordedParameter& parameter) {
             const torch::Shape& shape = instruction.outputs.front().shape;
             bool same = parameter.is_tied() &&
                         static_cast<std::size_t>(shape.rank()) == parameter.dims.size();
             for (std::size_t i = 0; same && i < parameter.dims.size(); ++i) {
               same = shape[static_cast<int>(i)] == parameter.dims[i];
             }
             return same;
           });
  }

  void put_parameter(std::uint32_t index, Tensor tensor, Values& values) {
    const torch::Shape shape(std::span<const std::int64_t>(recording_.parameters[index].dims));
    if (tensor.shape() != shape) {  // The parameter is a view of what was made.
      tensor = eager_.alias(tensor, shape, false);
    }
    eager_.relabel(tensor, TensorRole::kParameter);
    tensor->leaf_parameter = true;
    tensor->tracked_view = false;
    tensor->requires_grad = !model_.plan->lora && recording_.parameters[index].trainable;
    model_.parameters[index] = std::move(tensor);
    ++made_;
    const bool last = made_ >= order_.size() || recording_.parameters[order_[made_]].module !=
                                                    recording_.parameters[index].module;
    if (!created_) {
      return;
    }
    waiting_.push_back(index);
    if (last) {
      for (const std::uint32_t each : waiting_) {
        values.forget(model_.parameters[each]);
        created_(model_.parameters[each]);
      }
      waiting_.clear();
    }
  }

  Eager& eager_;
  Model& model_;
  const Recording& recording_;
  const RecordedScope& scope_;
  const std::function<void(const Tensor&)>& created_;
  std::vector<std::uint32_t> order_;
  std::size_t made_ = 0;
  std::vector<std::uint32_t> waiting_;  ///< Parameters of the module that is being constructed.
};

}  // namespace

void run_constructors(Eager& eager, Model& model,
                      const std::function<void(const Tensor&)>& created) {
  const RecordedCode* code = &model.recorded->load().code;
  RecordedCode changed;
  if (model.setting.reads_weights) {
    changed = without_initialisation(*code);
    code = &changed;
  }
  const DType dtype = param_dtype(model.plan->precision);
  if (model.setting.narrows_buffers && dtype != DType::kFp32) {
    changed = with_narrow_buffers(*code, dtype);
    code = &changed;
  }
  Constructors(eager, model, created).run(*code);
}

}  // namespace headroom::ir::transformers
