#include "runtimes/transformers/recording/quantised_constructors.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "runtimes/transformers/quantised_load.h"
#include "runtimes/transformers/recording/prepared_code.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Tensor;

torch::Shape shape_of(const std::vector<std::int64_t>& dims) {
  return torch::Shape(std::span<const std::int64_t>(dims));
}

/// Copies the buffers that are floating, or all others, to the device.
void copy_buffers(Eager& eager, Model& model, bool floating) {
  const std::vector<RecordedBuffer>& buffers = model.recorded->recording().buffers;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const DType dtype = model.recorded->buffer_type(static_cast<std::uint32_t>(i));
    if (is_floating(dtype) == floating) {
      model.buffers[i] = eager.empty(shape_of(buffers[i].dims), dtype, TensorRole::kBuffer);
    }
  }
}

}  // namespace

void load_quantised_recording(Eager& eager, Model& model) {
  eager.set_site("parameters", -1);
  const std::set<TensorId> quantised = quantised_weights(*model.spec, *model.plan, *model.graph);
  const DType usual = param_dtype(model.plan->precision);
  copy_buffers(eager, model, true);
  std::vector<Tensor> tied;
  const std::vector<RecordedParameter>& parameters = model.recorded->recording().parameters;
  for (std::uint32_t i = 0; i < parameters.size(); ++i) {
    const RecordedParameter& parameter = parameters[i];
    if (quantised.contains(TensorId{i})) {
      model.parameters[i] = load_quantised(eager, model, TensorId{i});
      continue;
    }
    const DType dtype = parameter.dtype.value_or(usual);
    model.parameters[i] = eager.parameter(shape_of(parameter.dims), dtype, false);
  }
  for (const RecordedParameter& parameter : parameters) {
    for (std::size_t name = 0; name < parameter.other_names.size(); ++name) {
      tied.push_back(eager.empty(shape_of(parameter.dims), parameter.dtype.value_or(usual),
                                 TensorRole::kParameter));
    }
  }
  tied.clear();
  copy_buffers(eager, model, false);
}

}  // namespace headroom::ir::transformers
