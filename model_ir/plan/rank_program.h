#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/units.h"
#include "model_ir/plan/device_work.h"
#include "model_ir/plan/host_term.h"
#include "model_ir/plan/phase_name.h"

namespace headroom::ir {

/// What a block of memory is for. Every breakdown has these categories.
enum class TensorRole : std::uint8_t {
  kParameter,
  kGradient,
  kOptimizerState,
  kMasterParameter,
  kActivation,     ///< Kept for backward.
  kLogits,         ///< Logits and the loss's tensors.
  kTemporary,      ///< Neither kept for backward nor persistent.
  kCommunication,  ///< Buckets and gather buffers.
  kWorkspace,      ///< Library workspaces.
  kBuffer,         ///< Non-trainable persistent tensors (rotary tables, quantisation state).
  kInput,
};
inline constexpr int kTensorRoleCount = 11;
[[nodiscard]] std::string_view name_of(TensorRole role);

/// Which pool of the caching allocator serves an allocation. Stream 0 is the compute stream.
using StreamId = std::uint8_t;

/// Index of a block in a `RankProgram`; never reused.
using BlockId = std::uint32_t;

enum class EventKind : std::uint8_t {
  kAllocate,
  kLetGo,  ///< A block that another stream has used is freed, but that stream is not known to be
           ///< done with it. The block no longer counts as allocated and can be reused only after
           ///< its `kFree`.
  kFree,
  kEmptyCache
};

/// One entry of a rank's memory history, in program order. 16 bytes: programs have 10^5 of them.
struct Event {
  EventKind kind = EventKind::kAllocate;
  TensorRole role = TensorRole::kTemporary;
  StreamId stream = 0;
  std::uint8_t reserved = 0;
  BlockId block = 0;
  std::int64_t bytes = 0;  ///< Requested bytes of an allocation, before any rounding; 0 for a free.
  std::uint32_t site = 0;  ///< Index into `RankProgram::sites`: the operator that allocates.
};

/// The operator on whose behalf something happens; turned into text only when shown.
struct Site {
  std::int32_t layer = -1;      ///< -1: outside the layers.
  std::uint16_t operation = 0;  ///< Index into `RankProgram::operations`.
  bool backward = false;
  friend bool operator==(const Site&, const Site&) = default;
};

/// A stretch of the program: "load", "step1.forward", ... as `docs/model-assumptions.md` lists.
struct Phase {
  PhaseName name;
  std::size_t begin = 0;       ///< First event.
  std::size_t end = 0;         ///< One past the last event.
  Work work;                   ///< Sums over the items below.
  std::size_t first_item = 0;  ///< In `RankProgram::work`.
  std::size_t end_item = 0;    ///< One past the last.
};

/// Position of a process among the `world` processes of a plan.
enum class Rank : std::int32_t {};

/// Everything one rank does to its memory, in order.
struct RankProgram {
  std::vector<Event> events;
  std::vector<Phase> phases;  ///< In order, without gaps.
  DeviceWork work;            ///< What the rank asks of the device's streams.
  std::vector<Site> sites;
  std::vector<std::string> operations;  ///< "silu", "rms_norm", "adamw.foreach".
  BlockId blocks = 0;                   ///< Number of distinct blocks.
  std::vector<HostTerm> host;           ///< Host memory that this rank holds (offload), by use.
  std::int64_t host_bytes = 0;          ///< Sum of what was asked for in `host`.
  std::int64_t nvme_bytes = 0;
  std::int64_t trainable_parameters = 0;
  std::int64_t parameters = 0;
};

/// Adds a piece of `bytes` to what the rank holds on the host from the first step on; negative:
/// such a piece is no longer held.
void hold_on_host(RankProgram& program, HostUse use, HostPages pages, std::int64_t bytes);

}  // namespace headroom::ir
