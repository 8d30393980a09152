#include "runtimes/transformers/quantised_load.h"

#include "runtimes/transformers/modeling.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Tensor;

std::set<TensorId> quantised_weights(const ModelSpec& spec, const ParallelPlan& plan,
                                     const Graph& graph) {
  std::set<TensorId> weights;
  const bool keeps = !spec.recording && modeling_of(spec.family).widens_down;
  for (std::size_t node = 0; plan.quant && node < graph.op_count(); ++node) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(node)});
    if (is_body_linear(op) && !(keeps && op.role == OpRole::kDown)) {
      weights.insert(op.parameters.at(0));
    }
  }
  return weights;
}

Tensor load_quantised(Eager& eager, Model& model, TensorId id) {
  const QuantPlan& quant = *model.plan->quant;
  const DType dtype = quant.bits == 8 ? DType::kFp16 : param_dtype(model.plan->precision);
  const std::vector<std::int64_t>& dims = model.graph->tensor(id).dims;
  const bool transposed = model.spec->qkv == QkvLayout::kFusedConv1d;
  const torch::Shape shape =
      transposed ? torch::Shape{dims[1], dims[0]} : torch::Shape{dims[0], dims[1]};
  const Tensor whole = eager.empty(shape, dtype, TensorRole::kTemporary);
  QuantisedWeight& weight = model.quantised[static_cast<std::uint32_t>(id)];
  const DType storage = model.setting.wide_codes ? dtype : DType::kUInt8;
  weight = quantise(eager, *model.plan, whole, storage, model.dynamic_codes);
  return weight.packed;
}

}  // namespace headroom::ir::transformers
