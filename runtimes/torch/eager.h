#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model_ir/base/device_traits.h"
#include "model_ir/plan/rank_program.h"
#include "runtimes/torch/node.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

class WorkRecorder;

/// An eager PyTorch process from the allocator's point of view: operators allocate their outputs,
/// autograd keeps what backward needs, and reference counts decide when memory is freed. Every
/// allocation and free is written to a `RankProgram`; nothing is computed.
///
/// The operators in `functions.h` follow ATen's and autograd's order of events:
///   save inputs -> allocate outputs (and workspaces) -> save outputs -> drop temporaries.
/// Source: pytorch/pytorch 2.11, torch/csrc/autograd (engine.cpp, input_buffer.cpp,
/// functions/accumulate_grad.h, saved_variable.cpp), tools/autograd/derivatives.yaml.
class Eager {
 public:
  explicit Eager(DeviceTraits device);
  ~Eager();
  Eager(const Eager&) = delete;
  Eager& operator=(const Eager&) = delete;

  /// A new tensor with storage of its own.
  [[nodiscard]] Tensor empty(const Shape& shape, DType dtype, TensorRole role);
  [[nodiscard]] Tensor empty(const Shape& shape, DType dtype);  ///< With `role()`.
  /// A tensor on the same storage. `tracked`: autograd keeps the base (all view operators).
  [[nodiscard]] Tensor alias(const Tensor& base, const Shape& shape, bool tracked);
  /// A parameter: a leaf that may require a gradient.
  [[nodiscard]] Tensor parameter(const Shape& shape, DType dtype, bool trainable);

  /// Moves `tensor` to the storage of `target`, or to none if `target` is undefined. Its previous
  /// storage is freed unless others use it.
  void move_storage(const Tensor& tensor, const Tensor& target);
  /// `storage.resize_`: allocates or frees the memory of a storage; the tensors that share it stay.
  void fill_storage(const Tensor& tensor, std::int64_t bytes, TensorRole role);
  void drain_storage(const Tensor& tensor);
  /// While set, new tensors have storages without memory: torch.device("meta").
  void set_meta(bool meta) { meta_ = meta; }
  /// Makes `stream` the current stream, on which new tensors are allocated. Returns the previous
  /// one.
  StreamId exchange_stream(StreamId stream) { return std::exchange(stream_, stream); }
  /// Whether operators run PyTorch's own kernels although those of the framework are fused
  /// (`TrafficKind::kOneByOne`).
  [[nodiscard]] bool unfused() const { return unfused_; }
  bool exchange_unfused(bool unfused) { return std::exchange(unfused_, unfused); }
  [[nodiscard]] StreamId stream() const { return stream_; }
  /// `tensor.record_stream`: when the last reference is dropped, the tensor no longer counts as
  /// allocated. Its memory is freed only at the next allocation after that, when the allocator
  /// checks whether the other stream is done with it. Source: c10/cuda/CUDACachingAllocator.cpp,
  /// insert_events and process_events.
  void record_stream(const Tensor& tensor);
  /// `tensor.grad = None`
  void drop_grad(const Tensor& tensor);

  /// Raw blocks, for workspaces and buckets that are not tensors.
  [[nodiscard]] BlockId allocate(std::int64_t bytes, TensorRole role, StreamId stream = 0);
  void release(BlockId block);

  /// The workspace of a GEMM, which each (cuBLAS handle, stream) allocates at its first call and
  /// keeps. Forward and backward run on different threads and thus on different handles.
  /// Source: aten/src/ATen/cuda/CublasHandlePool.cpp.
  void touch_cublas();
  /// CUBLAS_WORKSPACE_CONFIG: bytes of that workspace instead of PyTorch's default.
  void set_cublas_workspace(std::int64_t bytes) { cublas_bytes_ = bytes; }
  /// The same for addmm with a bias, which uses cuBLASLt and allocates an additional workspace.
  void touch_cublaslt();
  // --- device work ----------------------------------------------------------------------------
  /// Adds work to the current stream and to the current phase. On the meta device and before the
  /// first phase, nothing runs.
  void run(const GemmShape& shape);
  void run(const AttentionShape& shape);
  void run(const TrafficShape& shape);
  void run(const CollectiveShape& shape);
  void run(const CopyShape& shape);
  /// Records an event on `stream`: a mark after all work given to it so far.
  std::uint32_t record_mark(StreamId stream);
  /// `stream` continues only after the mark.
  void wait_mark(StreamId stream, std::uint32_t mark);
  /// The host itself waits for the mark.
  void host_wait(std::uint32_t mark);
  /// `waiting.wait_stream(other)`
  void wait_stream(StreamId waiting, StreamId other);
  /// Records the work: names of streams, streams of communicators.
  [[nodiscard]] WorkRecorder& recorder() { return *recorder_; }

  void begin_phase(const PhaseName& name);
  void end_phase();
  [[nodiscard]] RankProgram finish();
  RankProgram& program() { return program_; }

  /// Names the following events: operator and layer, for people; and the role of new tensors.
  void set_site(std::string_view operation, std::int32_t layer);
  void set_site(std::uint16_t operation, std::int32_t layer);
  void set_layer(std::int32_t layer);
  [[nodiscard]] std::int32_t layer() const { return layer_; }
  /// The following items are launched by a loop inside one operator, which makes `tensors` tensors
  /// before the next item (`WorkItem::loop`).
  void begin_loop(std::size_t tensors) { loop_ = static_cast<std::uint16_t>(tensors + 1); }
  void end_loop() { loop_ = 0; }
  [[nodiscard]] TensorRole role() const { return role_; }
  void set_role(TensorRole role) { role_ = role; }
  /// Changes the role of a live block.
  void relabel(const Tensor& tensor, TensorRole role);
  /// Backward keeps `tensor`: a temporary becomes an activation.
  void mark_saved(const Tensor& tensor);
  /// Saves `tensor` for backward, through the active hooks if there are any.
  [[nodiscard]] SavedTensor save(const Tensor& tensor);
  [[nodiscard]] std::uint16_t operation() const { return operation_; }

  [[nodiscard]] const DeviceTraits& device() const { return device_; }

  // --- autograd state -------------------------------------------------------------------------
  [[nodiscard]] bool grad_enabled() const { return grad_enabled_; }
  void set_grad_enabled(bool enabled) { grad_enabled_ = enabled; }
  [[nodiscard]] bool in_backward() const { return backward_depth_ > 0; }
  std::uint64_t next_sequence() { return sequence_++; }

  /// The hooks of the innermost scope, which take the tensors that operators save; nullptr: none.
  [[nodiscard]] SavedTensorHooks* saved_tensor_hooks() const { return saved_tensor_hooks_; }
  SavedTensorHooks* exchange_saved_tensor_hooks(SavedTensorHooks* hooks) {
    return std::exchange(saved_tensor_hooks_, hooks);
  }

  /// While set, tensors are DTensors, and so are the gradients of operators that are recorded.
  [[nodiscard]] bool distributed() const { return distributed_; }
  void set_distributed(bool distributed) { distributed_ = distributed; }

  // --- autocast -------------------------------------------------------------------------------
  [[nodiscard]] std::optional<DType> autocast() const { return autocast_; }
  void enter_autocast(DType dtype);
  void leave_autocast();
  /// Sets it without opening a region and returns the previous value. Autocast is off while an
  /// operator that autocast has dispatched runs.
  std::optional<DType> exchange_autocast(std::optional<DType> dtype) {
    return std::exchange(autocast_, dtype);
  }
  /// The low-precision copies of leaf weights, made once per autocast region.
  /// Source: aten/src/ATen/autocast_mode.cpp, cached_cast.
  std::unordered_map<TensorImpl*, Tensor>& autocast_cache() { return autocast_cache_; }

  /// The function with which a wrapper has replaced torch.nn.functional.linear; empty if none has.
  /// `bias` may be undefined.
  std::function<Tensor(const Tensor& input, const Tensor& weight, const Tensor& bias)>
      linear_override;

  /// Runs backward from `root`, seeded with `seed`. Order, accumulation and releases are those of
  /// the engine's device thread.
  void backward(const Tensor& root, const Tensor& seed);
  /// The same from several roots, each of which has a gradient or is a leaf that requires one.
  void backward(std::span<const Tensor> roots, std::vector<Tensor> seeds);

 private:
  void run_backward(Node* first, std::vector<Tensor> seeds);
  friend class Tensor;
  void destroy(TensorImpl* impl);
  void unuse(Storage* storage);
  void let_go(Storage& storage);
  void fill(Storage& storage, std::int64_t bytes, TensorRole role);
  std::uint32_t current_site();
  void release_waiting();
  template <class Shape>
  void run_shape(const Shape& shape);

  DeviceTraits device_;
  std::int64_t cublas_bytes_;
  RankProgram program_;
  std::unique_ptr<WorkRecorder> recorder_;
  std::deque<TensorImpl> impls_;
  std::vector<TensorImpl*> free_impls_;
  std::deque<Storage> storages_;
  std::vector<Storage*> free_storages_;
  std::vector<BlockId> waiting_;  ///< Released, but not yet known to be free.
  std::unordered_map<std::string_view, std::uint16_t> operation_index_;
  std::deque<std::string> operation_names_;
  std::uint16_t operation_ = 0;
  std::int32_t layer_ = -1;
  TensorRole role_ = TensorRole::kTemporary;
  std::uint32_t site_ = 0;
  bool site_fresh_ = false;     ///< Whether `site_` is of this operator and layer.
  bool site_backward_ = false;  ///< Whether `site_` is one of backward.
  std::uint16_t loop_ = 0;
  bool grad_enabled_ = true;
  bool meta_ = false;
  bool distributed_ = false;
  StreamId stream_ = 0;
  bool unfused_ = false;
  int backward_depth_ = 0;
  std::uint64_t sequence_ = 0;
  SavedTensorHooks* saved_tensor_hooks_ = nullptr;
  std::optional<DType> autocast_;
  std::vector<std::optional<DType>> autocast_stack_;  ///< The state that each open region replaced.
  bool cublas_forward_ = false;
  bool cublas_backward_ = false;
  bool cublaslt_forward_ = false;
  bool cublaslt_backward_ = false;
  std::unordered_map<TensorImpl*, Tensor> autocast_cache_;
};

/// Switches gradient recording for a scope, as torch.no_grad() and enable_grad() do.
class GradMode {
 public:
  GradMode(Eager& eager, bool enabled) : eager_(eager), before_(eager.grad_enabled()) {
    eager_.set_grad_enabled(enabled);
  }
  ~GradMode() { eager_.set_grad_enabled(before_); }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  Eager& eager_;
  bool before_;
};

/// Activates hooks for a scope; none if `hooks` is null.
class SavedTensorScope {
 public:
  SavedTensorScope(Eager& eager, SavedTensorHooks* hooks)
      : eager_(eager), before_(eager.exchange_saved_tensor_hooks(hooks)) {}
  ~SavedTensorScope() { eager_.exchange_saved_tensor_hooks(before_); }
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  Eager& eager_;
  SavedTensorHooks* before_;
};

}  // namespace headroom::ir::torch
