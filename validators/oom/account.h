#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/base/units.h"
#include "validators/oom/message.h"

namespace headroom::check {

/// What follows from a message without knowing what ran.
enum class OomCause : std::uint8_t {
  kLargerThanGpu,   ///< The request alone is larger than the GPU.
  kLimit,           ///< The limit of set_per_process_memory_fraction was reached.
  kOtherProcesses,  ///< Without other processes the request would have been served.
  kFragmentation,   ///< PyTorch held much unallocated memory, in pieces that are too small.
  kOutsidePyTorch,  ///< Much memory of this process is outside of PyTorch's allocator.
  kFreeButRefused,  ///< The message counts enough free memory.
  kNotEnough,       ///< None of these: the run needs more than the GPU has.
};
/// "fragmentation", "other processes".
[[nodiscard]] std::string_view name_of(OomCause cause);

/// The memory of a GPU at the moment of a message, by who holds it. The parts that the message does
/// not say are not set.
struct OomAccount {
  std::optional<Bytes> outside_pytorch;  ///< Of this process: CUDA context, NCCL, libraries.
  std::optional<Bytes> other_processes;
  std::optional<Bytes> unaccounted;  ///< The capacity less everything that is named.
  std::optional<Bytes> missing;      ///< Asked for and not free.
  /// The process of `OutOfMemoryMessage::others` that is taken to be this one: inside a container,
  /// PyTorch does not find itself among the processes that the driver lists.
  std::optional<OtherProcess> assumed_self;
  std::vector<std::string> contradictions;  ///< Sums that do not add up, in words.
};

/// Adds the figures of a message up.
///
/// Model:   if the processes, what PyTorch reserved and what is free are together more than the GPU
///          has, one of the processes is this one: of those that hold what PyTorch reserved, the
///          smallest. outside = process - reserved; other processes are summed; unaccounted =
///          capacity - free - this process (or what PyTorch reserved) - other processes.
///          Differences below the rounding of the printed figures are 0. Sums that exceed the
///          rounding are contradictions.
[[nodiscard]] OomAccount account_of(const OutOfMemoryMessage& message);

/// What follows, the most decisive first; at least one.
///
/// Model:   each cause is one whose removal would have served this request. Memory of this process
///          outside of PyTorch counts from `kMuchOutside` on. Unallocated memory counts from 1 /
///          `kFragmentedShare` of what PyTorch reserved on.
[[nodiscard]] std::vector<OomCause> causes_of(const OutOfMemoryMessage& message,
                                              const OomAccount& account);

/// A CUDA context takes 0.3 to 0.6 GiB, NCCL's buffers some hundred MiB (docs/model-assumptions.md,
/// "Outside the allocator").
inline constexpr std::int64_t kMuchOutside = 2 * kGiB;
/// 5 %, a choice: 94 replays that run out of memory with expandable segments leave 0.05 to 1.1 %
/// unallocated, so that little can be won back below it. Of 34 such replays without them, 26 leave
/// 0.3 to 4.0 % and 8 leave 6.4 to 24 %. (GPT-2, Llama 3, Qwen 2.5 and Mistral on T4, RTX 4090 and
/// A100 40 GB, with and without LoRA, micro-batches of 4 to 32.)
inline constexpr std::int64_t kFragmentedShare = 20;

}  // namespace headroom::check
