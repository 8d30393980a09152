#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "costmodel/time/machine.h"
#include "runtimes/megatron/search/choices.h"
#include "runtimes/megatron/search/step_time.h"

namespace headroom::plan {

/// Times of all plans of a cell of Megatron. What they share is computed once.
class CellTimes {
 public:
  /// `plan`: any plan of the cell. Keeps a reference to `choices`.
  CellTimes(const ir::ModelSpec& model, const ir::ParallelPlan& plan, const BlockTimes& blocks,
            const cost::Machine& machine, const MegatronChoices& choices);

  /// `step_parts` of plan number `index`.
  [[nodiscard]] StepParts parts(std::uint64_t index);

 private:
  [[nodiscard]] const PipelineParts& pipeline(std::uint64_t recomputation);
  [[nodiscard]] const ExchangeTimes& exchange();

  const cost::Machine& machine_;
  const MegatronChoices& choices_;
  PipelineTimes pipeline_;
  std::array<std::optional<ExchangeTimes>, 2> exchange_;  ///< Indexed by the order of the mesh.
  /// Indexed by recomputation, loss and the order of the mesh.
  std::vector<std::optional<PipelineParts>> pipelines_;
  ir::ParallelPlan plan_;  ///< Switches are set in it, so that it is not copied for each plan.
};

}  // namespace headroom::plan
