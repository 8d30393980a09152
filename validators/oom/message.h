#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/units.h"

namespace headroom::check {

/// A size as a message prints it: two decimals of a unit, so that it stands for a range.
struct PrintedSize {
  Bytes bytes;
  Bytes slack;  ///< Half of the last digit: the true size is `bytes` plus or minus this.
  [[nodiscard]] bool holds(Bytes size) const {
    return bytes - slack <= size && size <= bytes + slack;
  }
  friend bool operator==(const PrintedSize&, const PrintedSize&) = default;
};

/// Memory of the GPU that a process holds besides the one that failed.
struct OtherProcess {
  std::string number;  ///< As the message prints it.
  PrintedSize used;
  friend bool operator==(const OtherProcess&, const OtherProcess&) = default;
};

/// What the message advises. Releases up to 2.1 name max_split_size_mb, later ones expandable
/// segments.
enum class MessageHint : std::uint8_t { kNone, kMaxSplitSize, kExpandableSegments };

/// One out-of-memory message of PyTorch's caching allocator. What it does not say is not set.
struct OutOfMemoryMessage {
  std::string kind;  ///< "CUDA", "HIP", "XPU".
  std::string rank;  ///< What the launcher put before the line: "rank3"; empty: nothing.
  std::optional<std::int64_t> gpu;
  /// The size of the segment that the driver refused: the request, rounded up to 2 MiB, 20 MiB or a
  /// multiple of 2 MiB.
  PrintedSize asked;
  std::optional<PrintedSize> capacity;
  std::optional<PrintedSize> free;
  std::optional<PrintedSize> allowed;        ///< By torch.cuda.set_per_process_memory_fraction.
  std::optional<PrintedSize> process;        ///< All that this process holds on the GPU.
  std::optional<PrintedSize> allocated;      ///< By PyTorch, private pools included.
  std::optional<PrintedSize> private_pools;  ///< Of `allocated`, in pools of CUDA graphs.
  std::optional<PrintedSize> unallocated;    ///< Reserved by PyTorch and not allocated.
  std::optional<PrintedSize> reserved;       ///< Allocated and unallocated together.
  std::vector<OtherProcess> others;
  MessageHint hint = MessageHint::kNone;
};

/// Reads every out-of-memory message in a text: a log, a traceback or the message alone.
///
/// Model:   finds "out of memory. Tried to allocate" and reads the figures behind it by their
///          words. Lines of one rank belong together, whatever other ranks print in between; a
///          message may be broken into lines. Colours of terminals, frames of tracebacks and
///          prefixes of launchers ("[rank3]:", "[default3]:", "3:", timestamps, Ray's actors) are
///          removed.
/// Source:  c10/cuda/CUDACachingAllocator.cpp of PyTorch 1.13 to 2.11. Up to 2.0: "(GPU 0;
///          15.78 GiB total capacity; 14.56 GiB already allocated; 38.75 MiB free; 14.60 GiB
///          reserved in total by PyTorch)"; from 2.1 on: "GPU 0 has a total capacity of ... of
///          which ... is free", which 2.1 spells "capacty".
[[nodiscard]] std::vector<OutOfMemoryMessage> read_out_of_memory(std::string_view text);

/// What a text prints where an allocation outside of PyTorch's caching allocator failed: "CUDA
/// error: out of memory". Empty if it has none of these messages, which have no figures.
///
/// Source:  pytorch/pytorch c10/cuda/CUDAException.cpp and c10/cuda/driver_api.h;
///          triton-lang/triton third_party/nvidia/backend; NVIDIA/nccl src/include/checks.h, with
///          and without the number of the error; the status of cuBLAS where it creates a handle.
[[nodiscard]] std::string_view outside_allocation_failure(std::string_view text);

}  // namespace headroom::check
