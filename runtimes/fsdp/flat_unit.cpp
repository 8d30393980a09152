#include "runtimes/fsdp/flat_unit.h"

#include <algorithm>
#include <utility>

#include "runtimes/torch/ddp.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/stream_scope.h"

namespace headroom::ir::fsdp {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Shape;
using torch::StreamScope;
using torch::Tensor;

constexpr std::int64_t kAlignedBytes = 16;  ///< _get_aligned_numel

bool has_memory(const Tensor& tensor) {
  return tensor->storage != nullptr && tensor->storage->bytes > 0;
}

/// Moves a buffer from the host to the device; nothing happens if it is there.
void move_buffer(Eager& eager, const Tensor& buffer) {
  if (!has_memory(buffer)) {
    eager.fill_storage(buffer, bytes_of(buffer.elements(), buffer.dtype()).value(),
                       TensorRole::kBuffer);
  }
}

}  // namespace

void FlatUnit::add(Tensor* slot, std::vector<Tensor> companions) {
  const std::int64_t aligned =
      sharding_.plan.use_orig_params
          ? kAlignedBytes * 8 / static_cast<std::int64_t>(bits_of(types_.gathered))
          : 1;
  const std::int64_t offset = align_up(elements_, aligned);
  members_.push_back({.slot = slot,
                      .shape = (*slot)->shape,
                      .padding = offset - elements_,
                      .offset = offset,
                      .view = {},
                      .companions = std::move(companions)});
  elements_ = offset + members_.back().shape.elements();
}

void FlatUnit::flatten(const std::vector<std::size_t>& order, const std::vector<Tensor>& buffers) {
  Eager& eager = sharding_.eager;
  eager.set_site("fsdp.flatten", module_);
  if (sharding_.plan.use_orig_params) {
    const std::int64_t all = align_up(elements_, whole() ? sharding_.replicas : sharding_.ranks);
    last_padding_ = all - elements_;
    elements_ = all;
  }
  std::vector<Tensor> moved(members_.size());
  for (const std::size_t index : order) {
    for (const Tensor& companion : members_[index].companions) {
      move_buffer(eager, companion);
    }
    if (!has_memory(*members_[index].slot)) {
      moved[index] = eager.empty(members_[index].shape, types_.moved, TensorRole::kTemporary);
    }
  }
  for (const Tensor& buffer : buffers) {
    move_buffer(eager, buffer);
  }
  join();
  if (offloads()) {
    const Shape part = shard_.shape();
    shard_.reset();
    eager.set_meta(true);
    shard_ = eager.empty(part, types_.stored, TensorRole::kParameter);
    eager.set_meta(false);
    // `_local_shard` and `_cpu_grad`, both pinned. Source: pytorch/pytorch 2.11
    // torch/distributed/fsdp/_flat_param.py, init_flat_param_attributes.
    for (const HostUse use : {HostUse::kParameters, HostUse::kGradients}) {
      hold_on_host(eager.program(), use, HostPages::kPinnedBlock, torch::bytes_of(shard_));
    }
  }
  moved.clear();
  for (const Member& member : members_) {
    eager.drain_storage(*member.slot);
  }
}

/// Concatenates all parameters and their padding, and keeps this rank's part.
/// Source: _flat_param.py, flatten_tensors, _construct_padding_tensor, _get_shard.
void FlatUnit::join() {
  Eager& eager = sharding_.eager;
  std::vector<Tensor> paddings;
  const auto pad = [&](std::int64_t elements) {
    if (elements > 0) {
      const Tensor ones = eager.empty({elements}, types_.moved, TensorRole::kTemporary);
      paddings.push_back(eager.empty({elements}, types_.moved, TensorRole::kTemporary));
    }
  };
  for (const Member& member : members_) {
    pad(member.padding);
  }
  pad(last_padding_);
  const Tensor joined = eager.empty({elements_}, types_.moved,
                                    whole() ? TensorRole::kParameter : TensorRole::kTemporary);
  paddings.clear();
  if (whole()) {
    shard_ = joined;
    return;
  }
  const std::int64_t part = padded() / sharding_.ranks;
  const std::int64_t own = std::clamp<std::int64_t>(elements_ - sharding_.rank * part, 0, part);
  shard_ = eager.empty({own}, types_.moved, TensorRole::kParameter);
  if (own < part) {
    shard_ = eager.empty({part}, types_.moved, TensorRole::kParameter);
  }
}

void FlatUnit::widen() {
  Eager& eager = sharding_.eager;
  eager.set_site("fsdp.flatten", module_);
  const Shape part = shard_.shape();
  if (types_.stored != types_.moved && !offloads()) {
    if (sharding_.plan.use_orig_params) {
      brought_ = shard_;  // The parameters are still views of it.
    }
    shard_ = eager.empty(part, types_.stored, TensorRole::kParameter);
  }
  eager.set_meta(true);
  flat_ = eager.parameter({elements_}, types_.gathered, types_.trained);
  eager.set_meta(false);
  if (whole() && !casts() && !offloads()) {
    eager.move_storage(flat_, shard_);
  }
  cut_pieces();
  show_shards();
}

/// Views of this rank's part of the flat tensor. The first and the last may cover only a part of a
/// parameter.
void FlatUnit::cut_pieces() {
  if (!types_.trained) {
    pieces_.assign(members_.size(), Tensor{});
    return;
  }
  if (!sharding_.plan.use_orig_params) {  // The optimizer sees the flat shard itself.
    shard_->requires_grad = true;
    shard_->leaf_parameter = true;
    pieces_.assign(members_.size(), Tensor{});
    pieces_.front() = shard_;
    return;
  }
  const std::int64_t begin = whole() ? 0 : sharding_.rank * shard_.elements();
  const std::int64_t end = begin + shard_.elements();
  for (const Member& member : members_) {
    const std::int64_t elements = member.shape.elements();
    const std::int64_t own = std::clamp<std::int64_t>(end - member.offset, 0, elements) -
                             std::clamp<std::int64_t>(begin - member.offset, 0, elements);
    Tensor piece;
    if (own > 0) {
      piece = sharding_.eager.alias(shard_, own == elements ? member.shape : Shape{own}, false);
      piece->requires_grad = true;
      piece->leaf_parameter = true;
    }
    pieces_.push_back(std::move(piece));
  }
}

void FlatUnit::list_pieces(std::map<const Tensor*, Tensor>& pieces) const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (pieces_[i].defined()) {
      pieces[members_[i].slot] = pieces_[i];
    }
  }
}

/// Gives the module parameters of the shard's type again. Without `use_orig_params`, the module
/// keeps the views of the flat tensor, whose memory has been freed.
void FlatUnit::show_shards() {
  if (!sharding_.plan.use_orig_params && (*members_.front().slot)->grad_fn != nullptr) {
    return;
  }
  sharding_.eager.set_meta(true);
  for (const Member& member : members_) {
    *member.slot = sharding_.eager.parameter(member.shape, types_.stored, types_.trained);
  }
  sharding_.eager.set_meta(false);
}

void FlatUnit::init_buffers() {
  Eager& eager = sharding_.eager;
  eager.set_site("fsdp.init", module_);
  if (casts()) {
    const Tensor cast = eager.empty(shard_.shape(), types_.gathered, TensorRole::kCommunication);
  }
  if (whole()) {
    return;
  }
  { const Tensor full = eager.empty({padded()}, types_.gathered, TensorRole::kParameter); }
  if (casts()) {
    const Tensor wide = eager.empty({padded()}, types_.stored, TensorRole::kParameter);
  }
}

/// The input of the all-gather: the shard, cast and copied to the device where necessary.
Tensor FlatUnit::bring_shard() {
  Eager& eager = sharding_.eager;
  if (!offloads()) {
    return torch::computed(eager, shard_.shape(), types_.gathered, TensorRole::kCommunication);
  }
  Tensor ready;
  if (casts()) {
    ready = eager.empty(shard_.shape(), types_.gathered, TensorRole::kCommunication);
  }
  Tensor copied = eager.empty(shard_.shape(), types_.stored, TensorRole::kCommunication);
  eager.run(CopyShape{.kind = CopyKind::kHostToDevice, .bytes = torch::bytes_of(copied)});
  if (!casts()) {
    return copied;
  }
  torch::launch_copy(eager, copied, ready, torch::CopyOrder::kSame);
  return ready;
}

void FlatUnit::gather() {
  Eager& eager = sharding_.eager;
  eager.set_site("fsdp.all_gather", module_);
  const std::int64_t bytes = bytes_of(whole() ? elements_ : padded(), types_.gathered).value();
  Tensor ready;
  if (whole() && casts()) {
    const StreamScope stream(eager, kCastStream);
    eager.fill_storage(flat_, bytes, TensorRole::kParameter);
    if (offloads()) {
      const Tensor copied = eager.empty(shard_.shape(), types_.stored, TensorRole::kCommunication);
      eager.run(CopyShape{.kind = CopyKind::kHostToDevice, .bytes = torch::bytes_of(copied)});
    }
    torch::launch_copy(eager, shard_, flat_, torch::CopyOrder::kSame);
    eager.wait_stream(kGatherStream, kCastStream);
  } else if ((casts() || offloads()) && (offloads() || !gathered_)) {
    const StreamScope stream(eager, kCastStream);
    ready = bring_shard();
    if (!casts() && sharding_.plan.use_orig_params) {
      brought_ = ready;
    }
    eager.wait_stream(kGatherStream, kCastStream);
  }
  const StreamScope stream(eager, kGatherStream);
  if (!whole() && !gathered_) {
    eager.fill_storage(flat_, bytes, TensorRole::kParameter);
    eager.run(CollectiveShape{
        .kind = CollectiveKind::kAllGather, .bytes = bytes, .group = {.size = sharding_.ranks}});
  }
  was_gathered_ = eager.record_mark(kGatherStream);
  gathered_ = true;
}

void FlatUnit::wait() {
  if (was_gathered_) {
    sharding_.eager.wait_mark(sharding_.eager.stream(), *was_gathered_);
    was_gathered_.reset();
  }
}

void FlatUnit::release() {
  if (gathered_) {
    sharding_.eager.set_site("fsdp.reshard", module_);
    if (!whole() || casts()) {
      sharding_.eager.drain_storage(flat_);
    }
    show_shards();
  }
  brought_.reset();
  gathered_ = false;
}

void FlatUnit::release_after_forward(bool root) {
  if (whole() || (sharding_.plan.reshard_after_forward && !root)) {
    release();
  } else if (sharding_.plan.reshard_after_forward) {
    brought_.reset();
  }
}

void FlatUnit::restore_views() {
  for (const Member& member : members_) {
    if (member.view.defined()) {
      *member.slot = member.view;
    }
  }
}

void FlatUnit::make_views() {
  Eager& eager = sharding_.eager;
  torch::Record record(eager, {&flat_});
  std::vector<Tensor*> views;
  std::vector<Shape> shapes;
  std::vector<std::int64_t> paddings;
  for (const Member& member : members_) {
    *member.slot = eager.alias(flat_, member.shape, true);
    views.push_back(member.slot);
    shapes.push_back(member.shape);
    paddings.push_back(member.padding);
  }
  paddings.push_back(last_padding_);
  if (!record.active()) {
    keep_views();
    return;
  }
  record.finish(views,
                [shapes, paddings, whole = flat_.shape()](Eager& e, Gradients& grads,
                                                          Node& node) -> Gradients {
                  e.wait_stream(kGatherStream, e.stream());
                  const StreamScope stream(e, kGatherStream);  // The views' stream.
                  std::vector<Tensor> zeros;  // For padding and parameters without a gradient.
                  const auto fill = [&](const Shape& shape) {
                    zeros.push_back(torch::filled(e, shape, node.input_dtypes[0]));
                  };
                  for (std::size_t i = 0; i < paddings.size(); ++i) {
                    if (paddings[i] > 0) {
                      fill({paddings[i]});
                    }
                    if (i < grads.size() && !grads[i].defined()) {
                      fill(shapes[i]);
                    }
                  }
                  Tensor joined =
                      torch::computed(e, whole, node.input_dtypes[0], TensorRole::kGradient);
                  e.wait_stream(0, kGatherStream);
                  grads.clear();
                  return {joined};
                });
  // A tied weight's gradients are summed on the stream on which the view was made.
  // Source: torch/csrc/autograd/input_buffer.cpp, InputBuffer::add.
  (*views.front())->grad_fn->stream = kGatherStream;
  keep_views();
}

void FlatUnit::keep_views() {
  for (Member& member : members_) {
    member.view = *member.slot;
  }
}

void FlatUnit::prepare_backward() {
  if (!whole() || !types_.trained) {
    return;
  }
  const Tensor earlier = shard_->grad != nullptr ? torch::gradient_of(sharding_.eager, shard_)
                                                 : std::exchange(reduced_, Tensor{});
  if (earlier.defined()) {
    set_grad(flat_, earlier);
  }
}

void FlatUnit::set_grad(const Tensor& parameter, const Tensor& gradient) {
  sharding_.eager.drop_grad(parameter);
  parameter->grad = gradient.impl();
  ++parameter->grad->uses;
}

void FlatUnit::reduce(const std::function<void()>& released) {
  Eager& eager = sharding_.eager;
  const Tensor gradient = torch::gradient_of(eager, flat_);  // Lives until the reduction has ended.
  if (!whole()) {
    eager.drop_grad(flat_);
  }
  release();
  released();
  eager.set_site("fsdp.reduce_scatter", module_);
  eager.wait_stream(kReduceStream, eager.stream());
  const StreamScope stream(eager, kReduceStream);
  if (whole()) {
    reduce_whole();
  } else {
    reduce_part(gradient);
  }
  was_reduced_ = eager.record_mark(kReduceStream);
}

/// Makes the gradients that the optimizer sees views of the flat gradient.
void FlatUnit::view_gradient(const Tensor& gradient) {
  for (const Tensor& piece : pieces_) {
    if (piece.defined()) {
      set_grad(piece, sharding_.eager.alias(gradient, piece.shape(), false));
    }
  }
}

/// All-reduces the gradient in place in the type of reductions, then casts it to the shard's type.
void FlatUnit::reduce_whole() {
  Eager& eager = sharding_.eager;
  const auto cast = [&](DType dtype) {
    const Tensor gradient = torch::gradient_of(eager, flat_);
    if (gradient.dtype() != dtype) {
      set_grad(flat_, torch::computed(eager, gradient.shape(), dtype, TensorRole::kGradient));
    }
  };
  cast(types_.reduced);
  eager.run(CollectiveShape{.kind = CollectiveKind::kAllReduce,
                            .bytes = bytes_of(elements_, types_.reduced).value(),
                            .group = {.size = sharding_.replicas}});
  cast(types_.stored);
  if (sharding_.plan.use_orig_params) {
    view_gradient(torch::gradient_of(eager, flat_));
  }
  if (offloads()) {
    eager.run(CopyShape{.kind = CopyKind::kDeviceToHost,
                        .bytes = bytes_of(elements_, types_.stored).value()});
  }
}

void FlatUnit::reduce_part(const Tensor& gradient) {
  Eager& eager = sharding_.eager;
  const DType dtype = types_.reduced;
  Tensor input = dtype == gradient.dtype()
                     ? gradient
                     : torch::computed(eager, gradient.shape(), dtype, TensorRole::kCommunication);
  if (padded() > elements_) {
    input = torch::computed(eager, {padded()}, dtype, TensorRole::kCommunication);
  }
  Tensor part = eager.empty(shard_.shape(), dtype, TensorRole::kGradient);
  eager.run(CollectiveShape{.kind = CollectiveKind::kReduceScatter,
                            .bytes = bytes_of(padded(), dtype).value(),
                            .group = {.size = sharding_.ranks}});
  if (sharding_.replicas > 1) {  // In place, among the replicas of this part.
    eager.run(CollectiveShape{.kind = CollectiveKind::kAllReduce,
                              .bytes = bytes_of(part.elements(), dtype).value(),
                              .group = {.size = sharding_.replicas}});
  }
  if (dtype != types_.stored) {
    part = torch::computed(eager, shard_.shape(), types_.stored, TensorRole::kGradient);
  }
  if (shard_->grad != nullptr) {  // Added to an earlier micro-batch's.
    const Tensor earlier = torch::gradient_of(eager, shard_);
    torch::launch(eager, {&earlier, &part, &earlier});
  } else if (!reduced_.defined()) {
    reduced_ = std::move(part);
  } else {
    torch::launch(eager, {&reduced_, &part, &reduced_});
  }
  if (offloads()) {
    eager.run(CopyShape{.kind = CopyKind::kDeviceToHost, .bytes = torch::bytes_of(reduced_)});
  }
}

void FlatUnit::show_gradients() {
  Eager& eager = sharding_.eager;
  if (was_reduced_) {
    eager.wait_mark(eager.stream(), *was_reduced_);
    was_reduced_.reset();
  }
  if (whole() && flat_->grad != nullptr) {
    reduced_ = torch::gradient_of(eager, flat_);
    eager.drop_grad(flat_);
  }
  if (offloads()) {
    reduced_.reset();  // The optimizer reads the host's copy.
  }
  if (reduced_.defined()) {
    view_gradient(reduced_);
  }
  if (!sharding_.plan.use_orig_params) {
    reduced_.reset();  // Only the parameter refers to it.
  }
}

void FlatUnit::forget_gradients() {
  const bool dropped = std::none_of(pieces_.begin(), pieces_.end(), [](const Tensor& piece) {
    return piece.defined() && piece->grad != nullptr;
  });
  if (dropped) {
    reduced_.reset();
  }
}

}  // namespace headroom::ir::fsdp
