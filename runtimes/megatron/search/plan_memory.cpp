#include "runtimes/megatron/search/plan_memory.h"

#include <algorithm>
#include <array>
#include <utility>

#include "costmodel/binding_rank.h"
#include "costmodel/estimate.h"
#include "model_ir/json/json_value.h"
#include "model_ir/spec/param_count.h"
#include "planner/evaluate/live_bytes.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/search/kept_bytes.h"
#include "runtimes/megatron/search/program_sample.h"
#include "runtimes/megatron/stage_layers.h"
#include "runtimes/plan_check.h"
#include "runtimes/plan_json.h"

namespace headroom::plan {
namespace {

StagePlace stage_place(std::int64_t stage, std::int64_t stages) {
  const bool last = stages > 1 && stage == stages - 1;
  return {.number = last ? 0 : stage, .last = last};
}

bool is_steady(const SampleForm& form) {
  return form.stages > 1 &&
         form.micro_batches == (form.chunks > 1 ? 2 * form.stages : form.stages + 2);
}

/// Whether micro-batches have the usual order, tensors are received after a pass, and there are no
/// multi-token prediction layers, as in the samples.
bool fits_samples(const ir::MegatronPlan& megatron) {
  return megatron.micro_batch_group == 0 && megatron.mtp_layers == 0 &&
         !megatron.overlap_warmup_flush;
}

}  // namespace

Bytes composed_peak(const StaticMemory& fixed, std::span<const ActivationFamily::Step> moving) {
  std::int64_t peak = fixed.construction_peak;
  for (std::size_t step = 0; step < moving.size(); ++step) {
    const ActivationFamily::Step& above = moving[step];
    const StaticMemory::Step& base = fixed.steps[step];
    peak = std::max({peak, base.base + above.peak, base.optimizer_peak + above.remains,
                     base.optimizer_end + above.log});
  }
  return Bytes{peak};
}

PlanMemory::PlanMemory(const ir::ModelSpec& model, const cost::DeviceSpec& device)
    : model_(model), windowless_(model), device_(device) {
  for (ir::LayerSpec& layer : windowless_.layers) {
    layer.window.reset();
  }
}

Result<Bytes> PlanMemory::peak(const ir::ParallelPlan& plan) {
  plans_.fetch_add(1, std::memory_order_relaxed);
  if (plan.runtime != "megatron" || !fits_samples(megatron_of(plan))) {
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
  const std::int64_t stage_ranks = ir::stage_stride(plan);
  std::vector<RankPlace> places;
  for (const ir::Rank rank : cost::binding_ranks(model, plan)) {
    const auto number = static_cast<std::int64_t>(rank);
    places.push_back({.rank = rank,
                      .stage = number / stage_ranks,
                      .context = number % stage_ranks / plan.mesh.tensor});
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
  std::string text = ir::to_json(ir::plan_to_json(plan));
  text += std::to_string(static_cast<std::int32_t>(rank));
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = wholes_.find(text); found != wholes_.end()) {
      return found->second;
    }
  }
  lowered_.fetch_add(1, std::memory_order_relaxed);
  const Result<ir::RankProgram> program = cost::lower_replayed(model_, plan, device_, rank);
  if (!program) {
    return program.error();
  }
  const Bytes peak{live_peak(*program, plan.allocator)};
  const std::lock_guard lock(mutex_);
  wholes_.try_emplace(std::move(text), peak);
  return peak;
}

PlanMemory::Parts PlanMemory::parts_of(const ir::ParallelPlan& plan, const RankPlace& place) {
  Parts parts;
  const std::optional<SampleForm> form = form_of(windowless_, plan, place.stage);
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
  std::vector<ActivationFamily::Step> moving;
  for (std::size_t step = 0; step < (*parts.family)->steps(); ++step) {
    moving.push_back((*parts.family)->step(step, parts.counts));
  }
  const auto fixed = static_of(plan, place);
  return *fixed ? Result<Bytes>(composed_peak(**fixed, moving)) : Result<Bytes>(fixed->error());
}

std::shared_ptr<const Result<ActivationFamily>> PlanMemory::family_of(const ir::ParallelPlan& plan,
                                                                      const SampleForm& form,
                                                                      StagePlace stage,
                                                                      const FamilyPlace& place,
                                                                      std::int64_t context) {
  std::vector<std::int64_t> numbers = {stage.number,
                                       stage.last ? 1 : 0,
                                       form.first_short ? 1 : 0,
                                       form.last_short ? 1 : 0,
                                       context == 0 ? 0 : 1,
                                       place.base.stages,
                                       place.base.chunks,
                                       place.base.micro_batches,
                                       megatron_of(plan).layers_per_chunk > 0 ? 1 : 0};
  for (const LayerRun& run : place.base.runs) {
    numbers.insert(numbers.end(), {run.layer.moe ? 1 : 0, run.layer.window.value_or(0), run.units,
                                   run.group, run.recomputed ? 1 : 0});
  }
  for (const std::size_t count : place.varying) {
    numbers.push_back(static_cast<std::int64_t>(count));
  }
  PlanKey key = tensors_key(plan, std::move(numbers));
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = families_.find(key); found != families_.end()) {
      return found->second;
    }
  }
  ir::ParallelPlan two = plan;
  two.workload.steps = std::min(plan.workload.steps, 2);
  auto made = std::make_shared<const Result<ActivationFamily>>(
      ActivationFamily::make(windowless_, two, form, stage, context, device_.traits));
  if (*made) {
    samples_.fetch_add((*made)->samples(), std::memory_order_relaxed);
  }
  const std::lock_guard lock(mutex_);
  return families_.try_emplace(std::move(key), std::move(made)).first->second;
}

std::shared_ptr<const Result<StaticMemory>> PlanMemory::static_of(const ir::ParallelPlan& plan,
                                                                  const RankPlace& place) {
  PlanKey key = states_key(plan, place.rank);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = statics_.find(key); found != statics_.end()) {
      return found->second;
    }
  }
  ir::ParallelPlan two = plan;
  two.workload.steps = std::min(plan.workload.steps, 2);
  auto made = std::make_shared<const Result<StaticMemory>>(
      static_memory(windowless_, two, place.rank, device_.traits));
  const std::lock_guard lock(mutex_);
  return statics_.try_emplace(std::move(key), std::move(made)).first->second;
}

std::int64_t PlanMemory::kept_of(const ir::ParallelPlan& plan, ir::MegatronRecompute how,
                                 const ir::LayerSpec& layer) {
  if (megatron_of(plan).overlap_expert_exchange) {
    return 0;  // The least that is known of such a layer.
  }
  ir::ParallelPlan alone = plan;
  // Options that do not affect what a layer keeps.
  edit_megatron(alone).cross_entropy = ir::MegatronCrossEntropy::kTransformerEngine;
  edit_megatron(alone).mask_in_dataloader = false;
  edit_megatron(alone).accumulation_fusion = true;
  alone.workload.steps = 1;
  edit_megatron(alone).recompute = how;
  edit_megatron(alone).recompute_layers = 1;
  if (how != ir::MegatronRecompute::kSelective) {
    edit_megatron(alone).recompute_modules = {};
  }
  PlanKey key = tensors_key(alone, {layer.moe ? 1 : 0, layer.window.value_or(0)});
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = kept_.find(key); found != kept_.end()) {
      return found->second;
    }
  }
  const Result<std::int64_t> kept = kept_bytes(windowless_, alone, layer, device_.traits);
  const std::lock_guard lock(mutex_);
  return kept_.try_emplace(std::move(key), kept ? std::max<std::int64_t>(*kept, 0) : 0)
      .first->second;
}

namespace {

/// A lower bound of the bytes of parameters, gradients and states of one layer on one rank.
std::int64_t resident_bytes(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                            const ir::LayerSpec& layer) {
  const ir::MegatronPlan& megatron = megatron_of(plan);
  const std::int64_t whole = ir::layer_parameters(model, layer).total();
  std::int64_t experts = 0;
  if (layer.moe) {
    experts = model.moe->experts * model.moe->expert_ffn * model.hidden * (model.gated_mlp ? 3 : 2);
  }
  const std::int64_t cut = expert_tensor_of(plan.mesh);
  const std::int64_t dense = (whole - experts) / plan.mesh.tensor;
  const std::int64_t local = experts / (plan.mesh.expert * cut);
  const bool full = plan.precision == ir::Precision::kFp32;
  const bool wide = plan.precision == ir::Precision::kBf16Master && megatron.fp32_gradients;
  // Parameter and gradient.
  const std::int64_t held = (full ? 8 : (wide ? 6 : 4)) - (megatron.fp8_parameters ? 1 : 0);
  // Two moments and a master copy. A hybrid optimizer may have all of these layers' states on the
  // host.
  const bool apart = megatron.precision_aware || megatron.optimizer_offload > 0;
  const std::int64_t states = apart ? 0 : (full ? 8 : 12);
  const std::int64_t data = plan.world / plan.mesh.tensor / plan.mesh.pipeline;
  const std::int64_t expert_data = plan.world / (cut * plan.mesh.expert * plan.mesh.pipeline);
  const bool spread = megatron.distributed_optimizer;
  return held * (dense + local) + states * dense / (spread ? data : 1) +
         states * local / (spread ? expert_data : 1);
}

/// The logits of a micro-batch in the type of the products. The first stage has them only without a
/// pipeline.
std::int64_t logit_bytes(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  if (plan.mesh.pipeline > 1) {
    return 0;
  }
  const std::int64_t element = plan.precision == ir::Precision::kFp32 ? 4 : 2;
  return plan.workload.micro_batch * (plan.workload.sequence / plan.mesh.context) *
         (model.vocabulary / plan.mesh.tensor) * element;
}

using Layers = std::vector<ir::LayerSpec>;

/// The chunks of a stage.
std::vector<Layers> chunks_of(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                              std::int64_t stage) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  std::vector<Layers> chunks;
  for (std::int64_t chunk = 0; chunk < ir::chunks_per_stage(plan, layers); ++chunk) {
    const ir::LayerSpan span = ir::chunk_layers(plan, layers, {.stage = stage, .chunk = chunk});
    const auto begin = model.layers.begin() + span.first;
    chunks.emplace_back(begin, begin + span.count);
  }
  return chunks;
}

/// Whether a chunk holds only the embedding or the loss; no lower bound is computed for such plans.
bool has_empty(const std::vector<Layers>& chunks) {
  return std::ranges::any_of(chunks, [](const Layers& chunk) { return chunk.empty(); });
}

}  // namespace

std::int64_t PlanMemory::resident_of(const ir::ParallelPlan& plan,
                                     const std::vector<Layers>& chunks) const {
  if (plan.workload.steps < 2) {
    return 0;  // Before the second step there are no moments, and a plan may have only one step.
  }
  std::array<std::optional<std::int64_t>, 2> known;  // Layers are dense or sparse.
  std::int64_t resident = 0;
  for (const Layers& chunk : chunks) {
    for (const ir::LayerSpec& layer : chunk) {
      std::optional<std::int64_t>& bytes = known[layer.moe ? 1 : 0];
      bytes = bytes ? bytes : std::optional(resident_bytes(windowless_, plan, layer));
      resident += *bytes;
    }
  }
  return resident;
}

Bytes PlanMemory::floor(const ir::ParallelPlan& plan) {
  if (!has_megatron(plan)) {
    return Bytes{0};
  }
  const std::vector<Layers> chunks = chunks_of(windowless_, plan, 0);
  return has_empty(chunks) ? Bytes{0} : Bytes{resident_of(plan, chunks)} + kept_floor(plan, 0);
}

Bytes PlanMemory::kept_floor(const ir::ParallelPlan& plan, std::int64_t stage) {
  if (!has_megatron(plan)) {
    return Bytes{0};
  }
  const ir::MegatronPlan& megatron = megatron_of(plan);
  const std::vector<Layers> chunks = chunks_of(windowless_, plan, stage);
  if (has_empty(chunks)) {
    return Bytes{0};
  }
  const bool uniform = megatron.recompute == ir::MegatronRecompute::kFullUniform;
  const bool block = megatron.recompute == ir::MegatronRecompute::kFullBlock;
  // What each kind of layer keeps: with the plan's recomputation, recomputed as a whole, and not
  // recomputed.
  struct Kept {
    std::int64_t plain = 0;
    std::int64_t input = 0;
    std::int64_t none = 0;
  };
  std::array<std::optional<Kept>, 2> known;
  const auto kept = [&](const ir::LayerSpec& layer) -> const Kept& {
    std::optional<Kept>& one = known[layer.moe ? 1 : 0];
    if (!one) {
      const auto of = [&](ir::MegatronRecompute how, bool asked) {
        return asked ? kept_of(plan, how, layer) : 0;
      };
      one = {.plain = of(block ? ir::MegatronRecompute::kNone : megatron.recompute, !uniform),
             .input = of(ir::MegatronRecompute::kFullUniform, uniform || block),
             .none = of(ir::MegatronRecompute::kNone, uniform)};
    }
    return *one;
  };
  std::int64_t pass = INT64_MAX;
  for (const Layers& chunk : chunks) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      const auto position = static_cast<std::int64_t>(i);
      const bool again = uniform || (block && position < megatron.recompute_layers);
      const bool begins = !uniform || position % megatron.recompute_layers == 0;
      sum += !again ? kept(chunk[i]).plain : (begins ? kept(chunk[i]).input : 0);
    }
    pass = std::min(pass, sum);
  }
  std::int64_t again = 0;
  if (uniform) {
    // The last group has been recomputed and nothing has been freed. Its input is counted once.
    const Layers& last = chunks.back();
    const auto size = static_cast<std::int64_t>(last.size());
    const std::int64_t group = (size - 1) / megatron.recompute_layers * megatron.recompute_layers;
    again = -kept(last.back()).input;
    for (std::int64_t i = group; i < size; ++i) {
      again += kept(last[static_cast<std::size_t>(i)]).none;
    }
  }
  return Bytes{kept_passes(windowless_, plan, stage) * pass +
               std::max({again, logit_bytes(windowless_, plan), std::int64_t{0}})};
}

Bytes PlanMemory::cell_floor(const ir::ParallelPlan& plan) {
  if (!has_megatron(plan)) {
    return Bytes{0};
  }
  // A recomputed layer keeps its input, whatever its kind.
  const std::int64_t input =
      kept_of(plan, ir::MegatronRecompute::kFullUniform, windowless_.layers.front());
  std::int64_t most = 0;
  for (std::int64_t stage = 0; stage < plan.mesh.pipeline; ++stage) {
    const std::vector<Layers> chunks = chunks_of(windowless_, plan, stage);
    if (!has_empty(chunks)) {
      most =
          std::max(most, resident_of(plan, chunks) + kept_passes(windowless_, plan, stage) * input);
    }
  }
  return Bytes{most + logit_bytes(windowless_, plan)};
}

MemoryCounts PlanMemory::counts() const {
  return {.plans = plans_.load(),
          .families = families_.size(),
          .samples = samples_.load(),
          .lowered = lowered_.load()};
}

}  // namespace headroom::plan
