#pragma once

#include "validators/dryrun/standin/cuda_abi.h"

namespace headroom::standin {

/// A kernel of a library: the host function that stands for it, and its mangled name.
void register_kernel(const void* host_function, const char* name);

/// Counts a launch, and notes what the kernel's name tells of the values that it writes.
///
/// Model:   PyTorch reads truth values by reducing a mask and downloading one byte; a reduction by
///          "and" is answered with true, one by "or" with false, which is what checks of masks and
///          of overflow find in a usual step. A fill by a constant writes what its arguments say.
/// Source:  PyTorch, aten/src/ATen/native/cuda/ReduceLogicKernel.cu (and_kernel_cuda) and
///          FillKernel.cu (FillFunctor), Loops.cuh (arguments: count, functor, pointers).
/// `arguments`: pointers to the kernel's arguments; null: not known.
void launch_kernel(const void* host_function, void** arguments);

Status function_attributes(FunctionAttributes* attributes, const void* host_function);

}  // namespace headroom::standin
