#pragma once

#include "runtimes/interface/runtime.h"

namespace headroom::ir::fsdp {

/// A model of transformers under FSDP2 or FSDP1.
[[nodiscard]] const Runtime& runtime();

}  // namespace headroom::ir::fsdp
