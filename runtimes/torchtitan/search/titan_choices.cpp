#include "runtimes/torchtitan/search/titan_choices.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <utility>

#include "model_ir/base/units.h"
#include "model_ir/plan/plan_words.h"
#include "planner/space/framework_search.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/torchtitan/plan.h"
#include "runtimes/torchtitan/search/axes.h"
#include "runtimes/torchtitan/stage_layers.h"

namespace headroom::plan {
namespace {

using ir::ParallelPlan;
using ir::PipelineKind;
using ir::TitanPlan;

std::int64_t layer_count(const SpaceQuestion& question) {
  return static_cast<std::int64_t>(question.model.layers.size());
}

bool splits_backward(PipelineKind kind) {
  return kind == PipelineKind::kZbH1 || kind == PipelineKind::kZbV ||
         kind == PipelineKind::kDualPipeV;
}

/// Layers per chunk that give each rank two chunks (0: torchtitan's own choice) or three.
AxisValues stage_layers_of(const ParallelPlan& plan, std::int64_t layers, const AxisValues& given) {
  const TitanPlan& titan = titan_of(plan);
  if (!given.empty()) {
    return given;
  }
  const std::int64_t weight = layers + titan.first_stage_less + titan.last_stage_less;
  AxisValues values = {0};
  for (std::int64_t chunks = 3; chunks <= kActiveChunks && chunks * plan.mesh.pipeline <= weight;
       ++chunks) {
    const std::int64_t each = ceil_div(weight, chunks * plan.mesh.pipeline);
    if (ceil_div(weight, each) == chunks * plan.mesh.pipeline) {
      values.push_back(each);
    }
  }
  return values;
}

/// Schedules, chunks and runs of the pipeline of one cell.
class Pipelines {
 public:
  Pipelines(const SpaceQuestion& question, const ParallelPlan& plan)
      : allowed_(question.constraints), layers_(layer_count(question)), plan_(plan) {}

  std::vector<TitanChoice> operator()() {
    constexpr std::array kKinds = {PipelineKind::kOneForwardOneBackward,
                                   PipelineKind::kInterleaved,
                                   PipelineKind::kZbH1,
                                   PipelineKind::kZbV,
                                   PipelineKind::kDualPipeV,
                                   PipelineKind::kGPipe};
    const bool alone = plan_.mesh.pipeline == 1;
    for (const PipelineKind kind : kKinds) {
      const bool simple = kind == PipelineKind::kOneForwardOneBackward;
      if (!allowed_.allows(Axis::kSchedule, schedule_with(kind)) || (alone && !simple)) {
        continue;
      }
      const bool many = kind == PipelineKind::kInterleaved || kind == PipelineKind::kZbH1;
      for (const std::int64_t stage :
           many ? stage_layers_of(plan_, layers_, allowed_.of(Axis::kChunk)) : AxisValues{0}) {
        if (allowed_.allows(Axis::kChunk, stage)) {
          write_runs({.schedule = kind, .stage_layers = stage});
        }
      }
    }
    return std::move(choices_);
  }

 private:
  void write_runs(TitanChoice choice) {
    if (plan_.mesh.pipeline == 1) {
      if (allowed_.allows(titan_axes::kPipelineRuns, 1)) {
        choices_.push_back(choice);
      }
      return;
    }
    const std::int64_t passes =
        plan_.workload.micro_batch * plan_.workload.accumulation / titan_of(plan_).pipeline_batch;
    for (const std::int64_t runs : divisors(passes)) {
      if (!allowed_.allows(titan_axes::kPipelineRuns, runs) ||
          passes / runs < plan_.mesh.pipeline) {
        continue;
      }
      choice.runs = runs;
      choice.apply_to(plan_);
      if (!ir::unsupported_pipeline(plan_, layers_)) {
        choices_.push_back(choice);
      }
    }
  }

  const Constraints& allowed_;
  std::int64_t layers_;
  ParallelPlan plan_;
  std::vector<TitanChoice> choices_;
};

/// Layers of each chunk of each rank, in the order in which the rank counts them. Ranks with the
/// same chunks are listed once.
std::vector<AxisValues> chunk_layers_of(const ParallelPlan& plan, std::int64_t layers) {
  if (plan.mesh.pipeline == 1) {
    return {{layers}};
  }
  std::set<AxisValues> ranks;
  for (std::int64_t rank = 0; rank < plan.mesh.pipeline; ++rank) {
    AxisValues chunks;
    for (const ir::TitanChunk& chunk : ir::titan_chunks(plan, layers, rank)) {
      chunks.push_back(chunk.layers.count);
    }
    ranks.insert(std::move(chunks));
  }
  return {ranks.begin(), ranks.end()};
}

/// The number of recomputed layers of each chunk, if every `every`-th layer of a rank is
/// recomputed.
AxisValues run_again(const std::vector<AxisValues>& ranks, std::int64_t every) {
  AxisValues counts;
  for (const AxisValues& chunks : ranks) {
    std::int64_t number = 0;
    for (const std::int64_t layers : chunks) {
      counts.push_back((number + layers) / every - number / every);
      number += layers;
    }
  }
  return counts;
}

std::int64_t longest_of(const std::vector<AxisValues>& ranks) {
  std::int64_t longest = 0;
  for (const AxisValues& chunks : ranks) {
    longest = std::max(longest, std::accumulate(chunks.begin(), chunks.end(), std::int64_t{0}));
  }
  return longest;
}

/// The periods of recomputed layers: each one that gives other numbers of layers in some chunk, or
/// each one that the user asks for.
AxisValues periods_of(const std::vector<AxisValues>& ranks, const Constraints& allowed) {
  const bool asked = !allowed.of(Axis::kRecomputeEvery).empty();
  AxisValues periods;
  std::set<AxisValues> seen;
  for (std::int64_t every = 1; every <= longest_of(ranks); ++every) {
    if (asked ? allowed.allows(Axis::kRecomputeEvery, every)
              : seen.insert(run_again(ranks, every)).second) {
      periods.push_back(every);
    }
  }
  return periods;
}

/// What is recomputed, starting with nothing. Whole layers are recomputed with each of `periods`.
std::vector<TitanChoice> recomputations_of(const Constraints& allowed,
                                           const std::set<std::int64_t>& periods) {
  std::vector<TitanChoice> all;
  const auto has = [&](RecomputeChoice choice) {
    return allowed.allows(Axis::kRecompute, static_cast<std::int64_t>(choice));
  };
  if (has(RecomputeChoice::kNone) && allowed.allows(Axis::kRecomputeEvery, 1)) {
    all.push_back({});
  }
  if (has(RecomputeChoice::kSelective) && allowed.allows(Axis::kRecomputeEvery, 1)) {
    all.push_back({.selective = true});
  }
  if (has(RecomputeChoice::kFull)) {
    for (const std::int64_t every : periods) {
      all.push_back({.every = every});
    }
  }
  return all;
}

}  // namespace

bool is_unsharded_titan(const ParallelPlan& plan) {
  const std::int64_t replicas = plan.mesh.replicas;
  return plan.world == replicas && plan.mesh.tensor == 1 && plan.mesh.pipeline == 1 &&
         plan.mesh.context == 1;
}

bool can_compile(const ir::ModelSpec& model, const ParallelPlan& plan) {
  return plan.mesh.tensor == 1 && plan.mesh.context == 1 && !model.moe && !is_unsharded_titan(plan);
}

void TitanChoice::apply_to(ParallelPlan& plan) const {
  TitanPlan& titan = edit_titan(plan);
  titan.schedule = schedule;
  titan.stage_layers = stage_layers;
  if (plan.mesh.pipeline > 1) {
    const std::int64_t share = plan.workload.micro_batch * plan.workload.accumulation;
    plan.workload.micro_batch = share / runs;
    plan.workload.accumulation = runs;
    titan.reshard = reshards ? ir::TitanReshard::kAlways : ir::TitanReshard::kDefault;
  } else {
    titan.reshard = reshards ? ir::TitanReshard::kDefault : ir::TitanReshard::kNever;
  }
  titan.compiled = compiled;
  titan.selective_operators = selective;
  plan.recompute = every > 0 ? ir::Recompute::kFull : ir::Recompute::kNone;
  plan.recompute_every = std::max<std::int64_t>(every, 1);
}

std::vector<TitanChoice> titan_choices(const SpaceQuestion& question, const ParallelPlan& plan) {
  const Constraints& allowed = question.constraints;
  const bool able = can_compile(question.model, plan);
  const AxisValues compilations =
      among(allowed, Axis::kCompiled, able ? AxisValues{0, 1} : AxisValues{0});
  const AxisValues reshards =
      among(allowed, Axis::kReshard, is_unsharded_titan(plan) ? AxisValues{1} : AxisValues{1, 0});
  const std::vector<TitanChoice> pipelines = Pipelines(question, plan)();
  std::vector<AxisValues> periods;  // Periods of each pipeline.
  std::set<std::int64_t> any_period;
  for (const TitanChoice& pipeline : pipelines) {
    ParallelPlan dealt = plan;
    pipeline.apply_to(dealt);
    periods.push_back(periods_of(chunk_layers_of(dealt, layer_count(question)), allowed));
    any_period.insert(periods.back().begin(), periods.back().end());
  }
  std::vector<TitanChoice> all;
  for (const TitanChoice& again : recomputations_of(allowed, any_period)) {
    for (std::size_t i = 0; i < pipelines.size(); ++i) {
      if (again.every > 0 && !std::ranges::binary_search(periods[i], again.every)) {
        continue;
      }
      const TitanChoice& pipeline = pipelines[i];
      const bool splits = splits_backward(pipeline.schedule);
      for (const std::int64_t compiled : compilations) {
        if (splits && (compiled != 0 || again.selective || again.every > 0)) {
          continue;
        }
        for (const std::int64_t reshard : reshards) {
          TitanChoice one = pipeline;
          one.reshards = reshard != 0;
          one.compiled = compiled != 0;
          one.selective = again.selective;
          one.every = again.every;
          all.push_back(one);
        }
      }
    }
  }
  return all;
}

std::int64_t sequences_of_pass(const ParallelPlan& plan) {
  const bool pipelined = has_titan(plan) && plan.mesh.pipeline > 1;
  return pipelined ? titan_of(plan).pipeline_batch : plan.workload.micro_batch;
}

}  // namespace headroom::plan
