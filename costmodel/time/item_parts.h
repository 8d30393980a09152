#pragma once

#include <vector>

#include "costmodel/time/step_parts.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::cost {

/// The part of a step that each item of a program's work belongs to. Marks and waits, which take no
/// time, belong to `StepPart::kHost`.
[[nodiscard]] std::vector<StepPart> item_parts(const ir::RankProgram& program);

}  // namespace headroom::cost
