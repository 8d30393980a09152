#include "model_ir/runtime/torchtitan/memory_budget.h"

#include "model_ir/runtime/torchtitan/model.h"

namespace headroom::ir::torchtitan {

Sizes block_sizes(const ModelSpec& spec, std::int64_t batch, std::int64_t sequence) {
  return {.batch = batch,
          .sequence = sequence,
          .hidden = spec.hidden,
          .heads = spec.heads,
          .kv_heads = spec.kv_heads,
          .head_dim = spec.head_dim,
          .ffn = spec.ffn,
          .norms_heads = has_cosine_table(spec)};
}

Result<KeptValues> kept_under_budget(const ModelSpec& spec, const ParallelPlan& plan) {
  const TitanPlan titan = plan.titan.value_or(TitanPlan{});
  const std::int64_t batch = titan.pipeline > 1 ? titan.pipeline_batch : plan.micro_batch;
  return kept_values(block_sizes(spec, batch, plan.sequence), titan.memory_budget.value_or(1));
}

std::optional<Error> unsupported_budget(const ModelSpec& spec, const ParallelPlan& plan) {
  const TitanPlan titan = plan.titan.value_or(TitanPlan{});
  if (!titan.memory_budget) {
    return std::nullopt;
  }
  if (!titan.compiled) {
    return Error::invalid_argument("titan", "memory-budget without compiled",
                                   "compiled blocks, whose partitioner the budget is for");
  }
  if (plan.recompute != Recompute::kNone || titan.selective_operators) {
    return Error::invalid_argument("titan", "memory-budget beside another checkpointing",
                                   "one kind of checkpointing");
  }
  if (titan.float8 != Float8Recipe::kNone) {
    return Error::invalid_argument("titan", "memory-budget with float8",
                                   "products in 16 bits under a budget");
  }
  const Result<KeptValues> kept = kept_under_budget(spec, plan);
  return kept ? std::nullopt : std::optional(kept.error());
}

}  // namespace headroom::ir::torchtitan
