#include "runtimes/deepspeed/zero_buckets.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "runtimes/deepspeed/gradient_checks.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/work_recorder.h"

namespace headroom::ir::deepspeed {

using torch::Eager;
using torch::Tensor;

std::int64_t ZeroBuckets::Group::inside(const Member& member) const {
  return std::min(member.offset + member.parameter.elements(), begin + partition) -
         std::max(member.offset, begin);
}

ZeroBuckets::ZeroBuckets(EngineState state, BaseOptimizer& optimizer)
    : state_(state),
      optimizer_(optimizer),
      dtype_(param_dtype(state.plan.precision)),
      accumulation_(state.zero.grad_accum_dtype.value_or(dtype_)),
      communication_(state.zero.communication_dtype.value_or(dtype_)),
      overlaps_(state.zero.overlap_comm.value_or(false)) {
  state_.eager.recorder().name_stream(kReductionStream, "reduction");
  for (const std::vector<Tensor>& parameters : parameter_groups(state_.model, state_.zero)) {
    Group& group = groups_.emplace_back();
    for (const Tensor& parameter : parameters) {
      group.members.push_back({.parameter = parameter, .accumulated = {}});
    }
    lay_out(group);
  }
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    for (std::size_t member = 0; member < groups_[group].members.size(); ++member) {
      const Tensor& parameter = groups_[group].members[member].parameter;
      torch::accumulator_of(state_.eager, parameter.impl())->after_accumulate =
          [this, group, member](Eager&) { arrived({.group = group, .member = member}); };
    }
  }
}

ZeroBuckets::~ZeroBuckets() {
  for (const Tensor& parameter : state_.model.trainable) {
    torch::accumulator_of(state_.eager, parameter.impl())->after_accumulate = nullptr;
  }
}

bool ZeroBuckets::is_compact() const {
  return accumulation_ == DType::kFp32 && dtype_ != DType::kFp32;
}

bool ZeroBuckets::accumulates_apart() const {
  return state_.zero.stage == 1 && accumulation_ != dtype_;
}

void ZeroBuckets::lay_out(Group& group) {
  const std::size_t count = group.members.size();
  // round_robin_gradients: parameters are dealt to the ranks in turn.
  const auto hands =
      state_.zero.round_robin_gradients ? static_cast<std::size_t>(state_.plan.world) : 1;
  for (std::size_t hand = 0; hand < std::min(hands, count); ++hand) {
    for (std::size_t member = hand; member < count; member += hands) {
      group.layout.push_back(member);
    }
  }
  const std::int64_t aligned = state_.zero.parameter_alignment ? 16 * 8 / bits_of(dtype_) : 1;
  std::int64_t offset = 0;
  for (const std::size_t member : group.layout) {
    offset = ceil_div(offset, aligned) * aligned;
    group.members[member].offset = offset;
    offset += group.members[member].parameter.elements();
  }
  group.partition = partition_elements(offset, state_.plan.world);
  group.begin = state_.rank * group.partition;
  std::copy_if(group.layout.begin(), group.layout.end(), std::back_inserter(group.owned),
               [&](std::size_t member) { return group.touches(group.members[member]); });
}

void ZeroBuckets::initialize() {
  Eager& eager = state_.eager;
  for (Group& group : groups_) {
    begin_group();
    flatten(group);
    make_master(group);
  }
  eager.set_site("deepspeed.masters", -1);
  if (state_.offloads_optimizer()) {
    std::int64_t largest = 0;
    for (const Tensor& parameter : state_.model.trainable) {
      largest = std::max(largest, parameter.elements());
    }
    staging_ = torch::zeros(eager, {largest}, dtype_, TensorRole::kCommunication);
    state_.hold_offloaded(HostUse::kStaging, HostPages::kPinnedBlock,
                          bytes_of(largest, dtype_).value());  // The host has one, too.
    if (state_.plan.workload.accumulation > 1 && !is_compact()) {
      hold_accumulated();
    }
    return;
  }
  std::vector<Tensor> gradients;  // Made for optimizers that need one at once; freed here.
  for (const Group& group : groups_) {
    gradients.push_back(
        torch::zeros(eager, {group.partition}, DType::kFp32, TensorRole::kTemporary));
  }
  for (Tensor& gradient : gradients) {
    gradient.reset();
  }
}

/// DeepSpeed's empty_cache() resets torch's peaks, too. So the phase's peaks begin at the last
/// reset, and what came before is a phase of its own.
void ZeroBuckets::begin_group() {
  Eager& eager = state_.eager;
  Phase& phase = eager.program().phases.back();
  const bool untouched = phase.begin == eager.program().events.size();
  state_.empty_cache();
  if (!untouched) {
    phase.name.kind = PhaseKind::kFlatten;
    eager.end_phase();
    eager.begin_phase({.kind = PhaseKind::kInitialize});
  }
}

void ZeroBuckets::move_to_host(const Group& group) {
  Eager& eager = state_.eager;
  eager.set_site("deepspeed.flatten", -1);
  for (const Member& member : group.members) {  // param.data = torch.empty(1)
    const Tensor placeholder = eager.empty({1}, DType::kFp32, TensorRole::kTemporary);
    eager.move_storage(member.parameter, placeholder);
  }
  begin_group();
}

namespace {

/// torch.cat: one kernel for up to 128 inputs, or a copy of each if offsets need more than 32 bits.
/// Source: pytorch/pytorch aten/src/ATen/native/cuda/Shape.cu, cat_out_cuda.
void launch_concat(Eager& eager, const Tensor& output, std::size_t inputs) {
  const std::int64_t bytes = torch::bytes_of(output);
  if (torch::elementwise_launches(output) > 1) {
    eager.run(CopyShape{.kind = CopyKind::kDeviceToDevice, .bytes = bytes});
  } else {
    torch::launch_kernels(eager, 2 * bytes,
                          ceil_div(static_cast<std::int64_t>(inputs), torch::kTensorsPerConcat));
  }
}

}  // namespace

void ZeroBuckets::flatten(Group& group) {
  Eager& eager = state_.eager;
  const std::int64_t padded = group.partition * state_.plan.world;
  const Member& last = group.members[group.layout.back()];
  const std::int64_t padding = padded - last.offset - last.parameter.elements();
  const std::int64_t limit = eager.device().memory_bytes;
  const bool on_device =
      limit == 0 || limit - state_.allocated() >= bytes_of(padded, dtype_).value();
  if (!on_device) {
    move_to_host(group);
  }
  eager.set_site("deepspeed.flatten", -1);
  if (on_device && padding == 0 && group.members.size() == 1) {
    group.flat = eager.alias(last.parameter, {padded}, false);  // A view is flat already.
  } else {
    const Tensor zeros = on_device && padding > 0
                             ? eager.empty({padding}, dtype_, TensorRole::kTemporary)
                             : Tensor{};
    group.flat = eager.empty({padded}, dtype_, TensorRole::kParameter);
    launch_concat(eager, group.flat, group.members.size());
  }
  for (const std::size_t member : group.layout) {  // Parameters become views of the flat tensor.
    eager.move_storage(group.members[member].parameter, group.flat);
  }
}

/// fp32 master, gradient and moments, and a 16-bit buffer on the way back. All but the moments are
/// pinned by PyTorch (pin_memory, the default; DS_PIN_MEMORY_BACKEND=native would not round).
/// Source: stage_1_and_2.py, __init__, initialize_optimizer_states; ops/adam/cpu_adam.py, step.
void ZeroBuckets::hold_group(std::int64_t partition) {
  const auto moments = static_cast<std::int64_t>(moment_count(state_.plan.optimizer));
  const std::int64_t wide = bytes_of(partition, DType::kFp32).value();
  state_.hold_offloaded(HostUse::kMasterParameters, HostPages::kPinnedBlock, wide);
  state_.hold_offloaded(HostUse::kGradients, HostPages::kPinnedBlock, wide);
  state_.hold_offloaded(HostUse::kOptimizerStates, HostPages::kPageable, moments * wide);
  state_.hold_offloaded(HostUse::kStaging, HostPages::kPinnedBlock,
                        bytes_of(partition, dtype_).value());
}

/// Where the gradients of several micro-batches are added up: a buffer for each whole parameter
/// that the partition touches. Source: stage_1_and_2.py, async_accumulate_grad_in_cpu_via_gpu.
void ZeroBuckets::hold_accumulated() {
  for (const Group& group : groups_) {
    for (const std::size_t member : group.owned) {
      state_.hold_offloaded(HostUse::kGradients, HostPages::kPinnedBlock,
                            bytes_of(group.members[member].parameter.elements(), dtype_).value());
    }
  }
}

void ZeroBuckets::make_master(Group& group) {
  Eager& eager = state_.eager;
  eager.set_site("deepspeed.masters", -1);
  Tensor copy = eager.empty({group.partition}, dtype_, TensorRole::kTemporary);
  if (state_.offloads_optimizer()) {
    hold_group(group.partition);
  } else if (dtype_ == DType::kFp32) {
    eager.relabel(copy, TensorRole::kMasterParameter);
    group.master = std::move(copy);
  } else {
    group.master =
        torch::computed(eager, {group.partition}, DType::kFp32, TensorRole::kMasterParameter);
  }
}

void ZeroBuckets::check_overflow() {
  Eager& eager = state_.eager;
  eager.set_site("deepspeed.overflow", -1);
  Tensor flag;
  if (!state_.offloads_optimizer()) {
    Tensor count = torch::zeros(eager, {1}, DType::kFp32, TensorRole::kTemporary);
    for (const Group& group : groups_) {
      for (const Tensor& gradient : group.averaged) {
        const Tensor found = has_inf_or_nan(eager, gradient);
        torch::launch(eager, {&found, &count});  // Added to the count.
      }
    }
    flag = torch::computed(eager, {1}, DType::kBool, TensorRole::kTemporary);
  }
  const Tensor byte = torch::computed(eager, {1}, DType::kUInt8, TensorRole::kTemporary);
  eager.run(CollectiveShape{
      .kind = CollectiveKind::kAllReduce, .bytes = 1, .group = {.size = state_.plan.world}});
  flag.reset();
}

Tensor ZeroBuckets::global_norm() {
  Eager& eager = state_.eager;
  eager.set_site("deepspeed.grad_norm", -1);
  std::vector<Tensor> norms;
  for (const Group& group : groups_) {
    if (state_.offloads_optimizer()) {
      // The norms were computed on the way to the host, and the host adds them up.
      const Tensor sum = eager.empty({1}, DType::kFp32, TensorRole::kTemporary);
      eager.run(CollectiveShape{
          .kind = CollectiveKind::kAllReduce, .bytes = 4, .group = {.size = state_.plan.world}});
      continue;
    }
    const std::size_t count = std::min(group.averaged.size(), group.owned.size());
    norms.push_back(direct_norm(eager, std::span(group.averaged).first(count), state_.plan.world));
  }
  if (norms.empty()) {
    return {};
  }
  Tensor norm = combined_norm(eager, norms);
  torch::release_list(norms);
  return norm;
}

void ZeroBuckets::step() {
  Eager& eager = state_.eager;
  // Only fp32 is not checked for overflow. Source: engine.py, _configure_zero_optimizer.
  if (dtype_ != DType::kFp32) {
    check_overflow();
  }
  const Tensor before = std::move(norm_);  // The engine rebinds its name after the step.
  const Tensor norm = state_.zero.compute_grad_norm ? global_norm() : Tensor{};
  if (norm.defined()) {
    check_norm(eager, norm);
    norm_ = eager.empty({}, DType::kFp32, TensorRole::kOptimizerState);
  }
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    if (state_.offloads_optimizer()) {
      state_.step_on_host(groups_[index].partition, dtype_);
    } else {
      step_group(index, norm);
    }
    groups_[index].compact.reset();
    for (Member& member : groups_[index].members) {
      member.accumulated.reset();
    }
  }
  offloaded_norms_.clear();
  for (const Group& group : groups_) {
    state_.count_all_gather(group.partition * state_.plan.world, dtype_);
  }
}

void ZeroBuckets::step_group(std::size_t index, const Tensor& norm) {
  Eager& eager = state_.eager;
  Group& group = groups_[index];
  for (Member& member : group.members) {
    member.accumulated.reset();  // `grad_accum` of other ranks' parameters outlives backward.
  }
  eager.set_site("deepspeed.fp32_gradients", -1);
  Tensor flat = group.compact;
  if (!flat.defined()) {
    flat = group.averaged.size() == 1
               ? eager.alias(group.averaged.front(), {group.partition}, false)
               : torch::computed(eager, {group.partition}, accumulation_, TensorRole::kGradient);
  }
  Tensor gradient =
      flat.dtype() == DType::kFp32
          ? flat
          : torch::computed(eager, {group.partition}, DType::kFp32, TensorRole::kGradient);
  flat.reset();
  set_gradient(eager, group.master, gradient);
  torch::release_list(group.averaged);
  group.accumulated.clear();
  group.compact.reset();
  if (state_.plan.clip_norm.value_or(0) > 0) {
    eager.set_site("deepspeed.clip", -1);
    check_norm(eager, norm);
    make_clip_factor(eager, norm);
    torch::launch(eager, {&gradient, &gradient});  // Multiplies by the factor.
  }
  optimizer_.step(index, std::span(&group.master, 1));
  set_gradient(eager, group.master, {});
  // The updated partition is copied to the parameters.
  torch::launch_kernels(eager,
                        torch::bytes_of(group.master) + bytes_of(group.partition, dtype_).value(),
                        torch::elementwise_launches(group.master));
}

std::vector<std::vector<Tensor>> ZeroBuckets::stepped() const {
  std::vector<std::vector<Tensor>> groups;
  for (const Group& group : groups_) {
    groups.push_back({group.master});
  }
  return groups;
}

}  // namespace headroom::ir::deepspeed
