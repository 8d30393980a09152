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
  kTensors,  ///< Themselves; views of parts of a tensor stay on the device.
  kWhole,    ///< As parts of one tensor, which leaves whole: `offload_base_tensor`.
  kPieces,   ///< Cut by rows, each of which leaves for itself: torch.split.
  kStaying,  ///< As views in another order, or marked not to leave: they stay on the device.
};

/// The tensors that one layer saves, on the device or on the host, each storage once.
/// Source: NVIDIA/TransformerEngine v2.11 transformer_engine/pytorch/cpu_offload.py,
///         OffloadableLayerState and TensorGroupProcessor.
class OffloadedLayer final : public torch::SavedTensorHooks {
 public:
  OffloadedLayer(const Context& context, PinnedMemory& pinned)
      : context_(context), pinned_(pinned) {}

  std::size_t pack(torch::Eager& eager, const torch::Tensor& tensor, torch::Tensor& kept) override;
  /// What wants no gradient is handed out itself, and may be cleared; of the rest a tensor of its
  /// own on the memory that the layer holds until its backward is over.
  [[nodiscard]] torch::Tensor unpack(torch::Eager& eager, std::size_t slot) override;
  void forget(std::size_t) override {}

  /// How the next tensors are saved; `rows` of each piece.
  void save_as(SavedForm form, std::vector<std::int64_t> rows);
  /// Copies what has been saved to the host, each tensor once it was there.
  void send();
  /// The device goes on when the copies are over: their originals are let go.
  void release();
  /// Takes memory for all of it at once, and copies it back beside what the device computes.
  void fetch();
  /// Lets go of everything, here and on the host.
  void clear();

 private:
  struct Part {
    /// What holds the memory: what is saved first, then what came back, a tensor for each piece.
    std::vector<torch::Tensor> tensors;
    std::vector<torch::Shape> pieces;
    DType dtype = DType::kBf16;
    std::uint32_t mark = 0;  ///< Behind what made it, then behind the copies back.
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
  std::uint32_t left_ = 0;  ///< Behind the last copy to the host.
  bool back_ = false;
  SavedForm form_ = SavedForm::kTensors;
  std::vector<std::int64_t> rows_;
};

/// Transformer Engine's offload of whole layers, --cpu-offloading-num-layers N of L.
///
/// Model:   everything that a layer saves for backward but parameters and views in parts belongs
///          to the layer and stays until its backward is over, whoever of its operators is done
///          with it. Of the first N layers it leaves on a stream of its own once the next layer
///          begins. Layer i lets go of the device's memory where layer L-N+i begins, and comes back
///          where the backward of layer L-N+i-1 does, or its own (N = L-1):
///
///              compute  | 1 | 2 | 3 | 4 | loss | 4' | 3' | 2' | 1' |      N = 2, L = 4
///              copies       |1--|2--|               |2--|1--|
///              layer 1  xxxxxxxxx                       xxxxxxxxx
///              layer 2      xxxxxxxxx               xxxxxxxx
///
/// Ignores: that a tensor can leave as soon as it is there instead of when its operator is done.
/// Source:  NVIDIA/TransformerEngine v2.11 transformer_engine/pytorch/cpu_offload.py,
///          DefaultOffloadSynchronizer (without NVTE_CPU_OFFLOAD_V1); NVIDIA/Megatron-LM
///          core_v0.16.1, megatron/core/transformer/transformer_block.py, forward.
class LayerOffload {
 public:
  explicit LayerOffload(const Context& context);

  /// A layer's forward begins: what takes its saved tensors, null where no layer is offloaded.
  [[nodiscard]] torch::SavedTensorHooks* begin_forward();
  /// It is done: its backward begins at `output`.
  void finish_forward(const torch::Tensor& output);
  /// A backward pass is over.
  void finish_backward();
  /// How a layer's operators save what comes next.
  void save_as(SavedForm form, std::vector<std::int64_t> rows);
  /// A layer's operator saves what its node, which nobody holds, does not keep: the layer does.
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
  bool inside_ = false;             ///< A layer's forward runs.
};

/// How operators save for a scope.
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
