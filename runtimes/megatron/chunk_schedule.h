#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtimes/megatron/layer.h"
#include "runtimes/megatron/recomputable_norm.h"
#include "runtimes/megatron/schedule_node.h"
#include "runtimes/megatron/transformer_engine.h"

/// One forward and one backward at the same time, layer by layer, so that the all-to-alls of one
/// overlap the products of the other (--overlap-moe-expert-parallel-comm).
/// Source: megatron/core/models/common/model_chunk_schedule_plan.py;
///         megatron/core/models/gpt/fine_grained_callables.py.
namespace headroom::ir::megatron {

/// The parts of one layer and micro-batch: attention with the router and the permutation, the
/// all-to-all before the experts, the experts, and the all-to-all behind them with all that
/// follows. The all-to-alls run on the communication stream. A dense layer has two parts, its
/// halves.
class LayerSchedule {
 public:
  using Tensors = ScheduleNode::Tensors;
  enum class Part : std::uint8_t { kAttention, kDispatch, kExperts, kCombine };

  /// `final_norm`: that of the model, if this layer comes before it.
  LayerSchedule(const Runner& run, const LayerWeights& layer, const NormWeights* final_norm,
                const std::shared_ptr<ChunkEvent>& event);
  [[nodiscard]] Tensors forward(Part part, const Tensors& inputs, const LayerInput& shared);
  [[nodiscard]] Tensors backward(Part part, const Tensors& gradients);
  /// Runs the products for gradients of weights that the part's backward owes.
  void run_owed(Part part);

 private:
  /// Tensors that a part leaves for later ones: TransformerLayerState.
  struct State {
    torch::Tensor residual;
    torch::Tensor shared_output;
    torch::Tensor probabilities;  ///< The probabilities of the received tokens.
    std::optional<RecomputableNorm> norm;
  };
  [[nodiscard]] bool runs(Part part) const;
  [[nodiscard]] Tensors attend(ScheduleNode& node, const torch::Tensor& hidden,
                               const LayerInput& shared);
  [[nodiscard]] Tensors combine(const torch::Tensor& output);

  Runner run_;
  const LayerWeights* layer_;
  const NormWeights* final_norm_;
  State state_;
  std::vector<ScheduleNode> nodes_;  ///< One node for each `Part`.
};

/// One micro-batch in one chunk, from its forward to its backward:
/// TransformerModelChunkSchedulePlan and the node of the loss function.
class ChunkSchedule {
 public:
  using Tensors = ScheduleNode::Tensors;

  /// The two functions that run before and after the layers. The loss function follows `after`.
  struct Ends {
    /// Embedding and rotary table. Sets `shared` and returns the first layer's input.
    std::function<torch::Tensor(ChunkSchedule& schedule)> before;
    /// Output layer, from hidden states to losses; empty if the chunk is not the last one.
    std::function<torch::Tensor(const torch::Tensor& hidden)> after;
  };
  ChunkSchedule(const Runner& run, const Chunk& chunk, Ends ends);
  ChunkSchedule(const ChunkSchedule&) = delete;
  ChunkSchedule& operator=(const ChunkSchedule&) = delete;

  LayerInput shared;            ///< Inputs of all layers.
  torch::Tensor decoder_input;  ///< The first layer's input; Python's ModelChunkState keeps it.
  torch::Tensor loss_mask;      ///< Undefined if this stage reads no batch.

  /// The node of the loss function. It refers to itself, so that Python frees it, its results, its
  /// input and the mask only when its garbage collector runs.
  struct Loss {
    ScheduleNode node;
    torch::Tensor input;
    torch::Tensor mask;
  };
  /// Runs the loss function on the output.
  [[nodiscard]] torch::Tensor run_loss(const torch::Tensor& losses,
                                       const ScheduleNode::Function& function);
  /// The gradient of the loss function's input.
  [[nodiscard]] torch::Tensor loss_gradient() const;
  [[nodiscard]] std::shared_ptr<Loss> take_loss() { return std::move(loss_); }

  /// The pipeline's communication, called at these four moments.
  struct Calls {
    std::function<void()> before_forward;
    std::function<void()> before_backward;
    std::function<void(const torch::Tensor& output)> after_forward;
    std::function<void(const torch::Tensor& gradient)> after_backward;
  };
  /// Runs the forward of one micro-batch and the backward of another; either may be missing.
  /// Returns the output of the forward.
  [[nodiscard]] static torch::Tensor run(const Runner& run, ChunkSchedule* forward,
                                         ChunkSchedule* backward, torch::Tensor gradient,
                                         const Calls& calls);

 private:
  Runner run_;
  Ends ends_;
  std::shared_ptr<ChunkEvent> event_;
  std::optional<ScheduleNode> before_;
  std::optional<ScheduleNode> after_;
  std::shared_ptr<Loss> loss_;
  std::vector<std::unique_ptr<LayerSchedule>> layers_;
};

}  // namespace headroom::ir::megatron
