#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::megatron {

/// The CUDA event that all nodes of one micro-batch in one chunk share: each node waits for the one
/// before it, on whatever stream that one ran.
class ChunkEvent {
 public:
  explicit ChunkEvent(torch::Eager& eager) : eager_(eager) {}
  void record(StreamId stream) { mark_ = eager_.record_mark(stream); }
  void wait(StreamId stream) const {
    if (mark_) {
      eager_.wait_mark(stream, *mark_);
    }
  }

 private:
  torch::Eager& eager_;
  std::optional<std::uint32_t> mark_;
};

/// A part of a forward pass with a graph of its own. A schedule runs it on one of two streams, and
/// its backward when it likes.
///
/// Model:  inputs are detached, so that backward ends at them. Results and their graph live until
///         backward has run, detached tensors as long as the node, gradients as long as Python's
///         names.
/// Source: megatron/core/pipeline_parallel/utils.py, ScheduleNode;
///         megatron/core/models/gpt/fine_grained_callables.py, TransformerLayerNode.
class ScheduleNode {
 public:
  using Tensors = std::vector<torch::Tensor>;
  using Function = std::function<Tensors(ScheduleNode& node, const Tensors& inputs)>;

  struct Place {
    StreamId stream = 0;
    bool frees_inputs = false;  ///< Nobody reads the inputs after forward: should_free_input.
    bool owes = false;          ///< Backward leaves the gradients of weights to `run_owed`.
  };
  ScheduleNode(const Runner& run, std::shared_ptr<ChunkEvent> event, Place place)
      : run_(run), event_(std::move(event)), place_(place) {}

  [[nodiscard]] Tensors forward(const Tensors& inputs, const Function& function);
  /// Returns the gradients of the inputs. Requires the gradient of each result.
  [[nodiscard]] Tensors backward(const Tensors& gradients);
  /// backward_dw: runs the products that backward owes.
  void run_owed();
  /// Detaches a tensor that another node reads: its gradient is a further root of backward.
  [[nodiscard]] torch::Tensor detach(const torch::Tensor& tensor);

 private:
  void record_stream(const torch::Tensor& tensor) const;

  Runner run_;
  std::shared_ptr<ChunkEvent> event_;
  Place place_;
  Tensors inputs_;
  Tensors outputs_;
  Tensors detached_;
  Tensors before_detached_;
  Process::Owed owed_;
  Tensors owed_gradients_;  ///< The gradients of the results, kept until `run_owed`.
};

}  // namespace headroom::ir::megatron
