#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtimes/megatron/search/choices.h"
#include "runtimes/megatron/search/plan_memory.h"

namespace headroom::plan {

/// Peaks of the plans of one cell, one after the other: what they share is worked out once.
class CellMemory {
 public:
  /// Keeps references to `memory` and `choices`.
  CellMemory(PlanMemory& memory, const MegatronChoices& choices);

  /// The peak of plan number `index`, as `PlanMemory::peak` says it; of a plan whose peak is above
  /// `capacity` that of the first rank which is.
  ///
  /// Errors:  those of `PlanMemory::peak`.
  [[nodiscard]] Result<Bytes> peak(std::uint64_t index, Bytes capacity);

  /// What `peak` is at least: parameters, gradients and states as they are, and
  /// `PlanMemory::kept_floor` beside them. 0 where nothing is known.
  [[nodiscard]] Bytes floor(std::uint64_t index);

 private:
  using Fixed = std::shared_ptr<const Result<StaticMemory>>;
  /// What the micro-batches of a plan hold on one rank; of plans that differ only in switches of
  /// the static part.
  struct Moving {
    bool known = false;
    bool whole = false;  ///< No family holds the plan: it is lowered.
    std::vector<ActivationFamily::Step> steps;
  };
  struct RankParts {
    PlanMemory::RankPlace place;
    std::vector<Fixed> fixed;                ///< By `fixed_slot_`.
    std::vector<Moving> moving;              ///< By recomputation and `moving_slot_`.
    std::vector<std::optional<Bytes>> kept;  ///< `kept_floor`, by recomputation.
  };
  /// Plan number `index` with its ranks where `ranks_` looks for them: the order of the mesh
  /// changes no peak.
  [[nodiscard]] ir::ParallelPlan placed(std::uint64_t index) const;
  [[nodiscard]] Result<Bytes> rank_peak(RankParts& rank, std::uint64_t index);
  [[nodiscard]] const Result<StaticMemory>& fixed_of(RankParts& rank, std::uint64_t index);
  [[nodiscard]] const Moving& moving_of(RankParts& rank, std::uint64_t index);
  [[nodiscard]] Bytes kept_of(RankParts& rank, std::uint64_t index);

  PlanMemory& memory_;
  const MegatronChoices& choices_;
  std::vector<std::size_t> fixed_slot_;   ///< By switch.
  std::vector<std::size_t> moving_slot_;  ///< By switch.
  std::vector<RankParts> ranks_;
};

}  // namespace headroom::plan
