#pragma once

#include <span>

#include "cli/arguments.h"
#include "model_ir/base/result.h"

namespace headroom::cli {

/// The frameworks' own arguments as options that the help does not list:
/// "tensor-model-parallel-size", "zero_optimization.stage", "parallelism.tensor_parallel_degree".
[[nodiscard]] std::span<const OptionSpec> own_option_specs();

/// The same arguments, with every framework's own spelling replaced by the option that it means:
/// `--tensor-model-parallel-size 8` becomes `--megatron tp=8`.
///
/// Errors:  kInvalidArgument for a value that the framework's argument does not accept.
[[nodiscard]] Result<Arguments> with_own_options(const Arguments& arguments);

}  // namespace headroom::cli
