#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtimes/megatron/activation_offload.h"
#include "runtimes/megatron/weights.h"
#include "runtimes/torch/node.h"

namespace headroom::ir::megatron {

/// The form in which operators save tensors.
enum class SavedForm : std::uint8_t {
  kTensors,  ///< The tensors themselves; views of parts of a tensor stay on the device.
  kWhole,    ///< Parts of one tensor, which is offloaded whole: `offload_base_tensor`.
  kPieces,   ///< Pieces of torch.split along the rows, each of which is offloaded separately.
  /// Views in another order, or tensors marked not to be offloaded: they stay on the device.
  kStaying,
};

/// The tensors that one layer saves, on the device or on the host, each storage once.
/// Source: NVIDIA/TransformerEngine v2.11 transformer_engine/pytorch/cpu_offload.py,
///         OffloadableLayerState and TensorGroupProcessor.
class OffloadedLayer final : public torch::SavedTensorHooks {
 public:
  OffloadedLayer(const Context& context, PinnedMemory& pinned)
      : context_(context), pinned_(pinned) {}

  std::size_t pack(torch::Eager& eager, const torch::Tensor& tensor, torch::Tensor& kept) override;
  /// Returns a tensor that requires no gradient itself, so it may be cleared. For the others it
  /// returns a new tensor on the memory that the layer holds until its backward is over.
  [[nodiscard]] torch::Tensor unpack(torch::Eager& eager, std::size_t slot) override;
  void forget(std::size_t) override {}

  /// Sets how the next tensors are saved. `rows`: rows of each piece.
  void save_as(SavedForm form, std::vector<std::int64_t> rows);
  /// Copies the saved tensors to the host, each once it has been computed.
  void send();
  /// The device waits for the copies; then the originals are freed.
  void release();
  /// Allocates memory for all tensors at once and copies them back, overlapped with computation.
  void fetch();
  /// Frees everything on the device and on the host.
  void clear();

 private:
  struct Part {
    /// The tensors that hold the memory: first the saved ones, later the reloaded ones, one per
    /// piece.
    std::vector<torch::Tensor> tensors;
    std::vector<torch::Shape> pieces;
    DType dtype = DType::kBf16;
    /// The CUDA event after the kernel that made it, later the event after the copy back.
    std::uint32_t mark = 0;
    bool pinned = false;
  };
  struct Slot {
    std::size_t part = 0;
    torch::Shape shape;
    DType dtype = DType::kBf16;
    torch::Layout layout = torch::Layout::kContiguous;
    bool requires_grad = false;
  };
  [[nodiscard]] bool leaves(const torch::Tensor& tensor) const;
  [[nodiscard]] std::vector<torch::Shape> pieces_of(const torch::Tensor& tensor) const;
  void drop_device_memory();

  const Context& context_;
  PinnedMemory& pinned_;
  std::vector<Part> parts_;
  std::vector<Slot> slots_;
  std::uint32_t left_ = 0;  ///< The CUDA event after the last copy to the host.
  bool back_ = false;
  SavedForm form_ = SavedForm::kTensors;
  std::vector<std::int64_t> rows_;
};

/// Transformer Engine's offloading of whole layers, --cpu-offloading-num-layers N of L.
///
/// Model:   everything that a layer saves for backward, except parameters and partial views,
///          belongs to the layer. It stays until the layer's backward is over, even if an operator
///          has already used it. The first N layers are copied to the host on a separate stream,
///          each once the next layer begins. The device's memory of layer i is freed when layer
///          L-N+i begins. The layer is reloaded when the backward of layer L-N+i-1 begins, or when
///          its own does (N = L-1):
///
///             compute  | 1 | 2 | 3 | 4 | loss | 4' | 3' | 2' | 1' |      N = 2, L = 4
///             copies       |1--|2--|               |2--|1--|
///             layer 1  xxxxxxxxx                       xxxxxxxxx
///             layer 2      xxxxxxxxx               xxxxxxxx
///
/// Ignores: a tensor could be copied as soon as it has been computed, not only when its operator is
///          done.
/// Source:  NVIDIA/TransformerEngine v2.11 transformer_engine/pytorch/cpu_offload.py,
///          DefaultOffloadSynchronizer (without NVTE_CPU_OFFLOAD_V1); NVIDIA/Megatron-LM
///          core_v0.16.1, megatron/core/transformer/transformer_block.py, forward.
class LayerOffload {
 public:
  explicit LayerOffload(const Context& context);

  /// Called when a layer's forward begins. Returns the hooks that receive its saved tensors, or
  /// null if no layer is offloaded.
  [[nodiscard]] torch::SavedTensorHooks* begin_forward();
  /// Called when a layer's forward ends. Its backward begins at `output`.
  void finish_forward(const torch::Tensor& output);
  /// Called when a backward pass is over.
  void finish_backward();
  /// Sets how a layer's operators save the next tensors.
  void save_as(SavedForm form, std::vector<std::int64_t> rows);
  /// Keeps alive a tensor that a layer's operator saves although nobody holds the operator's node.
  void hold(const torch::Tensor& tensor);

 private:
  void begin_backward(std::size_t layer);
  [[nodiscard]] bool enabled() const { return offloaded_ > 0; }

  const Context& context_;
  PinnedMemory pinned_;
  std::size_t offloaded_;
  std::vector<std::shared_ptr<OffloadedLayer>> layers_;
  std::size_t next_ = 0;            ///< The layer whose forward comes next.
  OffloadedLayer* last_ = nullptr;  ///< The layer whose backward began last.
  bool inside_ = false;             ///< Whether a layer's forward is running.
};

/// Sets how operators save tensors within a scope.
class SavedAs {
 public:
  SavedAs(LayerOffload& offload, SavedForm form, std::vector<std::int64_t> rows = {})
      : offload_(offload) {
    offload_.save_as(form, std::move(rows));
  }
  ~SavedAs() { offload_.save_as(SavedForm::kTensors, {}); }
  SavedAs(const SavedAs&) = delete;
  SavedAs& operator=(const SavedAs&) = delete;

 private:
  LayerOffload& offload_;
};

}  // namespace headroom::ir::megatron
