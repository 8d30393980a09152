#include "runtimes/torch/eager.h"

#include <algorithm>
#include <string>
#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/torch/work_recorder.h"

namespace headroom::ir::torch {
namespace {

/// Bytes of the cuBLAS workspace that PyTorch allocates per handle and stream.
/// Source: pytorch/pytorch aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize:
/// 4096 KiB * 8 on compute capability 9.0, else ":4096:2:16:8", that is 2 * 4096 KiB + 8 * 16 KiB
/// (observed on 8.0, 8.9 and 10.0 with PyTorch 2.11). ROCm builds: 32 MiB, 128 MiB for gfx94x and
/// gfx95x (the same function).
std::int64_t cublas_workspace_bytes(const DeviceTraits& device) {
  if (device.rocm) {
    const bool mi300 = device.compute_major == 9 && device.compute_minor >= 4;
    return (mi300 ? 128 : 32) * kMiB;
  }
  return device.compute_major == 9 ? 4096 * 8 * kKiB : (2 * 4096 + 8 * 16) * kKiB;
}

/// The number of events of the thread's last program: plans that are asked about one after the
/// other are alike, and growing by doubling would copy all events several times.
std::size_t& expected_events() {
  thread_local std::size_t count = std::size_t{1} << 14;
  return count;
}

}  // namespace

Eager::Eager(DeviceTraits device)
    : device_(device),
      cublas_bytes_(cublas_workspace_bytes(device)),
      recorder_(std::make_unique<WorkRecorder>()) {
  recorder_->name_stream(0, "compute");
  program_.events.reserve(expected_events());
  set_site("", -1);
}

Eager::~Eager() = default;

Tensor Eager::empty(const Shape& shape, DType dtype, TensorRole role) {
  TensorImpl* impl = nullptr;
  if (free_impls_.empty()) {
    impl = &impls_.emplace_back();
  } else {
    impl = free_impls_.back();
    free_impls_.pop_back();
    *impl = TensorImpl{};
  }
  const std::int64_t bytes = bytes_of(shape.elements(), dtype).value();
  impl->shape = shape;
  impl->dtype = dtype;
  if (bytes == 0) {
    return {*this, impl};  // The allocator is not called.
  }
  Storage* storage = nullptr;
  if (free_storages_.empty()) {
    storage = &storages_.emplace_back();
  } else {
    storage = free_storages_.back();
    free_storages_.pop_back();
  }
  *storage = Storage{.uses = 1};
  impl->storage = storage;
  if (!meta_) {
    fill(*storage, bytes, role);
  }
  return {*this, impl};
}

void Tensor::drop() {
  TensorImpl* const impl = std::exchange(impl_, nullptr);
  if (--impl->uses == 0) {
    eager_->destroy(impl);
  }
}

Tensor Eager::empty(const Shape& shape, DType dtype) {
  return empty(shape, dtype, role_);
}

Tensor Eager::alias(const Tensor& base, const Shape& shape, bool tracked) {
  TensorImpl* impl = nullptr;
  if (free_impls_.empty()) {
    impl = &impls_.emplace_back();
  } else {
    impl = free_impls_.back();
    free_impls_.pop_back();
    *impl = TensorImpl{};
  }
  impl->shape = shape;
  impl->dtype = base.dtype();
  impl->storage = base->storage;
  if (impl->storage != nullptr) {
    ++impl->storage->uses;
  }
  impl->tracked_view = tracked || base->tracked_view;
  return {*this, impl};
}

Tensor Eager::parameter(const Shape& shape, DType dtype, bool trainable) {
  Tensor tensor = empty(shape, dtype, TensorRole::kParameter);
  tensor->requires_grad = trainable;
  tensor->leaf_parameter = true;
  return tensor;
}

void Eager::move_storage(const Tensor& tensor, const Tensor& target) {
  Storage* const before = tensor->storage;
  tensor->storage = target.defined() ? target->storage : nullptr;
  if (tensor->storage != nullptr) {
    ++tensor->storage->uses;
  }
  if (before != nullptr) {
    unuse(before);
  }
}

void Eager::fill(Storage& storage, std::int64_t bytes, TensorRole role) {
  storage.bytes = bytes;
  storage.stream = stream_;
  storage.recorded = false;
  storage.block = allocate(bytes, role, stream_);
  storage.event = program_.events.size() - 1;  // Blocks that were waiting are freed before it.
}

void Eager::fill_storage(const Tensor& tensor, std::int64_t bytes, TensorRole role) {
  HEADROOM_ASSERT(tensor->storage != nullptr && tensor->storage->bytes == 0);
  fill(*tensor->storage, bytes, role);
}

void Eager::drain_storage(const Tensor& tensor) {
  HEADROOM_ASSERT(tensor->storage != nullptr);
  if (tensor->storage->bytes > 0) {
    let_go(*tensor->storage);
    tensor->storage->bytes = 0;
  }
}

void Eager::record_stream(const Tensor& tensor) {
  if (tensor->storage != nullptr) {
    tensor->storage->recorded = true;
  }
}

void Eager::release_waiting() {
  for (const BlockId block : waiting_) {
    release(block);
  }
  waiting_.clear();
}

void Eager::drop_grad(const Tensor& tensor) {
  TensorImpl* const grad = std::exchange(tensor->grad, nullptr);
  if (grad != nullptr && --grad->uses == 0) {
    destroy(grad);
  }
}

BlockId Eager::allocate(std::int64_t bytes, TensorRole role, StreamId stream) {
  if (!waiting_.empty()) {
    release_waiting();
  }
  const BlockId block = program_.blocks++;
  program_.events.push_back(Event{.kind = EventKind::kAllocate,
                                  .role = role,
                                  .stream = stream,
                                  .block = block,
                                  .bytes = bytes,
                                  .site = current_site()});
  return block;
}

void Eager::release(BlockId block) {
  program_.events.push_back(
      Event{.kind = EventKind::kFree, .block = block, .bytes = 0, .site = current_site()});
}

void Eager::touch_cublas() {
  if (meta_) {
    return;  // Nothing runs.
  }
  bool& present = in_backward() ? cublas_backward_ : cublas_forward_;
  if (!present) {
    present = true;
    static_cast<void>(allocate(cublas_bytes_, TensorRole::kWorkspace));
  }
}

void Eager::touch_cublaslt() {
  // CUBLASLT_WORKSPACE_SIZE, 1024 KiB unless set. Source: CublasHandlePool.cpp,
  // parseCUDABlasLtWorkspaceSize.
  touch_cublas();
  bool& present = in_backward() ? cublaslt_backward_ : cublaslt_forward_;
  if (!present) {
    present = true;
    static_cast<void>(allocate(1024 * kKiB, TensorRole::kWorkspace));
  }
}

template <class Shape>
void Eager::run_shape(const Shape& shape) {
  if (meta_ || program_.phases.empty()) {
    return;
  }
  program_.phases.back().work.add(shape);
  recorder_->run(shape, {.stream = stream_,
                         .event = static_cast<std::uint32_t>(program_.events.size()),
                         .site = current_site(),
                         .loop = loop_});
  loop_ = std::min<std::uint16_t>(loop_, 1);
}

void Eager::run(const GemmShape& shape) {
  // Below compute capability 8.0, no tensor core takes bf16. An unknown device has capability 0.
  // Source: NVIDIA, CUDA C++ Programming Guide, "Warp Matrix Functions", __nv_bfloat16.
  const int major = device().rocm ? 0 : device().compute_major;
  GemmShape computed = shape;
  if (shape.dtype == DType::kBf16 && major > 0 && major < 8) {
    computed.dtype = DType::kFp32;
  }
  run_shape(computed);
}
void Eager::run(const AttentionShape& shape) {
  run_shape(shape);
}
void Eager::run(const TrafficShape& shape) {
  run_shape(shape);
}
void Eager::run(const CollectiveShape& shape) {
  run_shape(shape);
}
void Eager::run(const CopyShape& shape) {
  run_shape(shape);
}

std::uint32_t Eager::record_mark(StreamId stream) {
  return recorder_->record({.stream = stream,
                            .event = static_cast<std::uint32_t>(program_.events.size()),
                            .site = current_site()});
}

void Eager::wait_mark(StreamId stream, std::uint32_t mark) {
  recorder_->add(WorkItem::Kind::kWait, mark,
                 {.stream = stream,
                  .event = static_cast<std::uint32_t>(program_.events.size()),
                  .site = current_site()});
}

void Eager::host_wait(std::uint32_t mark) {
  recorder_->add(WorkItem::Kind::kHost, mark,
                 {.stream = stream_,
                  .event = static_cast<std::uint32_t>(program_.events.size()),
                  .site = current_site()});
}

void Eager::wait_stream(StreamId waiting, StreamId other) {
  if (waiting != other) {
    wait_mark(waiting, record_mark(other));
  }
}

void Eager::begin_phase(const PhaseName& name) {
  program_.phases.push_back(Phase{.name = name,
                                  .begin = program_.events.size(),
                                  .end = program_.events.size(),
                                  .work = {},
                                  .first_item = recorder_->item_count(),
                                  .end_item = recorder_->item_count()});
}

void Eager::end_phase() {
  program_.phases.back().end = program_.events.size();
  program_.phases.back().end_item = recorder_->item_count();
}

RankProgram Eager::finish() {
  for (const std::string& name : operation_names_) {
    program_.operations.push_back(name);
  }
  program_.work = recorder_->take();
  expected_events() = program_.events.size();
  return std::move(program_);
}

void Eager::set_site(std::string_view operation, std::int32_t layer) {
  auto found = operation_index_.find(operation);
  if (found == operation_index_.end()) {
    const std::string& name = operation_names_.emplace_back(operation);
    found = operation_index_.emplace(name, static_cast<std::uint16_t>(operation_names_.size() - 1))
                .first;
  }
  operation_ = found->second;
  layer_ = layer;
  site_fresh_ = false;
}

void Eager::set_site(std::uint16_t operation, std::int32_t layer) {
  operation_ = operation;
  layer_ = layer;
  site_fresh_ = false;
}

void Eager::set_layer(std::int32_t layer) {
  layer_ = layer;
  site_fresh_ = false;
}

std::uint32_t Eager::current_site() {
  const bool backward = in_backward();
  if (!site_fresh_ || site_backward_ != backward) {
    site_ = static_cast<std::uint32_t>(program_.sites.size());
    program_.sites.push_back({.layer = layer_, .operation = operation_, .backward = backward});
    site_fresh_ = true;
    site_backward_ = backward;
  }
  return site_;
}

void Eager::relabel(const Tensor& tensor, TensorRole role) {
  if (tensor->storage != nullptr && tensor->storage->bytes > 0) {
    program_.events[tensor->storage->event].role = role;
  }
}

void Eager::mark_saved(const Tensor& tensor) {
  if (tensor->storage == nullptr || tensor->storage->bytes == 0) {
    return;  // A partitioned parameter, whose shard is stored elsewhere.
  }
  TensorRole& role = program_.events[tensor->storage->event].role;
  if (role == TensorRole::kTemporary) {
    role = TensorRole::kActivation;
  }
}

SavedTensor Eager::save(const Tensor& tensor) {
  if (saved_tensor_hooks_ != nullptr) {
    Tensor kept;
    const std::size_t slot = saved_tensor_hooks_->pack(*this, tensor, kept);
    return kept.defined() ? SavedTensor(std::move(kept)) : SavedTensor(*saved_tensor_hooks_, slot);
  }
  mark_saved(tensor);
  return SavedTensor(tensor);
}

void Eager::enter_autocast(DType dtype) {
  autocast_stack_.push_back(autocast_);
  autocast_ = dtype;
}

void Eager::leave_autocast() {
  autocast_ = autocast_stack_.back();
  autocast_stack_.pop_back();
  if (autocast_stack_.empty()) {
    autocast_cache_.clear();
  }
}

void Eager::destroy(TensorImpl* impl) {
  Node* const grad_fn = std::exchange(impl->grad_fn, nullptr);
  Node* const accumulator =
      impl->leaf_parameter ? std::exchange(impl->accumulator, nullptr) : nullptr;
  TensorImpl* const grad = std::exchange(impl->grad, nullptr);
  Storage* const storage = std::exchange(impl->storage, nullptr);
  free_impls_.push_back(impl);
  // TensorImpl::release_resources: autograd's references are dropped before the storage.
  drop_use(grad_fn);
  drop_use(accumulator);
  if (grad != nullptr && --grad->uses == 0) {
    destroy(grad);
  }
  if (storage != nullptr) {
    unuse(storage);
  }
}

void Eager::unuse(Storage* storage) {
  if (--storage->uses == 0) {
    if (storage->bytes > 0) {
      let_go(*storage);
    }
    free_storages_.push_back(storage);
  }
}

void Eager::let_go(Storage& storage) {
  if (!storage.recorded) {
    release(storage.block);
    return;
  }
  waiting_.push_back(storage.block);
  program_.events.push_back(
      Event{.kind = EventKind::kLetGo, .block = storage.block, .site = current_site()});
}

}  // namespace headroom::ir::torch
