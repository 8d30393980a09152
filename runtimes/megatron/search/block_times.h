#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/time/machine.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/megatron/plan.h"

namespace headroom::plan {

/// Times of copying a layer's activations to the host and back, each direction on a stream of its
/// own.
struct HostCopies {
  Seconds sent;
  Seconds fetched;
};

/// The number of sets of modules that selective recomputation distinguishes here, and the index of
/// a set.
inline constexpr std::size_t kModuleSets = 8;
[[nodiscard]] std::size_t module_set(const ir::MegatronModules& modules);

/// Times of one layer for one micro-batch on one rank. Each includes the exposed communication of
/// tensor, context and expert parallelism, and the time that the device waits for the host.
struct LayerTimes {
  Seconds forward;
  Seconds backward;
  /// What the first micro-batch of a step adds: weights are cast to 8 bits there, for all
  /// micro-batches.
  Seconds once;
  /// The time that a forward saves by running beside a backward, if the plan overlaps them.
  Seconds saved;
  Seconds core_attention;  ///< What selective recomputation of this module adds to backward.
  Seconds norms;
  Seconds mlp;
  /// Indexed by `module_set` of the recomputed modules, which are not offloaded. Not part of
  /// `forward` and `backward`.
  std::array<HostCopies, kModuleSets> copies;
};

/// Times of a micro-batch on one rank, piece by piece. They depend on tensor sizes, but not on the
/// number of layers, stages and micro-batches.
struct BlockTimes {
  LayerTimes dense;
  LayerTimes sparse;
  Seconds embedding;            ///< Forward and backward.
  std::array<Seconds, 3> head;  ///< Forward and backward, indexed by `ir::MegatronCrossEntropy`.
  /// Sending a micro-batch's hidden states to the next stage, indexed by
  /// `MegatronPlan::pipeline_before_data`.
  std::array<Seconds, 2> transfer;
  /// For interleaved stages, which overlap sending with computation: how much it slows a pass
  /// through a chunk.
  std::array<Seconds, 2> beside;
  /// The greatest share of a pass in which the device waits for the host. In a whole step the host
  /// may be ahead, so that the device waits less.
  double host_share = 0;
  std::int64_t dense_parameters = 0;   ///< Parameters of a dense layer on one rank.
  std::int64_t sparse_parameters = 0;  ///< Parameters of a sparse layer without its experts.
  std::int64_t expert_parameters = 0;  ///< Parameters of a sparse layer's experts on one rank.
  std::int64_t table_parameters = 0;   ///< Parameters of the embedding or of the output layer.
};

/// Times of the pieces of `plan` for Megatron.
///
/// Model:   the runtime lowers programs of three layers of one kind, on one stage and for one
///          micro-batch. With products in 8 bits there are two micro-batches; all later ones are
///          like the second. They are priced like the step of a whole program
///          (`cost::price_program`). The times of the middle layer and of the operators before and
///          after the layers are read off. Layers that differ only in their windows count as the
///          mean of all. Copies of activations to the host are read off separate programs.
/// Shapes:  T = B S / c tokens of a rank.
/// Errors:  those of the runtime's lowering.
[[nodiscard]] Result<BlockTimes> block_times(const ir::ModelSpec& model,
                                             const ir::ParallelPlan& plan,
                                             const cost::Machine& machine,
                                             const cost::DeviceSpec& device);

/// Combines `blocks` of a plan with the same key and the transfers of `plan`, whose stages may be
/// further apart.
[[nodiscard]] BlockTimes with_transfers(BlockTimes blocks, const ir::ModelSpec& model,
                                        const ir::ParallelPlan& plan, const cost::Machine& machine);

}  // namespace headroom::plan
