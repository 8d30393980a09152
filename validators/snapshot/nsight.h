#pragma once

#include <string>
#include <string_view>

#include "model_ir/base/result.h"
#include "validators/snapshot/memory_use.h"

namespace headroom::check {

/// Whether a file begins like an SQLite database.
[[nodiscard]] bool is_sqlite(std::string_view bytes);

/// Reads the device memory that CUDA allocated from an export of Nsight Systems (`nsys export
/// --type sqlite`), which was recorded with --cuda-memory-usage=true. Every event is a reading: the
/// bytes that are allocated after it, by device and by process.
///
/// Model:   device memory, arrays and static variables count; pinned and managed memory does not.
///          The database is read from memory: no file is opened and nothing is written.
/// Errors:  kEnvironment if Headroom was built without SQLite; kInvalidInput for a damaged
/// database,
///          one without the table of memory events, or one with too many of them.
/// Source:  NVIDIA, "Nsight Systems Exporter", SQLite schema reference:
///          CUDA_GPU_MEMORY_USAGE_EVENTS, ENUM_CUDA_MEM_KIND, ENUM_CUDA_DEV_MEM_EVENT_OPER, and the
///          layout of globalPid.
[[nodiscard]] Result<GpuLog> read_nsight(std::string bytes, std::string_view file);

}  // namespace headroom::check
