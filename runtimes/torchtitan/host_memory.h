#pragma once

#include <vector>

#include "model_ir/plan/host_term.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::torchtitan {

/// What saving takes of the host: the tensors that torch.distributed.checkpoint copies ahead of the
/// file that it writes. Nothing else does: the model is made on the GPU, a checkpoint is read into
/// the shards one tensor at a time, and the data loader has no workers.
///
/// Model:   10 MB and the largest shard, which is the embedding's (checkpoint.async_mode
///          "disabled").
/// Ignores: async_mode "async" and "async_with_pinned_mem", which copy all shards and states.
/// Source:  pytorch/pytorch 2.11 torch/distributed/checkpoint/filesystem.py, FileSystemWriter
///          (per_thread_copy_ahead) and _OverlappingCpuLoader; torchtitan 0.2.2
///          torchtitan/components/checkpoint.py, dcp_save; config/job_config.py (num_workers).
[[nodiscard]] std::vector<HostTerm> host_terms(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace headroom::ir::torchtitan
