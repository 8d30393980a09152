#pragma once

#include <string_view>

#include "model_ir/base/result.h"
#include "validators/snapshot/memory_use.h"

namespace headroom::check {

/// Whether a text is one that `read_gpu_log` reads.
[[nodiscard]] bool is_gpu_log(std::string_view text);

/// Reads what nvidia-smi prints: its table, as often as it is in the text; the CSV of --query-gpu
/// and --query-compute-apps, with their header; the rows of dmon and pmon.
///
/// Units:   nvidia-smi's MB and MiB are both 2^20 bytes.
/// Errors:  kInvalidInput for a text without readings, without a column of used memory, or with
///          more than `kMostUseSamples` readings or `kMostUses` GPUs and processes.
/// Source:  nvidia-smi(1) of driver 550: --query-gpu, --query-compute-apps, dmon and pmon.
[[nodiscard]] Result<GpuLog> read_gpu_log(std::string_view text, std::string_view file);

}  // namespace headroom::check
