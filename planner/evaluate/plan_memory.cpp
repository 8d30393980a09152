#include "planner/evaluate/plan_memory.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "costmodel/binding_rank.h"
#include "costmodel/estimate.h"
#include "model_ir/plan/plan_check.h"
#include "model_ir/spec/param_count.h"
#include "planner/evaluate/kept_bytes.h"
#include "planner/evaluate/live_bytes.h"
#include "planner/evaluate/program_sample.h"

namespace headroom::plan {
namespace {

/// A key of whole numbers, each behind a comma.
class KeyText {
 public:
  template <typename... Values>
  KeyText& add(Values... values) {
    (append(static_cast<std::int64_t>(values)), ...);
    return *this;
  }
  [[nodiscard]] std::string text() const { return text_; }

 private:
  void append(std::int64_t value) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    text_.append(digits.data(), end.ptr);
    text_.push_back(',');
  }
  std::string text_;
};

int modules_bits(const ir::MegatronModules& modules) {
  return (modules.core_attention ? 1 : 0) | (modules.norms ? 2 : 0) | (modules.mlp ? 4 : 0);
}

/// What decides the sizes and the order of a program's tensors, but for what repeats.
void add_shapes(KeyText& key, const ir::ParallelPlan& plan) {
  const ir::MegatronPlan& megatron = *plan.megatron;
  key.add(
      plan.precision, plan.micro_batch, plan.sequence, std::min(plan.steps, 2), megatron.tensor,
      megatron.context, megatron.expert, megatron.expert_tensor, megatron.sequence_parallel,
      megatron.accumulation_fusion, megatron.fp32_gradients, megatron.cross_entropy,
      megatron.mask_in_dataloader, megatron.attention, megatron.recompute,
      modules_bits(megatron.recompute_modules), megatron.vocabulary_divisor,
      megatron.permute_fusion, megatron.aux_loss,
      megatron.capacity_factor ? static_cast<std::int64_t>(*megatron.capacity_factor * 1e6) : -1,
      plan.allocator.roundup_power2_divisions);
}

StagePlace stage_place(std::int64_t stage, std::int64_t stages) {
  const bool last = stages > 1 && stage == stages - 1;
  return {.number = last ? 0 : stage, .last = last};
}

bool is_steady(const SampleForm& form) {
  return form.stages > 1 &&
         form.micro_batches == (form.chunks > 1 ? 2 * form.stages : form.stages + 2);
}

/// max(construction, base + peak(t), optimizer_peak + remains, optimizer_end + log)
Bytes composed_peak(const StaticMemory& fixed, const ActivationFamily& family,
                    const ActivationFamily::Counts& counts) {
  std::int64_t peak = fixed.construction_peak;
  for (std::size_t step = 0; step < family.steps(); ++step) {
    const ActivationFamily::Step above = family.step(step, counts);
    const StaticMemory::Step& base = fixed.steps[step];
    peak = std::max({peak, base.base + above.peak, base.optimizer_peak + above.remains,
                     base.optimizer_end + above.log});
  }
  return Bytes{peak};
}

/// Whether micro-batches come in the usual order: what the samples are made of.
bool has_usual_order(const ir::MegatronPlan& megatron) {
  return megatron.micro_batch_group == 0;
}

}  // namespace

PlanMemory::PlanMemory(const ir::ModelSpec& model, const cost::DeviceSpec& device)
    : model_(model), device_(device) {}

Result<Bytes> PlanMemory::peak(const ir::ParallelPlan& plan) {
  plans_.fetch_add(1, std::memory_order_relaxed);
  if (plan.runtime != ir::RuntimeKind::kMegatron || !has_usual_order(*plan.megatron)) {
    return lowered_peak(plan);
  }
  if (Status status = ir::check_plan(model_, plan); !status) {
    return std::move(status).error();
  }
  Bytes peak;
  for (const RankPlace& place : places_of(model_, plan)) {
    const Result<Bytes> one = rank_peak(plan, place);
    if (!one) {
      return one.error();
    }
    peak = std::max(peak, *one);
  }
  return peak;
}

std::vector<PlanMemory::RankPlace> PlanMemory::places_of(const ir::ModelSpec& model,
                                                         const ir::ParallelPlan& plan) {
  const std::int64_t stage_ranks = plan.world / plan.megatron->pipeline;
  std::vector<RankPlace> places;
  for (const ir::Rank rank : cost::binding_ranks(model, plan)) {
    const auto number = static_cast<std::int64_t>(rank);
    places.push_back({.rank = rank,
                      .stage = number / stage_ranks,
                      .context = number % stage_ranks / plan.megatron->tensor});
  }
  return places;
}

Result<Bytes> PlanMemory::lowered_peak(const ir::ParallelPlan& plan) {
  Bytes peak;
  if (Status status = ir::check_plan(model_, plan); !status) {
    return std::move(status).error();
  }
  for (const ir::Rank rank : cost::binding_ranks(model_, plan)) {
    const Result<Bytes> one = whole_peak(plan, rank);
    if (!one) {
      return one.error();
    }
    peak = std::max(peak, *one);
  }
  return peak;
}

Result<Bytes> PlanMemory::whole_peak(const ir::ParallelPlan& plan, ir::Rank rank) {
  lowered_.fetch_add(1, std::memory_order_relaxed);
  const Result<ir::RankProgram> program = cost::lower_replayed(model_, plan, device_, rank);
  if (!program) {
    return program.error();
  }
  return Bytes{live_peak(*program, plan.allocator)};
}

PlanMemory::Parts PlanMemory::parts_of(const ir::ParallelPlan& plan, const RankPlace& place) {
  Parts parts;
  const std::optional<SampleForm> form = form_of(model_, plan, place.stage);
  if (!form) {
    return parts;
  }
  const StagePlace stage = stage_place(place.stage, form->stages);
  const std::optional<FamilyPlace> where = place_of(*form, stage, is_steady(*form));
  if (!where) {
    return parts;
  }
  auto family = family_of(plan, *form, stage, *where, place.context);
  if (*family) {
    parts.family = std::move(family);
    parts.counts = where->counts;
  }
  return parts;
}

Result<Bytes> PlanMemory::rank_peak(const ir::ParallelPlan& plan, const RankPlace& place) {
  const Parts parts = parts_of(plan, place);
  if (!parts.family) {
    return whole_peak(plan, place.rank);
  }
  const auto fixed = static_of(plan, place);
  return *fixed ? Result<Bytes>(composed_peak(**fixed, **parts.family, parts.counts))
                : Result<Bytes>(fixed->error());
}

std::shared_ptr<const Result<ActivationFamily>> PlanMemory::family_of(const ir::ParallelPlan& plan,
                                                                      const SampleForm& form,
                                                                      StagePlace stage,
                                                                      const FamilyPlace& place,
                                                                      std::int64_t context) {
  KeyText key;
  add_shapes(key, plan);
  key.add(stage.number, stage.last, form.first_short, form.last_short, context == 0 ? 0 : 1,
          place.base.stages, place.base.chunks, place.base.micro_batches,
          plan.megatron->layers_per_chunk > 0);
  for (const LayerRun& run : place.base.runs) {
    key.add(run.layer.moe, run.layer.window.value_or(0), run.units, run.group, run.recomputed);
  }
  for (const std::size_t count : place.varying) {
    key.add(count);
  }
  const std::string text = key.text();
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = families_.find(text); found != families_.end()) {
      return found->second;
    }
  }
  ir::ParallelPlan two = plan;
  two.steps = std::min(plan.steps, 2);
  auto made = std::make_shared<const Result<ActivationFamily>>(
      ActivationFamily::make(model_, two, form, stage, context, device_.traits));
  if (*made) {
    samples_.fetch_add((*made)->samples(), std::memory_order_relaxed);
  }
  const std::lock_guard lock(mutex_);
  return families_.try_emplace(text, std::move(made)).first->second;
}

std::shared_ptr<const Result<StaticMemory>> PlanMemory::static_of(const ir::ParallelPlan& plan,
                                                                  const RankPlace& place) {
  const ir::MegatronPlan& megatron = *plan.megatron;
  KeyText key;
  key.add(plan.precision, std::min(plan.steps, 2), plan.world,
          static_cast<std::int64_t>(place.rank), megatron.tensor, megatron.pipeline,
          megatron.context, megatron.expert, megatron.expert_tensor, megatron.layers_per_chunk,
          megatron.first_stage_layers, megatron.last_stage_layers, megatron.account_for_embedding,
          megatron.account_for_loss, megatron.distributed_optimizer, megatron.overlap_grad_reduce,
          megatron.fp32_gradients, megatron.vocabulary_divisor, megatron.permute_fusion,
          plan.allocator.roundup_power2_divisions);
  const std::string text = key.text();
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = statics_.find(text); found != statics_.end()) {
      return found->second;
    }
  }
  ir::ParallelPlan two = plan;
  two.steps = std::min(plan.steps, 2);
  auto made = std::make_shared<const Result<StaticMemory>>(
      static_memory(model_, two, place.rank, device_.traits));
  const std::lock_guard lock(mutex_);
  return statics_.try_emplace(text, std::move(made)).first->second;
}

std::int64_t PlanMemory::kept_of(const ir::ParallelPlan& plan, const ir::LayerSpec& layer) {
  KeyText key;
  ir::ParallelPlan alone = plan;
  // What changes nothing of what a layer keeps.
  alone.megatron->cross_entropy = ir::MegatronCrossEntropy::kTransformerEngine;
  alone.megatron->mask_in_dataloader = false;
  alone.steps = 1;
  if (alone.megatron->recompute == ir::MegatronRecompute::kFullBlock) {
    alone.megatron->recompute = ir::MegatronRecompute::kFullUniform;
  }
  add_shapes(key, alone);
  key.add(layer.moe, layer.window.value_or(0));
  const std::string text = key.text();
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = kept_.find(text); found != kept_.end()) {
      return found->second;
    }
  }
  const Result<std::int64_t> kept = kept_bytes(model_, alone, layer, device_.traits);
  const std::lock_guard lock(mutex_);
  return kept_.try_emplace(text, kept ? std::max<std::int64_t>(*kept, 0) : 0).first->second;
}

namespace {

/// Bytes of parameters, gradients and states of one layer on one rank, at least.
std::int64_t resident_bytes(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                            const ir::LayerSpec& layer) {
  const ir::MegatronPlan& megatron = *plan.megatron;
  const std::int64_t whole = ir::layer_parameters(model, layer).total();
  std::int64_t experts = 0;
  if (layer.moe) {
    experts = model.moe->experts * model.moe->expert_ffn * model.hidden * (model.gated_mlp ? 3 : 2);
  }
  const std::int64_t cut = megatron.expert_tensor > 0 ? megatron.expert_tensor : megatron.tensor;
  const std::int64_t dense = (whole - experts) / megatron.tensor;
  const std::int64_t local = experts / (megatron.expert * cut);
  const bool full = plan.precision == ir::Precision::kFp32;
  const bool wide = plan.precision == ir::Precision::kBf16Master && megatron.fp32_gradients;
  const std::int64_t held = full ? 8 : (wide ? 6 : 4);  // Parameter and gradient.
  const std::int64_t states = full ? 8 : 12;            // Two moments; a master copy.
  const std::int64_t data = plan.world / megatron.tensor / megatron.pipeline;
  const std::int64_t expert_data = plan.world / (cut * megatron.expert * megatron.pipeline);
  const bool spread = megatron.distributed_optimizer;
  return held * (dense + local) + states * dense / (spread ? data : 1) +
         states * local / (spread ? expert_data : 1);
}

}  // namespace

Bytes PlanMemory::floor(const ir::ParallelPlan& plan) {
  if (!plan.megatron) {
    return Bytes{0};
  }
  const std::optional<SampleForm> form = form_of(model_, plan, 0);
  if (!form) {
    return Bytes{0};
  }
  const std::int64_t passes = kept_passes(model_, plan);
  ir::ParallelPlan none = plan;
  none.megatron->recompute = plan.megatron->recompute == ir::MegatronRecompute::kSelective
                                 ? ir::MegatronRecompute::kSelective
                                 : ir::MegatronRecompute::kNone;
  ir::ParallelPlan again = plan;
  again.megatron->recompute = ir::MegatronRecompute::kFullUniform;
  again.megatron->recompute_layers = 1;
  std::int64_t kept = 0;
  std::int64_t resident = 0;
  for (const LayerRun& run : form->runs) {
    // Passes through a chunk that has a unit less are not told from the others.
    const bool has_less = &run == &form->runs.back() && (form->first_short || form->last_short);
    const std::int64_t units = run.units - (has_less ? 1 : 0);
    kept += units * kept_of(run.recomputed ? again : none, run.layer);
    resident += units * run.group * resident_bytes(model_, plan, run.layer);
  }
  // Before the second step there are no moments yet, and a plan may have but one.
  return Bytes{passes * kept + (plan.steps > 1 ? resident * form->chunks : 0)};
}

MemoryCounts PlanMemory::counts() const {
  return {.plans = plans_.load(),
          .families = families_.size(),
          .samples = samples_.load(),
          .lowered = lowered_.load()};
}

CellMemory::CellMemory(PlanMemory& memory, const Choices& choices)
    : memory_(memory), choices_(choices) {
  const ir::ParallelPlan& plan = choices.recomputations.front();
  if (!plan.megatron) {
    return;
  }
  const std::size_t switches = choices.switches.size();
  for (const PlanMemory::RankPlace& place : PlanMemory::places_of(memory.model_, plan)) {
    ranks_.push_back({.place = place,
                      .fixed = std::vector<std::shared_ptr<const Result<StaticMemory>>>(switches),
                      .moving = std::vector<std::optional<PlanMemory::Parts>>(
                          choices.recomputations.size() * switches)});
  }
}

Result<Bytes> CellMemory::rank_peak(RankParts& rank, std::uint64_t index) {
  std::optional<PlanMemory::Parts>& moving = rank.moving[index];
  if (!moving) {
    moving = memory_.parts_of(plan_at(choices_, index), rank.place);
  }
  if (!moving->family) {
    return memory_.whole_peak(plan_at(choices_, index), rank.place.rank);
  }
  const Result<StaticMemory>& fixed = fixed_of(rank, index);
  return fixed ? Result<Bytes>(composed_peak(*fixed, **moving->family, moving->counts))
               : Result<Bytes>(fixed.error());
}

const Result<StaticMemory>& CellMemory::fixed_of(RankParts& rank, std::uint64_t index) {
  auto& fixed = rank.fixed[index % choices_.switches.size()];
  if (!fixed) {
    fixed = memory_.static_of(plan_at(choices_, index), rank.place);
  }
  return *fixed;
}

Bytes CellMemory::static_peak(std::uint64_t index) {
  std::int64_t peak = 0;
  for (RankParts& rank : ranks_) {
    if (const Result<StaticMemory>& fixed = fixed_of(rank, index)) {
      peak = std::max(peak, fixed->construction_peak);
      for (const StaticMemory::Step& step : fixed->steps) {
        peak = std::max({peak, step.base, step.optimizer_peak, step.optimizer_end});
      }
    }
  }
  return Bytes{peak};
}

Result<Bytes> CellMemory::peak(std::uint64_t index) {
  if (ranks_.empty()) {
    return memory_.peak(plan_at(choices_, index));
  }
  memory_.plans_.fetch_add(1, std::memory_order_relaxed);
  Bytes peak;
  for (RankParts& rank : ranks_) {
    const Result<Bytes> one = rank_peak(rank, index);
    if (!one) {
      return one.error();
    }
    peak = std::max(peak, *one);
  }
  return peak;
}

}  // namespace headroom::plan
