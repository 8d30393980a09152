#pragma once

#include <cstdint>
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

/// All device memory that one rank of `plan` uses in addition to what its allocator reserves.
///
/// Model:   the CUDA context; kernels that lazy loading adds later; with several ranks one NCCL
///          communicator per process, and its NVLink SHARP buffers where NCCL uses them for
///          all-reduce; the framework's own buffers.
/// Ignores: other processes and a display on the same GPU; communicators of further process groups.
/// Source:  named in each term.
[[nodiscard]] std::vector<OutsideTerm> outside_terms(const ir::ModelSpec& model,
                                                     const ir::ParallelPlan& plan,
                                                     const DeviceSpec& device);

/// The part of `outside_terms` that every process has on `device`, whatever it runs: the CUDA
/// context, kernels that are loaded later and, with several ranks, an NCCL communicator.
[[nodiscard]] std::vector<OutsideTerm> process_terms(const DeviceSpec& device, std::int64_t ranks);

/// Sum of `OutsideTerm::bytes`.
[[nodiscard]] Bytes total_of(const std::vector<OutsideTerm>& terms);

}  // namespace headroom::cost
