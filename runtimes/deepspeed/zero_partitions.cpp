#include "runtimes/deepspeed/zero_partitions.h"

#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "model_ir/spec/recording/recording.h"
#include "runtimes/deepspeed/memory_efficient_linear.h"
#include "runtimes/deepspeed/site_scope.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::deepspeed {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Tensor;
using transformers::ModuleCall;
using Pass = ParameterCoordinator::Pass;

namespace {

/// Replaces `tensor` by the output of an autograd function that passes it on. `reached` runs when
/// backward reaches that function.
void watch(Eager& eager, Tensor& tensor, const std::function<void()>& reached) {
  torch::Record record(eager, {&tensor});
  Tensor passed = eager.alias(tensor, tensor.shape(), false);
  passed->tracked_view = false;  // Not a view for autograd: the function detaches it.
  passed->layout = tensor->layout;
  record.finish(passed, [reached](Eager&, Gradients& grads, Node&) -> Gradients {
    reached();
    return std::move(grads);
  });
  tensor = std::move(passed);
}

/// PEFT's module around an original and its trained copy. It has no parameters of its own.
/// Source: huggingface/peft src/peft/utils/other.py, ModulesToSaveWrapper.
ModuleCall saved_wrapper(const Op& op) {
  return {.part = ModuleCall::Part::kAdapted, .layer = op.layer, .op = &op};
}

}  // namespace

ZeroPartitions::~ZeroPartitions() {
  state_.model.hooks = {};
  state_.eager.linear_override = nullptr;
  for (const Tensor& parameter : state_.model.trainable) {
    torch::accumulator_of(state_.eager, parameter.impl())->after_accumulate = nullptr;
  }
}

void ZeroPartitions::hook_modules() {
  Eager& eager = state_.eager;
  state_.model.hooks.enter = [this](const ModuleCall& call, std::initializer_list<Tensor*> inputs) {
    enter(call, inputs);
  };
  state_.model.hooks.leave = [this](const ModuleCall& call,
                                    std::initializer_list<Tensor*> outputs) {
    leave(call, outputs);
  };
  state_.model.hooks.read = [this](const ModuleCall& owner, const Tensor& parameter) {
    read(owner, parameter);
  };
  if (!state_.zero.memory_efficient_linear) {
    return;
  }
  eager.linear_override = [&eager](const Tensor& input, const Tensor& weight, const Tensor& bias) {
    return memory_efficient_linear(eager, input, weight, bias);
  };
}

bool ZeroPartitions::is_leaf(const ModuleCall& call) const {
  return call.part == ModuleCall::Part::kBlock && leaves_.contains(call.op);
}

std::size_t ZeroPartitions::weight_index(const Op& op, std::size_t place) const {
  const auto packed = state_.model.quantised.find(static_cast<std::uint32_t>(op.parameters[place]));
  return parameters_.index_of(packed != state_.model.quantised.end()
                                  ? packed->second.packed
                                  : transformers::parameter_of(state_.model, op, place));
}

/// Parameters of the adapters of an operator's weights.
std::set<std::size_t> ZeroPartitions::adapters_of(const Op& op) const {
  std::set<std::size_t> all;
  for (const TensorId id : op.parameters) {
    const auto found = state_.model.adapters.find(static_cast<std::uint32_t>(id));
    if (found != state_.model.adapters.end()) {
      for (const Tensor& parameter : {found->second.a, found->second.b, found->second.magnitude}) {
        if (parameter.defined()) {
          all.insert(parameters_.index_of(parameter));
        }
      }
    }
  }
  return all;
}

/// Parameters of all operators of the block that begins with `first`, ascending.
std::set<std::size_t> ZeroPartitions::parameters_of_block(const Op& first) const {
  const Graph& graph = *state_.model.graph;
  std::set<std::size_t> all;
  for (std::uint32_t node = 0; node < graph.op_count(); ++node) {
    const Op& op = graph.op(NodeId{node});
    if (op.layer == first.layer && op.module == first.module) {
      all.merge(parameters_of(transformers::module_of(op)));
      all.merge(adapters_of(op));
    }
  }
  return all;
}

/// Parameters of a module and of all modules inside it.
std::set<std::size_t> ZeroPartitions::nested_parameters(const ModuleCall& call) const {
  using Part = ModuleCall::Part;
  const Graph& graph = *state_.model.graph;
  const bool alone = call.part == Part::kOperator || call.part == Part::kAdapterDropout ||
                     call.part == Part::kAdapterA || call.part == Part::kAdapterB ||
                     call.part == Part::kMagnitude;
  if (alone) {
    return parameters_of(call);
  }
  std::set<std::size_t> all;
  for (std::uint32_t node = 0; node < graph.op_count(); ++node) {
    const Op& op = graph.op(NodeId{node});
    const bool layer = call.part == Part::kLayer && op.layer == call.layer;
    const bool decoder = call.part == Part::kDecoder && op.role != OpRole::kHead;
    const bool block =
        call.part == Part::kBlock && op.layer == call.layer && op.module == call.op->module;
    if (layer || decoder || block || call.part == Part::kModel || &op == call.op) {
      all.merge(parameters_of(transformers::module_of(op)));
      all.merge(adapters_of(op));
    }
  }
  return all;
}

/// Reduces the gradients of a leaf together, once the gradient of its input exists.
/// Source: stage3.py, reduce_leaf_module_grads.
void ZeroPartitions::reduce_leaf(const Op& first) {
  const std::set<std::size_t> own = parameters_of_block(first);
  for (const SubGroup& group : groups_) {
    for (const std::size_t parameter : group.parameters) {
      if (own.contains(parameter)) {
        gradients_.arrived(parameter);
      }
    }
  }
}

/// Parameters of the module itself; for a leaf, of all modules inside it.
std::set<std::size_t> ZeroPartitions::parameters_of(const ModuleCall& call) const {
  using Part = ModuleCall::Part;
  std::set<std::size_t> own;
  if (is_leaf(call)) {
    return parameters_of_block(*call.op);
  }
  if (call.part == Part::kOperator) {
    for (std::size_t place = 0; place < call.op->parameters.size(); ++place) {
      own.insert(weight_index(*call.op, place));
    }
  } else if (call.part == Part::kAdapterA || call.part == Part::kAdapterB ||
             call.part == Part::kMagnitude) {
    const transformers::Adapter& adapter =
        state_.model.adapters.at(static_cast<std::uint32_t>(call.op->parameters[0]));
    own.insert(parameters_.index_of(call.part == Part::kAdapterA   ? adapter.a
                                    : call.part == Part::kAdapterB ? adapter.b
                                                                   : adapter.magnitude));
  } else if (call.part == Part::kRecorded) {
    const std::vector<RecordedParameter>& parameters = state_.model.spec->recording->parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].module == call.module) {
        own.insert(parameters_.index_of(state_.model.parameters[i]));
      }
    }
  } else if (call.part == Part::kPredictions) {
    own.insert(weight_index(*call.op, call.op->parameters.size() - 1));
  }
  return own;
}

/// Whether a copy of the module is trained.
bool ZeroPartitions::is_saved(const ModuleCall& call) const {
  const transformers::Model& model = state_.model;
  return call.part == ModuleCall::Part::kOperator && !call.op->parameters.empty() &&
         model.retrained.contains({static_cast<std::uint32_t>(call.op->parameters[0]),
                                   transformers::reader_of(model, *call.op)});
}

std::size_t ZeroPartitions::ModuleHash::operator()(const ModuleKey& key) const {
  const auto& [part, layer, op, module] = key;
  const std::size_t place = std::hash<const Op*>()(op) * 31 + static_cast<std::size_t>(layer);
  return (place * 31 + static_cast<std::size_t>(part)) * 31 + module;
}

std::size_t ZeroPartitions::module_of(const ModuleCall& call) {
  const auto [entry, fresh] =
      modules_.try_emplace(ModuleKey{call.part, call.layer, call.op, call.module});
  if (fresh) {
    const std::set<std::size_t> own = parameters_of(call);
    const std::set<std::size_t> nested = !leaves_.empty() ? nested_parameters(call) : own;
    entry->second = coordinator_.add_module({.parameters = {own.begin(), own.end()},
                                             .nested = {nested.begin(), nested.end()},
                                             .leaf = is_leaf(call)});
  }
  return entry->second;
}

void ZeroPartitions::enter(const ModuleCall& call, std::initializer_list<Tensor*> inputs) {
  const SiteScope site(state_.eager);
  // A recomputation may have stopped before the end of a leaf.
  if (call.part == ModuleCall::Part::kModel || call.part == ModuleCall::Part::kLayer) {
    leaf_ = nullptr;
  }
  if (leaf_ != nullptr) {
    return;
  }
  if (call.part == ModuleCall::Part::kModel) {
    coordinator_.reset_step();
    for (const std::int32_t module : wrappers()) {
      coordinator_.fetch(module_of({.part = call.part, .layer = module, .op = nullptr}),
                         Pass::kForward);
    }
  }
  leaf_ = is_leaf(call) ? call.op : nullptr;
  if (is_saved(call)) {
    start_call(module_of(saved_wrapper(*call.op)), inputs);
  }
  start_call(module_of(call), inputs);
}

void ZeroPartitions::start_call(std::size_t module, std::initializer_list<Tensor*> inputs) {
  coordinator_.fetch(module, Pass::kForward);
  const auto remaining = std::make_shared<int>(0);  // Inputs whose gradients are missing.
  for (Tensor* const input : inputs) {
    if (!input->defined() || !input->requires_grad()) {
      continue;
    }
    ++*remaining;
    watch(state_.eager, *input, [this, module, remaining, leaf = leaf_] {
      const SiteScope inner(state_.eager);
      if (leaf != nullptr) {
        reduce_leaf(*leaf);
      }
      if (--*remaining == 0) {
        coordinator_.release(module, Pass::kBackward);
      }
    });
  }
}

void ZeroPartitions::leave(const ModuleCall& call, std::initializer_list<Tensor*> outputs) {
  if (leaf_ != nullptr && leaf_ != call.op) {
    return;
  }
  if (leaf_ != nullptr && call.part != ModuleCall::Part::kBlock) {
    return;  // The leaf's first operator.
  }
  leaf_ = nullptr;
  const SiteScope site(state_.eager);
  finish_call(module_of(call), outputs);
  if (is_saved(call)) {
    finish_call(module_of(saved_wrapper(*call.op)), outputs);
  }
  if (call.part == ModuleCall::Part::kModel) {
    const std::vector<std::int32_t> outer = wrappers();
    for (auto module = outer.rbegin(); module != outer.rend(); ++module) {
      finish_call(module_of({.part = call.part, .layer = *module, .op = nullptr}), outputs);
    }
  }
}

void ZeroPartitions::finish_call(std::size_t module, std::initializer_list<Tensor*> outputs) {
  coordinator_.release(module, Pass::kForward);
  for (Tensor* const output : outputs) {
    if (output->defined() && output->requires_grad()) {
      watch(state_.eager, *output, [this, module] {
        const SiteScope inner(state_.eager);
        coordinator_.fetch(module, Pass::kBackward);
      });
    }
  }
}

/// PEFT puts two modules around the model, the outermost first. If PEFT has no class for the task,
/// the inner one is bypassed. Source: peft/peft_model.py, PeftModel.forward.
std::vector<std::int32_t> ZeroPartitions::wrappers() const {
  if (!state_.plan.lora) {
    return {};
  }
  const ModelSpec& spec = *state_.model.spec;
  const bool plain = spec.architecture == Architecture::kMaskedLm && spec.task == Task::kLanguage;
  return plain ? std::vector<std::int32_t>{-3} : std::vector<std::int32_t>{-3, -2};
}

/// ZeROOrderedDict: a parameter that is read while it is partitioned is gathered for the running
/// module. From then on it is gathered before that module runs.
void ZeroPartitions::read(const ModuleCall& owner, const Tensor& parameter) {
  const std::size_t index = parameters_.index_of(parameter);
  if (state_.eager.in_backward() ||
      parameters_[index].status != PartitionedParameter::Residence::kPartitioned) {
    return;
  }
  const SiteScope site(state_.eager);
  coordinator_.add_parameter(module_of(owner), index);
  parameters_.gather({&index, 1});
}

void ZeroPartitions::before_backward(bool boundary) {
  gradients_.start_backward(boundary);
}

void ZeroPartitions::after_backward(bool boundary) {
  static_cast<void>(boundary);
  const SiteScope site(state_.eager);
  gradients_.finish_backward();
  coordinator_.release_leftovers();
}

}  // namespace headroom::ir::deepspeed
