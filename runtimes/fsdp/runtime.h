#pragma once

#include "runtimes/interface/runtime.h"

namespace headroom::ir::fsdp {

/// A model of transformers under FSDP2 or FSDP1.
[[nodiscard]] const Runtime& runtime();

/// The type of matrix products, which is that of the gathered parameters.
[[nodiscard]] DType gathered_dtype(const ParallelPlan& plan);

}  // namespace headroom::ir::fsdp
