#include "model_ir/runtime/fsdp/flat_unit.h"

#include <algorithm>
#include <utility>

#include "model_ir/runtime/torch/ddp.h"
#include "model_ir/runtime/torch/foreach.h"
#include "model_ir/runtime/torch/launch.h"
#include "model_ir/runtime/torch/record.h"

namespace headroom::ir::fsdp {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Shape;
using torch::Tensor;

constexpr std::int64_t kAlignedBytes = 16;  ///< _get_aligned_numel

class StreamScope {
 public:
  StreamScope(Eager& eager, StreamId stream)
      : eager_(eager), before_(eager.exchange_stream(stream)) {}
  ~StreamScope() { eager_.exchange_stream(before_); }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Eager& eager_;
  StreamId before_;
};

}  // namespace

void FlatUnit::add(Tensor* slot, const Shape& shape) {
  const std::int64_t aligned =
      kAlignedBytes * 8 / static_cast<std::int64_t>(bits_of(sharding_.plan.param_dtype));
  const std::int64_t offset = align_up(elements_, aligned);
  members_.push_back({.slot = slot, .shape = shape, .offset = offset});
  elements_ = offset + shape.elements();
}

void FlatUnit::flatten(const std::vector<std::size_t>& order, const std::vector<Tensor>& buffers) {
  Eager& eager = sharding_.eager;
  eager.set_site("fsdp.flatten", module_);
  elements_ = align_up(elements_, sharding_.ranks);
  std::vector<Tensor> moved(members_.size());
  for (const std::size_t index : order) {
    moved[index] = eager.empty(members_[index].shape, sharding_.stored, TensorRole::kTemporary);
  }
  for (const Tensor& buffer : buffers) {
    eager.fill_storage(buffer, bytes_of(buffer.elements(), buffer.dtype()).value(),
                       TensorRole::kBuffer);
  }
  Tensor joined = eager.empty({elements_}, sharding_.stored, TensorRole::kTemporary);
  shard_ = eager.empty({elements_ / sharding_.ranks}, sharding_.stored, TensorRole::kParameter);
  joined.reset();
  for (Tensor& each : moved) {
    each.reset();
  }
  eager.set_meta(true);
  flat_ = eager.parameter({elements_}, sharding_.plan.param_dtype, true);
  eager.set_meta(false);
  cut_pieces();
}

/// Rank 0's part of the flat tensor covers some parameters, the last of them not wholly.
void FlatUnit::cut_pieces() {
  if (!sharding_.plan.use_orig_params) {  // The optimizer sees the flat part itself.
    shard_->requires_grad = true;
    shard_->leaf_parameter = true;
    pieces_.assign(members_.size(), Tensor{});
    pieces_.front() = shard_;
    return;
  }
  const std::int64_t end = shard_.elements();
  for (const Member& member : members_) {
    const std::int64_t whole = member.shape.elements();
    const std::int64_t own = std::clamp<std::int64_t>(end - member.offset, 0, whole);
    Tensor piece;
    if (own > 0) {
      piece = sharding_.eager.alias(shard_, own == whole ? member.shape : Shape{own}, false);
      piece->requires_grad = true;
      piece->leaf_parameter = true;
    }
    pieces_.push_back(std::move(piece));
  }
}

void FlatUnit::init_buffers() {
  Eager& eager = sharding_.eager;
  eager.set_site("fsdp.init", module_);
  if (casts()) {
    const Tensor cast = eager.empty(shard_.shape(), flat_.dtype(), TensorRole::kCommunication);
  }
  { const Tensor whole = eager.empty({elements_}, flat_.dtype(), TensorRole::kParameter); }
  if (casts()) {
    const Tensor wide = eager.empty({elements_}, sharding_.stored, TensorRole::kParameter);
  }
}

void FlatUnit::gather() {
  Eager& eager = sharding_.eager;
  eager.set_site("fsdp.all_gather", module_);
  Tensor cast;
  if (casts()) {
    const StreamScope stream(eager, kCastStream);
    cast = torch::computed(eager, shard_.shape(), flat_.dtype(), TensorRole::kCommunication);
    eager.wait_stream(kGatherStream, kCastStream);
  }
  const StreamScope stream(eager, kGatherStream);
  const std::int64_t bytes = bytes_of(elements_, flat_.dtype()).value();
  eager.fill_storage(flat_, bytes, TensorRole::kParameter);
  eager.run(CollectiveShape{
      .kind = CollectiveKind::kAllGather, .bytes = bytes, .group = {.size = sharding_.ranks}});
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
    sharding_.eager.drain_storage(flat_);
  }
  gathered_ = false;
}

bool FlatUnit::has_recorded_views() const {
  return (*members_.front().slot)->grad_fn != nullptr;
}

void FlatUnit::make_views() {
  Eager& eager = sharding_.eager;
  torch::Record record(eager, {&flat_});
  std::vector<Tensor*> views;
  std::vector<Shape> shapes;
  for (const Member& member : members_) {
    *member.slot = eager.alias(flat_, member.shape, true);
    views.push_back(member.slot);
    shapes.push_back(member.shape);
  }
  if (!record.active()) {
    return;
  }
  record.finish(
      views, [shapes, whole = flat_.shape()](Eager& e, Gradients& grads, Node& node) -> Gradients {
        e.wait_stream(kGatherStream, e.stream());
        const StreamScope stream(e, kGatherStream);  // Where the views were made.
        std::vector<Tensor> zeros;                   // For parameters without a gradient.
        for (std::size_t i = 0; i < grads.size(); ++i) {
          if (!grads[i].defined()) {
            zeros.push_back(torch::filled(e, shapes[i], node.input_dtypes[0]));
          }
        }
        Tensor joined = torch::computed(e, whole, node.input_dtypes[0], TensorRole::kGradient);
        e.wait_stream(0, kGatherStream);
        grads.clear();
        return {joined};
      });
}

void FlatUnit::reduce(const std::function<void()>& released) {
  Eager& eager = sharding_.eager;
  const Tensor gradient = torch::gradient_of(eager, flat_);  // A name until the reduction is over.
  eager.drop_grad(flat_);
  release();
  released();
  eager.set_site("fsdp.reduce_scatter", module_);
  eager.wait_stream(kReduceStream, eager.stream());
  const StreamScope stream(eager, kReduceStream);
  const DType dtype = sharding_.plan.reduce_dtype;
  const Tensor input = dtype == gradient.dtype() ? gradient
                                                 : torch::computed(eager, gradient.shape(), dtype,
                                                                   TensorRole::kCommunication);
  Tensor part = eager.empty(shard_.shape(), dtype, TensorRole::kGradient);
  eager.run(CollectiveShape{.kind = CollectiveKind::kReduceScatter,
                            .bytes = bytes_of(elements_, dtype).value(),
                            .group = {.size = sharding_.ranks}});
  if (sharding_.plan.replicas > 1) {  // In place, among the copies of this part.
    eager.run(CollectiveShape{.kind = CollectiveKind::kAllReduce,
                              .bytes = bytes_of(part.elements(), dtype).value(),
                              .group = {.size = sharding_.plan.replicas}});
  }
  if (dtype != sharding_.stored) {
    part = torch::computed(eager, shard_.shape(), sharding_.stored, TensorRole::kGradient);
  }
  if (shard_->grad != nullptr) {  // Added to that of an earlier micro-batch.
    const Tensor earlier = torch::gradient_of(eager, shard_);
    torch::launch(eager, {&earlier, &part, &earlier});
  } else if (!reduced_.defined()) {
    reduced_ = std::move(part);
  } else {
    torch::launch(eager, {&reduced_, &part, &reduced_});
  }
  was_reduced_ = eager.record_mark(kReduceStream);
}

void FlatUnit::show_gradients() {
  if (was_reduced_) {
    sharding_.eager.wait_mark(sharding_.eager.stream(), *was_reduced_);
    was_reduced_.reset();
  }
  for (const Tensor& piece : pieces_) {
    if (piece.defined() && piece->grad == nullptr && reduced_.defined()) {
      const Tensor view = sharding_.eager.alias(reduced_, piece.shape(), false);
      piece->grad = view.impl();
      ++piece->grad->uses;
    }
  }
  if (!sharding_.plan.use_orig_params) {
    reduced_.reset();  // The parameter alone holds it.
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
