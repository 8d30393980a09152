#include "runtimes/megatron/search/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "model_ir/plan/plan_words.h"
#include "planner/placement/stage_placement.h"
#include "planner/search/evaluator.h"
#include "planner/space/all_axes.h"
#include "runtimes/megatron/option_checks.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/required_capability.h"
#include "runtimes/megatron/search/axes.h"
#include "runtimes/megatron/search/axis_rows.h"
#include "runtimes/megatron/search/choices.h"
#include "runtimes/megatron/search/evaluator.h"
#include "runtimes/megatron/search/stage_forms.h"
#include "runtimes/megatron/search/stage_placement.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::plan {
namespace {

using ir::MegatronPlan;
using ir::ParallelPlan;

/// Megatron has only one AdamW, FusedAdam. "adamw-fused" is its second name.
bool is_second_name_of_adam(const SpaceWalk& walk) {
  const AxisValues& given = walk.allowed().of(Axis::kOptimizer);
  const auto is_plain = [](std::int64_t word) {
    return ir::optimizer_words()[static_cast<std::size_t>(word)].value == ir::OptimizerPlan{};
  };
  return walk.plan.optimizer.form == ir::OptimizerForm::kFused &&
         std::ranges::any_of(given, is_plain);
}

class CellChoices final : public Choices {
 public:
  explicit CellChoices(MegatronChoices choices) : choices_(std::move(choices)) {}
  [[nodiscard]] std::uint64_t size() const override { return choices_.size(); }
  [[nodiscard]] ParallelPlan plan_at(std::uint64_t index) const override {
    return choices_.plan_at(index);
  }

 private:
  MegatronChoices choices_;
};

class MegatronSearch final : public FrameworkSearch {
 public:
  MegatronSearch() : FrameworkSearch("megatron") {}

  [[nodiscard]] bool only_if_named() const override { return false; }

  [[nodiscard]] std::span<const SearchAxis> axes() const override {
    static const std::vector<SearchAxis> rows = megatron_axis_rows();
    return rows;
  }

  [[nodiscard]] bool begin(SpaceWalk& walk) const override {
    const auto recipe = static_cast<ir::MegatronFp8>(walk.eight_bit_recipe);
    if (is_second_name_of_adam(walk)) {
      return false;
    }
    if (walk.eight_bit_recipe == 0 && !take_precision(walk)) {
      return false;
    }
    if (walk.plan.lora) {
      walk.refusal = "it has no --lora";
      return false;
    }
    if (const Status able = ir::check_megatron_fp8_device(recipe, walk.question.device); !able) {
      walk.refusal =
          lacking(Axis::kPrecision, precision_with_recipe(walk.eight_bit_recipe)) + " on this GPU";
      return false;
    }
    MegatronPlan& megatron = edit_megatron(walk.plan);
    megatron = MegatronPlan{};
    walk.plan.mesh = {};
    megatron.fp8 = recipe;
    if (!ir::megatron::has_fused_attention(walk.question.device)) {
      megatron.attention = ir::MegatronAttention::kUnfused;  // No other backend is left.
    }
    return true;
  }

  [[nodiscard]] std::uint64_t choose_first(SpaceWalk& walk) const override {
    return walk.memory<MegatronMemory>().counter.choose_first(walk.question, walk.plan);
  }

  [[nodiscard]] std::unique_ptr<const Choices> choices(const SpaceQuestion& question,
                                                       const Cell& cell) const override {
    return std::make_unique<CellChoices>(megatron_choices(question, cell.plan));
  }

  /// Groups of uniform recomputation divide all chunks; block recomputation leaves one layer of the
  /// longest chunk.
  [[nodiscard]] AxisValues numbers_within_cells(const SpaceQuestion& question,
                                                Axis axis) const override {
    if (axis != megatron_axes::kRecomputeLayers) {
      return {};
    }
    const Constraints& allowed = question.constraints;
    const auto has = [&](RecomputeChoice choice) {
      return allowed.allows(Axis::kRecompute, static_cast<std::int64_t>(choice));
    };
    SpaceQuestion any = question;
    any.constraints.of(Axis::kRecompute) = {};
    any.constraints.of(axis) = {};
    std::set<std::int64_t> values;
    for (const Cell& cell : cells_of(any)) {
      if (cell.framework != this) {
        continue;
      }
      const ChunkSizes chunk =
          chunk_sizes(cell.plan, static_cast<std::int64_t>(question.model.layers.size()));
      for (std::int64_t layers = 1; layers <= chunk.most; ++layers) {
        const bool block = layers < chunk.most && has(RecomputeChoice::kBlock);
        const bool uniform = chunk.divisor % layers == 0 && has(RecomputeChoice::kUniform);
        if ((block || uniform) && allowed.allows(axis, layers)) {
          values.insert(layers);
        }
      }
    }
    return {values.begin(), values.end()};
  }

  [[nodiscard]] std::vector<Alternative> alternatives(const ParallelPlan& plan) const override {
    std::vector<Alternative> all = halves_and_doubles(
        plan, std::array{Axis::kTensor, Axis::kPipeline, Axis::kContext, Axis::kMicroBatch});
    const MegatronPlan& megatron = megatron_of(plan);
    if (plan.mesh.pipeline > 1) {
      all.push_back({megatron_axes::kMeshOrder, megatron.pipeline_before_data ? 0 : 1});
    }
    if (megatron.distributed_optimizer && plan.precision == ir::Precision::kBf16Master) {
      const std::int64_t step = value_of(plan, Axis::kOptimizerOffload);
      all.push_back({Axis::kOptimizerOffload, step > 0 ? step - 1 : 1});
    }
    return all;
  }

  /// Gradients in bf16, the 8-bit recipes of the GPU, and the switches that the search holds.
  [[nodiscard]] std::vector<OfferedChange> offered_changes(
      const SpaceQuestion& question, const ParallelPlan& plan) const override {
    std::vector<OfferedChange> all;
    if (megatron_of(plan).fp32_gradients && plan.precision == ir::Precision::kBf16Master) {
      all.push_back({.alternative = {megatron_axes::kGradients, 1}, .plan = plan});
      edit_megatron(all.back().plan).fp32_gradients = false;
    }
    const MegatronPlan& megatron = megatron_of(plan);
    if (!megatron.overlap_expert_exchange && plan.mesh.expert > 1 &&
        plan.workload.accumulation > 1) {
      all.push_back({.alternative = {megatron_axes::kExchangeOverlap, 1},
                     .plan = plan,
                     .changes_training = false});
      ir::run_micro_batches_together(edit_megatron(all.back().plan));
    }
    if (megatron.tp_comm_overlap) {
      all.push_back({.alternative = {megatron_axes::kTpCommOverlap, 0},
                     .plan = plan,
                     .changes_training = false});
      edit_megatron(all.back().plan).tp_comm_overlap = false;
    }
    for (const ir::MegatronFp8 recipe :
         {ir::MegatronFp8::kTensorwise, ir::MegatronFp8::kBlockwise, ir::MegatronFp8::kMxfp8}) {
      if (megatron_of(plan).fp8 == ir::MegatronFp8::kNone &&
          ir::check_megatron_fp8_device(recipe, question.device)) {
        const std::int64_t value = precision_with_recipe(static_cast<int>(recipe));
        all.push_back({.alternative = {Axis::kPrecision, value}, .plan = plan});
        edit_megatron(all.back().plan).fp8 = recipe;
      }
    }
    return all;
  }

  [[nodiscard]] Result<std::vector<StagePlacement>> placements(const ir::ModelSpec& model,
                                                               const ParallelPlan& plan,
                                                               const cost::DeviceSpec& device,
                                                               const cost::Machine& machine,
                                                               Bytes capacity) const override {
    return stage_placements(model, plan, device, machine, capacity);
  }

  [[nodiscard]] std::unique_ptr<Evaluator> evaluator(const SearchInputs& inputs) const override {
    return megatron_evaluator(inputs);
  }
};

}  // namespace

const FrameworkSearch& megatron_search() {
  static const MegatronSearch search;
  return search;
}

}  // namespace headroom::plan
