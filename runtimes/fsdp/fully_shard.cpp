#include "runtimes/fsdp/fully_shard.h"

#include <algorithm>
#include <utility>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/work_recorder.h"

namespace headroom::ir::fsdp {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Tensor;

namespace {

/// Saves the current operator and layer while FSDP's own work sets others, then restores them.
class SiteScope {
 public:
  explicit SiteScope(Eager& eager)
      : eager_(eager), operation_(eager.operation()), layer_(eager.layer()) {}
  ~SiteScope() { eager_.set_site(operation_, layer_); }
  SiteScope(const SiteScope&) = delete;
  SiteScope& operator=(const SiteScope&) = delete;

 private:
  Eager& eager_;
  std::uint16_t operation_;
  std::int32_t layer_;
};

}  // namespace

FullyShard::FullyShard(Eager& eager, std::vector<std::unique_ptr<ShardedGroup>> groups)
    : eager_(eager) {
  streams_ = groups.empty() ? Streams{} : groups.front()->streams();
  torch::WorkRecorder& recorder = eager_.recorder();
  recorder.name_stream(streams_.gather, "all_gather_copy_in");
  recorder.name_stream(streams_.collective, "all_gather");
  recorder.name_stream(streams_.reduce, "reduce_scatter");
  recorder.name_stream(streams_.replica, "all_reduce");
  units_.reserve(groups.size());
  for (std::unique_ptr<ShardedGroup>& group : groups) {
    units_.push_back(Unit{.group = std::move(group), .order = {}});
  }
}

FullyShard::Unit* FullyShard::find(std::int32_t module) {
  const auto found = std::find_if(units_.begin(), units_.end(),
                                  [&](const Unit& unit) { return unit.group->module() == module; });
  return found == units_.end() ? nullptr : &*found;
}

/// _wait_all_gather_streams_on_event
void FullyShard::wait_gathers(std::optional<std::uint32_t>& mark) {
  if (mark) {
    eager_.wait_mark(streams_.gather, *mark);
    eager_.wait_mark(streams_.collective, *mark);
    mark.reset();
  }
}

void FullyShard::gather(Unit& unit) {
  if (!unit.group->pending() && !unit.group->gathered() && !unit.group->parameters().empty()) {
    unit.group->start_gather();
  }
}

void FullyShard::wait(Unit& unit) {
  if (!unit.group->pending()) {
    return;
  }
  const bool forward = unit.parameters == State::kForward;
  const Tensor previous = forward ? std::move(gathered_) : Tensor{};  // Lives until the copy-out.
  if (forward) {
    wait_gathers(copied_out_);
  }
  Tensor buffer = unit.group->finish_gather();
  std::optional<std::uint32_t> mark = eager_.record_mark(eager_.stream());
  if (forward && buffer.defined()) {
    gathered_ = std::move(buffer);
    copied_out_ = mark;
  } else {
    wait_gathers(mark);
  }
}

void FullyShard::before(std::int32_t module, std::vector<Tensor>& inputs) {
  Unit* const unit = find(module);
  if (unit == nullptr) {
    return;
  }
  const SiteScope site(eager_);
  if (unit->module == State::kBeforeBackward) {  // Recomputation runs the layer again.
    gather(*unit);
    wait(*unit);
    return;
  }
  if (outermost_ == nullptr) {
    outermost_ = unit;
    eager_.wait_stream(streams_.gather, eager_.stream());  // Waits for the optimizer.
    eager_.wait_stream(streams_.collective, eager_.stream());
  }
  unit->module = State::kForward;
  unit->parameters = State::kForward;
  gather(*unit);
  wait(*unit);
  gather_all(unit->forward_prefetch);
  if (!unit->group->parameters().empty()) {
    watch_inputs(*unit, inputs);
  }
}

void FullyShard::after(std::int32_t module, const std::vector<Tensor>& outputs) {
  Unit* const unit = find(module);
  if (unit == nullptr || unit->module == State::kBeforeBackward) {
    return;
  }
  const SiteScope site(eager_);
  const bool empty = unit->group->parameters().empty();  // It then only begins and ends forward.
  if (!eager_.in_backward() && !empty) {
    if (unit->group->reshards()) {
      unit->group->release_after_forward();
    }
    unit->order.push_back(order_.size());
    order_.push_back(unit);
  }
  unit->parameters = State::kIdle;
  for (const Tensor& output : empty ? std::vector<Tensor>{} : outputs) {
    watch_output(*unit, output);
  }
  unit->module = State::kIdle;
  if (outermost_ == unit) {
    gathered_.reset();
    wait_gathers(copied_out_);
    outermost_ = nullptr;
  }
}

/// RegisterPostBackwardFunction, whose backward runs after all of the module's backward.
void FullyShard::watch_inputs(Unit& unit, std::vector<Tensor>& inputs) {
  std::vector<Tensor> given;
  std::vector<Tensor*> replaced;
  for (Tensor& input : inputs) {
    if (input.requires_grad()) {
      given.push_back(input);
      replaced.push_back(&input);
    }
  }
  if (!eager_.grad_enabled() || given.empty()) {
    return;
  }
  torch::Record record(eager_, given);
  for (Tensor* const input : replaced) {
    Tensor view = eager_.alias(*input, input->shape(), true);
    view->layout = (*input)->layout;
    *input = std::move(view);
  }
  record.finish(replaced, [this, &unit](Eager&, Gradients& grads, Node&) -> Gradients {
    after_backward(unit);
    return std::move(grads);
  });
}

void FullyShard::watch_output(Unit& unit, const Tensor& output) {
  if (!eager_.grad_enabled() || !output.requires_grad() || output->grad_fn == nullptr) {
    return;
  }
  output->grad_fn->before_apply = [this, &unit](Eager&) { before_backward(unit); };
}

void FullyShard::before_backward(Unit& unit) {
  const SiteScope site(eager_);
  unit.module = State::kBeforeBackward;
  if (unit.parameters == State::kBeforeBackward) {
    return;
  }
  unit.parameters = State::kBeforeBackward;
  gather(unit);
  wait(unit);
  if (unit.backward_prefetch.empty()) {
    prefetch(unit);
  } else {
    gather_all(unit.backward_prefetch);
  }
}

void FullyShard::gather_all(const std::vector<std::int32_t>& modules) {
  for (const std::int32_t module : modules) {
    if (Unit* const unit = find(module)) {
      gather(*unit);
    }
  }
}

void FullyShard::set_prefetch(std::int32_t module, std::vector<std::int32_t> forward,
                              std::vector<std::int32_t> backward) {
  if (Unit* const unit = find(module)) {
    unit->forward_prefetch = std::move(forward);
    unit->backward_prefetch = std::move(backward);
  }
}

void FullyShard::prefetch(Unit& unit) {
  if (unit.order.empty()) {
    return;
  }
  const std::size_t index = unit.order.back();
  unit.order.pop_back();
  if (index > 0) {
    gather(*order_[index - 1]);
  }
}

void FullyShard::after_backward(Unit& unit) {
  const SiteScope site(eager_);
  unit.parameters = State::kAfterBackward;
  unit.group->add_to_sums(!unit.reduces);
  if (!unit.reduces) {
    return;
  }
  std::vector<Tensor> gradients;
  const std::vector<std::size_t> indices = unit.group->take_gradients(gradients);
  if (unit.reshards_after_backward) {
    unit.group->release();
  }
  if (indices.empty()) {
    return;
  }
  if (scattered_) {
    eager_.wait_mark(eager_.stream(), *scattered_);
  }
  reducing_.reset();
  unit.group->finish_all_reduce();
  unit.group->wait_for_reduction();
  reducing_ = unit.group->reduce(indices, gradients);
  scattered_ = unit.group->scattered();
}

void FullyShard::set_module(std::int32_t module, bool reduces, bool reshards) {
  if (Unit* const unit = find(module)) {
    unit->reduces = reduces;
    unit->reshards_after_backward = reshards;
    unit->group->set_reshards(reshards);
  }
}

void FullyShard::release(std::int32_t module) {
  if (Unit* const unit = find(module)) {
    unit->group->release();
  }
}

void FullyShard::unshard() {
  const SiteScope site(eager_);
  for (Unit& unit : units_) {
    const ShardedGroup& group = *unit.group;
    if (!group.pending() && !group.gathered() && !group.parameters().empty()) {
      unit.group->start_gather_here();
    }
  }
}

void FullyShard::wait_unshard() {
  const SiteScope site(eager_);
  for (Unit& unit : units_) {
    wait(unit);
  }
}

void FullyShard::reshard() {
  const SiteScope site(eager_);
  for (Unit& unit : units_) {
    unit.group->release();
  }
}

void FullyShard::hold_gradients() {
  last_backward_ = false;
  for (Unit& unit : units_) {
    unit.reduces = false;
    unit.reshards_after_backward = false;
  }
}

void FullyShard::reduce_gradients() {
  last_backward_ = true;
  for (Unit& unit : units_) {
    unit.reduces = true;
    unit.reshards_after_backward = true;
    after_backward(unit);
  }
  finish_backward();
}

void FullyShard::finish_backward() {
  const SiteScope site(eager_);
  for (Unit& unit : units_) {
    if (unit.parameters != State::kAfterBackward) {
      after_backward(unit);
    }
    unit.module = State::kIdle;
    unit.parameters = State::kIdle;
    if (last_backward_) {
      unit.group->finish_all_reduce();
      unit.group->wait_for_reduction();
      unit.group->drop_pending();
      unit.order.clear();
    }
  }
  if (!last_backward_) {
    return;
  }
  order_.clear();
  if (scattered_) {
    eager_.wait_mark(eager_.stream(), *scattered_);
    scattered_.reset();
  }
  reducing_.reset();
}

}  // namespace headroom::ir::fsdp
