#include "planner/evaluate/sample_form.h"

#include <algorithm>
#include <numeric>

#include "costmodel/estimate.h"

namespace headroom::plan {
namespace {

std::int64_t chunk_layers(const ir::ModelSpec& model, const ir::MegatronPlan& megatron) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  return megatron.layers_per_chunk > 0 ? megatron.layers_per_chunk : layers / megatron.pipeline;
}

/// Whether layer `position` of a chunk is run again as a whole.
bool is_recomputed(const ir::MegatronPlan& megatron, std::int64_t position) {
  switch (megatron.recompute) {
    case ir::MegatronRecompute::kNone:
    case ir::MegatronRecompute::kSelective:
      return false;
    case ir::MegatronRecompute::kFullUniform:
      return true;
    case ir::MegatronRecompute::kFullBlock:
      return position < megatron.recompute_layers;
  }
  return false;
}

std::optional<std::vector<LayerRun>> runs_of(const ir::ModelSpec& model,
                                             const ir::MegatronPlan& megatron,
                                             std::int64_t offset) {
  const std::int64_t count = chunk_layers(model, megatron);
  std::vector<LayerRun> runs;
  for (std::int64_t position = 0; position < count; ++position) {
    const ir::LayerSpec& layer = model.layers[static_cast<std::size_t>(offset + position)];
    const bool again = is_recomputed(megatron, position);
    if (runs.empty() || !(runs.back().layer == layer) || runs.back().recomputed != again) {
      runs.push_back({.layer = layer, .units = 0, .group = 1, .recomputed = again});
    }
    ++runs.back().units;
  }
  const std::int64_t group = std::min(
      megatron.recompute == ir::MegatronRecompute::kFullUniform ? megatron.recompute_layers : 1,
      count);
  if (group > 1) {
    if (runs.size() > 1 || count % group != 0) {
      return std::nullopt;
    }
    runs[0].units = count / group;
    runs[0].group = group;
  }
  return runs;
}

}  // namespace

std::int64_t SampleForm::layers_per_chunk() const {
  return std::accumulate(
      runs.begin(), runs.end(), std::int64_t{0},
      [](std::int64_t sum, const LayerRun& run) { return sum + run.units * run.group; });
}

std::optional<SampleForm> form_of(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                  std::int64_t stage) {
  const ir::MegatronPlan& megatron = *plan.megatron;
  const std::int64_t per_chunk = chunk_layers(model, megatron);
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  SampleForm form;
  form.stages = megatron.pipeline;
  form.chunks = layers / megatron.pipeline / per_chunk;
  form.micro_batches = cost::replayed_micro_batches(plan);
  for (std::int64_t chunk = 0; chunk < form.chunks; ++chunk) {
    const std::int64_t offset = (chunk * megatron.pipeline + stage) * per_chunk;
    std::optional<std::vector<LayerRun>> runs = runs_of(model, megatron, offset);
    if (!runs || (chunk > 0 && *runs != form.runs)) {
      return std::nullopt;
    }
    form.runs = std::move(*runs);
  }
  return form;
}

ShortQuestion short_question(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                             const SampleForm& form) {
  ShortQuestion question{.model = model, .plan = plan};
  std::vector<ir::LayerSpec> chunk;
  std::int64_t recomputed = 0;
  for (const LayerRun& run : form.runs) {
    chunk.insert(chunk.end(), static_cast<std::size_t>(run.units * run.group), run.layer);
    recomputed += run.recomputed ? run.units * run.group : 0;
  }
  question.model.layers.clear();
  for (std::int64_t i = 0; i < form.stages * form.chunks; ++i) {
    question.model.layers.insert(question.model.layers.end(), chunk.begin(), chunk.end());
  }
  ir::MegatronPlan& megatron = *question.plan.megatron;
  megatron.pipeline = form.stages;
  megatron.layers_per_chunk = megatron.layers_per_chunk > 0 ? form.layers_per_chunk() : 0;
  if (megatron.recompute == ir::MegatronRecompute::kFullBlock) {
    megatron.recompute_layers = std::max<std::int64_t>(recomputed, 1);
  } else if (megatron.recompute == ir::MegatronRecompute::kFullUniform) {
    megatron.recompute_layers = form.runs.front().group;
  }
  megatron.distributed_optimizer = false;
  megatron.overlap_grad_reduce = false;
  megatron.overlap_param_gather = false;
  question.plan.accumulation = form.micro_batches;
  const std::int64_t experts =
      megatron.expert * (megatron.expert_tensor > 0 ? megatron.expert_tensor : megatron.tensor);
  question.plan.world = form.stages * std::lcm(megatron.tensor * megatron.context, experts);
  return question;
}

}  // namespace headroom::plan
