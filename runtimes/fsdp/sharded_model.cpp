#include "runtimes/fsdp/sharded_model.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "model_ir/spec/task.h"
#include "runtimes/fsdp/fully_shard.h"
#include "runtimes/fsdp/named_parameters.h"
#include "runtimes/fsdp/recorded_walk.h"

namespace headroom::ir::fsdp {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

namespace {

/// Appends `indices`, children first. Their names agree in the first `prefix` characters.
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

/// Creates PEFT's adapters on the meta device. They are gathered in the policy's type like the
/// rest.
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

/// Allocates a buffer. If it has the parameters' type, it gets the type of the shards.
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

/// `to_empty` of one module after the other, which allocates shards and buffers.
class MemoryGiver {
 public:
  MemoryGiver(const Sharding& sharding, const ModelSpec& spec, ShardedModel& result)
      : sharding_(sharding), spec_(spec), result_(result) {}

  /// Allocates the shard of a parameter and adds it to the group of its module.
  Tensor shard(const NamedParameter& parameter, std::int32_t layers) {
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
    if (sharding_.plan.cpu_offload) {
      hold_on_host(made);
    }
    return made;
  }

  /// Ends the walk: closes the open module and the root.
  void finish(std::int32_t layers) {
    if (open_ != kRootModule) {
      close(open_, layers);
    }
    close(kRootModule, layers);
  }

  void buffers() {
    if (!buffers_given_) {
      for (Tensor& given : result_.model.buffers) {
        buffer(given);
      }
    }
    buffers_given_ = true;
  }

  void buffer(Tensor& buffer) { buffer = give_memory(sharding_, buffer); }

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

  /// A shard is pinned, and so is its gradient, as copies that do not block are.
  /// Source: pytorch/pytorch 2.11 _fully_shard/_fsdp_param.py, reset_sharded_param;
  ///         _fsdp_collectives.py, foreach_reduce; aten/src/ATen/native/TensorConversions.cpp.
  void hold_on_host(const Tensor& shard) {
    RankProgram& program = sharding_.eager.program();
    const std::int64_t bytes = bytes_of(shard.elements(), shard.dtype()).value();
    ir::hold_on_host(program, HostUse::kParameters, HostPages::kPinnedBlock, bytes);
    if (shard.requires_grad()) {
      ir::hold_on_host(program, HostUse::kGradients, HostPages::kPinnedBlock, bytes);
    }
  }

  bool buffers_given_ = false;
  std::int32_t open_ = kRootModule;  ///< The module whose parameters are being added.
};

/// Whether a stack of an encoder-decoder begins; the module of the shared embedding comes first in
/// it.
bool begins_stack(const ModelSpec& spec, std::int32_t layer_before, std::int32_t layer) {
  return spec.encoder && layer != layer_before && (layer == 0 || layer == spec.encoder->layers);
}

/// Gives a shard new memory, as a module does that shares it; then the old memory is freed.
void give_again(Eager& eager, const Tensor& shard) {
  const Tensor again = eager.empty(shard.shape(), shard.dtype(), TensorRole::kParameter);
  eager.move_storage(shard, again);
}

/// `to_empty` of a recorded model. A tied parameter gets memory under each of its names.
void give_recorded(Eager& eager, const Recording& recording, std::span<const NamedParameter> named,
                   MemoryGiver& give, ShardedModel& result) {
  const auto layers = static_cast<std::int32_t>(recording.variants.front().layers.size());
  for (const WalkStep& step : walk_of(recording, named)) {
    switch (step.kind) {
      case WalkStep::Kind::kParameter:
        result.shards[step.index] = give.shard(named[step.index], layers);
        break;
      case WalkStep::Kind::kAgain:
        give_again(eager, result.shards[step.index]);
        break;
      case WalkStep::Kind::kBuffer:
        give.buffer(result.model.buffers[step.index]);
        break;
    }
  }
  give.finish(layers);
}

/// Allocates the embedding's weight again when the walk reaches a module that shares it.
void give_tied_again(Eager& eager, std::span<const NamedParameter> named,
                     const ShardedModel& result) {
  const auto embedding = static_cast<std::size_t>(
      std::find_if(named.begin(), named.end(),
                   [](const NamedParameter& one) { return one.name.ends_with(".weight"); }) -
      named.begin());
  give_again(eager, result.shards[embedding]);
}

ShardedModel finished(Eager& eager, ShardedModel result) {
  eager.set_meta(false);
  std::erase(result.groups, nullptr);
  return result;
}

}  // namespace

ShardedModel load_sharded(const Sharding& sharding, const transformers::ModelSource& source) {
  const ModelSpec& spec = source.spec;
  const ParallelPlan& plan = source.plan;
  const Graph& graph = source.graph;
  if (plan.quant) {
    return shard_quantised(sharding, source);
  }
  Eager& eager = sharding.eager;
  ShardedModel result;
  eager.set_meta(true);
  result.model = transformers::load_model(eager, source);
  transformers::Model& model = result.model;
  if (plan.lora) {
    add_meta_adapters(sharding, model, *plan.lora);
  }
  eager.set_meta(sharding.plan.cpu_offload);

  const auto layers = static_cast<std::int32_t>(graph.layers().size());
  result.groups.resize(static_cast<std::size_t>(layers) + 3 + idle_layers(spec));
  const std::vector<NamedParameter> named = named_parameters(model, graph);
  std::vector<std::string> names;
  for (const NamedParameter& one : named) {
    names.push_back(one.name);
  }
  result.shards.resize(names.size());
  eager.set_site("fsdp.to_empty", -1);
  MemoryGiver give(sharding, spec, result);
  if (spec.recording) {
    give_recorded(eager, *spec.recording, named, give, result);
    return finished(eager, std::move(result));
  }
  const std::string head = std::string(head_module(spec)) + '.';
  std::int32_t layer = -1;
  for (const std::size_t index : children_first(names)) {
    const NamedParameter& parameter = named[index];
    if (spec.architecture == Architecture::kMaskedLm && layer < 0 && parameter.info->layer == 0) {
      give.buffers();  // Those of BERT's embeddings.
    }
    if (begins_stack(spec, layer, parameter.info->layer)) {
      give_tied_again(eager, named, result);
    }
    layer = parameter.info->layer;
    if (parameter.name == kTiedHeadCopy) {  // The tied module comes with its copy.
      give_tied_again(eager, named, result);
    }
    if (parameter.name.starts_with(head)) {  // Rotary modules end the inner model.
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
  return finished(eager, std::move(result));
}

}  // namespace headroom::ir::fsdp
