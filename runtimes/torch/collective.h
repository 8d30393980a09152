#pragma once

#include <cstdint>
#include <string_view>

#include "runtimes/torch/eager.h"

/// Collectives as torch.distributed's NCCL backend gives them to the device. Those that are called
/// without `async_op` run on the current stream: `Eager::run`.
/// Source: pytorch/pytorch 2.11 torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, collective and
///         pointToPoint.
namespace headroom::ir::torch {

/// Starts a collective on the stream of its group's communicator, which first waits for what the
/// current stream has been given. Returns the mark behind it; whoever waits for the work waits for
/// that. `purpose` tells apart several communicators over the same ranks.
[[nodiscard]] std::uint32_t start_collective(Eager& eager, const CollectiveShape& shape,
                                             std::string_view purpose = "nccl");

/// The same, and the current stream waits for it: work.wait().
void finish_collective(Eager& eager, const CollectiveShape& shape,
                       std::string_view purpose = "nccl");

}  // namespace headroom::ir::torch
