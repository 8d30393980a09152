#pragma once

#include <vector>

#include "model_ir/plan/host_term.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::torchtune {

/// What torchtune's recipes take of the host while they load, save and resume.
///
/// Model:   every rank reads the whole checkpoint. Its weights are views of the mapped files;
///          queries' and keys' weights are reordered, which copies them; with parameters in fp32,
///          all are copies. Several GPUs: rank 0 gathers weights and states before it saves, and
///          every rank reads all states to resume, without mapping the file. One GPU: tensors are
///          written one by one. Data loaders have no workers.
/// Ignores: adapters; files that are written as a whole from the gathered weights.
/// Source:  pytorch/torchtune 0.6.1 torchtune/training/checkpointing/_utils.py, safe_torch_load;
///          _checkpointer.py, FullModelHFCheckpointer.load_checkpoint (mmap=False for the recipe's
///          state); torchtune/models/convert_weights.py, hf_to_tune; training/_distributed.py,
///          load_from_full_model_state_dict, gather_cpu_state_dict, get_full_optimizer_state_dict.
///          Measured with safetensors 0.8: tensors of `safe_open` are pages of the mapped file.
[[nodiscard]] std::vector<HostTerm> host_terms(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace headroom::ir::torchtune
