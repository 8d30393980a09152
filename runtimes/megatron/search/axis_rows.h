#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "planner/space/framework_search.h"
#include "runtimes/megatron/search/choices.h"
#include "runtimes/megatron/search/stage_forms.h"

namespace headroom::plan {

/// The assignment of a pipeline's layers to stages.
struct DealtLayers {
  StageForm form;
  std::int64_t chunk = 0;
};

struct MegatronMemory {
  std::map<std::int64_t, std::vector<StageForm>> forms;  ///< Indexed by the number of stages.
  std::vector<DealtLayers>
      dealt;  ///< The assignments for the degrees at the current position of the walk.
  ChoiceCounter counter;
};

/// The rows of Megatron's axes, in the order in which the walk nests them.
[[nodiscard]] std::vector<SearchAxis> megatron_axis_rows();

}  // namespace headroom::plan
