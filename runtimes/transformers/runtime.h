#pragma once

#include "runtimes/interface/runtime.h"

namespace headroom::ir::transformers {

/// Hugging Face transformers, alone or under DistributedDataParallel.
[[nodiscard]] const Runtime& runtime();

}  // namespace headroom::ir::transformers
