#include "runtimes/fsdp/named_parameters.h"

#include <algorithm>
#include <utility>

#include "model_ir/spec/recording/recording.h"
#include "runtimes/fsdp/fully_shard.h"

namespace headroom::ir::fsdp {

using torch::Shape;
using torch::Tensor;

namespace {

/// Builds the list.
class Namer {
 public:
  Namer(const transformers::Model& model, const Graph& graph) : model_(model), graph_(graph) {}

  std::vector<NamedParameter> list() {
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
    const TensorId table = graph_.parameters().front();  // A tied head has its own copy.
    const auto head = model_.retrained.find(
        {static_cast<std::uint32_t>(table), transformers::ParameterReader::kHead});
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
    using transformers::ParameterReader;
    for (const ParameterReader reader : {ParameterReader::kModule, ParameterReader::kHead}) {
      const auto copy = model_.retrained.find({key, reader});
      if (copy != model_.retrained.end() && !(reader == ParameterReader::kHead && first)) {
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
                                [&](const NamedParameter& one) {
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
  std::vector<NamedParameter> named_;
  std::vector<NamedParameter> copies_;  ///< Copies of the current module.
  std::string module_;
};

}  // namespace

std::vector<NamedParameter> named_parameters(const transformers::Model& model, const Graph& graph) {
  return Namer(model, graph).list();
}

std::size_t idle_layers(const ModelSpec& spec) {
  std::int32_t last = -1;
  if (spec.recording) {
    for (const RecordedParameter& parameter : spec.recording->parameters) {
      last = std::max(last, parameter.idle_layer);
    }
  }
  return static_cast<std::size_t>(last + 1);
}

std::int32_t module_of(const Sharding& sharding, const ModelSpec& spec,
                       const NamedParameter& parameter) {
  const TensorInfo& info = *parameter.info;
  if (spec.recording) {
    const std::int32_t idle = spec.recording->parameters[index_of(parameter.id)].idle_layer;
    if (idle >= 0) {
      return static_cast<std::int32_t>(spec.layers.size()) + 1 + idle;
    }
  }
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

Shape shard_shape(const Sharding& sharding, const Shape& whole) {
  const std::int64_t rows = own_rows(sharding, whole[0]);
  return rows > 0 ? whole.with(0, rows) : Shape{0};
}

}  // namespace headroom::ir::fsdp
