#include "runtimes/megatron/search/sample_form.h"

#include <algorithm>
#include <numeric>

#include "costmodel/estimate.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::plan {
namespace {

/// Whether layer `position` of a chunk is recomputed as a whole.
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
                                             const ir::LayerSpan& span) {
  std::vector<LayerRun> runs;
  for (std::int64_t position = 0; position < span.count; ++position) {
    const ir::LayerSpec& layer = model.layers[static_cast<std::size_t>(span.first + position)];
    const bool again = is_recomputed(megatron, position);
    if (runs.empty() || !(runs.back().layer == layer) || runs.back().recomputed != again) {
      runs.push_back({.layer = layer, .units = 0, .group = 1, .recomputed = again});
    }
    ++runs.back().units;
  }
  const std::int64_t group = std::min(
      megatron.recompute == ir::MegatronRecompute::kFullUniform ? megatron.recompute_layers : 1,
      span.count);
  if (group > 1) {
    if (runs.size() > 1 || span.count % group != 0) {
      return std::nullopt;
    }
    runs[0].units = span.count / group;
    runs[0].group = group;
  }
  return runs;
}

/// `runs` with one unit less of the last run.
std::vector<LayerRun> shortened(std::vector<LayerRun> runs) {
  if (--runs.back().units == 0) {
    runs.pop_back();
  }
  return runs;
}

}  // namespace

std::int64_t SampleForm::layers_per_chunk() const {
  return std::accumulate(
      runs.begin(), runs.end(), std::int64_t{0},
      [](std::int64_t sum, const LayerRun& run) { return sum + run.units * run.group; });
}

bool SampleForm::is_short(std::int64_t chunk) const {
  return (first_short && chunk == 0) || (last_short && chunk == chunks - 1);
}

std::optional<SampleForm> form_of(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                  std::int64_t stage) {
  const ir::MegatronPlan& megatron = megatron_of(plan);
  // Peaks of joint passes are not linear in the number of layers.
  if (!megatron.pipeline_layout.empty() || megatron.overlap_expert_exchange) {
    return std::nullopt;
  }
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  SampleForm form;
  form.stages = plan.mesh.pipeline;
  form.chunks = ir::chunks_per_stage(plan, layers);
  form.micro_batches = cost::replayed_micro_batches(plan);
  const bool interleaved = form.chunks > 1;
  form.first_short = interleaved && megatron.account_for_embedding && stage == 0;
  form.last_short = interleaved && megatron.account_for_loss && stage == plan.mesh.pipeline - 1;
  std::vector<std::vector<LayerRun>> chunks;
  for (std::int64_t chunk = 0; chunk < form.chunks; ++chunk) {
    const ir::LayerSpan span = ir::chunk_layers(plan, layers, {stage, chunk});
    std::optional<std::vector<LayerRun>> runs = runs_of(model, megatron, span);
    if (!runs || runs->empty()) {
      return std::nullopt;
    }
    if (!form.is_short(chunk)) {
      form.runs = *runs;
    }
    chunks.push_back(std::move(*runs));
  }
  for (std::int64_t chunk = 0; chunk < form.chunks; ++chunk) {
    const auto& runs = chunks[static_cast<std::size_t>(chunk)];
    if (form.runs.empty() || runs != (form.is_short(chunk) ? shortened(form.runs) : form.runs)) {
      return std::nullopt;
    }
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
    const bool one_less =
        (form.first_short && i == 0) || (form.last_short && i == form.stages * form.chunks - 1);
    question.model.layers.insert(question.model.layers.end(), chunk.begin(),
                                 chunk.end() - (one_less ? 1 : 0));
  }
  ir::MegatronPlan& megatron = edit_megatron(question.plan);
  megatron.first_stage_layers = megatron.last_stage_layers = 0;
  megatron.account_for_embedding = form.first_short;
  megatron.account_for_loss = form.last_short;
  question.plan.mesh.pipeline = form.stages;
  megatron.layers_per_chunk = megatron.layers_per_chunk > 0 ? form.layers_per_chunk() : 0;
  if (megatron.recompute == ir::MegatronRecompute::kFullBlock) {
    megatron.recompute_layers = std::max<std::int64_t>(recomputed, 1);
  } else if (megatron.recompute == ir::MegatronRecompute::kFullUniform) {
    megatron.recompute_layers = form.runs.front().group;
  }
  megatron.distributed_optimizer = megatron.fp8_parameters;  // FP8 parameters require it.
  megatron.overlap_grad_reduce = false;
  megatron.overlap_param_gather = false;
  question.plan.workload.accumulation = form.micro_batches;
  const std::int64_t experts = question.plan.mesh.expert * (expert_tensor_of(question.plan.mesh));
  question.plan.world =
      form.stages * std::lcm(question.plan.mesh.tensor * question.plan.mesh.context, experts);
  return question;
}

}  // namespace headroom::plan
