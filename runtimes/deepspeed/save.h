#pragma once

#include "runtimes/deepspeed/wrapper.h"

namespace headroom::ir::deepspeed {

/// The device allocations of saving a checkpoint.
///
/// Model:   stages 0 to 2 copy tensors to the host one by one. With
///          `stage3_gather_16bit_weights_on_model_save`, stage 3 gathers the 16-bit weights of one
///          module after the other (the form that transformers' Trainer and Accelerate save).
///          Without it each rank writes its own shards, which allocates nothing.
/// Ignores: parameters that stay gathered are partitioned before saving and gathered again
/// afterwards.
/// Source:  deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/engine.py,
///          _zero3_consolidated_16bit_state_dict.
void save_checkpoint(const EngineState& state);

}  // namespace headroom::ir::deepspeed
