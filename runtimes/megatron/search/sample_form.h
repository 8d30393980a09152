#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::plan {

/// Layers of one kind that follow each other in a model chunk.
struct LayerRun {
  ir::LayerSpec layer;
  std::int64_t units = 0;   ///< Layers, or groups that are recomputed together.
  std::int64_t group = 1;   ///< Layers of a unit.
  bool recomputed = false;  ///< Recomputed by kFullUniform or kFullBlock.
  friend bool operator==(const LayerRun&, const LayerRun&) = default;
};

/// The properties of a Megatron plan that make its programs longer but not different: the number of
/// layers of each kind in a chunk, of stages and chunks, and of micro-batches.
struct SampleForm {
  std::vector<LayerRun> runs;  ///< Runs of every chunk of the stage.
  std::int64_t stages = 1;
  std::int64_t chunks = 1;         ///< Chunks of a stage.
  std::int64_t micro_batches = 1;  ///< Micro-batches of a replayed step.
  /// The first chunk of the first stage, or the last chunk of the last stage, has one unit less of
  /// its last run, because the embedding or the loss counts as a layer.
  bool first_short = false;
  bool last_short = false;
  friend bool operator==(const SampleForm&, const SampleForm&) = default;

  [[nodiscard]] std::int64_t layers_per_chunk() const;
  /// Whether chunk `chunk` of the stage has one unit less.
  [[nodiscard]] bool is_short(std::int64_t chunk) const;
};

/// The form of `plan` at pipeline stage `stage`. Returns nothing if the stage's chunks differ by
/// more than that, or if groups of recomputed layers do not divide evenly.
[[nodiscard]] std::optional<SampleForm> form_of(const ir::ModelSpec& model,
                                                const ir::ParallelPlan& plan, std::int64_t stage);

/// `model` and `plan` reduced to `form`, with the same tensor sizes. All stages have the layers of
/// the stage that the form describes. There are as few data-parallel ranks as the degrees allow.
struct ShortQuestion {
  ir::ModelSpec model;
  ir::ParallelPlan plan;
};
[[nodiscard]] ShortQuestion short_question(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                           const SampleForm& form);

}  // namespace headroom::plan
