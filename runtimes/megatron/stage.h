#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtimes/megatron/chunk_schedule.h"
#include "runtimes/megatron/transformer_engine.h"
#include "runtimes/megatron/weights.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::megatron {

/// The chunks of one pipeline stage, run forward and backward one micro-batch at a time.
/// Source: megatron/core/pipeline_parallel/schedules.py, forward_step and backward_step; the
///         loss function and the batch are those of the training script, pretrain_gpt.py.
class Stage {
 public:
  Stage(const Runner& run, std::span<Chunk> chunks);

  [[nodiscard]] std::size_t chunk_count() const { return chunks_.size(); }
  [[nodiscard]] const Chunk& chunk(std::size_t index) const { return chunks_[index]; }

  /// Runs a chunk on a micro-batch; `input` is undefined on the first one. The result is the hidden
  /// state for the next chunk or, on the last one, the scaled loss.
  [[nodiscard]] torch::Tensor forward(std::size_t chunk, const torch::Tensor& input);
  /// Runs backward through a chunk and returns the gradient of `input`; `gradient` is undefined for
  /// a loss.
  [[nodiscard]] torch::Tensor backward(std::size_t chunk, const torch::Tensor& input,
                                       torch::Tensor output, const torch::Tensor& gradient);
  /// A micro-batch that runs forward through a chunk, and one that runs backward.
  struct Ahead {
    std::size_t chunk = 0;
    torch::Tensor input{};
  };
  struct Behind {
    std::size_t chunk = 0;
    torch::Tensor input{};
    torch::Tensor output{};
    torch::Tensor gradient{};  ///< Undefined for a loss.
    std::shared_ptr<ChunkSchedule> schedule{};
    /// Releases the tensors in the order of Python's names.
    void release() {
      input.reset();
      output.reset();
      gradient.reset();
    }
  };
  /// The output and the schedule of the forward, and the gradient of the input of the backward.
  struct Together {
    torch::Tensor output;
    std::shared_ptr<ChunkSchedule> schedule;
    torch::Tensor gradient;
  };
  /// combined_forward_backward_step: both at the same time, layer by layer; either may be missing.
  /// Source: megatron/core/pipeline_parallel/combined_1f1b.py.
  [[nodiscard]] Together run_together(const std::optional<Ahead>& ahead,
                                      const std::optional<Behind>& behind,
                                      ChunkSchedule::Calls calls = {});
  /// Python's garbage collector, which is taken to run when all micro-batches have run.
  void collect_garbage() { garbage_.clear(); }
  /// deallocate_output_tensor: a sent tensor keeps its graph but not its memory.
  void deallocate(const torch::Tensor& output);
  /// The tensor into which another stage's tensor is received.
  [[nodiscard]] torch::Tensor receive();
  /// Sends `tensor` to another stage.
  void send(const torch::Tensor& tensor);

  /// Ends a step and returns the reported loss of each of its micro-batches.
  [[nodiscard]] std::vector<torch::Tensor> take_reports() {
    token_count_.reset();
    return std::move(reports_);
  }

 private:
  struct Batch {
    torch::Tensor tokens;
    torch::Tensor labels;
    torch::Tensor loss_mask;
    torch::Tensor mask;
    torch::Tensor positions;
  };
  [[nodiscard]] Batch make_batch(const Chunk& chunk);
  void cut_for_context(Batch& batch);
  [[nodiscard]] std::shared_ptr<ChunkSchedule> make_schedule(const Ahead& ahead);
  [[nodiscard]] torch::Tensor run_model(const Chunk& chunk, const Batch& batch,
                                        const torch::Tensor& input);
  [[nodiscard]] torch::Tensor scaled_loss(const torch::Tensor& losses,
                                          const torch::Tensor& loss_mask);

  void note_scales(const Chunk& chunk);
  void transfer(const torch::Tensor& tensor, CollectiveKind kind);
  void wait_for(const torch::Tensor& received);

  Runner run_;
  std::span<Chunk> chunks_;
  std::vector<torch::Tensor> inputs_;  ///< TransformerBlock.input_tensor of each chunk.
  std::vector<torch::Tensor> reports_;
  /// Marks of the tensors that are being received.
  std::unordered_map<const torch::TensorImpl*, std::uint32_t> received_;
  torch::Tensor prediction_losses_;
  torch::Tensor expert_scale_;
  torch::Tensor prediction_scale_;
  /// The token count of the last micro-batch whose loss has been computed.
  torch::Tensor token_count_;
  std::vector<std::shared_ptr<ChunkSchedule::Loss>> garbage_;  ///< Python has not collected these.
};

}  // namespace headroom::ir::megatron
