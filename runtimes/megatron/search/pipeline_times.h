#pragma once

#include <cstdint>
#include <vector>

#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/search/block_times.h"

namespace headroom::plan {

/// Times of all micro-batches of a step on the slowest stage.
struct PipelineParts {
  Seconds forward_backward;
  Seconds recomputation;
  Seconds copies;  ///< Exposed copies of activations to the host and back.
  Seconds bubble;
  Seconds micro_batch;      ///< One micro-batch, including recomputation and copies.
  std::int64_t chunks = 1;  ///< Chunks of a stage.
};

/// The parameters of the stage that has the most.
struct HeldParameters {
  double dense = 0;  ///< Includes tables.
  double experts = 0;
  double tables = 0;
  double table = 0;          ///< One of the tables.
  double layer = 0;          ///< The first layer, without its experts.
  double layer_experts = 0;  ///< The experts of a layer.
};

/// The pipeline of all plans that differ only in recomputation, loss and the order of the mesh.
///
/// Model:   the time of a stage is that of its layers. The slowest stage runs all micro-batches;
///          the others' times divided by the number of chunks are the bubble (Narayanan et al.
///          2021, arXiv:2104.04473, section 2.2). While an interleaved pipeline fills, each chunk
///          of the first stage waits until the first micro-batch has been sent from stage to stage.
///          Activations are copied to the host during forward passes and back during backward. If a
///          backward follows its own forward, the activations of the last layer stay on the device.
class PipelineTimes {
 public:
  PipelineTimes(const ir::ModelSpec& model, const ir::ParallelPlan& plan, const BlockTimes& blocks);

  /// `plan` may differ from the constructor's in its recomputation, its loss and the order of the
  /// mesh.
  [[nodiscard]] PipelineParts parts(const ir::ParallelPlan& plan) const;
  [[nodiscard]] const HeldParameters& held() const { return held_; }

 private:
  /// Layers of a chunk.
  struct Span {
    std::int64_t first = 0;  ///< 0 if all layers are alike.
    std::int64_t count = 0;
    friend bool operator==(const Span&, const Span&) = default;
  };
  /// Stages with the same layers.
  struct Stage {
    std::vector<Span> chunks;
    std::int64_t dense = 0;
    std::int64_t sparse = 0;
    std::int64_t number = 1;  ///< Number of such stages.
    bool first = false;
    bool last = false;
  };
  struct Times {
    double plain = 0;
    double again = 0;   ///< Recomputation in backward.
    double copies = 0;  ///< Exposed copies.
    double once = 0;    ///< Time that the first micro-batch adds. `whole` leaves it out.
    double saved = 0;   ///< A micro-batch saves it by running forward beside a backward.
    [[nodiscard]] double whole() const { return plain + again + copies; }
  };
  void add_stages(const ir::ModelSpec& model, const ir::ParallelPlan& plan);
  void add_stage(Stage stage);
  void count_held(const ir::ModelSpec& model);
  [[nodiscard]] Times times_of(const ir::ParallelPlan& plan, const Stage& stage) const;
  /// Exposed copies of a pass through `stage`, whose backward takes `again` seconds longer.
  [[nodiscard]] double copies_of(const ir::ParallelPlan& plan, const Stage& stage,
                                 double again) const;
  [[nodiscard]] std::int64_t sparse_of(const Span& span, std::int64_t count) const;

  BlockTimes blocks_;
  std::vector<std::int64_t> sparse_before_;  ///< Indexed by layer; empty if all layers are alike.
  bool all_sparse_ = false;
  std::vector<Stage> stages_;
  std::int64_t chunks_ = 1;
  HeldParameters held_;
};

/// `PipelineTimes` of one plan.
[[nodiscard]] PipelineParts pipeline_parts(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                           const BlockTimes& blocks);

}  // namespace headroom::plan
