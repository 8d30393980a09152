#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cost {

/// How a figure outside the replay is known.
enum class Basis : std::uint8_t { kMeasured, kDerived, kAssumed };
/// "measured", "derived", "assumed".
[[nodiscard]] std::string_view name_of(Basis basis);

/// Device memory that the replay of the allocator does not see, by name.
struct OutsideTerm {
  std::string name;  ///< "CUDA context", "NCCL communicator"
  Bytes bytes;       ///< What the verdict takes away from the device.
  Bytes bound;       ///< What it may reach; never below `bytes`.
  Basis basis = Basis::kAssumed;
  std::string source;
  friend bool operator==(const OutsideTerm&, const OutsideTerm&) = default;
};

/// Everything that one rank of `plan` takes from its device besides what its allocator reserves.
///
/// Model:   the CUDA context; the kernels that lazy loading brings in later; with several ranks one
///          NCCL communicator per process, and its NVLink SHARP buffers where NCCL uses them for
///          all-reduce; userbuffers under --tp-comm-overlap; the buffers of
///          HybridEP's dispatcher.
/// Ignores: other processes and a display on the same GPU; one communicator per further process
///          group.
/// Source:  named in each term.
[[nodiscard]] std::vector<OutsideTerm> outside_terms(const ir::ModelSpec& model,
                                                     const ir::ParallelPlan& plan,
                                                     const DeviceSpec& device);

/// Sum of `OutsideTerm::bytes`.
[[nodiscard]] Bytes total_of(const std::vector<OutsideTerm>& terms);

}  // namespace headroom::cost
