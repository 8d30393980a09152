#include "model_ir/runtime/fsdp/sharded_model.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "model_ir/runtime/fsdp/fully_shard.h"

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

/// Which module's group a parameter belongs to.
std::int32_t module_of(const Sharding& sharding, const ModelSpec& spec, const TensorInfo& info) {
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

ShardedModel load_sharded(const Sharding& sharding, const ModelSpec& spec, const ParallelPlan& plan,
                          const Graph& graph) {
  Eager& eager = sharding.eager;
  ShardedModel result;
  eager.set_meta(true);
  result.model = transformers::load_model(eager, spec, plan, graph);
  eager.set_meta(false);
  transformers::Model& model = result.model;

  const auto layers = static_cast<std::int32_t>(graph.layers().size());
  result.groups.resize(static_cast<std::size_t>(layers) + 3);
  std::vector<std::string> names;
  for (const TensorId id : graph.parameters()) {
    names.push_back(graph.tensor(id).name);
  }
  result.shards.resize(names.size());
  const auto load_buffers = [&] {
    for (Tensor& buffer : model.buffers) {
      buffer = give_memory(sharding, buffer);
    }
  };
  eager.set_site("fsdp.to_empty", -1);
  bool buffers_loaded = false;
  for (const std::size_t index : children_first(names)) {
    const TensorId id = graph.parameters()[index];
    const TensorInfo& info = graph.tensor(id);
    if (info.name == "lm_head.weight") {  // The rotary module is the last of the inner model.
      load_buffers();
      buffers_loaded = true;
    }
    const Tensor& whole = model.parameters[index_of(id)];
    const Shape shape = shard_shape(whole.shape(), sharding.ranks);
    const Tensor shard = eager.parameter(shape, sharding.stored, true);
    const std::int32_t module = module_of(sharding, spec, info);
    std::unique_ptr<ShardedGroup>& group = result.groups[place_of(module, layers)];
    if (group == nullptr) {
      group = std::make_unique<ShardedGroup>(sharding, module);
    }
    group->add(whole, shard);
    result.shards[index] = shard;
    const auto correction = model.corrections.find(static_cast<std::uint32_t>(id));
    if (correction != model.corrections.end()) {
      correction->second = give_memory(sharding, correction->second);
    }
  }
  if (!buffers_loaded) {
    load_buffers();
  }
  if (spec.tied_embeddings && !result.shards.empty()) {
    // The head's turn comes: the one weight is made again.
    const auto embedding = static_cast<std::size_t>(
        std::find_if(names.begin(), names.end(),
                     [](const std::string& name) { return name.ends_with(".weight"); }) -
        names.begin());
    const Tensor& shard = result.shards[embedding];
    const Tensor again = eager.empty(shard.shape(), shard.dtype(), TensorRole::kParameter);
    eager.move_storage(shard, again);
  }
  result.groups.erase(std::remove(result.groups.begin(), result.groups.end(), nullptr),
                      result.groups.end());
  return result;
}

}  // namespace headroom::ir::fsdp
