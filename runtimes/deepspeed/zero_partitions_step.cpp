// The optimizer step of ZeRO stage 3. Source: deepspeedai/DeepSpeed 0.19.8
// deepspeed/runtime/zero/stage3.py, step.

#include <utility>
#include <vector>

#include "runtimes/deepspeed/gradient_checks.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/deepspeed/zero_partitions.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/stream_scope.h"

namespace headroom::ir::deepspeed {

using torch::Eager;
using torch::Tensor;

namespace {

Tensor computed_scalar(Eager& eager, DType dtype) {
  return torch::computed(eager, {}, dtype, TensorRole::kTemporary);
}

}  // namespace

/// Checks the flat buffer for infinities and NaNs on the device; returns the flag.
Tensor ZeroPartitions::find_overflow() {
  Eager& eager = state_.eager;
  const Tensor& gradients = gradients_.flat();
  const auto whole = [&](DType dtype) {
    return torch::computed(eager, gradients.shape(), dtype, TensorRole::kTemporary);
  };
  {
    Tensor magnitude = whole(gradients.dtype());
    Tensor infinite = whole(DType::kBool);
    magnitude.reset();
    const Tensor any = reduce_all(eager, infinite, DType::kBool);
  }
  {
    const Tensor unknown = whole(DType::kBool);
    const Tensor any = reduce_all(eager, unknown, DType::kBool);
  }
  return computed_scalar(eager, DType::kBool);
}

/// Checks all gradients for infinities and NaNs, for fp16 only. The host checks what it holds.
/// Source: has_overflow.
void ZeroPartitions::check_overflow() {
  if (state_.model.trainable.front().dtype() != DType::kFp16) {
    return;
  }
  Eager& eager = state_.eager;
  const torch::StreamScope stream(eager, gradients_.stream());
  eager.set_site("zero3.overflow", -1);
  Tensor flag;
  if (gradients_.flat().defined()) {
    flag = find_overflow();
  } else {
    flag = eager.empty({}, DType::kBool, TensorRole::kTemporary);
    eager.run(CopyShape{.kind = CopyKind::kHostToDevice, .bytes = 1});
  }
  const Tensor byte = computed_scalar(eager, DType::kInt8);
  flag.reset();
  eager.run(CollectiveShape{
      .kind = CollectiveKind::kAllReduce, .bytes = 1, .group = {.size = state_.plan.world}});
}

/// Computes norms in fp64, one partition after the other. Source: get_grad_norm_direct.
Tensor ZeroPartitions::group_norm(const SubGroup& group) {
  Eager& eager = state_.eager;
  eager.set_site("zero3.norm", -1);
  std::vector<Tensor> norms;
  for (const std::size_t parameter : group.parameters) {
    const Tensor wide = torch::computed(eager, {parameters_[parameter].shard_elements},
                                        DType::kFp64, TensorRole::kTemporary);
    norms.push_back(reduce_all(eager, wide, DType::kFp64));
  }
  const torch::Shape count{static_cast<std::int64_t>(norms.size())};
  Tensor stacked = torch::computed(eager, count, DType::kFp64, TensorRole::kTemporary);
  Tensor powers = torch::computed(eager, count, DType::kFp64, TensorRole::kTemporary);
  stacked.reset();
  const Tensor sum = reduce_all(eager, powers, DType::kFp64);
  powers.reset();
  eager.run(CollectiveShape{
      .kind = CollectiveKind::kAllReduce, .bytes = 8, .group = {.size = state_.plan.world}});
  Tensor total = computed_scalar(eager, DType::kFp64);
  Tensor magnitude = computed_scalar(eager, DType::kFp64);
  const Tensor infinite = computed_scalar(eager, DType::kBool);
  magnitude.reset();
  const Tensor unknown = computed_scalar(eager, DType::kBool);
  const Tensor either = computed_scalar(eager, DType::kBool);
  const Tensor mark = computed_scalar(eager, DType::kFp32);
  Tensor wide_mark = computed_scalar(eager, DType::kFp64);
  Tensor chosen = computed_scalar(eager, DType::kFp64);
  wide_mark.reset();
  total = chosen;
  torch::release_list(norms);
  return total;
}

void ZeroPartitions::step_group(SubGroup& group, std::size_t index, const Tensor& norm) {
  Eager& eager = state_.eager;
  eager.set_site("zero3.fp32_gradients", -1);
  {
    Tensor gradient;
    if (group.parameters.size() > 1 && gradients_.dtype() != DType::kFp32) {
      const Tensor joined =
          torch::computed(eager, {group.elements}, gradients_.dtype(), TensorRole::kGradient);
      gradient = torch::computed(eager, {group.elements}, DType::kFp32, TensorRole::kGradient);
    } else if (group.parameters.size() > 1 || gradients_.dtype() != DType::kFp32) {
      gradient = torch::computed(eager, {group.elements}, DType::kFp32, TensorRole::kGradient);
    } else {
      gradient = eager.alias(gradients_.flat(), {group.elements}, false);
    }
    set_gradient(eager, group.master, gradient);
  }
  if (state_.plan.clip_norm) {
    make_clip_factor(eager, norm);
    torch::launch(eager, {&group.master, &group.master});  // Multiplies the gradient.
  }
  optimizer_.step(index, {&group.master, 1});
  eager.drop_grad(group.master);
  // The updated partition is copied to the partitions of the parameters.
  torch::launch_kernels(eager,
                        torch::bytes_of(group.master) +
                            bytes_of(group.elements, param_dtype(state_.plan.precision)).value(),
                        torch::elementwise_launches(group.master));
}

/// Computes the norm of gradients that went to the host, from the norms that backward has left on
/// the device. Source: complete_grad_norm_calculation_for_cpu_offload.
void ZeroPartitions::offloaded_norm(const SubGroup& group) {
  Eager& eager = state_.eager;
  eager.set_site("zero3.norm", -1);
  Tensor sum;
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const Tensor power = computed_scalar(eager, DType::kFp64);
    if (i == 0) {
      sum = computed_scalar(eager, DType::kFp64);  // 0.0 + power; the rest is added in place.
    }
  }
  const Tensor total = eager.empty({1}, DType::kFp32, TensorRole::kTemporary);
  eager.run(CollectiveShape{
      .kind = CollectiveKind::kAllReduce, .bytes = 4, .group = {.size = state_.plan.world}});
  const Tensor root = computed_scalar(eager, DType::kFp32);
  sum.reset();
  mask_invalid(eager, root);
}

/// Steps a sub-group that stays on the device (offload_optimizer.ratio). Its gradient is on the
/// device already and stays there. Source: unscale_and_clip_grads, _optimizer_step
/// (backup_optimizer), _reassign_or_swap_out_partitioned_parameters.
void ZeroPartitions::step_kept(SubGroup& group, std::size_t index) {
  Eager& eager = state_.eager;
  const torch::GradMode no_grad(eager, false);
  eager.set_site("zero3.fp32_gradients", -1);
  torch::launch(eager, {&group.master, &group.master});  // Multiplies the gradient.
  backup_.reset();
  optimizer_.step(index, {&group.master, 1});
  if (state_.zero.offload_param != OffloadDevice::kNone) {  // Cast to 16 bits on the host.
    eager.run(CopyShape{.kind = CopyKind::kDeviceToHost, .bytes = torch::bytes_of(group.master)});
    return;
  }
  torch::launch_kernels(eager,
                        torch::bytes_of(group.master) +
                            bytes_of(group.elements, param_dtype(state_.plan.precision)).value(),
                        torch::elementwise_launches(group.master));
}

/// The optimizer runs on the host, except for sub-groups that stay on the device.
void ZeroPartitions::step_offloaded() {
  for (const SubGroup& group : groups_) {
    offloaded_norm(group);
  }
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    if (groups_[index].offloaded) {
      state_.step_on_host(groups_[index].elements, param_dtype(state_.plan.precision));
    } else {
      step_kept(groups_[index], index);
    }
  }
  gradients_.forget_norms();
}

void ZeroPartitions::step() {
  Eager& eager = state_.eager;
  coordinator_.release_all();
  check_overflow();
  if (state_.offloads_optimizer()) {
    step_offloaded();
  } else {
    const torch::GradMode no_grad(eager, false);
    std::vector<Tensor> norms;  // These names, like the total, live until the step returns.
    for (const SubGroup& group : groups_) {
      norms.push_back(group_norm(group));
    }
    const Tensor norm = combined_norm(eager, norms);
    check_norm(eager, norm);
    Tensor unscaled = computed_scalar(eager, DType::kFp64);  // norm / loss_scale
    for (std::size_t index = 0; index < groups_.size(); ++index) {
      step_group(groups_[index], index, norm);
    }
    finish_step();
    norm_ = std::move(unscaled);
    return;
  }
  finish_step();
}

/// Gathers the persistent parameters again. Secondary partitions of updated parameters are stale.
/// Source: stage3.py, _post_step.
void ZeroPartitions::finish_step() {
  parameters_.gather(persistent_);
  for (const SubGroup& group : groups_) {
    for (const std::size_t parameter : group.parameters) {
      parameters_.drop_secondary(parameter);
    }
  }
}

std::vector<std::vector<Tensor>> ZeroPartitions::stepped() const {
  std::vector<std::vector<Tensor>> groups;
  for (const SubGroup& group : groups_) {
    groups.push_back({group.offloaded ? Tensor{} : group.master});
  }
  return groups;
}

}  // namespace headroom::ir::deepspeed
