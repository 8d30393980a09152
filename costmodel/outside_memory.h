#pragma once

#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/outside_term.h"

namespace headroom::cost {

using ir::Basis;
using ir::name_of;
using ir::OutsideTerm;

/// Everything that one rank of `plan` takes from its device besides what its allocator reserves.
///
/// Model:   the CUDA context; the kernels that lazy loading brings in later; with several ranks one
///          NCCL communicator per process, and its NVLink SHARP buffers where NCCL uses them for
///          all-reduce; buffers of the framework's own.
/// Ignores: other processes and a display on the same GPU; one communicator per further process
///          group.
/// Source:  named in each term.
[[nodiscard]] std::vector<OutsideTerm> outside_terms(const ir::ModelSpec& model,
                                                     const ir::ParallelPlan& plan,
                                                     const DeviceSpec& device);

/// Sum of `OutsideTerm::bytes`.
[[nodiscard]] Bytes total_of(const std::vector<OutsideTerm>& terms);

}  // namespace headroom::cost
