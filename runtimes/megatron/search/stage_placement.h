#pragma once

#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/time/machine.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "planner/placement/stage_placement.h"

namespace headroom::plan {

/// Placements for the stages of a Megatron plan: for the first stage, and for each other stage that
/// cannot keep everything. There are none for the other runtimes, for stages whose chunks differ,
/// and for plans that already offload modules' activations.
///
/// Model:   what a layer keeps of a pass is `kept_bytes`. For each option, the peak while
///          micro-batches run is read off the stage's whole program, with that option on all
///          layers. What it has above the bytes of the passes is the option's `fixed`. Times are
///          those of the closed form (`block_times`, `pipeline_parts`). Copies run at the rate of
///          the machine's link to the host. A copied layer keeps nothing on the device; if layers
///          are copied, one is in transit to or from the host and one is in use.
/// Ignores: several GPUs on one link to the host; the order of the layers, so that a rule, whose
///          peak is read off its own program, may fit although no order of the same counts does.
/// Errors:  those of the lowering.
[[nodiscard]] Result<std::vector<StagePlacement>> stage_placements(const ir::ModelSpec& model,
                                                                   const ir::ParallelPlan& plan,
                                                                   const cost::DeviceSpec& device,
                                                                   const cost::Machine& machine,
                                                                   Bytes capacity);

}  // namespace headroom::plan
