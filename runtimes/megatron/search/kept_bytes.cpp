#include "runtimes/megatron/search/kept_bytes.h"

#include <algorithm>

#include "model_ir/plan/pipeline_schedule.h"
#include "model_ir/plan/work_range.h"
#include "planner/evaluate/live_bytes.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/search/sample_form.h"
#include "runtimes/megatron/stage_layers.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

/// The first stage runs two forward passes before its first backward.
constexpr std::int64_t kStages = 3;
constexpr std::int64_t kSampleLayers = 3;

/// Live bytes that the second forward pass of the last step adds.
std::int64_t added_by_pass(const ir::RankProgram& program, const std::vector<std::int64_t>& curve) {
  const auto last = std::find_if(
      program.phases.rbegin(), program.phases.rend(),
      [](const auto& one) { return one.name.kind == ir::PhaseKind::kForwardBackward; });
  const std::size_t step = last->first_item;
  int passes = 0;
  for (const ir::WorkRange& range : ir::work_ranges(program)) {
    if (range.begin < step || range.kind != ir::RangeKind::kForwardPass || ++passes < 2) {
      continue;
    }
    const auto before = [&](std::uint32_t item) {
      const std::uint32_t event = program.work.items[item].event;
      return event == 0 ? 0 : curve[event - 1];
    };
    return before(range.end) - before(range.begin);
  }
  return 0;
}

}  // namespace

Result<std::int64_t> kept_bytes(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                const ir::LayerSpec& layer, const DeviceTraits& device) {
  ir::ParallelPlan alone = plan;
  ir::MegatronPlan& megatron = edit_megatron(alone);
  ir::deal_evenly(megatron);
  const bool whole = megatron.recompute == ir::MegatronRecompute::kFullUniform ||
                     megatron.recompute == ir::MegatronRecompute::kFullBlock;
  if (whole) {
    megatron.recompute = ir::MegatronRecompute::kFullUniform;
    megatron.recompute_layers = 1;
  }
  std::int64_t kept = 0;
  for (const std::int64_t layers : {kSampleLayers, kSampleLayers + 1}) {
    const SampleForm form{.runs = {{.layer = layer, .units = layers, .recomputed = whole}},
                          .stages = kStages,
                          .chunks = 1,
                          .micro_batches = kStages + 1};
    const ShortQuestion question = short_question(model, alone, form);
    const Result<ir::RankProgram> program =
        ir::lower(question.model, question.plan, ir::Rank{0}, device);
    if (!program) {
      return program.error();
    }
    kept = added_by_pass(*program, live_curve(*program, plan.allocator)) - kept;
  }
  return kept;
}

std::int64_t kept_passes(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                         std::int64_t stage) {
  const ir::MegatronPlan& megatron = megatron_of(plan);
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  const std::int64_t chunks = ir::chunks_per_stage(plan, layers);
  const ir::PipelineShape shape{.kind = chunks > 1 ? ir::PipelineKind::kInterleaved
                                                   : ir::PipelineKind::kOneForwardOneBackward,
                                .stages = plan.mesh.pipeline,
                                .micro_batches = plan.workload.accumulation,
                                .chunks = chunks,
                                .group = megatron.micro_batch_group};
  const std::int64_t warmup = plan.mesh.pipeline > 1 ? ir::warmup_of_stage(shape, stage) : 0;
  return std::min(warmup + 1, plan.workload.accumulation * chunks);
}

}  // namespace headroom::plan
