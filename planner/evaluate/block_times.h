#pragma once

#include <array>
#include <cstdint>

#include "costmodel/time/machine.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::plan {

/// One layer on one micro-batch, on one rank. Communication among the ranks of tensor, context and
/// expert parallelism is part of each figure.
struct LayerTimes {
  Seconds forward;
  Seconds backward;
  Seconds core_attention;  ///< Of these, forward: what selective recomputation runs again.
  Seconds norms;
  Seconds mlp;
};

/// What a micro-batch takes on one rank, piece by piece: everything that depends on tensor sizes
/// and not on how many layers, stages and micro-batches there are.
struct BlockTimes {
  LayerTimes dense;
  LayerTimes sparse;
  Seconds embedding;            ///< Forward and backward.
  std::array<Seconds, 3> head;  ///< Forward and backward, by `ir::MegatronCrossEntropy`.
  /// Of a micro-batch's hidden states to the next stage, by `MegatronPlan::pipeline_before_data`.
  std::array<Seconds, 2> transfer;
  std::int64_t dense_parameters = 0;   ///< Of a dense layer, on one rank.
  std::int64_t sparse_parameters = 0;  ///< Of a sparse layer without its experts.
  std::int64_t expert_parameters = 0;  ///< Of a sparse layer's experts on one rank.
  std::int64_t table_parameters = 0;   ///< Embedding or head.
};

/// Times the pieces of `plan`, for Megatron.
///
/// Model:   the matrix products, fused attention, memory-bound kernels and collectives that the
///          runtime runs for one layer, each priced by `cost::work_time`.
/// Shapes:  T = B S / c tokens of a rank.
/// Ignores: what the host takes to hand out kernels, but for the products of experts; imbalance
///          among experts.
[[nodiscard]] BlockTimes block_times(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                     const cost::Machine& machine);

/// What of a plan `block_times` depends on: equal keys, equal times.
using BlockKey = std::array<std::int64_t, 16>;
[[nodiscard]] BlockKey block_key(const ir::ParallelPlan& plan);

}  // namespace headroom::plan
