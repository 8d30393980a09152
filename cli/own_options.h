#pragma once

#include <span>
#include <string_view>

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

/// Takes out of `arguments` what they say of the option or key that `name` means, if `name` is a
/// framework's own spelling: the key tp of --megatron for "tensor-model-parallel-size".
void remove_own_option(std::string_view name, Arguments& arguments);

}  // namespace headroom::cli
