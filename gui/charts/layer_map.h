#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/estimate.h"
#include "costmodel/time/program_time.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::gui {

/// The treatment of the activations of a layer between its forward and its backward.
enum class LayerTreatment : std::uint8_t {
  kKeep,
  kSelective,  ///< A part of the layer runs again.
  kFull,       ///< The layer runs again.
  kOffload,    ///< They are copied to the host and back.
};
inline constexpr std::size_t kLayerTreatments = 4;

/// One layer of the model.
struct LayerCell {
  std::int64_t layer = 0;
  std::int64_t stage = 0;
  LayerTreatment treatment = LayerTreatment::kKeep;
  /// Bytes of activations that are alive at the peak of the replayed rank; none: the layer is on
  /// another rank.
  std::optional<Bytes> kept{};
  Seconds again{};  ///< Recomputation in the last step of the replayed rank.
};

/// The treatment of the layers of a model under a plan.
struct LayerMap {
  std::vector<LayerCell> cells;  ///< By layer.
  std::int64_t stages = 1;
};

/// Reads the treatments off the plan (`ir::Runtime::execution`).
[[nodiscard]] LayerMap layer_map(const ir::ModelSpec& model, const ir::ParallelPlan& plan);

/// Adds what is kept and recomputed, and which layers are copied to the host. Null: no times.
void add_costs(LayerMap& map, const cost::StepEstimate& estimate, const cost::ProgramTime* time);

/// A plan that differs from another in the treatment of layers only.
struct LayerVariant {
  ir::ParallelPlan plan;
  std::vector<LayerTreatment> treatments;  ///< By layer.
};
/// The plans that the framework accepts, each set of treatments once: common checkpointing (none,
/// full, every k-th layer, the first layers), and the values of the framework's own options about
/// recomputation and about the offload of layers.
[[nodiscard]] std::vector<LayerVariant> layer_variants(const ir::ModelSpec& model,
                                                       const ir::ParallelPlan& plan);

/// The variant that treats `layer` so and the other layers as `map` does, as far as one can; the
/// one with the fewest other changes. Nothing if no plan treats the layer so.
[[nodiscard]] const LayerVariant* nearest_variant(const std::vector<LayerVariant>& variants,
                                                  const LayerMap& map, std::int64_t layer,
                                                  LayerTreatment treatment);

/// `plan` with the recomputation of `other`, a plan of the same framework.
[[nodiscard]] ir::ParallelPlan with_recomputation_of(ir::ParallelPlan plan,
                                                     const ir::ParallelPlan& other);

}  // namespace headroom::gui
