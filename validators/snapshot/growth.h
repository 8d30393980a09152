#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "model_ir/base/units.h"
#include "validators/snapshot/history.h"
#include "validators/snapshot/snapshot.h"
#include "validators/snapshot/stack_rules.h"

namespace headroom::check {

/// A stack whose blocks take more memory from one moment to the next.
struct StackGrowth {
  std::string line;                 ///< The line of the model or user that asked.
  std::vector<std::string> frames;  ///< The innermost lines of the stack, those of C++ left out.
  BlockUse use = BlockUse::kUnexplained;
  std::vector<Bytes> bytes;  ///< Allocated at each moment.
  std::vector<std::size_t> blocks;
  bool steady = false;  ///< It grows from each moment to the next.

  /// Bytes that it grows by per step, rounded down; a step leads from one moment to the next.
  [[nodiscard]] Bytes per_step() const;
};

/// What grew over several moments.
struct Growth {
  std::vector<std::string> moments;  ///< Names: files, or "step 3".
  std::vector<Bytes> allocated;      ///< All of it at each moment.
  std::vector<StackGrowth> stacks;   ///< Largest growth per step first; only those that grew.
};

/// A snapshot with what is needed to name its stacks.
struct NamedSnapshot {
  std::string name;
  const Snapshot* snapshot = nullptr;
  const StackSorter* sorter = nullptr;
};

/// What grows from each snapshot to the next: blocks that are allocated when a snapshot is taken,
/// joined by the texts of their stacks, on all devices together.
///
/// Units:   bytes. Requires at least two snapshots.
[[nodiscard]] Growth growth_between(std::span<const NamedSnapshot> snapshots);

/// The entries after which a step of training ends: PyTorch's own marks of Optimizer.step, if the
/// snapshot has them, else the last entry of each stretch whose stacks are those of optimizers.
[[nodiscard]] std::vector<std::size_t> step_ends(const Snapshot& snapshot,
                                                 const StackSorter& sorter,
                                                 const DeviceHistory& history);

/// What grows from step to step within the history of one device.
///
/// Model:   the first step is left out, because optimizers allocate their states in it, and of long
///          histories all but the last 64 steps. A leak is a stack that grows in every step that is
///          compared.
/// Returns nothing in `stacks` if fewer than three steps remain.
[[nodiscard]] Growth growth_within(const Snapshot& snapshot, const StackSorter& sorter,
                                   const DeviceHistory& history);

}  // namespace headroom::check
