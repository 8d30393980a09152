#pragma once

#include <string>
#include <string_view>

#include "model_ir/base/result.h"
#include "validators/snapshot/snapshot.h"

namespace headroom::check {

/// Reads a memory snapshot: the pickle that torch.cuda.memory._dump_snapshot(FILE) writes, or one
/// of torch.cuda.memory._snapshot() or torch.cuda.memory_snapshot().
///
/// Model:   `read_pickle`, then the fields that PyTorch 1.13 to 2.11 write; others are ignored.
///          Releases before 2.1 keep the stacks of a block under "history"; of these the first
///          counts. Equal stacks are stored once. Segments are sorted, and free blocks fill the
///          gaps between those of a segment.
/// Errors:  those of `read_pickle`; kInvalidInput with the place for a pickle of another form, for
///          sizes below 0 or above 1 TiB, for blocks that overlap or lie outside of their segment,
///          and for more than four million entries.
/// Source:  pytorch torch/csrc/cuda/Module.cpp (THCPModule_memorySnapshot) and
///          torch/cuda/memory.py, releases 1.13 to 2.11.
[[nodiscard]] Result<Snapshot> read_snapshot(std::string bytes, std::string_view file);

}  // namespace headroom::check
