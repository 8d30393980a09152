#include "model_ir/runtime/fsdp/wrapped_model.h"

#include <algorithm>
#include <string>
#include <utility>

#include "model_ir/runtime/fsdp/fully_shard.h"
#include "model_ir/runtime/torch/record.h"
#include "model_ir/runtime/torch/work_recorder.h"

namespace headroom::ir::fsdp {

using torch::Eager;
using torch::Tensor;

namespace {

/// Indices in the order of a walk over the modules by depth, in which they are moved.
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

/// Parameters by unit: the root's last, which is wrapped when its layers are.
struct Members {
  std::vector<TensorId> ids;
  std::vector<std::string> names;
};

std::vector<Members> members_of(const Graph& graph) {
  std::vector<Members> units(graph.layers().size() + 1);
  for (const TensorId id : graph.parameters()) {
    const TensorInfo& info = graph.tensor(id);
    Members& unit = units[static_cast<std::size_t>(info.layer + 1)];
    unit.ids.push_back(id);
    unit.names.push_back(info.name);
  }
  return units;
}

}  // namespace

std::unique_ptr<WrappedModel> load_wrapped(const Sharding& sharding, const ModelSpec& spec,
                                           const ParallelPlan& plan, const Graph& graph) {
  Eager& eager = sharding.eager;
  auto result = std::make_unique<WrappedModel>();
  transformers::Model& model = result->model;
  eager.set_meta(true);
  model = transformers::load_model(eager, spec, plan, graph);
  eager.set_meta(false);
  const std::vector<Members> members = members_of(graph);
  result->units.resize(members.size());
  for (std::size_t i = 1; i <= members.size(); ++i) {
    const std::size_t index = i % members.size();  // The root at last.
    auto unit = std::make_unique<FlatUnit>(
        sharding, index == 0 ? kRootModule : static_cast<std::int32_t>(index) - 1);
    for (const TensorId id : members[index].ids) {
      Tensor& slot = model.parameters[index_of(id)];
      unit->add(&slot, slot.shape());
    }
    unit->flatten(by_depth(members[index].names),
                  index == 0 ? model.buffers : std::vector<Tensor>{});
    result->units[index] = std::move(unit);
  }
  std::vector<std::size_t> taken(members.size(), 0);
  for (const TensorId id : graph.parameters()) {
    const auto index = static_cast<std::size_t>(graph.tensor(id).layer + 1);
    const Tensor& piece = result->units[index]->pieces()[taken[index]++];
    if (piece.defined()) {
      result->pieces.push_back(piece);
    }
  }
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
    units_.push_back(Unit{.flat = flat.get(), .in_backward = false, .order = 0});
  }
  for (Unit& unit : units_) {
    torch::accumulator_of(eager_, unit.flat->flat().impl())->after_accumulate = [this,
                                                                                 &unit](Eager&) {
      unit.flat->reduce([this, &unit] {
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

/// The root's forward begins.
void WrapperHooks::start(Unit& root) {
  for (Unit& unit : units_) {
    unit.flat->forget_gradients();
  }
  if (started_) {
    return;
  }
  started_ = true;
  eager_.set_site("fsdp.init", -1);
  for (Tensor& buffer : wrapped_.model.buffers) {
    if (is_floating(buffer.dtype()) && buffer.dtype() != root.flat->flat().dtype()) {
      buffer = eager_.empty(buffer.shape(), root.flat->flat().dtype(), TensorRole::kBuffer);
    }
  }
  for (Unit& unit : units_) {
    unit.flat->init_buffers();
  }
}

void WrapperHooks::before(std::int32_t module) {
  Unit* const unit = find(module);
  if (unit == nullptr) {
    return;
  }
  if (unit->in_backward) {  // The layer is run again.
    if (eager_.grad_enabled() && !unit->flat->has_recorded_views()) {
      unit->flat->make_views();
    }
    return;
  }
  if (module == kRootModule) {
    start(*unit);
    eager_.wait_stream(kCastStream, eager_.stream());  // For the optimizer.
    eager_.wait_stream(kGatherStream, eager_.stream());
  }
  if (!unit->flat->gathered()) {
    unit->flat->gather();
  }
  unit->flat->wait();
  if (plan_.forward_prefetch) {
    if (!ordered_) {
      first_order_.push_back(unit);
    }
    gather_after(*unit);
  }
  unit->flat->make_views();
}

void WrapperHooks::after(std::int32_t module, const std::vector<Tensor>& outputs) {
  Unit* const unit = find(module);
  if (unit == nullptr || unit->in_backward) {
    return;
  }
  if (plan_.reshard_after_forward && module != kRootModule) {
    unit->flat->release();
  }
  unit->order = order_.size();
  order_.push_back(unit);
  for (const Tensor& output : outputs) {
    if (eager_.grad_enabled() && output.requires_grad() && output->grad_fn != nullptr) {
      output->grad_fn->before_apply = [this, unit](Eager&) { before_backward(*unit); };
    }
  }
}

void WrapperHooks::before_backward(Unit& unit) {
  if (unit.in_backward) {
    return;
  }
  const std::uint16_t operation = eager_.operation();
  const std::int32_t layer = eager_.layer();
  unit.in_backward = true;
  if (!unit.flat->gathered()) {
    unit.flat->gather();
  }
  unit.flat->wait();
  if (plan_.backward_prefetch == FsdpPrefetch::kBackwardPre) {
    gather_before(unit);
  }
  eager_.set_site(operation, layer);
}

/// The unit that ran before `unit`, whose backward comes next.
void WrapperHooks::gather_before(const Unit& unit) {
  if (unit.order == 0) {
    return;
  }
  const Unit& earlier = *order_[unit.order - 1];
  if (!earlier.in_backward && !earlier.flat->gathered()) {
    earlier.flat->gather();
  }
}

/// The unit that ran after `unit` in the first forward.
void WrapperHooks::gather_after(const Unit& unit) {
  const auto place = std::find(first_order_.begin(), first_order_.end(), &unit);
  if (place != first_order_.end() && place + 1 != first_order_.end() &&
      !(*(place + 1))->flat->gathered()) {
    (*(place + 1))->flat->gather();
  }
}

void WrapperHooks::finish_backward() {
  for (Unit& unit : units_) {
    unit.in_backward = false;
    unit.flat->release();
    unit.flat->show_gradients();
  }
  order_.clear();
  ordered_ = true;
}

}  // namespace headroom::ir::fsdp
