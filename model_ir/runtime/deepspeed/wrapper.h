#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/runtime/torch/eager.h"
#include "model_ir/runtime/transformers/model.h"

namespace headroom::ir::deepspeed {

/// What the wrappers of all stages share: the engine, the plan and the module tree.
struct EngineState {
  torch::Eager& eager;
  const ParallelPlan& plan;
  const ZeroPlan& zero;
  transformers::Model& model;

  [[nodiscard]] bool offloads_optimizer() const {
    return zero.offload_optimizer != OffloadDevice::kNone;
  }
  /// Adds to the memory that the optimizer's offload target holds.
  void hold_offloaded(std::int64_t bytes) const;
};

/// One partition of a list of parameters laid end to end, padded to a multiple of 2n elements.
/// Source: stage_1_and_2.py, flatten_dense_tensors_aligned.
[[nodiscard]] std::int64_t partition_elements(std::int64_t elements, std::int64_t ranks);

/// fp32 states of an optimizer for each parameter.
[[nodiscard]] std::size_t moment_count(const OptimizerPlan& optimizer);

/// The fp32 master copy, the Adam states and the temporaries of one flat fp32 partition, as the
/// wrapped torch optimizer makes them in its step.
class FlatAdam {
 public:
  FlatAdam(EngineState state, std::int64_t elements);
  void step();

 private:
  EngineState state_;
  std::int64_t elements_;
  std::vector<torch::Tensor> moments_;
};

/// ZeRO stages 1 and 2: flattened 16-bit parameters, partitioned masters, buckets.
class ZeroBuckets {
 public:
  explicit ZeroBuckets(EngineState state);
  ~ZeroBuckets();
  ZeroBuckets(const ZeroBuckets&) = delete;
  ZeroBuckets& operator=(const ZeroBuckets&) = delete;

  void initialize();
  void before_backward(bool boundary);
  void after_backward();
  void step();

 private:
  void arrived(const torch::Tensor& parameter, std::int64_t offset);
  void reduce_bucket();
  /// Whether what waits belongs to more than one rank, or to one in several pieces.
  /// Source: stage_1_and_2.py, average_tensor, rank_and_offsets.
  [[nodiscard]] bool spans_partitions() const;
  void keep_partition(std::int64_t elements);

  EngineState state_;
  std::int64_t total_ = 0;
  std::int64_t partition_ = 0;
  std::int64_t owned_ = 0;   ///< Elements of the parameters that this rank's partition touches.
  std::int64_t widest_ = 0;  ///< Elements of the largest of them within the partition.
  torch::Tensor flat_;
  torch::Tensor master_;
  std::vector<torch::Tensor> buckets_;
  std::int64_t filled_ = 0;
  bool accumulates_ = false;  ///< No reduction in this backward.
  struct Waiting {
    torch::Tensor parameter;
    std::int64_t offset = 0;  ///< Within all parameters laid end to end.
  };
  std::vector<Waiting> waiting_;  ///< Whose gradients wait to be reduced.
  torch::Tensor norm_;            ///< `_global_grad_norm`, kept for whoever asks.
  torch::Tensor partition_gradients_;
  std::unique_ptr<FlatAdam> adam_;
};

/// ZeRO stage 3: every parameter partitioned; gathered for its layer, released by distance.
class ZeroPartitions {
 public:
  /// `shards`: what zero.Init left of the parameters while the model was built.
  ZeroPartitions(EngineState state, std::vector<torch::Tensor> shards);
  ~ZeroPartitions();
  ZeroPartitions(const ZeroPartitions&) = delete;
  ZeroPartitions& operator=(const ZeroPartitions&) = delete;

  void initialize();
  /// The parameters of `layer` (-1: outside the layers) are about to be used.
  void fetch(std::int32_t layer);
  void release_all();
  void before_backward();
  void after_backward();
  void step();

 private:
  struct Gathered {
    std::int32_t layer = 0;
    std::int64_t elements = 0;
    torch::Tensor memory;
  };
  [[nodiscard]] std::int64_t layer_elements(std::int32_t layer) const;
  void arrived(const torch::Tensor& parameter);
  void reduce_bucket();

  EngineState state_;
  std::int64_t total_ = 0;
  std::int64_t shard_ = 0;  ///< Elements of this rank.
  std::vector<torch::Tensor> shards_;
  torch::Tensor persistent_;
  torch::Tensor master_;
  torch::Tensor bucket_;
  torch::Tensor gradient_shard_;
  std::int64_t filled_ = 0;
  std::vector<torch::Tensor> waiting_;
  std::vector<Gathered> live_;
  std::unique_ptr<FlatAdam> adam_;
};

/// ZeRO stage 0: fp32 masters of whole parameters, states made at initialisation.
class FullMasters {
 public:
  explicit FullMasters(EngineState state) : state_(state) {}
  void initialize();
  void after_backward();
  void step();

 private:
  EngineState state_;
  std::vector<torch::Tensor> masters_;
  std::vector<torch::Tensor> states_;
};

}  // namespace headroom::ir::deepspeed
