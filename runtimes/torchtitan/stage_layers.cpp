#include "runtimes/torchtitan/stage_layers.h"

#include <algorithm>
#include <string>

#include "model_ir/base/units.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir {
namespace {

/// The maximum number of models of one process that can have streams of their own in a program: see
/// `StreamId`.
constexpr std::int64_t kMostChunks = 32;

bool has_one_chunk(PipelineKind kind) {
  return kind == PipelineKind::kGPipe || kind == PipelineKind::kOneForwardOneBackward;
}

/// The number of layers, plus the layers that embedding and head count for.
std::int64_t weight_of(const TitanPlan& titan, std::int64_t layers) {
  return layers + titan.first_stage_less + titan.last_stage_less;
}

/// Number of chunks of all ranks.
std::int64_t chunk_count(const ParallelPlan& plan, std::int64_t layers) {
  const TitanPlan& titan = titan_of(plan);
  if (titan.stage_layers > 0) {
    return ceil_div(weight_of(titan, layers), titan.stage_layers);
  }
  return plan.mesh.pipeline * (has_one_chunk(titan.schedule) ? 1 : 2);
}

Error refused(const std::string& got, const std::string& wanted) {
  return Error::invalid_argument("titan", got, wanted);
}

/// The layers of chunk `index`. The remainder of the division goes to the first chunks.
LayerSpan layers_of(const ParallelPlan& plan, std::int64_t layers, std::int64_t index) {
  const TitanPlan& titan = titan_of(plan);
  const std::int64_t chunks = chunk_count(plan, layers);
  const std::int64_t each = weight_of(titan, layers) / chunks;
  const std::int64_t more = weight_of(titan, layers) % chunks;
  const std::int64_t before = index * each + std::min(index, more);
  const std::int64_t own = each + (index < more ? 1 : 0);
  LayerSpan span{.first = before - titan.first_stage_less, .count = own};
  if (index == 0) {
    span = {.first = 0, .count = own - titan.first_stage_less};
  }
  span.count -= index == chunks - 1 ? titan.last_stage_less : 0;
  return span;
}

std::optional<Error> unsupported_split(const ParallelPlan& plan, std::int64_t layers) {
  const TitanPlan& titan = titan_of(plan);
  const std::int64_t chunks = chunk_count(plan, layers);
  if (chunks % plan.mesh.pipeline != 0) {
    return refused("pp-layers=" + std::to_string(titan.stage_layers),
                   "a value with which the number of stages is a multiple of pp (" +
                       std::to_string(chunks) + " for pp=" + std::to_string(plan.mesh.pipeline) +
                       ")");
  }
  const std::int64_t own = chunks / plan.mesh.pipeline;
  const bool fits = has_one_chunk(titan.schedule) ? own == 1
                    : is_v_shaped(titan.schedule) ? own == 2
                                                  : own >= 2;
  const std::string schedule(name_of(titan.schedule));
  if (!fits) {
    return refused(
        "schedule=" + schedule + " with " + std::to_string(own) + " stages per rank",
        "one stage per rank with gpipe and 1f1b, two with zb-v and dualpipev, two or more "
        "with the other schedules");
  }
  if (own > kMostChunks) {
    return refused(std::to_string(own) + " stages per rank",
                   "at most " + std::to_string(kMostChunks));
  }
  const std::int64_t each = weight_of(titan, layers) / chunks;
  if (each == 0 || titan.first_stage_less > each || titan.last_stage_less > each) {
    return refused(std::to_string(chunks) + " stages of " + std::to_string(layers) + " layers",
                   "pp-first-less and pp-last-less of at most the layers per stage (" +
                       std::to_string(each) + ")");
  }
  return std::nullopt;
}

/// Errors for what the schedules themselves require.
std::optional<Error> unsupported_order(const ParallelPlan& plan, const PipelineShape& shape) {
  const std::string count = std::to_string(shape.micro_batches) + " micro-batches";
  switch (shape.kind) {
    case PipelineKind::kOneForwardOneBackward:
      if (shape.micro_batches < shape.stages) {
        return refused(count, "at least as many micro-batches as stages, which 1f1b needs");
      }
      break;
    case PipelineKind::kInterleaved:
    case PipelineKind::kZbH1:
      if (shape.micro_batches % shape.group != 0) {
        return refused(count,
                       "a number of micro-batches that this schedule can divide into equal rounds");
      }
      break;
    default:
      break;
  }
  const bool splits = shape.kind == PipelineKind::kZbH1 || is_v_shaped(shape.kind);
  const bool again = plan.recompute != Recompute::kNone || titan_of(plan).selective_operators;
  if (splits && (titan_of(plan).compiled || again)) {
    return refused("schedule=" + std::string(name_of(shape.kind)) +
                       (again ? " with checkpointing" : " with compiled blocks"),
                   "no compiled and no checkpointing: this schedule splits the backward pass");
  }
  const Status status = check_pipeline(shape);
  return status ? std::nullopt : std::optional(status.error());
}

}  // namespace

PipelineShape titan_pipeline(const ParallelPlan& plan, std::int64_t layers) {
  const TitanPlan titan = titan_of(plan);
  const std::int64_t micro_batches =
      std::max<std::int64_t>(1, plan.workload.micro_batch / titan.pipeline_batch);
  const std::int64_t rounds = std::max<std::int64_t>(1, micro_batches / plan.mesh.pipeline);
  return {.kind = titan.schedule,
          .stages = plan.mesh.pipeline,
          .micro_batches = micro_batches,
          .chunks = chunk_count(plan, layers) / plan.mesh.pipeline,
          .group = micro_batches / rounds};
}

std::vector<TitanChunk> titan_chunks(const ParallelPlan& plan, std::int64_t layers,
                                     std::int64_t rank) {
  const TitanPlan titan = titan_of(plan);
  if (plan.mesh.pipeline == 1) {
    return {{.index = 0, .layers = {.first = 0, .count = layers}, .first = true, .last = true}};
  }
  const std::int64_t all = chunk_count(plan, layers);
  std::vector<TitanChunk> chunks;
  for (std::int64_t chunk = 0; chunk < all / plan.mesh.pipeline; ++chunk) {
    const bool back = is_v_shaped(titan.schedule) && chunk == 1;
    const std::int64_t index = back ? all - 1 - rank : rank + chunk * plan.mesh.pipeline;
    chunks.push_back({.index = index,
                      .layers = layers_of(plan, layers, index),
                      .first = index == 0,
                      .last = index == all - 1});
  }
  return chunks;
}

std::optional<Error> unsupported_pipeline(const ParallelPlan& plan, std::int64_t layers) {
  const TitanPlan titan = titan_of(plan);
  if (plan.mesh.pipeline == 1) {
    const TitanPlan usual;
    const bool idle = titan.schedule == usual.schedule &&
                      titan.pipeline_batch == usual.pipeline_batch &&
                      titan.stage_layers == usual.stage_layers &&
                      titan.first_stage_less == usual.first_stage_less &&
                      titan.last_stage_less == usual.last_stage_less;
    return idle ? std::nullopt
                : std::optional(refused(
                      "schedule, pp-batch, pp-layers, pp-first-less or pp-last-less with pp=1",
                      "pp=2 or more as well"));
  }
  if (plan.loss == LossKind::kChunked) {
    return refused("--loss chunked with pp=" + std::to_string(plan.mesh.pipeline),
                   "--loss hf: torchtitan does not chunk the loss in a pipeline");
  }
  if (plan.workload.micro_batch % titan.pipeline_batch != 0) {
    return refused(
        "pp-batch=" + std::to_string(titan.pipeline_batch),
        "a divisor of --micro-batch (" + std::to_string(plan.workload.micro_batch) + ")");
  }
  if (std::optional<Error> error = unsupported_split(plan, layers)) {
    return error;
  }
  return unsupported_order(plan, titan_pipeline(plan, layers));
}

}  // namespace headroom::ir
