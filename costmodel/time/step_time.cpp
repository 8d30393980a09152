#include "costmodel/time/step_time.h"

#include <algorithm>
#include <cstdlib>

#include "costmodel/time/model_flops.h"
#include "model_ir/base/check.h"
#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr double kSecondsPerDay = 86400;
constexpr double kJoulesPerMegawattHour = 3.6e9;

std::optional<FlopsPerSecond> peak_of(const ir::ParallelPlan& plan, const DeviceSpec& device) {
  const ir::DType dtype = ir::runtime_of(plan).product_dtype(plan);
  if (dtype == ir::DType::kFp8 && device.fp8) {
    return device.fp8;
  }
  return dtype == ir::DType::kFp32 ? std::optional(device.fp32) : device.half;
}

/// The program whose times are used for each stage: one with the same number of layers, and an
/// inner stage's for an inner stage, even if an end is nearer. The nearest of these is chosen.
std::vector<const StagePrice*> price_all(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                         const std::vector<StagePrice>& priced,
                                         std::int64_t count) {
  std::vector<ir::StageLayers> layers = ir::runtime_of(plan).stage_layers(model, plan);
  layers.resize(static_cast<std::size_t>(count));
  const auto held = [&](std::int64_t stage) { return layers[static_cast<std::size_t>(stage)]; };
  const auto edge = [count](std::int64_t stage) { return stage == 0 || stage == count - 1; };
  std::vector<const StagePrice*> prices;
  for (std::int64_t stage = 0; stage < count; ++stage) {
    const auto distance = [&](const StagePrice& price) {
      const bool other_kind =
          edge(stage) != edge(price.stage) || (edge(stage) && stage != price.stage);
      const bool other_layers = held(stage) != held(price.stage);
      return std::abs(price.stage - stage) + (other_kind ? 2 * count : 0) +
             (other_layers ? count : 0);
    };
    prices.push_back(&*std::ranges::min_element(priced, {}, distance));
  }
  return prices;
}

PipelineTimes times_of(const std::vector<const StagePrice*>& stages,
                       const ir::PipelineShape& shape) {
  PipelineTimes times;
  for (const StagePrice* stage : stages) {
    std::vector<ChunkTimes>& chunks = times.stages.emplace_back();
    for (const ProgramTime::Chunk& chunk : stage->time.chunks) {
      const Seconds weight = chunk.backward_weight.time();
      const bool parts = weight > Seconds{};
      chunks.push_back({chunk.forward.time(),
                        parts ? chunk.backward_input.time() : chunk.backward.time(), weight,
                        chunk.saved.time()});
    }
    times.transfer.time = std::max(times.transfer.time, stage->time.transfer);
  }
  // 1F1B waits for every transfer, interleaved schedules overlap them.
  // Source: NVIDIA/Megatron-LM schedules.py, config.overlap_p2p_comm.
  times.transfer.blocking = shape.kind == ir::PipelineKind::kOneForwardOneBackward;
  return times;
}

/// Work of stage `number` in a step of `runs` runs of the pipeline, without waiting for other
/// stages.
WorkTime work_of(const StagePrice& stage, const ir::PipelineShape& shape, std::int64_t number,
                 std::int64_t runs) {
  WorkTime work = stage.time.outside;
  const std::int64_t micro_batches = shape.micro_batches * runs;
  const auto chunks = static_cast<double>(stage.time.chunks.size());
  const auto joint = static_cast<double>(shape.micro_batches * ir::chunks_of(shape) -
                                         ir::warmup_of_stage(shape, number));
  for (const ProgramTime::Chunk& chunk : stage.time.chunks) {
    work.add(chunk.forward, static_cast<double>(micro_batches));
    work.add(chunk.backward, static_cast<double>(micro_batches));
    if (shape.together) {
      work.add(chunk.saved, -joint / chunks * static_cast<double>(runs));
    }
  }
  return work;
}

struct Composed {
  WorkTime work;  ///< Work of the slowest stage, bubble and transfers included.
  std::int64_t stage = 0;
  double share_recomputed = 0;
  std::optional<PipelineTimeline> pipeline;
};

double share_recomputed(const WorkTime& work) {
  const double first = work.flops - work.recomputed_flops;
  return first > 0 ? work.recomputed_flops / first : 0;
}

Composed without_pipeline(const ir::ParallelPlan& plan, const StagePrice& only) {
  Composed out{.work = only.time.step, .stage = only.stage, .pipeline = std::nullopt};
  const std::int64_t left_out = plan.workload.accumulation - only.time.micro_batches;
  if (left_out > 0) {
    out.work.add(only.time.micro_batch, static_cast<double>(left_out));
  }
  out.share_recomputed = share_recomputed(out.work);
  return out;
}

/// Runs of the pipeline in a step that the program leaves out.
std::int64_t left_out_runs(const ir::PipelineRuns& pipeline, const StagePrice& stage) {
  return pipeline.runs == 1 ? 0 : pipeline.runs - stage.time.micro_batches / pipeline.micro_batches;
}

Composed with_pipeline(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                       const std::vector<StagePrice>& priced) {
  const ir::PipelineRuns pipeline = ir::runtime_of(plan).pipeline(plan);
  const ir::PipelineShape shape = ir::runtime_of(plan).schedule(model, plan);
  const auto rounds = static_cast<double>(pipeline.runs);
  // Outside the passes, a run that the programs leave out takes as long as the last but one.
  const auto left_out = static_cast<double>(left_out_runs(pipeline, priced.front()));
  const std::vector<const StagePrice*> stages = price_all(model, plan, priced, shape.stages);
  const PipelineTimes times = times_of(stages, shape);
  Composed out;
  out.pipeline = pipeline_makespan(shape, times).value();
  Seconds longest;
  WorkTime all;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    WorkTime work = work_of(*stages[stage], shape, static_cast<std::int64_t>(stage), pipeline.runs);
    work.add(stages[stage]->time.outside_run, left_out);
    all.add(work);
    if (stage == 0 || work.time() > out.work.time()) {
      out.work = work;
      out.stage = static_cast<std::int64_t>(stage);
    }
    longest = std::max(longest, rounds * out.pipeline->stages[stage].back().end +
                                    stages[stage]->time.outside.time() +
                                    left_out * stages[stage]->time.outside_run.time());
  }
  out.share_recomputed = share_recomputed(all);
  const Seconds idle = longest - out.work.time();
  // A stage inside a blocking pipeline sends as often forward as backward.
  const double sends =
      times.transfer.blocking ? 2.0 * rounds * static_cast<double>(shape.micro_batches) : 0;
  const Seconds transfers = std::min(idle, sends * times.transfer.time);
  out.work.parts.add(StepPart::kPipeline, transfers);
  out.work.parts.add(StepPart::kBubble, idle - transfers);
  return out;
}

}  // namespace

double StepTime::tokens_per_second_per_gpu() const {
  return tokens / total.value() / static_cast<double>(gpus);
}

FlopsPerSecond StepTime::model_rate() const {
  return FlopsPerSecond{model_flops / total.value() / static_cast<double>(gpus)};
}

FlopsPerSecond StepTime::hardware_rate() const {
  return FlopsPerSecond{hardware_flops / total.value() / static_cast<double>(gpus)};
}

std::optional<double> StepTime::mfu() const {
  return peak ? std::optional(model_rate() / *peak) : std::nullopt;
}

std::optional<double> StepTime::hfu() const {
  return peak ? std::optional(hardware_rate() / *peak) : std::nullopt;
}

StepTime compose_step(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                      const DeviceSpec& device, const std::vector<StagePrice>& stages) {
  HEADROOM_ASSERT(!stages.empty());
  const ir::Runtime& runtime = ir::runtime_of(plan);
  const bool pipelined = runtime.pipeline(plan).stages > 1;
  Composed composed =
      pipelined ? with_pipeline(model, plan, stages) : without_pipeline(plan, stages.front());
  StepTime step;
  step.parts = composed.work.parts;
  step.total = step.parts.total();
  step.stage = composed.stage;
  step.gpus = plan.world;
  const std::int64_t replicas = plan.world / runtime.ranks_per_replica(plan);
  step.tokens = static_cast<double>(plan.workload.micro_batch * plan.workload.sequence) *
                static_cast<double>(plan.workload.accumulation * replicas);
  step.model_flops =
      step.tokens * model_flops_per_token(model, plan.workload.sequence, AttentionCount::kAllKeys,
                                          runtime.predicted_layers(plan));
  // A backward has twice the FLOPs of a forward: recomputing everything would add a third.
  step.hardware_flops = step.model_flops * (1 + composed.share_recomputed);
  if (plan.lora) {
    const double frozen =
        step.tokens * weight_gradient_flops_per_token(model, plan.workload.sequence);
    step.model_flops -= frozen;
    step.hardware_flops -= frozen;
  }

  step.peak = peak_of(plan, device);
  step.pipeline = std::move(composed.pipeline);
  return step;
}

RunFigures run_figures(const StepTime& step, const RunCosts& costs) {
  RunFigures out;
  const double rate = step.tokens_per_second_per_gpu();
  if (costs.dollars_per_gpu_hour) {
    out.tokens_per_dollar = rate * kSecondsPerHour / *costs.dollars_per_gpu_hour;
  }
  if (costs.watts_per_gpu) {
    out.tokens_per_joule = rate / *costs.watts_per_gpu;
  }
  if (costs.tokens) {
    out.days = *costs.tokens / (rate * static_cast<double>(step.gpus)) / kSecondsPerDay;
    if (out.tokens_per_dollar) {
      out.dollars = *costs.tokens / *out.tokens_per_dollar;
    }
    if (out.tokens_per_joule) {
      out.megawatt_hours = *costs.tokens / *out.tokens_per_joule / kJoulesPerMegawattHour;
    }
  }
  return out;
}

}  // namespace headroom::cost
