// ZeRO stages 1 and 2: what this rank keeps of the reduced gradients until its step.

#include <utility>

#include "runtimes/deepspeed/gradient_checks.h"
#include "runtimes/deepspeed/zero_buckets.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"

namespace headroom::ir::deepspeed {

using torch::Eager;
using torch::Tensor;

std::int64_t ZeroBuckets::owned_elements() const {
  std::int64_t total = 0;
  for (const Group& group : groups_) {
    for (const std::size_t owned : group.owned) {
      total += group.members[owned].parameter.elements();
    }
  }
  return total;
}

void ZeroBuckets::keep_gradient(Position position) {
  Eager& eager = state_.eager;
  Member& member = at(position);
  if (state_.offloads_optimizer()) {
    keep_offloaded(position);
    return;
  }
  if (is_compact()) {
    if (accumulates_apart()) {
      clear_gradient(member);
    }
    return;
  }
  if (!state_.zero.contiguous_gradients) {
    return;
  }
  if (!partition_gradients_.defined()) {
    eager.set_site("deepspeed.partition_gradients", -1);
    partition_gradients_ = eager.empty({owned_elements()}, dtype_, TensorRole::kGradient);
  }
  eager.move_storage(gradient_of(member), partition_gradients_);
}

/// At the last micro-batch the device computes norm and overflow, and the host receives fp32.
void ZeroBuckets::keep_offloaded(Position position) {
  if (!boundary_) {
    return;  // Summed on the host through an existing buffer, or in `compact`.
  }
  Eager& eager = state_.eager;
  eager.set_site("deepspeed.offload_gradient", -1);
  Group& group = groups_[position.group];
  Member& member = at(position);
  const std::int64_t elements = group.inside(member);
  {
    const Tensor wide = torch::computed(eager, {elements}, DType::kFp64, TensorRole::kTemporary);
    offloaded_norms_.push_back(reduce_all(eager, wide, DType::kFp64));
  }
  const Tensor tested =
      is_compact() ? eager.alias(compact_of(group), {elements}, false) : gradient_of(member);
  { const Tensor found = has_inf_or_nan(eager, tested); }
  Tensor source;
  if (tested.dtype() != DType::kFp32) {
    source = torch::computed(eager, {elements}, DType::kFp32, TensorRole::kTemporary);
  }
  eager.run(CopyShape{.kind = CopyKind::kDeviceToHost,
                      .bytes = bytes_of(elements, DType::kFp32).value()});
  clear_gradient(member);
}

void ZeroBuckets::collect_gradients(Group& group, std::vector<Tensor>& newest) {
  newest.clear();
  for (const std::size_t owned : group.owned) {
    const Member& member = group.members[owned];
    newest.push_back(gradient_of(member));
    if (!newest.back().defined()) {  // A parameter that nothing reads.
      newest.back() = torch::zeros(state_.eager, member.parameter.shape(), accumulation_,
                                   TensorRole::kGradient);
    }
  }
  if (group.accumulated.empty()) {
    group.accumulated = std::move(newest);  // Later ones are added to these.
    newest.clear();
  }
  if (boundary_) {
    cut_to_partition(group);
    group.accumulated.clear();
  }
}

void ZeroBuckets::cut_to_partition(Group& group) {
  Eager& eager = state_.eager;
  eager.set_site("deepspeed.partition_gradients", -1);
  std::int64_t covered = 0;
  for (std::size_t i = 0; i < group.owned.size(); ++i) {
    const std::int64_t elements = group.inside(group.members[group.owned[i]]);
    const Tensor& source = is_compact() ? group.compact : group.accumulated[i];
    group.averaged.push_back(eager.alias(source, {elements}, false));
    covered += elements;
  }
  if (covered == group.partition) {
    return;
  }
  const torch::Shape rest{group.partition - covered};
  group.averaged.push_back(is_compact()
                               ? eager.alias(group.compact, rest, false)
                               : torch::zeros(eager, rest, accumulation_, TensorRole::kGradient));
}

void ZeroBuckets::after_backward(bool /*boundary*/) {
  Eager& eager = state_.eager;
  if (state_.zero.stage == 1 && !boundary_) {
    return;  // Whole gradients and the bucket stay.
  }
  if (state_.zero.stage == 1 && !overlaps_) {
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      for (std::size_t member = 0; member < groups_[group].members.size(); ++member) {
        if (gradient_of(groups_[group].members[member]).defined()) {
          fill_bucket({.group = group, .member = member});
        }
      }
    }
  }
  reduce_bucket();
  if (overlaps_) {
    eager.host_wait(eager.record_mark(kReductionStream));  // synchronize()
  }
  clear_reduced();
  std::vector<Tensor> newest;  // `avg_new`, which lives until the function returns.
  for (Group& group : groups_) {
    if (state_.offloads_optimizer()) {
      continue;
    }
    if (is_compact()) {
      if (boundary_) {
        static_cast<void>(compact_of(group));
        cut_to_partition(group);
      }
      continue;
    }
    collect_gradients(group, newest);
  }
  buckets_.clear();
  partition_gradients_.reset();
  for (const Group& group : groups_) {
    for (const Member& member : group.members) {
      eager.drop_grad(member.parameter);
    }
  }
}

}  // namespace headroom::ir::deepspeed
