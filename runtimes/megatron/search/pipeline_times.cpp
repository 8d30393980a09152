#include "runtimes/megatron/search/pipeline_times.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "runtimes/megatron/options.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::plan {
namespace {

/// The number of recomputed layers among `count` layers of a chunk. They come first.
std::int64_t layers_again(const ir::ParallelPlan& plan, std::int64_t count) {
  switch (megatron_of(plan).recompute) {
    case ir::MegatronRecompute::kNone:
    case ir::MegatronRecompute::kSelective:
      return 0;
    case ir::MegatronRecompute::kFullUniform:
      return count;
    case ir::MegatronRecompute::kFullBlock:
      return std::min(count, megatron_of(plan).recompute_layers);
  }
  return 0;
}

/// The part of a layer's forward that its backward recomputes, in seconds. Beside another
/// micro-batch's exchange of tokens it may take no time, so that nothing is counted.
double selective_seconds(const ir::ParallelPlan& plan, const LayerTimes& layer) {
  if (megatron_of(plan).recompute != ir::MegatronRecompute::kSelective ||
      megatron_of(plan).overlap_expert_exchange) {
    return 0;
  }
  const ir::MegatronModules modules = ir::recomputed_modules(megatron_of(plan));
  return (modules.core_attention ? layer.core_attention.value() : 0) +
         (modules.norms ? layer.norms.value() : 0) + (modules.mlp ? layer.mlp.value() : 0);
}

}  // namespace

PipelineTimes::PipelineTimes(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                             const BlockTimes& blocks)
    : blocks_(blocks) {
  const auto sparse = [](const ir::LayerSpec& layer) { return layer.moe; };
  all_sparse_ = std::ranges::all_of(model.layers, sparse);
  if (!all_sparse_ && std::ranges::any_of(model.layers, sparse)) {
    sparse_before_.push_back(0);
    for (const ir::LayerSpec& layer : model.layers) {
      sparse_before_.push_back(sparse_before_.back() + (layer.moe ? 1 : 0));
    }
  }
  add_stages(model, plan);
  count_held(model);
}

void PipelineTimes::add_stages(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  chunks_ = ir::chunks_per_stage(plan, layers);
  std::vector<std::vector<Span>> spans(static_cast<std::size_t>(plan.mesh.pipeline));
  std::int64_t first = 0;
  for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
    for (std::int64_t stage = 0; stage < plan.mesh.pipeline; ++stage) {
      const std::int64_t count =
          ir::chunk_layer_count(plan, layers, {.stage = stage, .chunk = chunk});
      spans[static_cast<std::size_t>(stage)].push_back(
          {.first = sparse_before_.empty() ? 0 : first, .count = count});
      first += count;
    }
  }
  for (std::size_t stage = 0; stage < spans.size(); ++stage) {
    add_stage({.chunks = std::move(spans[stage]),
               .first = stage == 0,
               .last = stage + 1 == spans.size()});
  }
}

void PipelineTimes::add_stage(Stage stage) {
  for (const Span& span : stage.chunks) {
    const std::int64_t sparse = sparse_of(span, span.count);
    stage.sparse += sparse;
    stage.dense += span.count - sparse;
  }
  const auto same = [&](const Stage& other) {
    return !other.first && !stage.last && other.chunks == stage.chunks;
  };
  if (!stages_.empty() && same(stages_.back())) {
    ++stages_.back().number;
  } else {
    stages_.push_back(std::move(stage));
  }
}

std::int64_t PipelineTimes::sparse_of(const Span& span, std::int64_t count) const {
  if (sparse_before_.empty()) {
    return all_sparse_ ? count : 0;
  }
  return sparse_before_[static_cast<std::size_t>(span.first + count)] -
         sparse_before_[static_cast<std::size_t>(span.first)];
}

void PipelineTimes::count_held(const ir::ModelSpec& model) {
  for (const Stage& stage : stages_) {
    const bool both = stage.first && stage.last && !model.tied_embeddings;
    const std::int64_t tables = both ? 2 : (stage.first || stage.last ? 1 : 0);
    const HeldParameters held{
        .dense = static_cast<double>(stage.dense * blocks_.dense_parameters +
                                     stage.sparse * blocks_.sparse_parameters +
                                     tables * blocks_.table_parameters),
        .experts = static_cast<double>(stage.sparse * blocks_.expert_parameters),
        .tables = static_cast<double>(tables * blocks_.table_parameters)};
    if (held.dense + held.experts > held_.dense + held_.experts) {
      held_ = held;
    }
  }
  const bool sparse = model.layers.front().moe;
  held_.table = static_cast<double>(blocks_.table_parameters);
  held_.layer = static_cast<double>(sparse ? blocks_.sparse_parameters : blocks_.dense_parameters);
  held_.layer_experts = sparse ? static_cast<double>(blocks_.expert_parameters) : 0;
}

double PipelineTimes::copies_of(const ir::ParallelPlan& plan, const Stage& stage,
                                double again) const {
  const auto sum = [&](Seconds dense, Seconds sparse) {
    return static_cast<double>(stage.dense) * dense.value() +
           static_cast<double>(stage.sparse) * sparse.value();
  };
  const std::size_t set = module_set(ir::recomputed_modules(megatron_of(plan)));
  const HostCopies& dense = blocks_.dense.copies.at(set);
  const HostCopies& sparse = blocks_.sparse.copies.at(set);
  double sent = sum(dense.sent, sparse.sent);
  double fetched = sum(dense.fetched, sparse.fetched);
  if (sent + fetched <= 0) {
    return 0;
  }
  const bool at_once = stage.last && chunks_ == 1;
  if (at_once) {
    const auto layers = static_cast<double>(stage.dense + stage.sparse);
    sent *= (layers - 1) / layers;
    fetched *= (layers - 1) / layers;
  }
  const auto loss = static_cast<std::size_t>(megatron_of(plan).cross_entropy);
  const double head = stage.last ? blocks_.head.at(loss).value() : 0;
  const double forward = sum(blocks_.dense.forward, blocks_.sparse.forward) + head;
  const double backward = sum(blocks_.dense.backward, blocks_.sparse.backward) + again;
  const double late = std::max(0.0, fetched - backward);
  const double beside = at_once ? forward : forward + backward + late;
  return late + std::max(0.0, sent - beside);
}

PipelineTimes::Times PipelineTimes::times_of(const ir::ParallelPlan& plan,
                                             const Stage& stage) const {
  const auto times = [](std::int64_t count, double seconds) {
    return static_cast<double>(count) * seconds;
  };
  const auto both = [](const LayerTimes& layer) {
    return (layer.forward + layer.backward).value();
  };
  std::int64_t dense_again = 0;
  std::int64_t sparse_again = 0;
  for (const Span& span : stage.chunks) {
    const std::int64_t again = layers_again(plan, span.count);
    const std::int64_t sparse = sparse_of(span, again);
    sparse_again += sparse;
    dense_again += again - sparse;
  }
  Times result;
  result.plain =
      times(stage.dense, both(blocks_.dense)) + times(stage.sparse, both(blocks_.sparse));
  result.again = times(dense_again, blocks_.dense.forward.value()) +
                 times(sparse_again, blocks_.sparse.forward.value()) +
                 times(stage.dense, selective_seconds(plan, blocks_.dense)) +
                 times(stage.sparse, selective_seconds(plan, blocks_.sparse));
  result.once = times(stage.dense, blocks_.dense.once.value()) +
                times(stage.sparse, blocks_.sparse.once.value());
  result.saved = times(stage.sparse, blocks_.sparse.saved.value());
  if (stage.first) {
    result.plain += blocks_.embedding.value();
  }
  if (stage.last) {
    const auto form = static_cast<std::size_t>(megatron_of(plan).cross_entropy);
    result.plain += blocks_.head[form].value();
  }
  result.copies = copies_of(plan, stage, result.again);
  const std::size_t order = megatron_of(plan).pipeline_before_data ? 1 : 0;
  if (plan.mesh.pipeline > 1 && !ir::is_interleaved(plan)) {
    result.plain += 2 * blocks_.transfer.at(order).value();
  } else {
    result.plain += times(chunks_, blocks_.beside.at(order).value());
  }
  return result;
}

PipelineParts PipelineTimes::parts(const ir::ParallelPlan& plan) const {
  Times slowest;
  double sum = 0;
  for (const Stage& stage : stages_) {
    const Times one = times_of(plan, stage);
    sum += static_cast<double>(stage.number) * one.whole();
    if (one.whole() > slowest.whole()) {
      slowest = one;
    }
  }
  const double count = static_cast<double>(plan.workload.accumulation);
  const std::int64_t stages = plan.mesh.pipeline;
  double sent = 0;  // The pipeline fills chunk by chunk and drains once.
  if (ir::is_interleaved(plan)) {
    const Seconds transfer = blocks_.transfer.at(megatron_of(plan).pipeline_before_data ? 1 : 0);
    sent = static_cast<double>(chunks_ * stages + stages - 1) * transfer.value();
  }
  // Micro-batches that run forward beside a backward: all but those of the last stage's warm-up.
  const double alone = stages > 1
                           ? 1.0 / static_cast<double>(chunks_) + static_cast<double>(chunks_ - 1) /
                                                                      static_cast<double>(chunks_) *
                                                                      static_cast<double>(stages)
                           : 1;
  const double saved = std::max(0.0, count - alone) * slowest.saved;
  return {.forward_backward = Seconds{count * slowest.plain + slowest.once - saved},
          .recomputation = Seconds{count * slowest.again},
          .copies = Seconds{count * slowest.copies},
          .bubble = Seconds{(sum - slowest.whole()) / static_cast<double>(chunks_) + sent},
          .micro_batch = Seconds{slowest.whole() - slowest.saved},
          .chunks = chunks_};
}

PipelineParts pipeline_parts(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                             const BlockTimes& blocks) {
  return PipelineTimes(model, plan, blocks).parts(plan);
}

}  // namespace headroom::plan
