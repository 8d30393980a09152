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

/// The shape of this rank's rows.
Shape shard_shape(const Sharding& sharding, const Shape& whole) {
  const std::int64_t rows = own_rows(sharding, whole[0]);
  return rows > 0 ? whole.with(0, rows) : Shape{0};
}

/// A parameter of the model with its wrapper's names, and where it stands.
struct Named {
  std::string name;
  Tensor whole;
  const TensorInfo* info = nullptr;  ///< Of an adapter: its base weight's.
  TensorId id{0};
  bool adapter = false;
};

/// A head that is tied and trained in full: a copy of its own beside the embedding's.
constexpr const char* kTiedHeadCopy = "lm_head.modules_to_save.default.weight";

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
/// adapter, a module that is trained in full one that holds it and its copy.
/// Source: huggingface/peft src/peft/tuners/lora/layer.py, LoraLayer; utils/other.py,
///         ModulesToSaveWrapper.
class Namer {
 public:
  Namer(const transformers::Model& model, const Graph& graph) : model_(model), graph_(graph) {}

  std::vector<Named> list() {
    for (const TensorId id : graph_.parameters()) {
      const std::string& name = graph_.tensor(id).name;
      const std::string module = name.substr(0, name.rfind('.'));
      if (module != module_) {
        named_.insert(named_.end(), copies_.begin(), copies_.end());
        copies_.clear();
      }
      module_ = module;
      add(id, name.substr(name.rfind('.')));
    }
    named_.insert(named_.end(), copies_.begin(), copies_.end());
    const TensorId table = graph_.parameters().front();  // A tied head has a copy of its own.
    const auto head = model_.retrained.find({static_cast<std::uint32_t>(table), true});
    if (head != model_.retrained.end()) {
      named_.push_back({kTiedHeadCopy, head->second, &graph_.tensor(table), table, false});
    }
    return std::move(named_);
  }

 private:
  void add(TensorId id, const std::string& leaf) {
    const auto key = static_cast<std::uint32_t>(id);
    const TensorInfo& info = graph_.tensor(id);
    const Tensor& whole = model_.parameters[index_of(id)];
    const bool first = id == graph_.parameters().front();
    for (const bool head : {false, true}) {
      const auto copy = model_.retrained.find({key, head});
      if (copy != model_.retrained.end() && !(head && first)) {
        copies_.push_back(
            {module_ + ".modules_to_save.default" + leaf, copy->second, &info, id, false});
      }
    }
    const auto found = model_.adapters.find(key);
    if (found == model_.adapters.end()) {
      const bool saved = !copies_.empty();
      const bool inside = leaf == ".bias" && !named_.empty() && named_.back().adapter;
      const auto at =
          inside ? std::find_if(named_.begin(), named_.end(),
                                [&](const Named& one) {
                                  return one.adapter && one.name.starts_with(module_ + '.');
                                })
                 : named_.end();
      const char* const wrapper = inside ? ".base_layer" : saved ? ".original_module" : "";
      named_.insert(at, {module_ + wrapper + leaf, whole, &info, id, false});
      return;
    }
    named_.push_back({module_ + ".base_layer.weight", whole, &info, id, false});
    named_.push_back({module_ + ".lora_A.default.weight", found->second.a, &info, id, true});
    named_.push_back({module_ + ".lora_B.default.weight", found->second.b, &info, id, true});
    if (found->second.magnitude.defined()) {
      named_.push_back({module_ + ".lora_magnitude_vector.default.weight", found->second.magnitude,
                        &info, id, true});
    }
  }

  const transformers::Model& model_;
  const Graph& graph_;
  std::vector<Named> named_;
  std::vector<Named> copies_;  ///< Of the module under way.
  std::string module_;
};

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
    Tensor made = sharding_.eager.parameter(shard_shape(sharding_, whole.shape()), dtype,
                                            whole.requires_grad());
    const std::int32_t module = module_of(sharding_, spec_, parameter);
    if (module != open_ && open_ != kRootModule) {
      close(open_, layers);
    }
    open_ = module;
    std::unique_ptr<ShardedGroup>& group = result_.groups[place_of(module, layers)];
    if (group == nullptr) {
      group = std::make_unique<ShardedGroup>(sharding_, module);
    }
    group->add(whole, made);
    return made;
  }

  /// The walk has left what is open, and the whole.
  void finish(std::int32_t layers) {
    if (open_ != kRootModule) {
      close(open_, layers);
    }
    close(kRootModule, layers);
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
  void close(std::int32_t module, std::int32_t layers) {
    if (const auto& group = result_.groups[place_of(module, layers)]) {
      group->pad_shards();
      sharding_.eager.set_site("fsdp.to_empty", -1);
    }
  }

  bool buffers_given_ = false;
  std::int32_t open_ = kRootModule;  ///< The module whose parameters come.
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
  const std::vector<Named> named = Namer(model, graph).list();
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
    if (parameter.name == kTiedHeadCopy) {  // Beside the tied module itself.
      give_tied_again(eager, named, result);
    }
    if (parameter.name.starts_with("lm_head.")) {  // Rotary modules end the inner model.
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
  const bool given = !names.empty() && names.back() == kTiedHeadCopy;
  if (spec.tied_embeddings && !result.shards.empty() && !given) {
    give_tied_again(eager, named, result);
  }
  give.finish(layers);
  eager.set_meta(false);
  result.groups.erase(std::remove(result.groups.begin(), result.groups.end(), nullptr),
                      result.groups.end());
  return result;
}

}  // namespace headroom::ir::fsdp
