#include "runtimes/torchtitan/search/titan_bounds.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "costmodel/estimate.h"
#include "planner/evaluate/live_bytes.h"
#include "planner/search/evaluator.h"
#include "runtimes/plan_json.h"
#include "runtimes/torchtitan/plan.h"
#include "runtimes/torchtitan/search/titan_choices.h"
#include "runtimes/torchtitan/search/titan_floor.h"

namespace headroom::plan {
namespace {

/// All of a choice except how many layers are recomputed.
using Group = std::tuple<ir::PipelineKind, std::int64_t, std::int64_t, bool, bool, bool>;

Group group_of(const TitanChoice& choice) {
  return {choice.schedule, choice.stage_layers, choice.runs,
          choice.reshards, choice.compiled,     choice.selective};
}

/// Whether `a` recomputes fewer layers than `b` on every rank. If a rank has several chunks, `a`
/// must recompute no layer that `b` does not. Which layers of a chunk are recomputed makes no
/// difference, because all of them take the same time.
bool is_lighter(const TitanChoice& a, const TitanChoice& b) {
  const bool chunks = b.schedule == ir::PipelineKind::kInterleaved;
  return b.every > 0 &&
         (a.every == 0 || (a.every > b.every && (!chunks || a.every % b.every == 0)));
}

class TitanBounds final : public PlanBounds {
 public:
  explicit TitanBounds(const SearchInputs& inputs)
      : model_(inputs.question.space.model),
        device_(inputs.device),
        records_(inputs.records.lowered),
        floors_(model_, inputs.device, inputs.question.machine,
                inputs.records.of<TitanFloor::Samples>()) {}

  [[nodiscard]] Seconds least_step(const ir::ParallelPlan& plan) override {
    return floors_.least_step(plan);
  }
  [[nodiscard]] Seconds least_of_cell(const ir::ParallelPlan& plan) override {
    return floors_.least_of_degrees(plan);
  }
  [[nodiscard]] Bytes floor(const ir::ParallelPlan& plan) override { return floors_.floor(plan); }

  [[nodiscard]] Result<std::optional<SampledBound>> sampled(const ir::ParallelPlan& plan,
                                                            LoweredPlans& /*plans*/) override {
    const Result<Bytes> peak =
        plan.mesh.pipeline == 1 ? line_of_layers(plan) : short_pipeline(plan);
    if (!peak) {
      return peak.error();
    }
    return std::optional(SampledBound{.peak = *peak, .step = floors_.least_step(plan)});
  }

  [[nodiscard]] std::vector<std::vector<std::uint64_t>> lighter(const SpaceQuestion& question,
                                                                const Cell& cell) override {
    const std::vector<TitanChoice> all = titan_choices(question, cell.plan);
    std::map<Group, std::vector<std::uint64_t>> groups;
    for (std::uint64_t i = 0; i < all.size(); ++i) {
      groups[group_of(all[i])].push_back(i);
    }
    std::vector<std::vector<std::uint64_t>> lighter(all.size());
    for (const auto& [group, members] : groups) {
      for (const std::uint64_t one : members) {
        for (const std::uint64_t other : members) {
          if (is_lighter(all[other], all[one])) {
            lighter[one].push_back(other);
          }
        }
      }
    }
    return lighter;
  }

 private:
  [[nodiscard]] Result<Bytes> short_pipeline(const ir::ParallelPlan& plan) {
    const ir::TitanPlan& titan = titan_of(plan);
    ir::ParallelPlan few = plan;
    few.workload.accumulation = 1;
    const std::int64_t passes = plan.workload.micro_batch / titan.pipeline_batch;
    if (passes % plan.mesh.pipeline == 0) {  // Then the rounds have the same length.
      few.workload.micro_batch = std::min(passes, 2 * plan.mesh.pipeline) * titan.pipeline_batch;
    }
    return short_peak(model_, few);
  }

  /// Gradients exist from the second micro-batch on, and states from the second step on.
  [[nodiscard]] Result<Bytes> line_of_layers(const ir::ParallelPlan& plan) {
    constexpr std::size_t kShort = 3;
    ir::ParallelPlan few = plan;
    few.workload.accumulation = std::min<std::int64_t>(plan.workload.accumulation, 2);
    if (model_.layers.size() <= kShort + 1) {
      return short_peak(model_, few);
    }
    const bool some = plan.recompute != ir::Recompute::kNone && plan.recompute_every > 1;
    if (some) {
      few.recompute = ir::Recompute::kNone;
      few.recompute_every = 1;
    }
    ir::ModelSpec model = model_;
    model.layers.resize(kShort);
    const Result<Bytes> three = short_peak(model, few);
    model.layers.push_back(model.layers.back());
    const Result<Bytes> four = short_peak(model, few);
    if (!three || !four) {
      return three ? four : three;
    }
    const auto more = static_cast<std::int64_t>(model_.layers.size() - kShort);
    const Bytes line = *three + more * (*four - *three);
    return some ? line - floors_.let_go(plan) : line;
  }

  [[nodiscard]] Result<Bytes> short_peak(const ir::ModelSpec& model, const ir::ParallelPlan& few) {
    const std::string text =
        std::to_string(model.layers.size()) + ir::to_json(ir::plan_to_json(few));
    const Result<ShortPeak> made = records_.peak(text, [&]() -> Result<ShortPeak> {
      const Result<ir::RankProgram> program =
          cost::lower_replayed(model, few, device_, floors_.heaviest(few));
      if (!program) {
        return program.error();
      }
      return ShortPeak{.peak = Bytes{live_peak(*program, few.allocator)},
                       .events = program->events.size()};
    });
    return made ? Result<Bytes>(made->peak) : Result<Bytes>(made.error());
  }

  const ir::ModelSpec& model_;
  const cost::DeviceSpec& device_;
  LoweredRecords& records_;
  TitanFloor floors_;
};

}  // namespace

std::unique_ptr<PlanBounds> titan_bounds(const SearchInputs& inputs) {
  return std::make_unique<TitanBounds>(inputs);
}

}  // namespace headroom::plan
