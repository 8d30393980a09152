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
  bool recomputed = false;  ///< By kFullUniform or kFullBlock.
  friend bool operator==(const LayerRun&, const LayerRun&) = default;
};

/// What of a Megatron plan makes its programs longer without making them other: how many layers of
/// each kind a chunk has, how many stages and chunks there are, how many micro-batches run.
struct SampleForm {
  std::vector<LayerRun> runs;  ///< Of every chunk of the stage.
  std::int64_t stages = 1;
  std::int64_t chunks = 1;         ///< Of a stage.
  std::int64_t micro_batches = 1;  ///< Of a step that is replayed.
  /// The first chunk of the first stage, or the last of the last, has one unit less of its last
  /// run: the embedding or the loss counts for it.
  bool first_short = false;
  bool last_short = false;
  friend bool operator==(const SampleForm&, const SampleForm&) = default;

  [[nodiscard]] std::int64_t layers_per_chunk() const;
  /// Whether chunk `chunk` of the stage has a unit less.
  [[nodiscard]] bool is_short(std::int64_t chunk) const;
};

/// The form of `plan` at pipeline stage `stage`; nothing where chunks of the stage differ by more
/// than that, or groups of recomputed layers do not come out even.
[[nodiscard]] std::optional<SampleForm> form_of(const ir::ModelSpec& model,
                                                const ir::ParallelPlan& plan, std::int64_t stage);

/// `model` and `plan` cut down to `form`, for the same tensor sizes. All stages have the layers of
/// the one whose form it is. As few data-parallel ranks as the degrees allow.
struct ShortQuestion {
  ir::ModelSpec model;
  ir::ParallelPlan plan;
};
[[nodiscard]] ShortQuestion short_question(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                           const SampleForm& form);

}  // namespace headroom::plan
