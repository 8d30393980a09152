#pragma once

#include "runtimes/interface/runtime.h"

namespace headroom::ir::deepspeed {

/// A model of transformers, trained by a DeepSpeed engine.
[[nodiscard]] const Runtime& runtime();

}  // namespace headroom::ir::deepspeed
