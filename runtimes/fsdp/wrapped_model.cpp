#include "runtimes/fsdp/wrapped_model.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "runtimes/fsdp/fully_shard.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/work_recorder.h"
#include "runtimes/transformers/adapter.h"

namespace headroom::ir::fsdp {

using torch::Eager;
using torch::Tensor;

namespace {

/// Indices in breadth-first order of the modules, in which parameters are moved.
std::vector<std::size_t> by_depth(const std::vector<std::string>& names) {
  const auto depth = [&names](std::size_t index) {
    return std::count(names[index].begin(), names[index].end(), '.');
  };
  std::vector<std::size_t> order(names.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return depth(a) < depth(b); });
  return order;
}

/// "model.layers.0.self_attn.q_proj" for "model.layers.0.self_attn.q_proj.weight".
std::string module_path(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

/// The tensors of a quantised weight's state in the order in which they are moved to the device.
/// Source: bitsandbytes 0.50.2 bitsandbytes/functional.py, QuantState.to.
std::vector<Tensor> quantisation_state(const transformers::QuantisedWeight& weight) {
  std::vector<Tensor> tensors = {weight.codes, weight.factors};
  if (weight.offset.defined()) {
    tensors.insert(tensors.end(), {weight.offset, weight.outer_factors, weight.outer_codes});
  }
  return tensors;
}

/// Makes the units of a model in the order in which FullyShardedDataParallel wraps its modules.
class Wrapper {
 public:
  Wrapper(const Sharding& sharding, const ParallelPlan& plan, WrappedModel& result)
      : sharding_(sharding), plan_(plan), result_(result), model_(result.model) {}

  void wrap(const Graph& graph) {
    const std::span<const TensorId> ids = graph.parameters();
    Frozen root{.unit = make_unit(kRootModule, !plan_.lora, sharding_.stored), .names = {}};
    result_.units.push_back(nullptr);
    for (std::size_t i = 0; i < ids.size();) {
      const std::int32_t layer = graph.tensor(ids[i]).layer;
      if (layer < 0) {
        add(root, graph, ids[i++]);
        continue;
      }
      Frozen unit{.unit = make_unit(layer, !plan_.lora, sharding_.stored), .names = {}};
      finish_leaf();
      const std::size_t place = result_.units.size();
      result_.units.push_back(nullptr);
      for (; i < ids.size() && graph.tensor(ids[i]).layer == layer; ++i) {
        add(unit, graph, ids[i]);
      }
      finish_leaf();
      finish(unit, {});
      result_.units[place] = std::move(unit.unit);
    }
    finish_leaf();
    for (const TensorId id : ids) {  // The head is the last module.
      add_copy(id, transformers::ParameterReader::kHead);
    }
    finish_leaf();
    finish(root, model_.buffers);
    result_.units.front() = std::move(root.unit);
    list_pieces(graph);
  }

 private:
  /// A unit without the trained modules inside it.
  struct Frozen {
    std::unique_ptr<FlatUnit> unit;
    std::vector<std::string> names;
  };

  [[nodiscard]] std::unique_ptr<FlatUnit> make_unit(std::int32_t module, bool trained,
                                                    DType moved) const {
    FlatTypes types{.moved = moved,
                    .stored = trained && sharding_.autocast ? DType::kFp32 : moved,
                    .gathered = sharding_.plan.param_dtype,
                    .reduced = sharding_.plan.reduce_dtype,
                    .trained = trained};
    if (!result_.mixed) {  // Without mixed precision each unit keeps its own type.
      types.gathered = moved;
      types.reduced = moved;
    }
    return std::make_unique<FlatUnit>(sharding_, module, types);
  }

  void add(Frozen& frozen, const Graph& graph, TensorId id) {
    const auto key = static_cast<std::uint32_t>(id);
    const std::string& name = graph.tensor(id).name;
    const std::string path = module_path(name);
    const auto adapter = model_.adapters.find(key);
    if (path != leaf_path_) {
      finish_leaf();
    }
    std::string inside;
    if (adapter != model_.adapters.end()) {
      adapted_path_ = path;  // Its bias lies in the same module.
    }
    if (path == adapted_path_) {
      inside = ".base_layer";
    } else if (model_.retrained.contains({key, transformers::ParameterReader::kModule}) ||
               model_.retrained.contains({key, transformers::ParameterReader::kHead})) {
      inside = ".original_module";
    }
    frozen.names.push_back(path + inside + name.substr(path.size()));
    const auto packed = model_.quantised.find(key);
    if (packed != model_.quantised.end()) {
      frozen.unit->add(&packed->second.packed, quantisation_state(packed->second));
    } else {
      frozen.unit->add(&model_.parameters[index_of(id)]);
    }
    if (adapter != model_.adapters.end()) {
      wrap_alone(adapter->second.a);
      wrap_alone(adapter->second.b);
    }
    leaf_path_ = path;
    add_copy(id, transformers::ParameterReader::kModule);
  }

  /// Adds the copy of a module that is trained in full: its weight, and its bias if it has one.
  void add_copy(TensorId id, transformers::ParameterReader reader) {
    const auto found = model_.retrained.find({static_cast<std::uint32_t>(id), reader});
    if (found == model_.retrained.end()) {
      return;
    }
    if (leaf_ == nullptr) {
      const bool table = id == model_.graph->parameters().front();
      const bool head = reader == transformers::ParameterReader::kHead;
      const std::int32_t module = head    ? transformers::kHeadModule
                                  : table ? transformers::kEmbeddingModule
                                          : kLeafModule;
      leaf_ = make_unit(module, true, found->second.dtype());
    }
    leaf_->add(&found->second);
    ++leaf_members_;
  }

  void wrap_alone(Tensor& parameter) {
    leaf_ = make_unit(kLeafModule, true, parameter.dtype());
    leaf_->add(&parameter);
    leaf_members_ = 1;
    finish_leaf();
  }

  void finish_leaf() {
    if (leaf_ != nullptr) {
      std::vector<std::size_t> order(leaf_members_);
      std::iota(order.begin(), order.end(), std::size_t{0});
      leaf_->flatten(order, {});
      result_.units.push_back(std::move(leaf_));
    }
    leaf_members_ = 0;
  }

  static void finish(Frozen& frozen, const std::vector<Tensor>& buffers) {
    frozen.unit->flatten(by_depth(frozen.names), buffers);
  }

  /// Lists what the optimizer receives, in the order of model.parameters().
  void list_pieces(const Graph& graph) {
    std::map<const Tensor*, Tensor> pieces;
    for (const std::unique_ptr<FlatUnit>& unit : result_.units) {
      unit->widen();
      unit->list_pieces(pieces);
    }
    const auto list = [&](const Tensor* slot) {
      const auto piece = pieces.find(slot);
      if (piece != pieces.end()) {
        result_.pieces.push_back(piece->second);
      }
    };
    const auto list_copy = [&](TensorId id, transformers::ParameterReader reader) {
      const auto copy = model_.retrained.find({static_cast<std::uint32_t>(id), reader});
      if (copy != model_.retrained.end()) {
        list(&copy->second);
      }
    };
    for (const TensorId id : graph.parameters()) {
      list(&model_.parameters[index_of(id)]);
      list_copy(id, transformers::ParameterReader::kModule);
      const auto adapter = model_.adapters.find(static_cast<std::uint32_t>(id));
      if (adapter != model_.adapters.end()) {
        list(&adapter->second.a);
        list(&adapter->second.b);
      }
    }
    for (const TensorId id : graph.parameters()) {
      list_copy(id, transformers::ParameterReader::kHead);
    }
  }

  const Sharding& sharding_;
  const ParallelPlan& plan_;
  WrappedModel& result_;
  transformers::Model& model_;
  std::unique_ptr<FlatUnit> leaf_;  ///< A trained module whose parameters are being added.
  std::size_t leaf_members_ = 0;
  std::string leaf_path_;
  std::string adapted_path_;  ///< The last module that has an adapter.
};

}  // namespace

std::unique_ptr<WrappedModel> load_wrapped(const Sharding& sharding,
                                           const transformers::ModelSource& source) {
  const ParallelPlan& plan = source.plan;
  const Graph& graph = source.graph;
  Eager& eager = sharding.eager;
  auto result = std::make_unique<WrappedModel>();
  const bool on_device = plan.quant && !sharding.plan.quantised_on_host;
  eager.set_meta(!on_device);
  result->model = transformers::load_model(eager, source);
  if (plan.lora) {
    transformers::add_adapters(eager, result->model, *plan.lora);
  }
  const DType narrow = sharding.plan.param_dtype;
  for (const Tensor& buffer : result->model.buffers) {
    if (buffer.dtype() == narrow && narrow != DType::kFp32) {  // Created in the parameters' type.
      buffer->dtype = sharding.stored;
    }
  }
  eager.set_meta(false);
  result->mixed = !plan.lora || sharding.autocast;
  Wrapper(sharding, plan, *result).wrap(graph);
  return result;
}

WrapperHooks::WrapperHooks(Eager& eager, const FsdpPlan& plan, WrappedModel& wrapped)
    : eager_(eager), plan_(plan), wrapped_(wrapped) {
  torch::WorkRecorder& recorder = eager_.recorder();
  recorder.name_stream(kGatherStream, "unshard");
  recorder.name_stream(kReduceStream, "post_backward");
  recorder.name_stream(kCastStream, "pre_unshard");
  units_.reserve(wrapped.units.size());
  for (const std::unique_ptr<FlatUnit>& flat : wrapped.units) {
    units_.emplace_back().flat = flat.get();
  }
  for (Unit& unit : units_) {
    if (!unit.flat->trained()) {
      continue;
    }
    torch::accumulator_of(eager_, unit.flat->flat().impl())->after_accumulate = [this,
                                                                                 &unit](Eager&) {
      unit.flat->reduce([this, &unit] {
        unit.prefetched = false;
        if (plan_.backward_prefetch == FsdpPrefetch::kBackwardPost) {
          gather_before(unit);
        }
      });
    };
  }
}

WrapperHooks::Unit* WrapperHooks::find(std::int32_t module) {
  const auto found = std::find_if(units_.begin(), units_.end(), [module](const Unit& unit) {
    return unit.flat->module() == module;
  });
  return found == units_.end() ? nullptr : &*found;
}

WrapperHooks::Unit* WrapperHooks::find(const transformers::ModuleCall& call) {
  using Part = transformers::ModuleCall::Part;
  transformers::Model& model = wrapped_.model;
  if (call.op == nullptr || call.op->parameters.empty() || !model.plan->lora) {
    return nullptr;
  }
  const auto id = static_cast<std::uint32_t>(call.op->parameters[0]);
  const Tensor* slot = nullptr;
  if (call.part == Part::kOperator) {
    const auto copy = model.retrained.find({id, transformers::reader_of(model, *call.op)});
    slot = copy != model.retrained.end() ? &copy->second : nullptr;
  } else if (call.part == Part::kAdapterA || call.part == Part::kAdapterB) {
    const transformers::Adapter& adapter = model.adapters.at(id);
    slot = call.part == Part::kAdapterA ? &adapter.a : &adapter.b;
  }
  const auto found = std::find_if(units_.begin(), units_.end(), [slot](const Unit& unit) {
    return unit.flat->module() == kLeafModule && unit.flat->first_slot() == slot;
  });
  return slot == nullptr || found == units_.end() ? nullptr : &*found;
}

/// Begins the root's forward.
void WrapperHooks::start(Unit& root) {
  for (Unit& unit : units_) {
    unit.flat->forget_gradients();
    unit.needs_forward = plan_.forward_prefetch;
    unit.prefetched = false;
  }
  if (started_) {
    return;
  }
  started_ = true;
  eager_.set_site("fsdp.init", -1);
  const DType dtype = root.flat->flat().dtype();
  for (Tensor& buffer : wrapped_.model.buffers) {
    if (wrapped_.mixed && is_floating(buffer.dtype()) && buffer.dtype() != dtype) {
      buffer = eager_.empty(buffer.shape(), dtype, TensorRole::kBuffer);
    }
  }
  for (Unit& unit : units_) {
    unit.flat->init_buffers();
  }
}

void WrapperHooks::before(std::int32_t module, std::vector<Tensor>& inputs) {
  if (Unit* const unit = find(module)) {
    before(*unit, inputs);
  }
}

void WrapperHooks::after(std::int32_t module, const std::vector<Tensor>& outputs) {
  if (Unit* const unit = find(module)) {
    after(*unit, outputs);
  }
}

void WrapperHooks::enter(const transformers::ModuleCall& call,
                         std::initializer_list<Tensor*> inputs) {
  Unit* const unit = find(call);
  if (unit == nullptr) {
    return;
  }
  const std::uint16_t operation = eager_.operation();
  before(*unit, {});
  for (Tensor* input : inputs) {
    if (is_floating(input->dtype())) {
      *input = torch::to(eager_, *input, unit->flat->flat().dtype());
    }
  }
  eager_.set_site(operation, call.layer);
}

void WrapperHooks::leave(const transformers::ModuleCall& call,
                         std::initializer_list<Tensor*> outputs) {
  if (Unit* const unit = find(call)) {
    const std::uint16_t operation = eager_.operation();
    after(*unit, {**outputs.begin()});
    eager_.set_site(operation, call.layer);
  }
}

void WrapperHooks::before(Unit& unit, const std::vector<Tensor>& inputs) {
  if (unit.in_backward) {
    return;
  }
  if (unit.flat->module() == kRootModule) {
    start(unit);
    eager_.wait_stream(kCastStream, eager_.stream());  // Waits for the optimizer.
    eager_.wait_stream(kGatherStream, eager_.stream());
  }
  if (plan_.forward_prefetch && !ordered_ && !unit.first_order) {
    unit.first_order = first_order_.size();
    first_order_.push_back(&unit);
  }
  if (!unit.prefetched) {
    unit.flat->gather();
    unit.flat->make_views();
  }
  unit.needs_forward = false;
  unit.flat->wait();
  gather_after(unit);
  watch_inputs(unit, inputs);
}

/// A frozen unit has no gradient to wait for, so its input's gradient ends its backward.
void WrapperHooks::watch_inputs(Unit& unit, const std::vector<Tensor>& inputs) {
  if (unit.flat->trained() || unit.watched || !eager_.grad_enabled()) {
    return;
  }
  unit.watched = true;
  for (const Tensor& input : inputs) {
    if (input.defined() && input.requires_grad() && input->grad_fn != nullptr) {
      torch::Node& node = *input->grad_fn;
      node.before_apply = [this, &unit, earlier = node.before_apply](Eager& eager) {
        if (earlier) {
          earlier(eager);
        }
        after_backward(unit);
      };
    }
  }
}

void WrapperHooks::after(Unit& unit, const std::vector<Tensor>& outputs) {
  if (unit.in_backward) {
    return;
  }
  note_order(unit);
  unit.flat->release_after_forward(unit.flat->module() == kRootModule);
  unit.prefetched = false;
  unit.needs_backward = false;
  for (const Tensor& output : outputs) {
    if (eager_.grad_enabled() && output.requires_grad() && output->grad_fn != nullptr) {
      unit.needs_backward = true;
      output->grad_fn->before_apply = [this, &unit](Eager&) { before_backward(unit); };
    }
  }
}

/// A module that runs again keeps its first place, unless that is place 0.
void WrapperHooks::note_order(Unit& unit) {
  if (!unit.order || *unit.order == 0) {
    unit.order = order_.size();
  }
  order_.push_back(&unit);
}

void WrapperHooks::before_backward(Unit& unit) {
  if (unit.in_backward) {
    return;
  }
  const std::uint16_t operation = eager_.operation();
  const std::int32_t layer = eager_.layer();
  unit.in_backward = true;
  if (unit.needs_backward && !unit.prefetched) {
    gather_for_backward(unit);
  }
  unit.flat->wait();
  unit.needs_backward = false;
  if (plan_.backward_prefetch == FsdpPrefetch::kBackwardPre) {
    gather_before(unit);
  }
  unit.flat->prepare_backward();
  eager_.set_site(operation, layer);
}

void WrapperHooks::gather_for_backward(const Unit& unit) {
  unit.flat->gather();
  if (plan_.use_orig_params) {
    unit.flat->restore_views();
  }
}

/// Ends the backward of a frozen unit.
void WrapperHooks::after_backward(Unit& unit) {
  const std::uint16_t operation = eager_.operation();
  const std::int32_t layer = eager_.layer();
  unit.flat->release();
  unit.prefetched = false;
  if (plan_.backward_prefetch == FsdpPrefetch::kBackwardPost) {
    gather_before(unit);
  }
  eager_.set_site(operation, layer);
}

/// Gathers the unit that ran before `unit`, whose backward comes next.
void WrapperHooks::gather_before(const Unit& unit) {
  if (!unit.order || *unit.order == 0) {
    return;
  }
  Unit& earlier = *order_[*unit.order - 1];
  if (earlier.needs_backward && !earlier.prefetched) {
    gather_for_backward(earlier);
    earlier.prefetched = true;
  }
}

/// Gathers the unit that ran after `unit` in the first forward, and makes its views at once.
void WrapperHooks::gather_after(const Unit& unit) {
  if (!plan_.forward_prefetch || !unit.first_order ||
      *unit.first_order + 1 >= first_order_.size()) {
    return;
  }
  Unit& later = *first_order_[*unit.first_order + 1];
  if (later.needs_forward && !later.prefetched) {
    later.flat->gather();
    later.flat->make_views();
    later.prefetched = true;
  }
}

void WrapperHooks::finish_backward() {
  for (Unit& unit : units_) {
    unit.in_backward = false;
    unit.prefetched = false;
    unit.needs_backward = false;
    unit.watched = false;
    unit.order.reset();
    unit.flat->release();
    unit.flat->show_gradients();
  }
  order_.clear();
  ordered_ = true;
}

}  // namespace headroom::ir::fsdp
