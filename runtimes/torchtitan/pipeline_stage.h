#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtimes/fsdp/fully_shard.h"
#include "runtimes/torch/split_backward.h"
#include "runtimes/torchtitan/forward.h"
#include "runtimes/torchtitan/model.h"
#include "runtimes/torchtitan/stage_layers.h"

namespace headroom::ir::torchtitan {

/// A part of the model that runs as a stage of a pipeline.
struct ModelPart {
  ModelPart(torch::Eager& eager, ShardedModel sharded)
      : model(std::move(sharded.model)),
        shards(std::move(sharded.shards)),
        quantised(std::move(sharded.quantised)),
        replicated(std::move(sharded.replicated)),
        spread(std::move(sharded.spread)),
        hooks(eager, std::move(sharded.groups)) {
    for (Prefetch& each : sharded.prefetches) {
      hooks.set_prefetch(each.module, std::move(each.forward), std::move(each.backward));
    }
  }

  Model model;
  std::vector<torch::Tensor> shards;
  std::vector<torch::Tensor> quantised;
  std::vector<bool> replicated;
  std::vector<bool> spread;
  fsdp::FullyShard hooks;
};

/// The place of a stage in the pipeline, and the number of micro-batches that pass through it.
struct StagePlace {
  TitanChunk chunk;
  /// The previous stage is in the same process, as at the tip of a V schedule.
  bool previous_here = false;
  bool next_here = false;
  std::int64_t micro_batches = 1;
  std::int64_t distance = 1;  ///< Distance between this rank and the next one of the pipeline.
};

/// torch.distributed.pipelining.PipelineStage and the memory that it allocates: a receive buffer
/// for each micro-batch, and what a micro-batch keeps until its backward.
/// Source: pytorch/pytorch 2.11 torch/distributed/pipelining/stage.py.
class PipelineStage {
 public:
  PipelineStage(torch::Eager& eager, TensorMesh& mesh, ModelPart& part, const StagePlace& place);

  [[nodiscard]] const StagePlace& place() const { return place_; }
  [[nodiscard]] fsdp::FullyShard& hooks() { return part_.hooks; }

  /// _prepare_forward_infra and _prepare_backward_infra, before the first step. A forward without
  /// gradients finds the shapes; then the buffers are allocated.
  void prepare_forward();
  void prepare_backward();
  /// clear_runtime_states.
  void clear();

  /// forward_one_chunk. Only the first stage reads `ids`.
  [[nodiscard]] torch::Tensor forward(std::int64_t micro_batch, const torch::Tensor& ids);
  /// backward_one_chunk, from `loss`, which only the last stage has, or from the received gradient.
  void backward(std::int64_t micro_batch, const torch::Tensor& loss);
  /// backward_one_chunk with full_backward=False, and backward_weight_one_chunk. The first stage
  /// does all its work in the second.
  void backward_input(std::int64_t micro_batch, const torch::Tensor& loss);
  void backward_weight(std::int64_t micro_batch);
  /// Returns the gradient of a micro-batch's input to the caller, which sends it. It is undefined
  /// in the first stage.
  [[nodiscard]] torch::Tensor take_gradient(std::int64_t micro_batch);

  /// Stages of one process pass tensors without a copy.
  void set_input(std::int64_t micro_batch, const torch::Tensor& output);
  void set_gradient(std::int64_t micro_batch, const torch::Tensor& gradient);

  /// Communication with the previous and the next rank. Another stream may still use a sent tensor.
  void receive_input() { transfer(CollectiveKind::kReceive, receives_input()); }
  void receive_gradient() { transfer(CollectiveKind::kReceive, sends_output()); }
  void send_output(const torch::Tensor& output) { send(output, sends_output()); }
  void send_gradient(const torch::Tensor& gradient) { send(gradient, receives_input()); }

 private:
  struct Kept {
    torch::Tensor output;
    torch::Tensor input;
  };
  /// backward_state.
  struct Owed {
    Kept kept;
    torch::OwedWeights weights;
  };
  [[nodiscard]] Kept take(std::int64_t micro_batch);
  void run_backward(std::int64_t micro_batch, const Kept& kept, const torch::Tensor& loss);
  [[nodiscard]] std::vector<torch::Tensor> weights() const;
  [[nodiscard]] torch::Shape hidden_shape() const;
  void tell_shapes(bool receives);
  [[nodiscard]] bool receives_input() const { return !place_.chunk.first && !place_.previous_here; }
  [[nodiscard]] bool sends_output() const { return !place_.chunk.last && !place_.next_here; }
  void send(const torch::Tensor& tensor, bool crosses);
  void transfer(CollectiveKind kind, bool crosses);

  torch::Eager& eager_;
  ModelPart& part_;
  Context context_;  ///< Checkpointed blocks read it again in backward.
  StagePlace place_;
  std::vector<torch::Tensor> inputs_;            ///< Indexed by micro-batch: args_recv_info.
  std::vector<torch::Tensor> gradients_;         ///< Indexed by micro-batch: grad_recv_info.
  std::unordered_map<std::int64_t, Kept> kept_;  ///< fwd_cache.
  std::unordered_map<std::int64_t, torch::Tensor> sent_;  ///< bwd_cache.
  std::unordered_map<std::int64_t, Owed> owed_;
};

}  // namespace headroom::ir::torchtitan
