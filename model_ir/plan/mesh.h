#pragma once

#include <cstdint>

namespace headroom::ir {

/// How the ranks of a run are divided: its degrees of parallelism. What is left of
/// `ParallelPlan::world` after tensor, pipeline and context parallelism is data parallelism.
///
/// Model:  a framework has rows for the degrees that it understands in its table of options; all
///         others stay at their defaults (`ParallelPlan::own` says whose plan it is).
/// Source: pytorch/torchtitan torchtitan/distributed/parallel_dims.py, ParallelDims;
///         NVIDIA/Megatron-LM megatron/core/parallel_state.py, initialize_model_parallel.
struct Mesh {
  std::int64_t tensor = 1;         ///< TP
  std::int64_t pipeline = 1;       ///< PP: stages.
  std::int64_t context = 1;        ///< CP: ranks that share a sequence.
  std::int64_t expert = 1;         ///< EP; uses ranks of the data-parallel group.
  std::int64_t expert_tensor = 0;  ///< ETP; 0: the framework's default.
  std::int64_t replicas = 1;       ///< Hybrid sharding: copies of the sharded model.

  friend bool operator==(const Mesh&, const Mesh&) = default;
};

}  // namespace headroom::ir
