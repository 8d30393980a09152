#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "model_ir/spec/task.h"
#include "runtimes/torch/launch.h"
#include "runtimes/transformers/library_version.h"
#include "runtimes/transformers/load_bidirectional.h"
#include "runtimes/transformers/model.h"
#include "runtimes/transformers/modeling.h"
#include "runtimes/transformers/quantised_load.h"
#include "runtimes/transformers/recording/replayed_model.h"
#include "runtimes/transformers/saved_modules.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Tensor;

/// 1 / base^(arange(0, D, 2) / D), with Python's temporaries. `dtype`: fp32, or the type that a
/// wrapper gives new floating-point tensors.
/// Source: modeling_llama.py, compute_default_rope_parameters.
Tensor inverse_frequencies(Eager& eager, std::int64_t count, DType dtype) {
  const torch::Shape shape{count};
  Tensor integers = torch::computed(eager, shape, DType::kFp32, TensorRole::kTemporary);
  if (dtype != DType::kFp32) {
    integers = torch::computed(eager, shape, dtype, TensorRole::kTemporary);
  }
  Tensor fractions = torch::computed(eager, shape, dtype, TensorRole::kTemporary);
  integers.reset();
  Tensor powers = torch::computed(eager, shape, dtype, TensorRole::kTemporary);
  { const Tensor base = torch::computed(eager, {}, DType::kInt64, TensorRole::kTemporary); }
  fractions.reset();
  Tensor reciprocal = torch::computed(eager, shape, dtype, TensorRole::kTemporary);
  Tensor result = torch::computed(eager, shape, dtype, TensorRole::kBuffer);
  reciprocal.reset();
  powers.reset();
  return result;
}

/// The single buffer of transformers 4; the range has 64-bit integers.
Tensor frequencies_of_four(Eager& eager, std::int64_t count) {
  Tensor range = torch::computed(eager, {count}, DType::kInt64, TensorRole::kTemporary);
  Tensor integers = torch::computed(eager, {count}, DType::kFp32, TensorRole::kTemporary);
  range.reset();
  Tensor fractions = torch::computed(eager, {count}, DType::kFp32, TensorRole::kTemporary);
  integers.reset();
  Tensor powers = torch::computed(eager, {count}, DType::kFp32, TensorRole::kTemporary);
  { const Tensor base = torch::computed(eager, {}, DType::kInt64, TensorRole::kTemporary); }
  fractions.reset();
  Tensor reciprocal = torch::computed(eager, {count}, DType::kFp32, TensorRole::kTemporary);
  Tensor result = torch::computed(eager, {count}, DType::kFp32, TensorRole::kBuffer);
  reciprocal.reset();
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
  const std::int64_t count = rotated_dims(spec) / 2;
  const int tables = spec.local_rope ? 2 : 1;
  if (library_traits(*model.spec, *model.plan).fourth) {
    for (int table = 0; table < tables; ++table) {
      model.buffers.push_back(frequencies_of_four(eager, count));
    }
    return;
  }
  const DType dtype =
      model.setting.narrows_buffers ? param_dtype(model.plan->precision) : DType::kFp32;
  for (int table = 0; table < tables; ++table) {
    if (model.plan->quant) {  // Made on the host; two buffers are copied.
      model.buffers.push_back(eager.empty({count}, DType::kFp32, TensorRole::kBuffer));
      model.buffers.push_back(eager.empty({count}, DType::kFp32, TensorRole::kBuffer));
      continue;
    }
    model.buffers.push_back(inverse_frequencies(eager, count, dtype));
    model.buffers.push_back(eager.empty({count}, dtype, TensorRole::kBuffer));  // clone()
    if (!model.setting.reads_weights) {
      const Tensor again =
          inverse_frequencies(eager, count, dtype);  // Repeated when weights are initialised.
    }
  }
}

torch::Shape shape_of(const TensorInfo& info) {
  switch (info.dims.size()) {
    case 1:
      return {info.dims[0]};
    case 2:
      return {info.dims[0], info.dims[1]};
    default:
      return {info.dims[0], info.dims[1], info.dims[2]};
  }
}

/// "model.layers.0.mlp.experts" of "model.layers.0.mlp.experts.down_proj".
std::string_view module_of(std::string_view parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

/// Whether the parameter at `at` is the first of an MLP.
bool begins_mlp(const Graph& graph, const std::vector<TensorId>& order, std::size_t at) {
  const auto in_mlp = [&](std::size_t index) {
    const std::string& name = graph.tensor(order[index]).name;
    return name.find(".mlp.") != std::string::npos ||
           name.find(".block_sparse_moe.") != std::string::npos;
  };
  return at > 0 && in_mlp(at) && !in_mlp(at - 1);
}

/// Whether the parameter at `at` is the first of GPT-2's attention.
bool begins_attention(const Graph& graph, const std::vector<TensorId>& order, std::size_t at) {
  return graph.tensor(order[at]).name.ends_with(".attn.c_attn.weight");
}

/// Buffers of an attention that used to mask its scores itself: which tokens see which, and the
/// lowest number. Source: modeling_gpt2.py, GPT2Attention.__init__.
void add_mask_buffers(Eager& eager, Model& model) {
  const std::int64_t positions = model.spec->max_positions;
  const torch::Shape shape{1, 1, positions, positions};
  const Tensor ones = torch::computed(eager, shape, DType::kBool);
  model.buffers.push_back(torch::computed(eager, shape, DType::kBool, TensorRole::kBuffer));
  const DType dtype = param_dtype(model.plan->precision);
  model.buffers.push_back(torch::computed(eager, {}, dtype, TensorRole::kBuffer));
}

/// Weights of routers that also have a correction of their scores.
std::set<TensorId> corrected_routers(const Graph& graph) {
  std::set<TensorId> weights;
  for (std::size_t node = 0; node < graph.op_count(); ++node) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(node)});
    if (op.kind == OpKind::kRouter && op.router == RouterForm::kWideSigmoid) {
      weights.insert(op.parameters.at(0));
    }
  }
  return weights;
}

/// A module initialises its parameters when it is made, and transformers does so again. Weights of
/// experts are plain parameters, which only transformers initialises.
void initialise(Eager& eager, const ModelSetting& setting, const TensorInfo& info,
                const Tensor& parameter) {
  const bool norm = info.dims.size() == 1 && info.name.ends_with(".weight");
  if (setting.reads_weights && !norm) {
    return;
  }
  torch::launch_fill(eager, parameter);
  if (parameter.shape().rank() < 3 && !setting.reads_weights) {
    torch::launch_fill(eager, parameter);
  }
}

/// Modules that a layer's constructor makes and releases when it makes their replacements: first
/// its attention, then a dense MLP. Source: huggingface/transformers 4.51.3
/// models/qwen3_moe/modeling_qwen3_moe.py, Qwen3MoeDecoderLayer.__init__.
class ReplacedModules {
 public:
  ReplacedModules(Eager& eager, const Model& model, const std::vector<TensorId>& order)
      : eager_(eager), model_(model), order_(order) {}

  /// Called before each parameter, in the order of construction.
  void before(std::size_t at) {
    if (name(at).ends_with(".self_attn.q_proj.weight")) {
      make(at);
    } else if (begins_mlp(*model_.graph, order_, at)) {
      attention_.clear();
    } else if (name(at).ends_with(".input_layernorm.weight")) {
      mlp_.clear();
    }
  }

 private:
  [[nodiscard]] std::string_view name(std::size_t at) const {
    return model_.graph->tensor(order_[at]).name;
  }

  Tensor parameter(const torch::Shape& shape) {
    Tensor made = eager_.empty(shape, param_dtype(model_.plan->precision), TensorRole::kParameter);
    torch::launch_fill(eager_, made);
    return made;
  }

  void make(std::size_t first) {
    for (std::size_t at = first; name(at).find(".self_attn.") != std::string_view::npos; ++at) {
      attention_.push_back(parameter(shape_of(model_.graph->tensor(order_[at]))));
    }
    const std::int64_t hidden = model_.spec->hidden;
    const std::int64_t width = model_.spec->ffn;
    mlp_.push_back(parameter({width, hidden}));
    mlp_.push_back(parameter({width, hidden}));
    mlp_.push_back(parameter({hidden, width}));
  }

  Eager& eager_;
  const Model& model_;
  const std::vector<TensorId>& order_;
  std::vector<Tensor> attention_, mlp_;
};

/// The head of a model with tied embeddings is built with its own weight, which tie_weights() then
/// releases.
Tensor tied_head(Eager& eager, const Model& model, DType dtype) {
  const ModelSpec& spec = *model.spec;
  Tensor head =
      eager.empty({spec.vocabulary, spec.embedding_dim > 0 ? spec.embedding_dim : spec.hidden},
                  dtype, TensorRole::kParameter);
  if (!model.setting.reads_weights) {
    torch::launch_fill(eager, head);
    torch::launch_fill(eager, head);
  }
  return head;
}

/// What comes after the parameters: rotary tables and the head of a tied model.
void finish_tied(Eager& eager, Model& model, bool has_head,
                 const std::function<void(const Tensor&)>& created) {
  const DType dtype = param_dtype(model.plan->precision);
  Tensor head;
  if (has_head && model.plan->quant) {
    head = tied_head(eager, model, dtype);
  }
  add_rotary_buffers(eager, model);
  if (has_head && !model.plan->quant) {
    head = tied_head(eager, model, dtype);
    if (created) {
      created(head);
    }
  }
}

}  // namespace

ParameterReader reader_of(const Model& model, const Op& op) {
  if (op.kind == OpKind::kEmbedding && model.spec->encoder) {
    const bool first = op.inputs[0] == model.graph->op(NodeId{0}).inputs[0];
    return first ? ParameterReader::kEncoder : ParameterReader::kDecoder;
  }
  return op.role == OpRole::kHead ? ParameterReader::kHead : ParameterReader::kModule;
}

Tensor parameter_of(const Model& model, const Op& op, std::size_t index) {
  if (index >= op.parameters.size()) {
    return {};
  }
  const TensorId id = op.parameters[index];
  const auto copy = model.retrained.find({static_cast<std::uint32_t>(id), reader_of(model, op)});
  return copy != model.retrained.end() ? copy->second : model.parameters[index_of(id)];
}

std::vector<Tensor> all_parameters(const Model& model) {
  std::vector<Tensor> all;
  for (const auto& [id, reader] : reading_modules(model)) {
    const auto key = static_cast<std::uint32_t>(id);
    const bool owner = reader == ParameterReader::kModule;
    if (owner) {
      all.push_back(model.parameters[index_of(id)]);
    }
    if (const auto copy = model.retrained.find({key, reader}); copy != model.retrained.end()) {
      all.push_back(copy->second);
    }
    if (const auto adapter = model.adapters.find(key); owner && adapter != model.adapters.end()) {
      all.push_back(adapter->second.a);
      all.push_back(adapter->second.b);
      all.push_back(adapter->second.magnitude);
    }
  }
  std::erase_if(all, [](const Tensor& each) { return !each.defined(); });
  return all;
}

bool is_body_linear(const Op& op) {
  return (op.kind == OpKind::kLinear && op.role != OpRole::kHead) || op.kind == OpKind::kSharedGate;
}

/// Weights that from_pretrained keeps in fp32 while the rest is fp16 (_keep_in_fp32_modules); an
/// MLP's last input is cast to their type.
std::set<TensorId> kept_wide(const ModelSpec& spec, const ParallelPlan& plan, const Graph& graph) {
  std::set<TensorId> wide;
  const bool keeps = plan.precision == Precision::kFp16 && modeling_of(spec, plan).widens_down;
  for (std::size_t node = 0; keeps && node < graph.op_count(); ++node) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(node)});
    if (op.role == OpRole::kDown) {
      wide.insert(op.parameters.at(0));
    }
  }
  return wide;
}

Model load_model(Eager& eager, const ModelSource& source,
                 const std::function<void(const Tensor&)>& created) {
  const ModelSpec& spec = source.spec;
  const ParallelPlan& plan = source.plan;
  const Graph& graph = source.graph;
  if (spec.recording) {
    return load_recorded(eager, source, created);
  }
  Model model;
  model.spec = &spec;
  model.plan = &plan;
  model.graph = &graph;
  model.setting = source.setting;
  model.parameters.resize(graph.tensor_count());
  const DType dtype = param_dtype(plan.precision);
  const bool trainable = !plan.lora.has_value();
  const std::set<TensorId> quantised = quantised_weights(spec, plan, graph);
  const std::set<TensorId> corrected = corrected_routers(graph);
  const std::set<TensorId> wide = kept_wide(spec, plan, graph);
  eager.set_site("parameters", -1);
  const std::string head_weight = std::string(head_module(spec)) + ".weight";
  const auto is_head = [&](TensorId id) { return graph.tensor(id).name == head_weight; };
  ConstructorExtras extras(eager, model, created);
  std::vector<Tensor> made;  // Parameters of the module that is being constructed.
  const std::vector<TensorId> order = construction_order(graph, plan.quant.has_value());
  const LibraryTraits library = library_traits(spec, plan);
  ReplacedModules replaced(eager, model, order);
  for (std::size_t at = 0; at < order.size(); ++at) {
    const TensorId id = order[at];
    extras.before(id);
    if (library.replaces_modules) {
      replaced.before(at);
    }
    if (library.fourth && begins_attention(graph, order, at)) {
      add_mask_buffers(eager, model);
    }
    if (library.layer_tables && begins_mlp(graph, order, at)) {
      add_rotary_buffers(eager, model);  // Those of the layer's attention.
    }
    if (is_head(id) && !plan.quant) {
      add_rotary_buffers(eager, model);
    }
    const torch::Shape shape = shape_of(graph.tensor(id));
    Tensor parameter =
        quantised.contains(id)
            ? load_quantised(eager, model, id)
            : eager.parameter(shape, wide.contains(id) ? DType::kFp32 : dtype, trainable);
    if (!plan.quant) {
      initialise(eager, model.setting, graph.tensor(id), parameter);
    }
    model.parameter_count += shape.elements();
    model.parameters[index_of(id)] = parameter;
    made.push_back(parameter);
    if (corrected.contains(id)) {
      model.corrections[static_cast<std::uint32_t>(id)] =
          eager.empty({shape[0]}, dtype, TensorRole::kBuffer);
    }
    if (spec.scales_embedding && is_gemma(spec.family) && model.buffers.empty() &&
        !modeling_of(spec, plan).scales_after_tables) {
      model.buffers.push_back(eager.empty({}, dtype, TensorRole::kBuffer));  // embed_scale
    }
    model.trainable_count += trainable ? shape.elements() : 0;
    if (at + 1 == order.size() ||
        module_of(graph.tensor(order[at + 1]).name) != module_of(graph.tensor(id).name)) {
      if (created) {
        std::for_each(made.begin(), made.end(), created);
      }
      made.clear();
    }
  }
  extras.finish();
  for (const TensorId id : graph.parameters()) {
    if (trainable) {
      model.trainable.push_back(model.parameters[index_of(id)]);
    }
  }
  if (spec.tied_embeddings) {
    finish_tied(eager, model, spec.architecture == Architecture::kCausalLm, created);
  } else if (plan.quant) {
    add_rotary_buffers(eager, model);
  }
  eager.program().parameters = model.parameter_count;
  eager.program().trainable_parameters = model.trainable_count;
  return model;
}

void prepare_kbit(Eager& eager, Model& model) {
  eager.set_site("prepare_kbit", -1);
  for (const TensorId id : model.graph->parameters()) {
    const Tensor& parameter = model.parameters[index_of(id)];
    const bool narrow = parameter.dtype() == DType::kBf16 || parameter.dtype() == DType::kFp16;
    if (!narrow || model.quantised.contains(static_cast<std::uint32_t>(id))) {
      continue;
    }
    const Tensor wide = eager.empty(parameter.shape(), DType::kFp32, TensorRole::kParameter);
    eager.move_storage(parameter, wide);
    parameter->dtype = DType::kFp32;
  }
  // auto_clear_cache: torch.cuda.empty_cache()
  RankProgram& program = eager.program();
  const std::uint32_t site = program.events.empty() ? 0 : program.events.back().site;
  program.events.push_back({.kind = EventKind::kEmptyCache, .site = site});
}

}  // namespace headroom::ir::transformers
