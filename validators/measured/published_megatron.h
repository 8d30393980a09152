#pragma once

#include "validators/measured/row_plan.h"
#include "validators/measured/score.h"

namespace headroom::check {

/// Turns a published run of Megatron-LM whose arguments are known (`other.model_args`) into a
/// setting of the last rank, which is the one that logs memory.
///
/// Model:   every argument is understood, known to move no bytes of a device, or a reason to skip
///          the row: "other.model_args.fp8-format: not modelled".
/// Source:  megatron/training/{arguments,training,global_vars}.py of NVIDIA/Megatron-LM.
[[nodiscard]] Planned plan_of_megatron_arguments(const MeasuredRow& row, const ScoreTools& tools);

}  // namespace headroom::check
