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

/// Copies of a layer's activations to the host and back, each way on a stream of its own.
struct HostCopies {
  Seconds sent;
  Seconds fetched;
};

/// Sets of modules that selective recomputation tells apart here, and the number of one.
inline constexpr std::size_t kModuleSets = 8;
[[nodiscard]] std::size_t module_set(const ir::MegatronModules& modules);

/// One layer on one micro-batch, on one rank. What of the communication among the ranks of tensor,
/// context and expert parallelism does not run beside computing is part of each figure, and so is
/// what the device waits for the host.
struct LayerTimes {
  Seconds forward;
  Seconds backward;
  Seconds core_attention;  ///< What selective recomputation adds to backward with this module.
  Seconds norms;
  Seconds mlp;
  /// By `module_set` of what runs again, which does not go to the host; no part of `forward` and
  /// `backward`.
  std::array<HostCopies, kModuleSets> copies;
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
  /// Of interleaved stages, which send beside their work: what a pass through a chunk loses to it.
  std::array<Seconds, 2> beside;
  std::int64_t dense_parameters = 0;   ///< Of a dense layer, on one rank.
  std::int64_t sparse_parameters = 0;  ///< Of a sparse layer without its experts.
  std::int64_t expert_parameters = 0;  ///< Of a sparse layer's experts on one rank.
  std::int64_t table_parameters = 0;   ///< Embedding or head.
};

/// Times the pieces of `plan`, for Megatron.
///
/// Model:   the runtime lowers programs of three layers of a kind, on one stage and for one
///          micro-batch; layers that differ in their windows alone count as the mean of all; they
///          are priced as the step of a whole program is (`cost::price_program`), and the layer in
///          the middle is read off, with what stands before and behind the layers. Copies of
///          activations to the host are read off programs of their own.
/// Shapes:  T = B S / c tokens of a rank.
/// Errors:  those of the runtime's lowering.
[[nodiscard]] Result<BlockTimes> block_times(const ir::ModelSpec& model,
                                             const ir::ParallelPlan& plan,
                                             const cost::Machine& machine,
                                             const cost::DeviceSpec& device);

/// `blocks` of a plan with the same key, with the transfers of `plan`, whose stages may be further
/// from each other.
[[nodiscard]] BlockTimes with_transfers(BlockTimes blocks, const ir::ModelSpec& model,
                                        const ir::ParallelPlan& plan, const cost::Machine& machine);

}  // namespace headroom::plan
