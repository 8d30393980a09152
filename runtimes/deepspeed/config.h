#pragma once

#include <string>
#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/interface/runtime.h"

namespace headroom::ir::deepspeed {

/// The result of reading a DeepSpeed configuration. The notes name keys that DeepSpeed itself
/// ignores and parts that have no effect on a Hugging Face model.
using ConfigReading = ConfigurationReading;

/// Reads a ds_config.json into the plan that it requests.
///
/// Model:   `arguments` stands for the trainer's own arguments. They fill in every "auto" and what
///          a configuration does not contain (attention, sequence, checkpointing, adapters). Absent
///          keys take DeepSpeed's defaults, including gradient clipping at 1.0. Under "auto", with
///          hidden size H, reduce_bucket_size is H * H; at stage 3, stage3_prefetch_bucket_size is
///          int(0.9 * H * H) and stage3_param_persistence_threshold is 10 * H.
/// Errors:  kEnvironment or kInvalidInput for a file that cannot be read or is not JSON;
///          kInvalidInput with every fault of the file: a wrong type, a value out of range, a key
///          of a section that DeepSpeed does not know either, batch sizes whose product is wrong,
///          and a setting that changes memory but is not modelled. Nothing is guessed.
/// Source:  deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/config.py, zero/config.py,
///          zero/offload_config.py, precision_config.py, engine.py (_configure_basic_optimizer);
///          huggingface/transformers 5.17.0 src/transformers/integrations/deepspeed.py.
[[nodiscard]] Result<ConfigReading> parse_config(std::string_view text, std::string_view file,
                                                 const ModelSpec& model,
                                                 const ParallelPlan& arguments);
/// `parse_config` of the content of a file.
[[nodiscard]] Result<ConfigReading> read_config(const std::string& path, const ModelSpec& model,
                                                const ParallelPlan& arguments);

}  // namespace headroom::ir::deepspeed
