#include "model_ir/runtime/torch/checkpoint.h"

#include <utility>

#include "model_ir/base/check.h"
#include "model_ir/runtime/torch/eager.h"
#include "model_ir/runtime/torch/record.h"

namespace headroom::ir::torch {
namespace {

/// Makes `frame` take what operators save, for a scope.
class CheckpointScope {
 public:
  CheckpointScope(Eager& eager, CheckpointFrame* frame)
      : eager_(eager), before_(eager.checkpoint()) {
    eager_.set_checkpoint(frame);
  }
  ~CheckpointScope() { eager_.set_checkpoint(before_); }
  CheckpointScope(const CheckpointScope&) = delete;
  CheckpointScope& operator=(const CheckpointScope&) = delete;

 private:
  Eager& eager_;
  CheckpointFrame* before_;
};

/// Restores the autocast state that was in force when the region first ran.
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

CheckpointFrame::CheckpointFrame(Tensor input, std::function<void(Eager&, const Tensor&)> region)
    : input_(std::move(input)), region_(std::move(region)) {}

std::size_t CheckpointFrame::pack(Eager& eager, const Tensor& tensor) {
  if (!recomputing_) {
    slots_.push_back({});
    return slots_.size() - 1;
  }
  const std::size_t slot = next_++;
  HEADROOM_ASSERT(slot < slots_.size());
  if (slots_[slot].wanted) {
    // x.detach(): what is kept must not keep the recomputed graph alive. An output that is being
    // saved gets its grad_fn only afterwards, so this cannot ask for requires_grad.
    slots_[slot].tensor = eager.alias(tensor, tensor.shape(), false);
    slots_[slot].tensor->layout = tensor->layout;
  }
  if (next_ == slots_.size()) {
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

void CheckpointFrame::recompute(Eager& eager) {
  const auto keep = shared_from_this();
  recomputing_ = true;
  const std::int32_t layer = eager.layer();
  {
    const CheckpointScope hooks(eager, this);
    const GradMode grad(eager, true);
    try {
      region_(eager, input_);
    } catch (const StopRecomputation&) {
      // Every slot is filled; the rest of the region is not run.
    }
  }
  eager.set_layer(layer);
  recomputing_ = false;
  recomputed_ = true;
}

Tensor checkpoint(Eager& eager, const Tensor& input,
                  std::function<Tensor(Eager&, const Tensor&)> region) {
  if (!eager.grad_enabled()) {
    return region(eager, input);
  }
  const std::optional<DType> autocast = eager.autocast();
  const std::int32_t layer = eager.layer();
  const auto frame = std::make_shared<CheckpointFrame>(
      input, [region, autocast, layer](Eager& again, const Tensor& argument) {
        again.set_layer(layer);
        const AutocastScope scope(again, autocast);
        const Tensor output = region(again, argument);
      });
  const CheckpointScope hooks(eager, frame.get());
  return region(eager, input);
}

Tensor checkpoint_reentrant(Eager& eager, const Tensor& input,
                            std::function<Tensor(Eager&, const Tensor&)> region) {
  if (!eager.grad_enabled()) {
    return region(eager, input);
  }
  Record record(eager, {&input});
  record.save(input);
  const std::optional<DType> autocast = eager.autocast();
  const std::int32_t layer = eager.layer();
  Tensor output;
  {
    const GradMode grad(eager, false);
    output = region(eager, input);
  }
  auto apply = [region, autocast, layer](Eager& again, Gradients& grads, Node& node) -> Gradients {
    const Tensor saved = node.saved[0].unpack(again);
    Tensor argument = again.alias(saved, saved.shape(), false);
    argument->requires_grad = true;
    Tensor result;
    {
      const GradMode grad(again, true);
      again.set_layer(layer);
      const AutocastScope scope(again, autocast);
      result = region(again, argument);
    }
    again.backward(result, grads[0]);
    result.reset();
    Tensor gradient(again, argument->grad);
    return {gradient};
  };
  record.finish(output, std::move(apply));
  return output;
}

}  // namespace headroom::ir::torch
