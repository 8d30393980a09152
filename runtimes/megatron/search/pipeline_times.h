#pragma once

#include <cstdint>
#include <vector>

#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/search/block_times.h"

namespace headroom::plan {

/// All micro-batches of a step, on the stage that takes longest.
struct PipelineParts {
  Seconds forward_backward;
  Seconds recomputation;
  Seconds copies;  ///< Of activations to the host and back, what shows of them.
  Seconds bubble;
  Seconds micro_batch;      ///< One of them, recomputation and copies included.
  std::int64_t chunks = 1;  ///< Of a stage.
};

/// The parameters of the stage that has most.
struct HeldParameters {
  double dense = 0;  ///< Tables among them.
  double experts = 0;
  double tables = 0;
};

/// The pipeline of all plans that differ in recomputation, loss and the order of the mesh only.
///
/// Model:   stages of a pipeline take what their layers take; the slowest runs all micro-batches,
///          and the others' times divided by the number of chunks are the bubble (Narayanan et al.
///          2021, arXiv:2104.04473, section 2.2). While an interleaved pipeline fills, each chunk
///          of the first stage waits for the first micro-batch to have been sent from stage to
///          stage. Activations go to the host beside the passes and come back beside backward;
///          where a backward follows its own forward, the last layer's stay.
class PipelineTimes {
 public:
  PipelineTimes(const ir::ModelSpec& model, const ir::ParallelPlan& plan, const BlockTimes& blocks);

  /// `plan` may differ from the constructor's in what it recomputes, in its loss and in the order
  /// of the mesh.
  [[nodiscard]] PipelineParts parts(const ir::ParallelPlan& plan) const;
  [[nodiscard]] const HeldParameters& held() const { return held_; }

 private:
  /// The layers of a chunk.
  struct Span {
    std::int64_t first = 0;  ///< 0 where all layers are alike.
    std::int64_t count = 0;
    friend bool operator==(const Span&, const Span&) = default;
  };
  /// Stages with the same layers.
  struct Stage {
    std::vector<Span> chunks;
    std::int64_t dense = 0;
    std::int64_t sparse = 0;
    std::int64_t number = 1;  ///< Of such stages.
    bool first = false;
    bool last = false;
  };
  struct Times {
    double plain = 0;
    double again = 0;   ///< Run again in backward.
    double copies = 0;  ///< What shows of them.
    [[nodiscard]] double whole() const { return plain + again + copies; }
  };
  void add_stages(const ir::ModelSpec& model, const ir::MegatronPlan& plan);
  void add_stage(Stage stage);
  void count_held(const ir::ModelSpec& model);
  [[nodiscard]] Times times_of(const ir::ParallelPlan& plan, const Stage& stage) const;
  /// What shows of the copies of a pass through `stage`, whose backward takes `again` more.
  [[nodiscard]] double copies_of(const ir::ParallelPlan& plan, const Stage& stage,
                                 double again) const;
  [[nodiscard]] std::int64_t sparse_of(const Span& span, std::int64_t count) const;

  BlockTimes blocks_;
  std::vector<std::int64_t> sparse_before_;  ///< By layer; empty where all are alike.
  bool all_sparse_ = false;
  std::vector<Stage> stages_;
  std::int64_t chunks_ = 1;
  HeldParameters held_;
};

/// `PipelineTimes` of one plan.
[[nodiscard]] PipelineParts pipeline_parts(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                           const BlockTimes& blocks);

}  // namespace headroom::plan
