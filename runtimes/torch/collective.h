#pragma once

#include <cstdint>
#include <string_view>

#include "runtimes/torch/eager.h"

/// Collectives as torch.distributed's NCCL backend launches them. Those without `async_op` run on
/// the current stream: `Eager::run`.
/// Source: pytorch/pytorch 2.11 torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, collective and
///         pointToPoint.
namespace headroom::ir::torch {

/// Starts a collective on the stream of its group's communicator, after all work given to the
/// current stream so far. Returns the mark recorded after it, which `work.wait()` waits for.
/// `purpose` distinguishes communicators over the same ranks.
[[nodiscard]] std::uint32_t start_collective(Eager& eager, const CollectiveShape& shape,
                                             std::string_view purpose = "nccl");

/// The same, and the current stream waits for it: work.wait().
void finish_collective(Eager& eager, const CollectiveShape& shape,
                       std::string_view purpose = "nccl");

}  // namespace headroom::ir::torch
