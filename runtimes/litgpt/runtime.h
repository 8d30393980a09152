#pragma once

#include "runtimes/interface/runtime.h"

namespace headroom::ir::litgpt {

/// LitGPT's model code and finetuning recipes.
[[nodiscard]] const Runtime& runtime();

}  // namespace headroom::ir::litgpt
