#pragma once

#include "runtimes/interface/runtime.h"

namespace headroom::ir::torchtune {

/// torchtune's recipes: on one GPU, under DDP, or with FSDP2 if the plan has FSDP's options.
[[nodiscard]] const Runtime& runtime();

}  // namespace headroom::ir::torchtune
