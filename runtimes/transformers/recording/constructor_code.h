#pragma once

#include "model_ir/spec/dtype.h"
#include "model_ir/spec/recording/recording.h"

namespace headroom::ir::transformers {

/// The constructors of a model whose weights are read (from_pretrained): without what only
/// initialises parameters and buffers that exist already.
[[nodiscard]] RecordedCode without_initialisation(const RecordedCode& code);

/// The constructors under zero.Init, which casts each new floating-point tensor to `dtype`: what
/// makes buffers has this type. Parameters keep theirs.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/zero/partition_parameters.py,
///         zero_wrapper_for_fp_tensor_constructor.
[[nodiscard]] RecordedCode with_narrow_buffers(const RecordedCode& code, DType dtype);

}  // namespace headroom::ir::transformers
