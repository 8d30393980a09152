#include <algorithm>
#include <string>
#include <utility>

#include "runtimes/fsdp/fully_shard.h"
#include "runtimes/fsdp/named_parameters.h"
#include "runtimes/fsdp/sharded_model.h"
#include "runtimes/torch/launch.h"

namespace headroom::ir::fsdp {

using torch::Eager;
using torch::Tensor;

namespace {

/// Creates a shard: `new_zeros` of the padded size; the parameter is a part of it.
Tensor make_shard(const Sharding& sharding, const Tensor& whole) {
  Eager& eager = sharding.eager;
  const std::int64_t rows = whole.shape()[0];
  const std::int64_t elements = ceil_div(rows, sharding.ranks) * (whole.elements() / rows);
  const Tensor padded = eager.empty({elements}, whole.dtype(), TensorRole::kParameter);
  torch::launch_fill(eager, padded);
  eager.set_meta(true);
  Tensor shard =
      eager.parameter(shard_shape(sharding, whole.shape()), whole.dtype(), whole.requires_grad());
  eager.set_meta(false);
  if (shard.elements() > 0) {
    torch::launch_copy(eager, shard, shard, torch::CopyOrder::kSame);
  }
  eager.move_storage(shard, padded);
  return shard;
}

/// Frees the memory of a whole parameter. From now on its type is that of the gather.
void become_gathered(const Sharding& sharding, const Tensor& whole, bool codes) {
  sharding.eager.drain_storage(whole);
  if (!codes) {
    whole->dtype = sharding.plan.param_dtype;
  }
}

/// fully_shard on a module. `members` are indices into `named`, children first.
std::unique_ptr<ShardedGroup> shard_group(const Sharding& sharding, std::int32_t module,
                                          std::span<const NamedParameter> named,
                                          std::span<const std::size_t> members,
                                          ShardedModel& result) {
  sharding.eager.set_site("fsdp.fully_shard", module);
  auto group = std::make_unique<ShardedGroup>(sharding, module);
  for (const std::size_t index : members) {
    result.shards[index] = make_shard(sharding, named[index].whole);
    group->add(named[index].whole, result.shards[index]);
  }
  for (const std::size_t index : members) {
    const NamedParameter& parameter = named[index];
    const bool quantised =
        result.model.quantised.contains(static_cast<std::uint32_t>(parameter.id));
    become_gathered(sharding, parameter.whole, quantised && !parameter.adapter);
  }
  return group;
}

}  // namespace

ShardedModel shard_quantised(const Sharding& sharding, const transformers::ModelSource& source) {
  const ModelSpec& spec = source.spec;
  const ParallelPlan& plan = source.plan;
  const Graph& graph = source.graph;
  Eager& eager = sharding.eager;
  ShardedModel result;
  result.model = transformers::load_model(eager, source);
  if (plan.quant->prepare_kbit) {
    transformers::prepare_kbit(eager, result.model);
  }
  transformers::add_adapters(eager, result.model, *plan.lora);

  const std::vector<NamedParameter> named = named_parameters(result.model, graph);
  std::vector<std::string> names;
  for (const NamedParameter& one : named) {
    names.push_back(one.name);
  }
  result.shards.resize(named.size());
  const auto layers = static_cast<std::int32_t>(graph.layers().size());
  std::vector<std::vector<std::size_t>> members(static_cast<std::size_t>(layers) + 3 +
                                                idle_layers(spec));
  for (const std::size_t index : children_first(names)) {
    members[place_of(module_of(sharding, spec, named[index]), layers)].push_back(index);
  }
  result.groups.resize(members.size());
  std::vector<std::int32_t> modules;  // In the order of the calls, the root last.
  for (std::int32_t layer = 0; layer < layers; ++layer) {
    modules.push_back(layer);
  }
  for (std::size_t idle = 0; idle < idle_layers(spec); ++idle) {
    modules.push_back(layers + 1 + static_cast<std::int32_t>(idle));
  }
  for (const std::int32_t module :
       {transformers::kEmbeddingModule, transformers::kHeadModule, kRootModule}) {
    modules.push_back(module);
  }
  for (const std::int32_t module : modules) {
    const std::size_t place = place_of(module, layers);
    if (!members[place].empty()) {
      result.groups[place] = shard_group(sharding, module, named, members[place], result);
    }
  }
  result.groups.erase(std::remove(result.groups.begin(), result.groups.end(), nullptr),
                      result.groups.end());
  return result;
}

}  // namespace headroom::ir::fsdp
