#pragma once

#include <vector>

#include "model_ir/plan/host_term.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::fsdp {

/// What Trainer's and Accelerate's checkpoints take of the host while they are saved and read.
///
/// Model:   state dicts are taken to the host. With version 2 they are sharded: each rank has its
///          shards of the weights, and after them of the states. With version 1 they are whole, on
///          rank 0. With offload, shards are on the host already. Only what is trained is saved of
///          a model with adapters.
/// Source:  huggingface/accelerate 1.15 src/accelerate/utils/dataclasses.py,
///          FullyShardedDataParallelPlugin.set_state_dict_type (offload_to_cpu);
///          utils/fsdp_utils.py, save_fsdp_model, save_fsdp_optimizer, load_fsdp_optimizer.
///          Recorded with version 2 (tests/measured/resume.jsonl.gz): two states of every shard are
///          copied to the host.
[[nodiscard]] std::vector<HostTerm> checkpoint_terms(const ModelSpec& model,
                                                     const ParallelPlan& plan);

/// The quantised weights that the first rank of a node keeps until FSDP1 shards them.
[[nodiscard]] std::vector<HostTerm> quantised_terms(const ModelSpec& model,
                                                    const ParallelPlan& plan);

}  // namespace headroom::ir::fsdp
