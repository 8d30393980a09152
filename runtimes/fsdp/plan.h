#pragma once

#include <cstdint>
#include <span>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/plan_words.h"
#include "model_ir/spec/dtype.h"

namespace headroom::ir {

/// When FullyShardedDataParallel gathers the next unit in backward.
enum class FsdpPrefetch : std::uint8_t {
  kBackwardPre,   ///< Before the gradients of the current unit are computed.
  kBackwardPost,  ///< After they are computed, before they are reduced.
  kNone,
};

/// PyTorch's FSDP: one group of parameters per layer and one for the rest.
struct FsdpPlan {
  /// 2: torch.distributed.fsdp.fully_shard. 1: FullyShardedDataParallel as Accelerate sets it up.
  int version = 2;
  /// Parameters are resharded after forward and gathered again for backward.
  bool reshard_after_forward = true;
  bool shard_decoder = true;          ///< An encoder-decoder's decoder layers are groups as well.
  bool shard_embeddings = false;      ///< Embedding and head are groups of their own, unless tied.
  DType param_dtype = DType::kBf16;   ///< Type of the gathered parameters and of the arithmetic.
  DType reduce_dtype = DType::kFp32;  ///< Type in which gradients are reduced.
  /// After forward, parameters are resharded among only this many ranks; 0: among all ranks.
  std::int64_t reshard_ranks = 0;
  bool cpu_offload = false;  ///< CPUOffloadPolicy: shards, gradients and states on the host.
  // Version 1 only.
  bool use_orig_params = true;  ///< false: the optimizer sees one flat tensor per unit.
  FsdpPrefetch backward_prefetch = FsdpPrefetch::kBackwardPre;
  bool forward_prefetch = false;  ///< The next unit is gathered before this one runs.
  /// Quantised weights stay on the host until they are sharded.
  bool quantised_on_host = false;
  friend bool operator==(const FsdpPlan&, const FsdpPlan&) = default;
};

/// FSDP's options of a plan; the defaults if it has none.
[[nodiscard]] inline const FsdpPlan& fsdp_of(const ParallelPlan& plan) {
  return plan.own.get<FsdpPlan>();
}
/// The same to edit, which adds them to a plan that has none.
inline FsdpPlan& edit_fsdp(ParallelPlan& plan) {
  return plan.own.edit<FsdpPlan>();
}
/// Whether the plan has them.
[[nodiscard]] inline bool has_fsdp(const ParallelPlan& plan) {
  return plan.own.has<FsdpPlan>();
}

[[nodiscard]] std::span<const Word<FsdpPrefetch>> fsdp_prefetch_words();

}  // namespace headroom::ir
