#pragma once

#include <string>

#include "model_ir/base/result.h"
#include "validators/executor/confirmation.h"

namespace headroom::cli {

/// The GPU that "cuda" or "cuda:N" names, behind the plugin for CUDA.
///
/// Errors:  kInvalidArgument for other words; those of `exec::load_cuda_backend`.
[[nodiscard]] Result<exec::DeviceChoice> read_cuda_device(const std::string& text);

}  // namespace headroom::cli
