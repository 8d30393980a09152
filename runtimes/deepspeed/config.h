#pragma once

#include <string>
#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/runtime.h"

namespace headroom::ir::deepspeed {

/// A DeepSpeed configuration, read. The notes name keys that DeepSpeed itself would not look at and
/// parts that have no effect on a Hugging Face model.
using ConfigReading = ConfigurationReading;

/// Reads a ds_config.json into the plan that it asks for.
///
/// Model:   `arguments` stands for the trainer's own arguments: it fills every "auto" and keeps
///          what a configuration does not hold (attention, sequence, checkpointing, adapters). Keys
///          that are absent take DeepSpeed's defaults, gradient clipping at 1.0 among them. Under
///          "auto", with H the hidden size: reduce_bucket_size is H * H and, at stage 3,
///          stage3_prefetch_bucket_size int(0.9 * H * H), stage3_param_persistence_threshold
///          10 * H.
/// Errors:  kEnvironment or kInvalidInput for a file that cannot be read or is no JSON;
///          kInvalidInput with every fault of the file: a wrong type, a value out of range, a key
///          of a section that DeepSpeed does not know either, batch sizes that do not multiply, and
///          a setting that changes memory but is not modelled. Nothing is guessed.
/// Source:  deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/config.py, zero/config.py,
///          zero/offload_config.py, precision_config.py, engine.py (_configure_basic_optimizer);
///          huggingface/transformers 5.17.0 src/transformers/integrations/deepspeed.py.
[[nodiscard]] Result<ConfigReading> parse_config(std::string_view text, std::string_view file,
                                                 const ModelSpec& model,
                                                 const ParallelPlan& arguments);
/// `parse_config` of a file's content.
[[nodiscard]] Result<ConfigReading> read_config(const std::string& path, const ModelSpec& model,
                                                const ParallelPlan& arguments);

}  // namespace headroom::ir::deepspeed
