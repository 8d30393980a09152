#include "runtimes/transformers/dora.h"

#include <utility>

#include "runtimes/torch/foreach.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Shape;
using torch::Tensor;

namespace {

/// Conv1D stores its weight as [in, out], unless it was quantised as a linear layer.
bool is_transposed(const Model& model, TensorId id) {
  return model.spec->qkv == QkvLayout::kFusedConv1d &&
         !model.quantised.contains(static_cast<std::uint32_t>(id));
}

/// torch.linalg.norm of each output's weights; in a transposed weight they are not contiguous.
Tensor output_norm(Eager& eager, const Model& model, TensorId id, const Tensor& weight,
                   std::int64_t outputs) {
  return torch::reduce(eager, {outputs}, weight.dtype(),
                       {.outputs = outputs,
                        .inputs_per_output = weight.elements() / outputs,
                        .innermost = !is_transposed(model, id),
                        .accumulator_bytes = 4,
                        .element_bytes = bits_of(weight.dtype()) / 8});
}

/// ||W + scaling * BA||, without a gradient.
Tensor weight_norm(Eager& eager, const Model& model, TensorId id, const Tensor& weight,
                   const Tensor& lora_weight) {
  const torch::GradMode grad(eager, false);
  Tensor scaled = torch::scale(eager, lora_weight);
  const Tensor sum = torch::add(eager, weight, scaled);
  scaled.reset();
  return output_norm(eager, model, id, sum, lora_weight.shape()[1]);
}

/// The copies that deepcopy() of a 4-bit layer makes: the storage of each tensor and, temporarily,
/// a scalar of its type. A parameter is copied with its quantisation state, which the module holds
/// a second time. Source: torch/_tensor.py, Tensor.__deepcopy__; bitsandbytes nn/modules.py.
class LayerCopy {
 public:
  LayerCopy(Eager& eager, const QuantisedWeight& weight, const Tensor& bias) : eager_(eager) {
    copy_state(weight);
    copy(weight.packed);
    if (bias.defined()) {
      copies_.push_back(torch::computed(eager, bias.shape(), bias.dtype(), TensorRole::kTemporary));
    }
    copy_state(weight);
  }
  ~LayerCopy() {
    for (Tensor& each : copies_) {
      each.reset();
    }
  }
  LayerCopy(const LayerCopy&) = delete;
  LayerCopy& operator=(const LayerCopy&) = delete;

 private:
  void copy(const Tensor& tensor) {
    if (tensor.defined()) {
      copies_.push_back(
          torch::computed(eager_, tensor.shape(), tensor.dtype(), TensorRole::kTemporary));
      const Tensor scalar =
          torch::computed(eager_, Shape{}, tensor.dtype(), TensorRole::kTemporary);
    }
  }
  void copy_state(const QuantisedWeight& weight) {
    copy(weight.factors);
    copy(weight.codes);
    copy(weight.offset);
    copy(weight.outer_factors);
    copy(weight.outer_codes);
  }

  Eager& eager_;
  std::vector<Tensor> copies_;
};

const QuantisedWeight* quantised(const Model& model, TensorId id) {
  const auto found = model.quantised.find(static_cast<std::uint32_t>(id));
  return found == model.quantised.end() ? nullptr : &found->second;
}

/// dequantize_module_weight: the weight itself if it is not quantised.
Tensor whole_weight(Eager& eager, const Model& model, TensorId id) {
  const QuantisedWeight* const packed = quantised(model, id);
  return packed != nullptr ? dequantise(eager, *packed) : model.parameters[index_of(id)];
}

/// One of the two layers of an adapter.
Tensor factor(Eager& eager, const Model& model, const Op& op, ModuleCall::Part part,
              const Tensor& input) {
  const Adapter& adapter = model.adapters.at(static_cast<std::uint32_t>(op.parameters[0]));
  return call_module(
      model.hooks, {.part = part, .layer = op.layer, .op = &op}, input, [&](const Tensor& given) {
        return torch::linear(eager, given,
                             part == ModuleCall::Part::kAdapterA ? adapter.a : adapter.b, {});
      });
}

/// DoRA's layer reads a parameter of the frozen layer.
void read_frozen(const Model& model, const Op& op, const Tensor& parameter) {
  if (model.hooks.read) {
    model.hooks.read({.part = ModuleCall::Part::kMagnitude, .layer = op.layer, .op = &op},
                     parameter);
  }
}

/// BA, computed by passing the identity through both layers: [in, out].
Tensor lora_weight(Eager& eager, const Model& model, const Op& op, const Adapter& adapter) {
  const std::int64_t in = adapter.a.shape()[1];
  const Tensor identity = torch::computed(eager, {in, in}, adapter.a.dtype());
  const Tensor low = factor(eager, model, op, ModuleCall::Part::kAdapterA, identity);
  return factor(eager, model, op, ModuleCall::Part::kAdapterB, low);
}

Tensor bias_of(const Model& model, const Op& op) {
  return op.parameters.size() > 1 ? model.parameters[index_of(op.parameters[1])] : Tensor{};
}

}  // namespace

void add_magnitude(Eager& eager, const Model& model, TensorId weight, Adapter& adapter) {
  const QuantisedWeight* const packed = quantised(model, weight);
  Tensor bias;
  for (std::size_t node = 0; node < model.graph->op_count(); ++node) {
    const Op& op = model.graph->op(NodeId{static_cast<std::uint32_t>(node)});
    if (op.kind == OpKind::kLinear && op.parameters[0] == weight) {
      bias = bias_of(model, op);
    }
  }
  // gather_params_ctx, under zero.Init.
  std::vector<Tensor> gathered;
  for (const Tensor& each : {model.parameters[index_of(weight)], bias}) {
    if (each.defined() && each->storage == nullptr) {
      gathered.push_back(eager.empty({align_up(each.elements(), model.plan->world)}, each.dtype(),
                                     TensorRole::kCommunication));
    }
  }
  Tensor whole;
  Tensor product;
  Tensor sum;
  {
    std::optional<LayerCopy> copy;
    if (packed != nullptr && packed->bits == 4) {
      copy.emplace(eager, *packed, bias);
    }
    whole = whole_weight(eager, model, weight);
    const Shape shape{adapter.b.shape()[0], adapter.a.shape()[1]};
    product = eager.empty(shape, adapter.a.dtype(), TensorRole::kTemporary);
    eager.touch_cublas();
    eager.run(GemmShape{.m = shape[0],
                        .n = shape[1],
                        .k = adapter.a.shape()[0],
                        .dtype = adapter.a.dtype(),
                        .layout = GemmLayout::kNN});
    Tensor scaled = torch::computed(eager, shape, adapter.a.dtype(), TensorRole::kTemporary);
    sum = torch::computed(eager, shape, adapter.a.dtype(), TensorRole::kTemporary);
    scaled.reset();
    eager.set_role(TensorRole::kParameter);
    adapter.magnitude = output_norm(eager, model, weight, sum, shape[0]);
    eager.set_role(TensorRole::kTemporary);
  }
  torch::release_list(gathered);
  whole.reset();
  product.reset();
  sum.reset();
  adapter.magnitude->requires_grad = true;
  adapter.magnitude->leaf_parameter = true;
}

Tensor dora_delta(Eager& eager, const Model& model, const Op& op, const Tensor& input,
                  const Tensor& base) {
  const Adapter& adapter = model.adapters.at(static_cast<std::uint32_t>(op.parameters[0]));
  Tensor product = lora_weight(eager, model, op, adapter);
  product = torch::to(eager, product, input.dtype());
  const QuantisedWeight* const packed = quantised(model, op.parameters[0]);
  read_frozen(model, op,
              packed != nullptr ? packed->packed : model.parameters[index_of(op.parameters[0])]);
  Tensor weight = whole_weight(eager, model, op.parameters[0]);
  weight = torch::to(eager, weight, input.dtype());
  Tensor norm = weight_norm(eager, model, op.parameters[0], weight, product);
  Tensor scale = torch::divide_by_constant(eager, adapter.magnitude, norm);
  scale = torch::view(eager, scale, {1, scale.elements()});
  Tensor low = factor(eager, model, op, ModuleCall::Part::kAdapterA, input);
  Tensor high = factor(eager, model, op, ModuleCall::Part::kAdapterB, low);
  low.reset();
  Tensor result = base;
  if (base.defined()) {
    const Tensor bias = bias_of(model, op);
    if (bias.defined()) {
      read_frozen(model, op, bias);
      result = torch::sub(eager, base, bias);
    }
  } else {
    result = is_transposed(model, op.parameters[0]) ? torch::conv1d(eager, input, weight, {})
                                                    : torch::linear(eager, input, weight, {});
  }
  Tensor less = torch::shift(eager, scale);
  Tensor left = torch::mul(eager, less, result);
  less.reset();
  Tensor scaled = torch::mul(eager, scale, high);
  Tensor right = torch::scale(eager, scaled);
  scaled.reset();
  Tensor delta = torch::add(eager, left, right);
  left.reset();
  right.reset();
  for (Tensor* name : {&product, &weight, &norm, &scale, &high}) {
    name->reset();
  }
  return delta;
}

}  // namespace headroom::ir::transformers
