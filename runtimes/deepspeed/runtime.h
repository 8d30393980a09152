#pragma once

#include "runtimes/interface/runtime.h"

namespace headroom::ir::deepspeed {

/// A model of transformers that a DeepSpeed engine trains.
[[nodiscard]] const Runtime& runtime();

}  // namespace headroom::ir::deepspeed
