#pragma once

#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/time/machine.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "planner/placement/stage_placement.h"

namespace headroom::plan {

/// The placements of a Megatron plan's stages: of the first, and of each other one that cannot keep
/// everything. Nothing for the other runtimes, for stages whose chunks differ, and for plans
/// that send modules' activations to the host already.
///
/// Model:   what a layer keeps of a pass is `kept_bytes`; peaks while micro-batches run are read
///          off the stage's whole program with each option on all layers, and what they have above
///          the passes' is the option's `fixed`. Times are those of the closed form (`block_times`,
///          `pipeline_parts`); copies go at the rate that the machine's link to the host reaches.
///          A layer that is copied keeps nothing on the device; where layers are, one is under way
///          to the host or back and one is in use.
/// Ignores: several GPUs on one link to the host; the order of the layers, so that a rule, whose
///          peak is read off its own program, may fit where its counts in any order do not.
/// Errors:  those of the lowering.
[[nodiscard]] Result<std::vector<StagePlacement>> stage_placements(const ir::ModelSpec& model,
                                                                   const ir::ParallelPlan& plan,
                                                                   const cost::DeviceSpec& device,
                                                                   const cost::Machine& machine,
                                                                   Bytes capacity);

}  // namespace headroom::plan
