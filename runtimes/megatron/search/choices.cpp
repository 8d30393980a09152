#include "runtimes/megatron/search/choices.h"

#include "planner/space/framework_search.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/search/axes.h"
#include "runtimes/megatron/search/stage_forms.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::plan {
namespace {

using ir::MegatronPlan;
using ir::ParallelPlan;

/// The properties of a Megatron plan that determine what it can recompute.
struct RepeatForm {
  ChunkSizes chunk;
  bool modules = true;  ///< Modules can be recomputed.
  bool layers = true;   ///< Whole layers can be recomputed.
  [[nodiscard]] std::array<std::int64_t, 4> key() const {
    return {chunk.most, chunk.divisor, modules ? 1 : 0, layers ? 1 : 0};
  }
};

/// Follows `ir::check_plan`: nothing can be recomputed with delayed scaling, and no whole layer if
/// modules' activations are offloaded or two micro-batches run at the same time.
RepeatForm repeat_form_of(const SpaceQuestion& question, const ParallelPlan& plan) {
  const MegatronPlan& megatron = megatron_of(plan);
  const bool once = megatron.fp8 == ir::MegatronFp8::kDelayed;
  return {.chunk = chunk_sizes(plan, static_cast<std::int64_t>(question.model.layers.size())),
          .modules = !once,
          .layers = !once && megatron.offload_modules == ir::MegatronOffload{} &&
                    !megatron.overlap_expert_exchange};
}

std::vector<Recomputation> megatron_recomputations(const Constraints& allowed,
                                                   const RepeatForm& form) {
  const ChunkSizes& chunk = form.chunk;
  std::vector<Recomputation> all;
  const auto add = [&](ir::MegatronRecompute kind, std::int64_t layers,
                       const ir::MegatronModules& modules) {
    all.push_back({.kind = kind, .layers = layers, .modules = modules});
  };
  const auto has = [&](RecomputeChoice choice) {
    return allowed.allows(Axis::kRecompute, static_cast<std::int64_t>(choice));
  };
  const bool counted = !allowed.of(megatron_axes::kRecomputeLayers).empty();
  if (has(RecomputeChoice::kNone) && !counted) {
    add(ir::MegatronRecompute::kNone, 1, {});
  }
  if (form.modules && has(RecomputeChoice::kSelective) && !counted) {
    for (const ir::MegatronModules& modules : module_sets()) {
      add(ir::MegatronRecompute::kSelective, 1, modules);
    }
  }
  if (!form.layers) {
    return all;
  }
  for (std::int64_t count = 1; count < chunk.most && has(RecomputeChoice::kBlock); ++count) {
    if (allowed.allows(megatron_axes::kRecomputeLayers, count)) {
      add(ir::MegatronRecompute::kFullBlock, count, {});
    }
  }
  for (const std::int64_t group : divisors(chunk.divisor)) {
    if (has(RecomputeChoice::kUniform) && allowed.allows(megatron_axes::kRecomputeLayers, group)) {
      add(ir::MegatronRecompute::kFullUniform, group, {});
    }
  }
  return all;
}

/// The properties of a plan that determine which switches it can have.
struct SwitchForm {
  bool staged = false;    ///< It has stages, which are adjacent or apart in the mesh.
  bool reorders = false;  ///< Its stages can be adjacent.
  bool hybrid = false;    ///< A part of the optimizer can run on the host.
  bool eight = false;     ///< Weights are stored in FP8, which the distributed optimizer casts.
  [[nodiscard]] std::array<bool, 4> key() const { return {staged, reorders, hybrid, eight}; }
};

SwitchForm switch_form_of(const ir::ModelSpec& model, const ParallelPlan& plan) {
  ParallelPlan other = plan;
  edit_megatron(other).pipeline_before_data = true;
  return {
      .staged = plan.mesh.pipeline > 1,
      .reorders = ir::has_one_pipeline(model, other),
      .hybrid = plan.precision == ir::Precision::kBf16Master && !megatron_of(plan).fp8_parameters,
      .eight = megatron_of(plan).fp8_parameters};
}

AxisValues orders_of(const Constraints& allowed, const SwitchForm& form) {
  AxisValues orders = allowed.of(megatron_axes::kMeshOrder);
  if (orders.empty()) {
    return {0};
  }
  if (!form.staged) {
    return {orders.front()};  // Without stages, both orders are the same.
  }
  std::erase_if(orders, [&](std::int64_t order) { return order != 0 && !form.reorders; });
  return orders;
}

AxisValues offloads_of(const Constraints& allowed, const SwitchForm& form) {
  AxisValues steps = allowed.of(Axis::kOptimizerOffload);
  if (steps.empty()) {
    return {0};
  }
  std::erase_if(steps, [&](std::int64_t step) { return step > 0 && !form.hybrid; });
  return steps;
}

/// Combines each of `all` with each order of the mesh and each fraction of the optimizer on the
/// host, in this order. The fraction that takes the least time comes first.
std::vector<MegatronPlan> with_places(const std::vector<MegatronPlan>& all,
                                      const Constraints& allowed, const SwitchForm& form) {
  std::vector<MegatronPlan> placed;
  for (const std::int64_t order : orders_of(allowed, form)) {
    for (const std::int64_t step : offloads_of(allowed, form)) {
      for (MegatronPlan one : all) {
        if (step > 0 && !one.distributed_optimizer) {
          continue;
        }
        one.pipeline_before_data = order != 0;
        one.precision_aware = step > 0;  // The hybrid optimizer requires it.
        one.optimizer_offload = static_cast<double>(step) / kOffloadSteps;
        placed.push_back(one);
      }
    }
  }
  return placed;
}

std::vector<MegatronPlan> megatron_switches(const Constraints& allowed, const SwitchForm& form) {
  std::vector<MegatronPlan> all;
  // Switches that cost nothing and take the least memory come first, so they win ties.
  for (const int bits : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const bool distributed = (bits & 1) == 0;
    const bool overlap = (bits & 2) == 0;
    const bool gather = (bits & 4) == 0;
    if ((gather && !(distributed && overlap)) || (form.eight && !distributed) ||
        !allowed.allows(megatron_axes::kDistributedOptimizer, distributed ? 1 : 0) ||
        !allowed.allows(megatron_axes::kOverlapGradReduce, overlap ? 1 : 0) ||
        !allowed.allows(megatron_axes::kOverlapParamGather, gather ? 1 : 0)) {
      continue;
    }
    for (const std::int64_t fusion : {1, 0}) {
      for (const std::int64_t loss : {2, 1, 0}) {
        for (const std::int64_t mask : {0, 1}) {
          if (!allowed.allows(megatron_axes::kAccumulationFusion, fusion) ||
              !allowed.allows(Axis::kLoss, loss) ||
              !allowed.allows(megatron_axes::kLoaderMask, mask)) {
            continue;
          }
          MegatronPlan one;
          one.distributed_optimizer = distributed;
          one.overlap_grad_reduce = overlap;
          one.overlap_param_gather = gather;
          one.accumulation_fusion = fusion != 0;
          one.cross_entropy = static_cast<ir::MegatronCrossEntropy>(loss);
          one.mask_in_dataloader = mask != 0;
          all.push_back(one);
        }
      }
    }
  }
  return with_places(all, allowed, form);
}

void switch_to(MegatronPlan& megatron, const MegatronPlan& with) {
  megatron.distributed_optimizer = with.distributed_optimizer;
  megatron.overlap_grad_reduce = with.overlap_grad_reduce;
  megatron.overlap_param_gather = with.overlap_param_gather;
  megatron.accumulation_fusion = with.accumulation_fusion;
  megatron.cross_entropy = with.cross_entropy;
  megatron.mask_in_dataloader = with.mask_in_dataloader;
  megatron.pipeline_before_data = with.pipeline_before_data;
  megatron.precision_aware = with.precision_aware;
  megatron.optimizer_offload = with.optimizer_offload;
}

}  // namespace

std::vector<ir::MegatronModules> module_sets() {
  std::vector<ir::MegatronModules> sets;
  for (unsigned bits = 1; bits < 8; ++bits) {
    sets.push_back(
        {.core_attention = (bits & 1U) != 0, .norms = (bits & 2U) != 0, .mlp = (bits & 4U) != 0});
  }
  return sets;
}

void Recomputation::apply_to(ParallelPlan& plan) const {
  edit_megatron(plan).recompute = kind;
  edit_megatron(plan).recompute_layers = layers;
  edit_megatron(plan).recompute_modules = modules;
}

const std::vector<Recomputation>& ChoiceCounter::recomputations(const SpaceQuestion& question,
                                                                const ParallelPlan& plan) {
  const RepeatForm form = repeat_form_of(question, plan);
  const auto [at, added] = recomputations_.try_emplace(form.key());
  if (added) {
    at->second = megatron_recomputations(question.constraints, form);
  }
  return at->second;
}

const std::vector<MegatronPlan>& ChoiceCounter::switches(const SpaceQuestion& question,
                                                         const ParallelPlan& plan) {
  const SwitchForm form = switch_form_of(question.model, plan);
  const auto [at, added] = switches_.try_emplace(form.key());
  if (added) {
    at->second = megatron_switches(question.constraints, form);
  }
  return at->second;
}

std::uint64_t ChoiceCounter::choose_first(const SpaceQuestion& question, ParallelPlan& plan) {
  const std::vector<Recomputation>& again = recomputations(question, plan);
  const std::vector<MegatronPlan>& with = switches(question, plan);
  if (again.empty() || with.empty()) {
    return 0;
  }
  again.front().apply_to(plan);
  switch_to(edit_megatron(plan), with.front());
  return again.size() * with.size();
}

MegatronChoices megatron_choices(const SpaceQuestion& question, const ParallelPlan& plan) {
  MegatronChoices choices;
  for (const Recomputation& one :
       megatron_recomputations(question.constraints, repeat_form_of(question, plan))) {
    choices.recomputations.push_back(plan);
    one.apply_to(choices.recomputations.back());
  }
  choices.switches = megatron_switches(question.constraints, switch_form_of(question.model, plan));
  return choices;
}

ParallelPlan MegatronChoices::plan_at(std::uint64_t index) const {
  ParallelPlan plan = recomputations[index / switches.size()];
  switch_to(edit_megatron(plan), switches[index % switches.size()]);
  return plan;
}

namespace {

/// Whether everything that `less` recomputes is recomputed by `more`, too.
bool contains(const MegatronPlan& more, const MegatronPlan& less) {
  using ir::MegatronRecompute;
  const auto in = [](bool part, bool whole) { return whole || !part; };
  switch (less.recompute) {
    case MegatronRecompute::kNone:
      return true;
    case MegatronRecompute::kSelective: {
      const ir::MegatronModules& part = less.recompute_modules;
      const ir::MegatronModules& whole = more.recompute_modules;
      return more.recompute == less.recompute && in(part.core_attention, whole.core_attention) &&
             in(part.norms, whole.norms) && in(part.mlp, whole.mlp);
    }
    case MegatronRecompute::kFullBlock:
      return more.recompute == less.recompute && more.recompute_layers >= less.recompute_layers;
    case MegatronRecompute::kFullUniform:
      return false;  // Groups of several layers are recomputed by fewer calls.
  }
  return false;
}

}  // namespace

bool MegatronChoices::recomputes_more(std::uint64_t more, std::uint64_t less) const {
  const std::uint64_t count = switches.size();
  if (more % count != less % count || more / count == less / count) {
    return false;
  }
  const MegatronPlan& one = megatron_of(recomputations[more / count]);
  return one.offload_modules == ir::MegatronOffload{} &&
         contains(one, megatron_of(recomputations[less / count]));
}

}  // namespace headroom::plan
