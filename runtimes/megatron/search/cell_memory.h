#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/host_memory.h"
#include "runtimes/megatron/search/choices.h"
#include "runtimes/megatron/search/plan_memory.h"

namespace headroom::plan {

/// Peaks of the plans of one cell, evaluated one after the other. What they share is computed once.
class CellMemory {
 public:
  /// Keeps references to `memory` and `choices`.
  CellMemory(PlanMemory& memory, const MegatronChoices& choices);

  /// The peak of plan number `index`, as from `PlanMemory::peak`. If it is above `capacity`, the
  /// result is the peak of the first rank that exceeds it.
  ///
  /// Errors:  those of `PlanMemory::peak`.
  [[nodiscard]] Result<Bytes> peak(std::uint64_t index, Bytes capacity);

  /// A lower bound of `peak`: exact parameters, gradients and states, plus
  /// `PlanMemory::kept_floor`. It is 0 if nothing is known.
  [[nodiscard]] Bytes floor(std::uint64_t index);

  /// The memory of a host like `node` that plan number `index` takes if all ranks take as much as
  /// the one that takes most. Activations on the host do not count. Requires: `node` is always the
  /// same.
  [[nodiscard]] const cost::HostMemory& host(std::uint64_t index,
                                             const std::optional<cost::HostSpec>& node);

 private:
  using Fixed = std::shared_ptr<const Result<StaticMemory>>;
  /// What the micro-batches of a plan hold on one rank. It is shared by plans that differ only in
  /// switches of the static part.
  struct Moving {
    bool known = false;
    bool whole = false;  ///< No family covers the plan, so the whole plan is lowered.
    std::vector<ActivationFamily::Step> steps;
  };
  struct RankParts {
    PlanMemory::RankPlace place;
    std::vector<Fixed> fixed;                ///< Indexed by `fixed_slot_`.
    std::vector<Moving> moving;              ///< Indexed by recomputation and `moving_slot_`.
    std::vector<std::optional<Bytes>> kept;  ///< `kept_floor`, indexed by recomputation.
  };
  /// Plan number `index` with the mesh order for which `ranks_` were computed. The order of the
  /// mesh changes no peak.
  [[nodiscard]] ir::ParallelPlan placed(std::uint64_t index) const;
  [[nodiscard]] Result<Bytes> rank_peak(RankParts& rank, std::uint64_t index);
  [[nodiscard]] const Result<StaticMemory>& fixed_of(RankParts& rank, std::uint64_t index);
  [[nodiscard]] const Moving& moving_of(RankParts& rank, std::uint64_t index);
  [[nodiscard]] Bytes kept_of(RankParts& rank, std::uint64_t index);

  PlanMemory& memory_;
  const MegatronChoices& choices_;
  std::vector<std::size_t> fixed_slot_;   ///< Indexed by switch.
  std::vector<std::size_t> moving_slot_;  ///< Indexed by switch.
  std::vector<RankParts> ranks_;
  std::map<std::size_t, cost::HostMemory> hosts_;  ///< By fixed slot.
};

}  // namespace headroom::plan
