#pragma once

#include "runtimes/interface/runtime.h"

namespace headroom::ir::torchtune {

/// torchtune's recipes: on one GPU, under DDP, or on FSDP2 where the plan has FSDP's part.
[[nodiscard]] const Runtime& runtime();

}  // namespace headroom::ir::torchtune
