#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "runtimes/torch/node.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

/// Unwinds a recomputation once the last saved tensor has been rebuilt ("early stop"). Mirrors the
/// exception that torch.utils.checkpoint raises; caught by `CheckpointFrame` alone.
struct StopRecomputation {};

/// One region under torch.utils.checkpoint(use_reentrant=False): what its operators save is
/// dropped, and rebuilt by running the region again when backward first asks for any of it.
/// Source: pytorch/pytorch torch/utils/checkpoint.py, _CheckpointFrame and its hooks.
class CheckpointFrame final : public SavedTensorHooks {
 public:
  /// `inputs`: the region's arguments, kept alive until every saved slot has been let go.
  /// `whole`: the second run does not end with the last saved tensor (early_stop=False).
  CheckpointFrame(std::vector<Tensor> inputs,
                  std::function<void(Eager&, const std::vector<Tensor>&)> region,
                  bool whole = false);

  /// An operator saves `tensor`: counts it in the first run, keeps it in the second, and hands it
  /// back as `kept`: what runs again has a graph of its own, which holds what it saves.
  std::size_t pack(Eager& eager, const Tensor& tensor, Tensor& kept) override;
  [[nodiscard]] Tensor unpack(Eager& eager, std::size_t slot) override;
  void forget(std::size_t slot) override;
  /// The arguments go to the host, and come back when the region runs again.
  void offload();

 private:
  struct Slot {
    Tensor tensor;
    bool wanted = true;
  };
  void recompute(Eager& eager);

  struct OffloadedInput {
    std::size_t index;
    Shape shape;
    DType dtype;
    bool requires_grad;
  };
  std::vector<Tensor> inputs_;
  std::vector<OffloadedInput> offloaded_;
  std::function<void(Eager&, const std::vector<Tensor>&)> region_;
  std::vector<Slot> slots_;
  bool whole_;
  bool recomputing_ = false;
  bool recomputed_ = false;
  std::size_t next_ = 0;
};

/// What the checkpointed regions of a forward were given, on its way to the host: the last few stay
/// until backward.
/// Source: pytorch/torchtune torchtune/training/_activation_offloading.py, OffloadActivations
///         (max_fwd_stash_size).
/// Ignores: the stream that copies, and with it the pool of what comes back.
class OffloadStash {
 public:
  /// Of the call of a region whose arguments are packed now.
  void push(std::shared_ptr<CheckpointFrame> frame);
  /// What is packed after the regions takes the last places.
  void flush();

 private:
  std::deque<std::shared_ptr<CheckpointFrame>> frames_;
};

/// Runs `region` on `input` as torch.utils.checkpoint(use_reentrant=False) would and returns its
/// output. Without gradients it simply runs. `stash`: where arguments are offloaded, or null.
[[nodiscard]] Tensor checkpoint(Eager& eager, const Tensor& input,
                                std::function<Tensor(Eager&, const Tensor&)> region,
                                OffloadStash* stash = nullptr);

/// The same with use_reentrant=True: forward under no_grad; backward runs the region again from a
/// detached input and calls backward inside backward.
[[nodiscard]] Tensor checkpoint_reentrant(Eager& eager, const Tensor& input,
                                          std::function<Tensor(Eager&, const Tensor&)> region);

/// How a region of several arguments and results runs.
enum class RegionForm : std::uint8_t {
  kKept,             ///< As it is.
  kRecomputed,       ///< As `checkpoint` does.
  kRecomputedWhole,  ///< As `checkpoint` does with early_stop=False.
  kReentrant,        ///< As `checkpoint_reentrant` does.
};

using Region = std::function<std::vector<Tensor>(Eager&, const std::vector<Tensor>&)>;

/// The same for a region of several arguments and results, any of which may be undefined. With
/// `kReentrant`, a result that is an argument comes back as a view of it, and results that no
/// gradient reaches get one of zeros. Arguments go once backward has used them; what `region`
/// captures (keyword arguments) lives as long as the graph.
[[nodiscard]] std::vector<Tensor> run_region(Eager& eager, const std::vector<Tensor>& inputs,
                                             const Region& region, RegionForm form,
                                             OffloadStash* stash = nullptr);

}  // namespace headroom::ir::torch
