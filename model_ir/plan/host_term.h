#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model_ir/base/units.h"

namespace headroom::ir {

/// What a part of the host's memory is for.
enum class HostUse : std::uint8_t {
  kProcess,  ///< Python, its libraries, and the host's part of the CUDA context.
  kParameters,
  kMasterParameters,
  kOptimizerStates,
  kGradients,
  kActivations,
  kStaging,      ///< Buffers that copies pass through, and pinned blocks that PyTorch keeps.
  kLoading,      ///< Copies of the model until it is on the device.
  kSaving,       ///< Copies of what a checkpoint writes.
  kDataLoaders,  ///< Processes that prepare batches.
  kPageCache,    ///< Files that the kernel keeps in memory.
};
/// "optimizer states"
[[nodiscard]] std::string_view name_of(HostUse use);

/// How host memory is held.
enum class HostPages : std::uint8_t {
  kPageable,
  kPinned,       ///< Page-locked, as many bytes as were asked for.
  kPinnedBlock,  ///< Page-locked by PyTorch (`pinned_block`).
};

/// The part of a run in which host memory is held.
enum class HostSpan : std::uint8_t {
  kWholeRun,
  kLoading,   ///< While the model is loaded.
  kResuming,  ///< While a checkpoint with optimizer states is read into what training holds.
  kTraining,  ///< Held from the first step on; also while a checkpoint is read or saved.
  kSaving,    ///< While a checkpoint is saved.
};
/// "training", "saving a checkpoint"
[[nodiscard]] std::string_view name_of(HostSpan span);

/// A part of what a rank, or a node, holds in the host's memory.
struct HostTerm {
  HostUse use = HostUse::kProcess;
  HostSpan span = HostSpan::kTraining;
  bool pinned = false;
  bool once = false;         ///< Held once on a node; otherwise by each of its ranks.
  bool reclaimable = false;  ///< The kernel drops it when memory runs short: it does not count.
  Bytes requested;
  Bytes bytes;              ///< The bytes that it takes after rounding.
  std::string_view source;  ///< Empty: the framework's code at the place that records it.
  friend bool operator==(const HostTerm&, const HostTerm&) = default;
};

/// The block that PyTorch's pinned allocator takes for a request: the next power of two.
///
/// Units:   bytes.
/// Source:  pytorch/pytorch 2.11 aten/src/ATen/core/CachingHostAllocator.h, allocate
///          (PowerOf2Ceil); seen with 2.11 in vllm-project/vllm#53042: 2.08 GiB take 4 GiB. One
///          training process on an H200 shows it, too (tests/unit/costmodel/host_memory_test.cpp).
[[nodiscard]] std::int64_t pinned_block(std::int64_t bytes);

/// Adds `bytes`, held in one piece, to the term of the same use, span and kind of pages; negative:
/// a piece of so many bytes is no longer held.
void add_to(std::vector<HostTerm>& terms, const HostTerm& kind, HostPages pages,
            std::int64_t bytes);

}  // namespace headroom::ir
