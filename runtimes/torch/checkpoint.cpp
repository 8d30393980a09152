#include "runtimes/torch/checkpoint.h"

#include <algorithm>
#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/range_scope.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::torch {
namespace {

/// Restores the autocast state that was active when the region first ran.
class AutocastScope {
 public:
  AutocastScope(Eager& eager, std::optional<DType> dtype) : eager_(eager), entered_(dtype) {
    if (entered_) {
      eager_.enter_autocast(*dtype);
    }
  }
  ~AutocastScope() {
    if (entered_) {
      eager_.leave_autocast();
    }
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  Eager& eager_;
  bool entered_;
};

}  // namespace

CheckpointFrame::CheckpointFrame(std::vector<Tensor> inputs,
                                 std::function<void(Eager&, const std::vector<Tensor>&)> region,
                                 bool whole)
    : inputs_(std::move(inputs)), region_(std::move(region)), whole_(whole) {}

std::size_t CheckpointFrame::pack(Eager& eager, const Tensor& tensor, Tensor& kept) {
  if (!recomputing_) {
    slots_.push_back({});
    return slots_.size() - 1;
  }
  const std::size_t slot = next_++;
  HEADROOM_ASSERT(slot < slots_.size());
  // x.detach() if x.requires_grad: the saved tensor must not keep the recomputed graph alive. An
  // output that is being saved has no grad_fn yet, so only parameters can be checked. A frozen
  // parameter is saved itself, wherever its memory moves.
  if (tensor->leaf_parameter && !tensor->requires_grad) {
    kept = tensor;
  } else {
    kept = eager.alias(tensor, tensor.shape(), false);
    kept->layout = tensor->layout;
  }
  if (slots_[slot].wanted) {
    slots_[slot].tensor = kept;
  }
  if (next_ == slots_.size() && !whole_) {
    throw StopRecomputation{};
  }
  return slot;
}

Tensor CheckpointFrame::unpack(Eager& eager, std::size_t slot) {
  if (!recomputed_) {
    recompute(eager);
  }
  slots_[slot].wanted = false;
  HEADROOM_ASSERT(slots_[slot].tensor.defined());
  return std::exchange(slots_[slot].tensor, Tensor{});
}

void CheckpointFrame::forget(std::size_t slot) {
  if (!recomputing_) {
    slots_[slot].wanted = false;
    slots_[slot].tensor.reset();
  }
}

void CheckpointFrame::offload() {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Tensor input = std::exchange(inputs_[i], Tensor{});
    if (input.defined()) {
      offloaded_.push_back({i, input.shape(), input.dtype(), input.requires_grad()});
    }
  }
}

void CheckpointFrame::recompute(Eager& eager) {
  const auto keep = shared_from_this();
  for (const OffloadedInput& one : offloaded_) {
    inputs_[one.index] = eager.empty(one.shape, one.dtype);
    inputs_[one.index]->requires_grad = one.requires_grad;
  }
  offloaded_.clear();
  recomputing_ = true;
  const std::int32_t layer = eager.layer();
  {
    const RangeScope range(eager, RangeKind::kRecomputation);
    const SavedTensorScope hooks(eager, this);
    const GradMode grad(eager, true);
    try {
      region_(eager, inputs_);
    } catch (const StopRecomputation&) {
      // Every slot is filled, so the rest of the region is not run.
    }
  }
  eager.set_layer(layer);
  recomputing_ = false;
  recomputed_ = true;
}

void OffloadStash::push(std::shared_ptr<CheckpointFrame> frame) {
  constexpr std::size_t kStays = 5;
  if (frames_.size() == kStays) {
    frames_.front()->offload();
    frames_.pop_front();
  }
  frames_.push_back(std::move(frame));
}

void OffloadStash::flush() {
  for (const auto& frame : frames_) {
    frame->offload();
  }
  frames_.clear();
}

Tensor checkpoint(Eager& eager, const Tensor& input,
                  std::function<Tensor(Eager&, const Tensor&)> region, OffloadStash* stash) {
  const Region several = [region](Eager& again, const std::vector<Tensor>& inputs) {
    return std::vector<Tensor>{region(again, inputs[0])};
  };
  return std::move(run_region(eager, {input}, several, RegionForm::kRecomputed, stash)[0]);
}

namespace {

std::vector<Tensor> run_recomputed(Eager& eager, const std::vector<Tensor>& inputs,
                                   const Region& region, bool whole, OffloadStash* stash) {
  const std::optional<DType> autocast = eager.autocast();
  const std::int32_t layer = eager.layer();
  const auto frame = std::make_shared<CheckpointFrame>(
      inputs,
      [region, autocast, layer](Eager& again, const std::vector<Tensor>& arguments) {
        again.set_layer(layer);
        const AutocastScope scope(again, autocast);
        const std::vector<Tensor> outputs = region(again, arguments);
      },
      whole);
  for (const Tensor& input : inputs) {
    if (input.defined()) {
      eager.mark_saved(input);  // The frame saves it until backward.
    }
  }
  if (stash != nullptr) {
    stash->push(frame);
  }
  const SavedTensorScope hooks(eager, frame.get());
  return region(eager, inputs);
}

/// CheckpointFunction: what its backward needs from the call.
struct ReentrantCall {
  Region region;
  std::vector<bool> given;    ///< Which arguments are tensors.
  std::vector<Shape> shapes;  ///< Shapes of the results; results that are not tensors have none.
  std::vector<std::optional<DType>> dtypes;
  std::optional<DType> autocast;
  std::int32_t layer = -1;
};

/// The same memory without a history.
Tensor detached(Eager& eager, const Tensor& tensor, bool tracked) {
  Tensor alias = eager.alias(tensor, tensor.shape(), tracked);
  alias->layout = tensor->layout;
  return alias;
}

/// The arguments, detached; those that required a gradient still do.
std::vector<Tensor> detached_arguments(Eager& eager, const ReentrantCall& call, Node& node) {
  std::vector<Tensor> arguments(call.given.size());
  std::size_t slot = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!call.given[i]) {
      continue;
    }
    const Tensor saved = node.saved[slot++].unpack(eager);
    arguments[i] = detached(eager, saved, false);
    arguments[i]->requires_grad = node.wants(i);
  }
  return arguments;
}

Gradients reentrant_gradients(Eager& eager, const ReentrantCall& call, Gradients& grads,
                              Node& node) {
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined() && call.dtypes[i]) {
      grads[i] = eager.empty(call.shapes[i], *call.dtypes[i]);  // materialize_grads
    }
  }
  const std::vector<Tensor> arguments = detached_arguments(eager, call, node);
  {
    std::vector<Tensor> outputs;
    {
      const RangeScope range(eager, RangeKind::kRecomputation);
      const GradMode grad(eager, true);
      eager.set_layer(call.layer);
      const AutocastScope scope(eager, call.autocast);
      outputs = call.region(eager, arguments);
    }
    std::vector<Tensor> roots;
    std::vector<Tensor> seeds;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].requires_grad()) {
        roots.push_back(outputs[i]);
        seeds.push_back(grads[i]);
      }
    }
    eager.backward(roots, seeds);
  }
  Gradients gradients;
  for (const Tensor& argument : arguments) {
    gradients.push_back(argument.defined() ? Tensor(eager, argument->grad) : Tensor{});
  }
  return gradients;
}

/// The results as autograd returns them: an argument among them is returned as a view, without the
/// graph that a part of the region recorded despite no_grad.
std::vector<Tensor> results_of(Eager& eager, const std::vector<Tensor>& inputs,
                               std::vector<Tensor> outputs) {
  for (Tensor& output : outputs) {
    const bool argument = std::ranges::any_of(inputs, [&output](const Tensor& input) {
      return output.defined() && output.impl() == input.impl();
    });
    if (argument) {
      output = detached(eager, output, true);
    } else if (output.defined() && output->grad_fn != nullptr) {
      output = detached(eager, output, false);
    }
  }
  return outputs;
}

std::vector<Tensor> run_reentrant(Eager& eager, const std::vector<Tensor>& inputs,
                                  const Region& region) {
  Record record(eager, inputs);
  ReentrantCall call{.region = region,
                     .given = {},
                     .shapes = {},
                     .dtypes = {},
                     .autocast = eager.autocast(),
                     .layer = eager.layer()};
  for (const Tensor& input : inputs) {
    record.save(input);
    call.given.push_back(input.defined());
  }
  std::vector<Tensor> outputs;
  {
    const GradMode grad(eager, false);
    outputs = results_of(eager, inputs, region(eager, inputs));
  }
  std::vector<Tensor*> results;
  for (Tensor& output : outputs) {
    call.shapes.push_back(output.defined() ? output.shape() : Shape{});
    call.dtypes.push_back(output.defined() ? std::optional<DType>(output.dtype()) : std::nullopt);
    results.push_back(&output);
  }
  record.finish(results, [call](Eager& again, Gradients& grads, Node& node) -> Gradients {
    return reentrant_gradients(again, call, grads, node);
  });
  return outputs;
}

}  // namespace

std::vector<Tensor> run_region(Eager& eager, const std::vector<Tensor>& inputs,
                               const Region& region, RegionForm form, OffloadStash* stash) {
  if (form == RegionForm::kKept || !eager.grad_enabled()) {
    return region(eager, inputs);
  }
  if (form == RegionForm::kReentrant) {
    return run_reentrant(eager, inputs, region);
  }
  return run_recomputed(eager, inputs, region, form == RegionForm::kRecomputedWhole, stash);
}

}  // namespace headroom::ir::torch
