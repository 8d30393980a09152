#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "model_ir/runtime/transformers/model.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Tensor;

/// Rotated dims of a head.
std::int64_t rotary_dim(const ModelSpec& spec) {
  if (spec.latent) {
    return spec.latent->rope_dim;
  }
  return static_cast<std::int64_t>(static_cast<double>(spec.head_dim) * spec.rope_fraction);
}

/// 1 / base^(arange(0, D, 2) / D) in fp32: temporaries as Python leaves them.
/// Source: modeling_llama.py, compute_default_rope_parameters.
Tensor inverse_frequencies(Eager& eager, std::int64_t count) {
  const torch::Shape shape{count};
  Tensor integers = eager.empty(shape, DType::kFp32, TensorRole::kTemporary);
  Tensor fractions = eager.empty(shape, DType::kFp32, TensorRole::kTemporary);
  integers.reset();
  Tensor powers = eager.empty(shape, DType::kFp32, TensorRole::kTemporary);
  { const Tensor base = eager.empty({}, DType::kInt64, TensorRole::kTemporary); }
  fractions.reset();
  Tensor reciprocal = eager.empty(shape, DType::kFp32, TensorRole::kTemporary);
  Tensor result = eager.empty(shape, DType::kFp32, TensorRole::kBuffer);
  reciprocal.reset();
  powers.reset();
  return result;
}

bool is_gemma(Family family) {
  return family == Family::kGemma || family == Family::kGemma2 || family == Family::kGemma3Text;
}

void add_rotary_buffers(Eager& eager, Model& model) {
  const ModelSpec& spec = *model.spec;
  if (spec.position != PositionKind::kRope) {
    return;
  }
  const std::int64_t count = rotary_dim(spec) / 2;
  const int tables = spec.local_rope ? 2 : 1;
  for (int table = 0; table < tables; ++table) {
    model.buffers.push_back(inverse_frequencies(eager, count));
    model.buffers.push_back(eager.empty({count}, DType::kFp32, TensorRole::kBuffer));  // clone()
    const Tensor again = inverse_frequencies(eager, count);  // By the weights' initialisation.
  }
}

}  // namespace

Model load_model(Eager& eager, const ModelSpec& spec, const ParallelPlan& plan, const Graph& graph,
                 const std::function<void(const Tensor&)>& created) {
  Model model;
  model.spec = &spec;
  model.plan = &plan;
  model.graph = &graph;
  model.parameters.resize(graph.tensor_count());
  const DType dtype = param_dtype(plan.precision);
  const bool trainable = !plan.lora.has_value();
  eager.set_site("parameters", -1);
  const auto is_head = [&](TensorId id) { return graph.tensor(id).name == "lm_head.weight"; };
  for (const TensorId id : graph.parameters()) {
    if (is_head(id)) {
      add_rotary_buffers(eager, model);
    }
    const TensorInfo& info = graph.tensor(id);
    torch::Shape shape;
    switch (info.dims.size()) {
      case 1:
        shape = {info.dims[0]};
        break;
      case 2:
        shape = {info.dims[0], info.dims[1]};
        break;
      default:
        shape = {info.dims[0], info.dims[1], info.dims[2]};
        break;
    }
    Tensor parameter = eager.parameter(shape, dtype, trainable);
    model.parameter_count += parameter.elements();
    model.parameters[index_of(id)] = parameter;
    if (created) {
      created(parameter);
    }
    if (spec.scales_embedding && is_gemma(spec.family) && model.buffers.empty()) {
      model.buffers.push_back(eager.empty({}, dtype, TensorRole::kBuffer));  // embed_scale
    }
    if (trainable) {
      model.trainable_count += parameter.elements();
      model.trainable.push_back(std::move(parameter));
    }
  }
  if (spec.tied_embeddings) {
    add_rotary_buffers(eager, model);
    if (!created && spec.architecture == Architecture::kCausalLm) {
      // The head is built with a weight of its own, which tie_weights() then lets go.
      const Tensor head =
          eager.empty({spec.vocabulary, spec.embedding_dim > 0 ? spec.embedding_dim : spec.hidden},
                      dtype, TensorRole::kParameter);
    }
  }
  return model;
}

}  // namespace headroom::ir::transformers
