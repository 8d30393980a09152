#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model_ir/base/units.h"
#include "model_ir/plan/device_work.h"

namespace headroom::cost {

/// The parts of a step's time. Communication and copies count only as far as they are exposed; the
/// rest overlaps with computation.
enum class StepPart : std::uint8_t {
  kMatrix,       ///< Matrix products, except those of experts.
  kExperts,      ///< Grouped products.
  kAttention,    ///< Fused attention kernels.
  kMemoryBound,  ///< Norms, activations, losses, casts: kernels bound by memory.
  kRecompute,    ///< Any of these, recomputed for backward.
  kOptimizer,    ///< Computation in the optimizer's phases.
  kHost,         ///< The device is idle because the host has not launched the next kernel yet.
  kTensor,       ///< Communication of tensor parallelism.
  kContext,
  kExpert,
  kData,      ///< Communication of data parallelism: gradients, parameters, sharded states.
  kPipeline,  ///< Transfers between stages, and gradients of weights that two stages share.
  kBubble,    ///< A stage waits for another.
  kOffload,   ///< Copies to and from the host, and work done there.
};
inline constexpr std::size_t kStepParts = 14;
/// "matrix", "experts", ...: the key of a part in JSON.
[[nodiscard]] std::string_view name_of(StepPart part);
/// "matrix products", ...: the name for people.
[[nodiscard]] std::string_view describe(StepPart part);

/// Time by part.
class PartTimes {
 public:
  [[nodiscard]] Seconds of(StepPart part) const { return times_[static_cast<std::size_t>(part)]; }
  void add(StepPart part, Seconds time) { times_[static_cast<std::size_t>(part)] += time; }
  /// Adds the times of `other`, multiplied by `factor`.
  void add(const PartTimes& other, double factor = 1);
  [[nodiscard]] Seconds total() const;
  friend bool operator==(const PartTimes&, const PartTimes&) = default;

 private:
  std::array<Seconds, kStepParts> times_{};
};

/// The part that a collective along `axis` belongs to.
[[nodiscard]] StepPart part_of(ir::MeshAxis axis);

}  // namespace headroom::cost
