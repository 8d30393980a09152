#include "runtimes/torchtitan/memory_budget.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtimes/torch/partitioner.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {

constexpr std::string_view kPartitionerVersion = "2.11";  ///< Version of PyTorch.

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

namespace {

Sizes sizes_under(const ModelSpec& spec, const ParallelPlan& plan) {
  const TitanPlan titan = titan_of(plan);
  const std::int64_t batch =
      plan.mesh.pipeline > 1 ? titan.pipeline_batch : plan.workload.micro_batch;
  return block_sizes(spec, batch, plan.workload.sequence);
}

}  // namespace

std::optional<KeptValues> kept_under_budget(const ModelSpec& spec, const ParallelPlan& plan) {
  const TitanPlan titan = titan_of(plan);
  if (!titan.memory_budget) {
    return std::nullopt;
  }
  const Sizes sizes = sizes_under(spec, plan);
  const KeptValues kept = kept_values(sizes, *titan.memory_budget).value();
  return kept == kept_values(sizes, 1).value() ? std::nullopt : std::optional(kept);
}

std::optional<Error> unsupported_budget(const ModelSpec& spec, const ParallelPlan& plan) {
  const TitanPlan titan = titan_of(plan);
  if (!titan.memory_budget) {
    return std::nullopt;
  }
  if (!titan.compiled) {
    return Error::invalid_argument(
        "titan", "has memory-budget, which needs compiled: it is a setting of torch.compile", {},
        "add compiled to --titan");
  }
  if (plan.recompute != Recompute::kNone || titan.selective_operators) {
    return Error::invalid_argument(
        "titan", "has memory-budget together with another kind of activation checkpointing", {},
        "leave out --checkpointing and selective, or memory-budget");
  }
  if (titan.float8 != Float8Recipe::kNone) {
    return Error::invalid_argument("titan", "with memory-budget and float8 is not modelled", {},
                                   "leave out float8 or memory-budget");
  }
  if (!plan.runtime_version.empty() && plan.runtime_version != kPartitionerVersion) {
    return Error::invalid_argument(
        "runtime-version", plan.runtime_version,
        std::string(kPartitionerVersion) +
            ": memory-budget is modelled for the partitioner of this version",
        "leave out --runtime-version or memory-budget");
  }
  const Result<KeptValues> kept = kept_values(sizes_under(spec, plan), *titan.memory_budget);
  return kept ? std::nullopt : std::optional(kept.error());
}

bool weighs_shared_keys(const ModelSpec& spec, const ParallelPlan& plan) {
  const double budget = titan_of(plan).memory_budget.value_or(1);
  if (budget <= 0 || budget >= 1 || spec.heads == spec.kv_heads) {
    return false;
  }
  // The partitioner needs the cost of recomputation only if it has to choose among these values,
  // whose recomputation takes products, attention or a reduction. If it keeps them all, it never
  // asks.
  const KeptValues kept = kept_values(sizes_under(spec, plan), budget).value();
  constexpr std::array<BlockValue, 6> kDear = {BlockValue::kRstd1,    BlockValue::kValues,
                                               BlockValue::kAttended, BlockValue::kProjected,
                                               BlockValue::kGate,     BlockValue::kUp};
  return !std::ranges::all_of(kDear, [&](BlockValue value) { return kept.has(value); });
}

LossKeeps loss_keeps(std::int64_t rows, std::int64_t vocabulary, double budget) {
  using torch::JointOp;
  constexpr std::int64_t kHalf = 2;
  constexpr std::int64_t kFull = 4;
  constexpr std::int64_t kLong = 8;
  std::vector<torch::JointNode> nodes;
  const auto add = [&](JointOp op, std::vector<std::size_t> reads, std::int64_t bytes) {
    nodes.push_back({.op = op, .reads = std::move(reads), .bytes = bytes});
    return nodes.size() - 1;
  };
  const auto point = [&](std::vector<std::size_t> reads, std::int64_t bytes) {
    return add(JointOp::kPointwise, std::move(reads), bytes);
  };
  const std::int64_t elements = rows * vocabulary;
  const std::size_t logits = add(JointOp::kInput, {}, elements * kHalf);
  const std::size_t labels = add(JointOp::kInput, {}, rows * kLong);
  const std::size_t wide =
      point({add(JointOp::kView, {logits}, elements * kHalf)}, elements * kFull);
  const std::size_t ids = add(JointOp::kView, {labels}, rows * kLong);
  const std::size_t greatest = point({wide}, rows * kFull);
  const std::size_t shifted = point({wide, greatest}, elements * kFull);
  const std::size_t sum = point({point({shifted}, elements * kFull)}, rows * kFull);
  const std::size_t log_sum = point({sum}, rows * kFull);
  const std::size_t log_probabilities = point({shifted, log_sum}, elements * kFull);
  const std::size_t valid = point({ids}, rows);
  const std::size_t chosen =
      point({log_probabilities, point({valid, ids}, rows * kLong)}, rows * kFull);
  const std::size_t masked = point({valid, point({chosen}, rows * kFull)}, rows * kFull);
  const std::size_t loss = point({masked}, kFull);
  nodes[loss].is_output = true;
  const std::size_t valid_again = point({ids}, rows);
  const std::size_t targets = point({point({valid_again, ids}, rows * kLong)}, elements * kFull);
  const std::size_t probabilities = point({log_probabilities}, elements * kFull);
  for (const std::size_t read : {targets, valid_again, probabilities}) {
    nodes[point({read}, elements * kFull)].is_gradient = true;
  }
  const std::vector<std::size_t> saved = torch::saved_nodes(nodes, budget);
  const auto keeps = [&](std::size_t node) {
    return std::ranges::find(saved, node) != saved.end();
  };
  return {.greatest = keeps(greatest), .log_sum = keeps(log_sum)};
}

}  // namespace headroom::ir::torchtitan
