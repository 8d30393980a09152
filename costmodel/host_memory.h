#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/host_term.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::cost {

/// What a run takes of one node's host, with all the ranks that it has there.
struct HostMemory {
  std::vector<ir::HostTerm> terms;  ///< The terms of one rank; those with `once`, of the node.
  std::int64_t ranks = 1;           ///< Ranks of the run on one node.
  ir::HostSpan peak_span = ir::HostSpan::kTraining;  ///< The span in which the node holds most.
  Bytes rank_bytes;               ///< What one rank holds in `peak_span`, without terms held once.
  Bytes bytes;                    ///< What the node holds in `peak_span`.
  Bytes pinned;                   ///< Page-locked bytes among them.
  std::optional<Bytes> capacity;  ///< The node's memory; nothing: it is not judged.
  Bytes nvme;                     ///< Space used on the node's drives.
  std::optional<Bytes> nvme_capacity;

  /// Memory that is left; negative: missing. Requires `capacity`.
  [[nodiscard]] Bytes margin() const { return *capacity - bytes; }
  /// What is left of the memory or of the drives, whichever is less; negative: missing. Nothing if
  /// neither is judged.
  [[nodiscard]] std::optional<Bytes> least_margin() const {
    std::optional<Bytes> least;
    if (capacity) {
      least = margin();
    }
    if (nvme_capacity) {
      const Bytes drives = *nvme_capacity - nvme;
      least = least ? std::min(*least, drives) : drives;
    }
    return least;
  }
  [[nodiscard]] bool fits() const {
    return (!capacity || bytes <= *capacity) && (!nvme_capacity || nvme <= *nvme_capacity);
  }
  friend bool operator==(const HostMemory&, const HostMemory&) = default;
};

/// Host memory of a node whose ranks all hold what `program` holds.
///
/// Model:   what the framework records in the program (offload), what it says of loading, saving
///          and data loaders (`ir::Runtime::host_terms`), and the process itself. The peak is the
///          greatest sum over loading, training and saving. Reclaimable terms do not count.
/// Units:   bytes of a node; `ranks` is the smaller of the plan's ranks and the node's devices.
/// Ignores: the operating system and other processes; ranks that hold less than the one lowered.
/// Source:  named in each term.
[[nodiscard]] HostMemory host_memory(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                     const std::optional<HostSpec>& host,
                                     const ir::RankProgram& program);

/// The least of it for a plan whose program is not known (`ir::Runtime::held_on_host`).
[[nodiscard]] HostMemory host_floor(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                    const std::optional<HostSpec>& host);

/// What `ranks` ranks on a node may take of its memory.
[[nodiscard]] Bytes memory_of(const HostSpec& host, std::int64_t ranks);

}  // namespace headroom::cost
