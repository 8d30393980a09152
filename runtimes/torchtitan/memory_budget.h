#pragma once

#include <cstdint>
#include <optional>

#include "model_ir/base/error.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/torchtitan/kept_values.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {

/// Sizes of a block of `spec`, whose activations are bf16.
[[nodiscard]] Sizes block_sizes(const ModelSpec& spec, std::int64_t batch, std::int64_t sequence);

/// What each block keeps under `TitanPlan::memory_budget`, if that is less than without a budget.
/// If it is the same, the compiler makes the same function. All micro-batches have one size.
/// Requires a plan that `unsupported_budget` accepts.
[[nodiscard]] std::optional<KeptValues> kept_under_budget(const ModelSpec& spec,
                                                          const ParallelPlan& plan);

/// The numbers per row that the compiled loss keeps besides the logits and the labels.
struct LossKeeps {
  bool greatest = true;
  bool log_sum = true;
  friend bool operator==(const LossKeeps&, const LossKeeps&) = default;
};

/// The budget applies to every compiled function, so also to cross entropy.
/// Source: the joint graph that PyTorch 2.11 traces of cross_entropy_loss, pytorch/torchtitan 0.2.2
///         torchtitan/components/loss.py.
[[nodiscard]] LossKeeps loss_keeps(std::int64_t rows, std::int64_t vocabulary, double budget);

/// Whether the partitioner's choice needs the cost of attention with grouped queries. PyTorch 2.11
/// itself fails there, because its FLOP counter asserts that keys have as many heads as queries.
/// The result is the choice of later versions, which count the heads of queries.
/// Source: pytorch/pytorch 2.11 torch/utils/flop_counter.py, sdpa_flop_count; pytorch/pytorch pull
///         request 177188.
/// Requires a plan that `unsupported` accepts.
[[nodiscard]] bool weighs_shared_keys(const ModelSpec& spec, const ParallelPlan& plan);

/// Why blocks under a budget cannot run. Returns nothing if they can, or if there is no budget.
/// Source: pytorch/torchtitan 0.2.2 torchtitan/distributed/activation_checkpoint.py, apply_ac.
[[nodiscard]] std::optional<Error> unsupported_budget(const ModelSpec& spec,
                                                      const ParallelPlan& plan);

}  // namespace headroom::ir::torchtitan
