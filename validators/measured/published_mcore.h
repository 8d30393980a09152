#pragma once

#include "validators/measured/published_plan.h"

namespace headroom::check {

/// Turns a run of Megatron-LM, Megatron-Core or Megatron-Bridge that a table describes into a
/// setting.
///
/// Model:   layers are those of Transformer Engine, also for runs of 2021 and 2022 on Megatron's
///          own fused kernels; what a framework's recipe leaves unsaid is Megatron's default.
///          Switches that a row quotes in `other` count.
[[nodiscard]] PublishedPlanned plan_of_mcore_row(const MeasuredRow& row, const ScoreTools& tools);

}  // namespace headroom::check
