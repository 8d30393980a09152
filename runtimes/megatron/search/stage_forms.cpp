#include "runtimes/megatron/search/stage_forms.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "model_ir/base/units.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/search/axes.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::plan {
namespace {

ir::ParallelPlan plan_of(std::int64_t pipeline, const StageForm& form) {
  ir::ParallelPlan plan;
  plan.mesh.pipeline = pipeline;
  form.apply_to(edit_megatron(plan));
  return plan;
}

/// Whether all layers are assigned and every stage has at least one.
bool is_whole(std::int64_t layers, std::int64_t pipeline, const StageForm& form) {
  const ir::ParallelPlan plan = plan_of(pipeline, form);
  return ir::even_stage_layers(plan, layers) > 0 && chunk_sizes(plan, layers).least > 0;
}

/// The numbers of layers that an end may hold: those that the user asks for, or anything up to
/// `most`.
AxisValues ends_of(const AxisValues& asked, std::int64_t most) {
  if (!asked.empty()) {
    return asked;
  }
  AxisValues all(static_cast<std::size_t>(most) + 1);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Adds forms that state how many layers the ends hold.
void add_ends(std::int64_t layers, std::int64_t pipeline, const Constraints& allowed,
              std::vector<StageForm>& forms) {
  const AxisValues& first = allowed.of(megatron_axes::kFirstStage);
  const AxisValues& last = allowed.of(megatron_axes::kLastStage);
  const bool free = first.empty() && last.empty();
  if (!allowed.allows(Axis::kAccountEmbedding, 0) || !allowed.allows(Axis::kAccountLoss, 0) ||
      (free && layers % pipeline == 0)) {
    return;
  }
  const std::int64_t share = ceil_div(layers, pipeline);
  for (const std::int64_t front : ends_of(first, share)) {
    for (const std::int64_t back : ends_of(last, share)) {
      const StageForm form{.first = front, .last = back, .embedding = false, .loss = false};
      if ((front == 0 && back == 0) || !is_whole(layers, pipeline, form)) {
        continue;
      }
      const std::int64_t between = ir::even_stage_layers(plan_of(pipeline, form), layers);
      // An end with as many layers as a middle stage is written as 0.
      const bool plain = (!first.empty() || front < between) && (!last.empty() || back < between);
      if (plain && (!free || between == share)) {
        forms.push_back(form);
      }
    }
  }
}

}  // namespace

void StageForm::apply_to(ir::MegatronPlan& plan) const {
  plan.first_stage_layers = first;
  plan.last_stage_layers = last;
  plan.account_for_embedding = embedding;
  plan.account_for_loss = loss;
}

ChunkSizes chunk_sizes(const ir::ParallelPlan& plan, std::int64_t layers) {
  const std::int64_t chunks = ir::chunks_per_stage(plan, layers);
  // Middle stages are alike, and so are the chunks between the first and the last.
  ChunkSizes sizes{.least = layers, .most = 0, .divisor = 0};
  for (const std::int64_t stage :
       {std::int64_t{0}, std::min<std::int64_t>(1, plan.mesh.pipeline - 1),
        plan.mesh.pipeline - 1}) {
    for (const std::int64_t chunk :
         {std::int64_t{0}, std::min<std::int64_t>(1, chunks - 1), chunks - 1}) {
      const std::int64_t count =
          ir::chunk_layer_count(plan, layers, {.stage = stage, .chunk = chunk});
      sizes.least = std::min(sizes.least, count);
      sizes.most = std::max(sizes.most, count);
      sizes.divisor = std::gcd(sizes.divisor, count);
    }
  }
  return sizes;
}

std::vector<StageForm> stage_forms(std::int64_t layers, std::int64_t pipeline,
                                   const Constraints& allowed) {
  std::vector<StageForm> forms;
  const bool even =
      allowed.allows(megatron_axes::kFirstStage, 0) && allowed.allows(megatron_axes::kLastStage, 0);
  for (const auto& [embedding, loss] : std::array<std::pair<bool, bool>, 4>{
           {{false, false}, {true, true}, {true, false}, {false, true}}}) {
    const StageForm form{.first = 0, .last = 0, .embedding = embedding, .loss = loss};
    const bool accounts = embedding || loss;
    if (even && allowed.allows(Axis::kAccountEmbedding, embedding ? 1 : 0) &&
        allowed.allows(Axis::kAccountLoss, loss ? 1 : 0) && !(accounts && pipeline == 1) &&
        is_whole(layers, pipeline, form)) {
      forms.push_back(form);
    }
  }
  if (pipeline > 1) {
    add_ends(layers, pipeline, allowed, forms);
  }
  return forms;
}

}  // namespace headroom::plan
