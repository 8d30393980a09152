#include "runtimes/megatron/activation_offload.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/streams.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/stream_scope.h"
#include "runtimes/torch/work_recorder.h"

namespace headroom::ir::megatron {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

namespace {

/// find_group_with_name, starting at the group with number `first`.
bool has_group(const ActivationOffload::Pass& pass, OffloadModule module, std::size_t first) {
  return std::any_of(pass.groups.begin() + static_cast<std::ptrdiff_t>(first), pass.groups.end(),
                     [module](const auto& group) { return group->module() == module; });
}

/// finish_all_groups: the pass has started and has no group in progress, or it has no further call
/// of the module.
bool is_finished(const ActivationOffload::Pass& pass, OffloadModule module) {
  const bool idle = pass.away.empty() && pass.under_way.empty() && pass.started > 0;
  return idle || !has_group(pass, module, pass.started);
}

/// The number of different modules that a pass calls.
std::size_t kinds_of(const ActivationOffload::Pass& pass) {
  std::vector<OffloadModule> kinds;
  for (const auto& group : pass.groups) {
    if (std::ranges::find(kinds, group->module()) == kinds.end()) {
      kinds.push_back(group->module());
    }
  }
  return kinds.size();
}

void come_back(ActivationOffload::Pass& pass) {
  OffloadGroup* const group = pass.away.back();
  group->reload();
  pass.away.pop_back();
  pass.coming.push_back(group);
}

}  // namespace

void PinnedMemory::take(std::int64_t bytes) {
  const auto block = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
  std::int64_t& free = free_[block];
  if (free > 0) {
    --free;
  } else {
    hold_on_host(eager_.program(), HostUse::kActivations, HostPages::kPinned, block);
  }
}

void PinnedMemory::give_back(std::int64_t bytes) {
  ++free_[static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)))];
}

HostTensors::Kind HostTensors::kind_of(const Shape& shape, DType dtype, bool heads) {
  return {shape.elements(), shape[-1], dtype, heads};
}

void HostTensors::take(const Shape& shape, DType dtype, bool heads) {
  std::int64_t& free = free_[kind_of(shape, dtype, heads)];
  if (free > 0) {
    --free;
  } else {
    memory_.take(bytes_of(shape.elements(), dtype).value());
  }
}

void HostTensors::give_back(const Shape& shape, DType dtype, bool heads) {
  ++free_[kind_of(shape, dtype, heads)];
}

bool is_offloaded(const Context& context, const Tensor& tensor) {
  return tensor.elements() >= context.megatron.least_offloaded && !tensor->leaf_parameter;
}

std::size_t OffloadGroup::pack(Eager& eager, const Tensor& tensor, Tensor& kept) {
  if (!is_offloaded(context_, tensor)) {
    kept = tensor;
    eager.mark_saved(tensor);
    return 0;
  }
  eager.mark_saved(tensor);
  const bool leaf = tensor.requires_grad() && tensor->grad_fn == nullptr;
  slots_.push_back({.tensor = tensor,
                    .leaf = leaf ? tensor : Tensor{},
                    .shape = tensor.shape(),
                    .dtype = tensor.dtype(),
                    .requires_grad = tensor.requires_grad()});
  return slots_.size() - 1;
}

Tensor OffloadGroup::unpack(Eager&, std::size_t slot) {
  if (slots_[slot].on_host) {
    fetch(slots_[slot]);
  }
  return std::exchange(slots_[slot].tensor, Tensor{});
}

void OffloadGroup::forget(std::size_t slot) {
  slots_[slot].tensor.reset();
  slots_[slot].leaf.reset();
}

/// The number of tokens that experts receive is not known in advance, so host memory for their
/// activations is allocated anew each time.
bool OffloadGroup::has_pool() const {
  return module_ != &MegatronOffload::expert_up && module_ != &MegatronOffload::expert_activation;
}

/// A tensor that is only a part of its storage is not contiguous, and is first copied on the
/// device.
void OffloadGroup::send(Slot& slot) {
  Eager& eager = context_.eager;
  const std::int64_t bytes = torch::bytes_of(slot.tensor);
  Tensor contiguous;
  if (slot.tensor->storage->bytes > bytes) {
    contiguous = torch::computed(eager, slot.shape, slot.dtype, {&slot.tensor});
  }
  if (has_pool()) {
    pool_.take(slot.shape, slot.dtype, has_heads());
  } else {
    pinned_.take(bytes);
  }
  eager.run(CopyShape{.kind = CopyKind::kDeviceToHost, .bytes = bytes});
  eager.record_stream(slot.tensor);
  slot.tensor.reset();
  slot.on_host = true;
}

void OffloadGroup::fetch(Slot& slot) {
  Eager& eager = context_.eager;
  slot.tensor = eager.empty(slot.shape, slot.dtype, TensorRole::kActivation);
  slot.tensor->requires_grad = slot.requires_grad;
  const std::int64_t bytes = torch::bytes_of(slot.tensor);
  eager.run(CopyShape{.kind = CopyKind::kHostToDevice, .bytes = bytes});
  if (has_pool()) {
    pool_.give_back(slot.shape, slot.dtype, has_heads());
  } else {
    pinned_.give_back(bytes);
  }
  slot.on_host = false;
}

void OffloadGroup::offload() {
  const torch::StreamScope copies(context_.eager, kOffloadStream);
  for (Slot& slot : slots_) {
    if (slot.tensor.defined()) {
      send(slot);
    }
  }
  left_ = context_.eager.record_mark(kOffloadStream);
}

void OffloadGroup::reload() {
  const torch::StreamScope copies(context_.eager, kReloadStream);
  context_.eager.wait_mark(kReloadStream, left_);
  for (Slot& slot : slots_) {
    if (slot.on_host) {
      fetch(slot);
    }
  }
  back_ = context_.eager.record_mark(kReloadStream);
}

void OffloadGroup::wait() const {
  context_.eager.wait_mark(context_.eager.stream(), back_);
}

ActivationOffload::ActivationOffload(const Context& context)
    : context_(context), pinned_(context.eager), pool_(pinned_) {}

/// In the first step, records the order of backward passes. Interleaved chunks run backward in the
/// reverse of their forward order, once all micro-batches of a group have been recorded.
/// Source: init_model_chunk_offload_handler.
void ActivationOffload::begin_pass(std::size_t chunk, std::size_t chunks) {
  if (context_.megatron.offload_modules == MegatronOffload{} || !first_step_) {
    return;
  }
  context_.eager.recorder().name_stream(kOffloadStream, "offload");
  context_.eager.recorder().name_stream(kReloadStream, "reload");
  staged_.resize(chunks);
  forward_ = passes_.emplace_back(std::make_unique<Pass>()).get();
  const bool last = chunk + 1 == chunks;
  if (last) {
    flush();
  }
  staged_[chunk].push_back(forward_);
  if (last) {
    backward_order_.push_back(forward_);
    flush();
  }
}

void ActivationOffload::flush() {
  if (staged_.front().size() != staged_.back().size()) {
    return;
  }
  staged_.back().clear();
  for (auto stage = staged_.rbegin(); stage != staged_.rend(); ++stage) {
    backward_order_.insert(backward_order_.end(), stage->begin(), stage->end());
    stage->clear();
  }
}

ActivationOffload::Pass* ActivationOffload::next_pass(OffloadModule module) {
  while (!first_step_ && (forward_ == nullptr || is_finished(*forward_, module))) {
    if (next_forward_ == passes_.size()) {
      forward_ = nullptr;
      break;
    }
    forward_ = passes_[next_forward_++].get();
  }
  return forward_;
}

OffloadGroup& ActivationOffload::start(Pass& pass, OffloadModule module) {
  if (first_step_) {
    pass.groups.push_back(std::make_shared<OffloadGroup>(context_, module, pinned_, pool_));
    pass.started = pass.groups.size();
  } else {
    do {
      ++pass.started;
      HEADROOM_ASSERT(pass.started <= pass.groups.size());
    } while (pass.groups[pass.started - 1]->module() != module);
  }
  OffloadGroup& group = *pass.groups[pass.started - 1];
  group.begin();
  pass.under_way.push_back(&group);
  return group;
}

/// Source: front_backward_chunk.
ActivationOffload::Pass* ActivationOffload::next_backward(OffloadModule module) const {
  for (std::size_t i = next_backward_; i < backward_order_.size(); ++i) {
    Pass* const pass = backward_order_[i];
    if (module == nullptr ? !pass->groups.empty() : has_group(*pass, module, 0)) {
      return pass;
    }
  }
  return nullptr;
}

/// Source: should_bulk_offload.
bool ActivationOffload::leaves(const Pass& pass) const {
  if (first_step_) {
    return true;
  }
  const OffloadGroup& group = *pass.under_way.back();
  if (group.stays()) {
    return false;
  }
  return next_backward(group.module()) != &pass || has_group(pass, group.module(), pass.started);
}

void ActivationOffload::commit(Pass& pass, std::span<const Tensor> released) {
  Eager& eager = context_.eager;
  eager.wait_stream(kOffloadStream, eager.stream());
  if (!leaves(pass)) {
    return;
  }
  OffloadGroup* const group = pass.under_way.back();
  pass.away.push_back(group);
  group->offload();
  pass.under_way.pop_back();
  for (const Tensor& tensor : released) {
    if (is_offloaded(context_, tensor)) {
      eager.drain_storage(tensor);
    }
  }
}

/// Source: on_group_commit_backward.
void ActivationOffload::begin_backward(Pass& pass, OffloadModule module) {
  while (backward_ != &pass) {
    HEADROOM_ASSERT(next_backward_ < backward_order_.size());
    Pass* const next = backward_order_[next_backward_++];
    if (has_group(*next, module, 0)) {
      backward_ = next;
    }
  }
  const auto found = std::ranges::find(pass.coming, module, &OffloadGroup::module);
  if (found != pass.coming.end()) {
    (*found)->wait();
    pass.coming.erase(found);
  }
}

/// Source: on_group_start_backward.
void ActivationOffload::finish_backward(Pass& pass) {
  Eager& eager = context_.eager;
  eager.wait_stream(kReloadStream, eager.stream());
  if (!pass.away.empty()) {
    come_back(pass);
    return;
  }
  Pass* const next = next_backward(nullptr);
  if (next != nullptr && next->started == next->groups.size() && !next->away.empty()) {
    come_back(*next);
  }
}

/// Called after the first step. As many groups stay on the device as a pass calls different
/// modules: for each module, its last group in the first backward pass that has one.
/// Source: post_warmup_callback.
void ActivationOffload::choose_staying() {
  std::size_t margin = 0;
  for (const auto& pass : passes_) {
    margin = std::max(margin, kinds_of(*pass));
  }
  std::vector<OffloadGroup*> last;
  for (auto pass = backward_order_.rbegin(); pass != backward_order_.rend(); ++pass) {
    for (const auto& group : (*pass)->groups) {
      const auto found = std::ranges::find(last, group->module(), &OffloadGroup::module);
      if (found == last.end()) {
        last.push_back(group.get());
      } else {
        *found = group.get();
      }
    }
  }
  for (std::size_t i = 0; i < std::min(margin, last.size()); ++i) {
    last[i]->keep();
  }
}

/// torch.distributed.barrier after the table that the first rank prints. It is an all-reduce over
/// all ranks, and one byte stays allocated. Source: print_offload_summary_table.
void ActivationOffload::meet() {
  Eager& eager = context_.eager;
  barrier_ = eager.empty({1}, DType::kUInt8, TensorRole::kBuffer);
  const Tensor sum = torch::filled(eager, {1}, DType::kFp32);
  eager.run(CollectiveShape{.kind = CollectiveKind::kAllReduce,
                            .bytes = torch::bytes_of(sum),
                            .group = {.size = context_.grid.world}});
  eager.host_wait(eager.record_mark(eager.stream()));
}

void ActivationOffload::reset() {
  if (first_step_ && !passes_.empty()) {
    choose_staying();
    meet();
    first_step_ = false;
  }
  forward_ = nullptr;
  backward_ = nullptr;
  next_forward_ = 0;
  next_backward_ = 0;
  for (const auto& pass : passes_) {
    pass->started = 0;
    pass->under_way.clear();
    pass->away.clear();
    pass->coming.clear();
  }
}

}  // namespace headroom::ir::megatron
