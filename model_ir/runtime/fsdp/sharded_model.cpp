#include "model_ir/runtime/fsdp/sharded_model.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "model_ir/runtime/fsdp/fully_shard.h"
#include "model_ir/runtime/transformers/adapter.h"

namespace headroom::ir::fsdp {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

namespace {

/// Appends those of `indices`, which share their names' first `prefix` characters.
void walk(std::span<const std::string> names, std::span<const std::size_t> indices,
          std::size_t prefix, std::vector<std::size_t>& out) {
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < indices.size();) {
    const std::string& name = names[indices[i]];
    const std::size_t dot = name.find('.', prefix);
    if (dot == std::string::npos) {
      own.push_back(indices[i++]);
      continue;
    }
    const std::string_view child = std::string_view(name).substr(0, dot + 1);
    std::size_t end = i;
    while (end < indices.size() && std::string_view(names[indices[end]]).starts_with(child)) {
      ++end;
    }
    walk(names, indices.subspan(i, end - i), dot + 1, out);
    i = end;
  }
  out.insert(out.end(), own.begin(), own.end());
}

/// The shape of this rank's rows; it is rank 0, whose rows are never fewer than another's.
Shape shard_shape(const Shape& whole, std::int64_t ranks) {
  return whole.with(0, ceil_div(whole[0], ranks));
}

/// A parameter of the model with its wrapper's names, and where it stands.
struct Named {
  std::string name;
  Tensor whole;
  const TensorInfo* info = nullptr;  ///< Of an adapter: its base weight's.
  TensorId id{0};
  bool adapter = false;
};

/// Which module's group a parameter belongs to.
std::int32_t module_of(const Sharding& sharding, const ModelSpec& spec, const Named& parameter) {
  const TensorInfo& info = *parameter.info;
  const bool decoder = spec.encoder && info.layer >= spec.encoder->layers;
  if (info.layer >= 0 && (sharding.plan.shard_decoder || !decoder)) {
    return info.layer;
  }
  if (sharding.plan.shard_embeddings && !spec.tied_embeddings) {
    if (info.name == "lm_head.weight" || info.name == "lm_head.bias") {
      return transformers::kHeadModule;
    }
    if (info.dims.size() == 2 && info.dims[0] == spec.vocabulary) {
      return transformers::kEmbeddingModule;
    }
  }
  return kRootModule;
}

/// PEFT's adapters on the meta device, gathered in the policy's type like the rest.
void add_meta_adapters(const Sharding& sharding, transformers::Model& model, const LoraPlan& lora) {
  transformers::add_adapters(sharding.eager, model, lora);
  for (auto& [id, adapter] : model.adapters) {
    for (Tensor* parameter : {&adapter.a, &adapter.b, &adapter.magnitude}) {
      if (parameter->defined()) {
        *parameter = sharding.eager.parameter(parameter->shape(), sharding.plan.param_dtype, true);
      }
    }
  }
}

/// model.named_parameters(): an adapted layer becomes a module that holds the layer and its
/// adapter. Source: huggingface/peft src/peft/tuners/lora/layer.py, LoraLayer.
std::vector<Named> named_parameters(const transformers::Model& model, const Graph& graph) {
  std::vector<Named> named;
  for (const TensorId id : graph.parameters()) {
    const TensorInfo& info = graph.tensor(id);
    const Tensor& whole = model.parameters[index_of(id)];
    const std::size_t dot = info.name.rfind('.');
    const std::string module = info.name.substr(0, dot);
    const bool bias = info.name.ends_with(".bias");
    const auto found = model.adapters.find(static_cast<std::uint32_t>(id));
    if (found == model.adapters.end()) {
      const bool inside = bias && !named.empty() && named.back().adapter;
      const auto at = inside
                          ? std::find_if(named.begin(), named.end(),
                                         [&](const Named& one) {
                                           return one.adapter && one.name.starts_with(module + '.');
                                         })
                          : named.end();
      named.insert(at, {inside ? module + ".base_layer.bias" : info.name, whole, &info, id, false});
      continue;
    }
    named.push_back({module + ".base_layer.weight", whole, &info, id, false});
    named.push_back({module + ".lora_A.default.weight", found->second.a, &info, id, true});
    named.push_back({module + ".lora_B.default.weight", found->second.b, &info, id, true});
    if (found->second.magnitude.defined()) {
      named.push_back({module + ".lora_magnitude_vector.default.weight", found->second.magnitude,
                       &info, id, true});
    }
  }
  return named;
}

/// Groups in the order in which a walk over the modules meets them.
std::size_t place_of(std::int32_t module, std::int32_t layers) {
  switch (module) {
    case kRootModule:
      return 0;
    case transformers::kEmbeddingModule:
      return 1;
    case transformers::kHeadModule:
      return static_cast<std::size_t>(layers) + 2;
    default:
      return static_cast<std::size_t>(module) + 2;
  }
}

/// A buffer gets memory; what follows the parameters' type has that of the shards.
Tensor give_memory(const Sharding& sharding, const Tensor& buffer) {
  const bool follows = buffer.dtype() == sharding.plan.param_dtype;
  return sharding.eager.empty(buffer.shape(), follows ? sharding.stored : buffer.dtype(),
                              TensorRole::kBuffer);
}

}  // namespace

std::vector<std::size_t> children_first(std::span<const std::string> names) {
  std::vector<std::size_t> all(names.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = i;
  }
  std::vector<std::size_t> out;
  walk(names, all, 0, out);
  return out;
}

namespace {

/// `to_empty` of one module after the other: shards and buffers get memory.
class MemoryGiver {
 public:
  MemoryGiver(const Sharding& sharding, const ModelSpec& spec, ShardedModel& result)
      : sharding_(sharding), spec_(spec), result_(result) {}

  /// The shard of a parameter, in the group of its module.
  Tensor shard(const Named& parameter, std::int32_t layers) {
    const Tensor& whole = parameter.whole;
    const DType dtype = parameter.adapter ? sharding_.trained : sharding_.stored;
    Tensor made = sharding_.eager.parameter(shard_shape(whole.shape(), sharding_.ranks), dtype,
                                            whole.requires_grad());
    const std::int32_t module = module_of(sharding_, spec_, parameter);
    std::unique_ptr<ShardedGroup>& group = result_.groups[place_of(module, layers)];
    if (group == nullptr) {
      group = std::make_unique<ShardedGroup>(sharding_, module);
    }
    group->add(whole, made);
    return made;
  }

  void buffers() {
    if (!buffers_given_) {
      for (Tensor& buffer : result_.model.buffers) {
        buffer = give_memory(sharding_, buffer);
      }
    }
    buffers_given_ = true;
  }

 private:
  const Sharding& sharding_;
  const ModelSpec& spec_;
  ShardedModel& result_;
  bool buffers_given_ = false;
};

/// Whether a stack of an encoder-decoder begins, whose module for the shared embedding comes first.
bool begins_stack(const ModelSpec& spec, std::int32_t layer_before, std::int32_t layer) {
  return spec.encoder && layer != layer_before && (layer == 0 || layer == spec.encoder->layers);
}

/// The turn of a module comes that shares the embedding's weight, which is made again.
void give_tied_again(Eager& eager, std::span<const Named> named, const ShardedModel& result) {
  const auto embedding = static_cast<std::size_t>(
      std::find_if(named.begin(), named.end(),
                   [](const Named& one) { return one.name.ends_with(".weight"); }) -
      named.begin());
  const Tensor& shard = result.shards[embedding];
  const Tensor again = eager.empty(shard.shape(), shard.dtype(), TensorRole::kParameter);
  eager.move_storage(shard, again);
}

}  // namespace

ShardedModel load_sharded(const Sharding& sharding, const ModelSpec& spec, const ParallelPlan& plan,
                          const Graph& graph) {
  Eager& eager = sharding.eager;
  ShardedModel result;
  eager.set_meta(true);
  result.model = transformers::load_model(eager, spec, plan, graph);
  transformers::Model& model = result.model;
  if (plan.lora) {
    add_meta_adapters(sharding, model, *plan.lora);
  }
  eager.set_meta(sharding.plan.cpu_offload);

  const auto layers = static_cast<std::int32_t>(graph.layers().size());
  result.groups.resize(static_cast<std::size_t>(layers) + 3);
  const std::vector<Named> named = named_parameters(model, graph);
  std::vector<std::string> names;
  for (const Named& one : named) {
    names.push_back(one.name);
  }
  result.shards.resize(names.size());
  eager.set_site("fsdp.to_empty", -1);
  MemoryGiver give(sharding, spec, result);
  std::int32_t layer = -1;
  for (const std::size_t index : children_first(names)) {
    const Named& parameter = named[index];
    if (begins_stack(spec, layer, parameter.info->layer)) {
      give_tied_again(eager, named, result);
    }
    layer = parameter.info->layer;
    if (parameter.info->name == "lm_head.weight") {  // Rotary modules end the inner model.
      give.buffers();
    }
    result.shards[index] = give.shard(parameter, layers);
    const auto id = static_cast<std::uint32_t>(parameter.id);
    const auto correction = model.corrections.find(id);
    if (correction != model.corrections.end()) {
      correction->second = give_memory(sharding, correction->second);
    }
  }
  give.buffers();
  if (spec.tied_embeddings && !result.shards.empty()) {
    give_tied_again(eager, named, result);
  }
  eager.set_meta(false);
  result.groups.erase(std::remove(result.groups.begin(), result.groups.end(), nullptr),
                      result.groups.end());
  return result;
}

}  // namespace headroom::ir::fsdp
