#include "runtimes/transformers/search/search.h"

#include <utility>

#include "runtimes/registry.h"
#include "runtimes/transformers/options.h"
#include "runtimes/transformers/quantised_defaults.h"
#include "runtimes/transformers/support.h"

namespace headroom::plan {
namespace {

/// Whether transformers' modelling code has the attention and the loss of `plan` on this device.
bool is_modelled(const SpaceQuestion& question, const ir::ParallelPlan& plan) {
  if (plan.attention != ir::AttentionKind::kFlash && plan.loss == ir::LossKind::kHf) {
    return true;
  }
  ir::ParallelPlan computing = plan;
  computing.precision = ir::runtime_of(plan).one_rank_alone(plan).value_or(plan).precision;
  return !ir::transformers::unsupported(question.model, computing, question.device);
}

/// What recordings hold is fused attention, or what transformers falls back to for it.
AxisValues attentions(SpaceWalk& walk) {
  AxisValues kinds = {kFirstTorchAttention};
  if (!walk.question.model.recording || walk.asks(Axis::kAttention)) {
    kinds.push_back(kFirstTorchAttention + 1);
  }
  if (walk.asks(Axis::kAttention)) {
    kinds.insert(kinds.end(), {kFirstTorchAttention + 2, kFirstTorchAttention + 3});
  }
  return kinds;
}

void set_attention(SpaceWalk& walk, std::int64_t value) {
  walk.plan.attention = static_cast<ir::AttentionKind>(value - kFirstTorchAttention);
}

void set_loss(SpaceWalk& walk, std::int64_t value) {
  walk.plan.loss = static_cast<ir::LossKind>(value - kFirstTorchLoss);
}

/// Liger's kernels are candidates where the user asks for them, since they need a package.
AxisValues liger_switches(SpaceWalk& walk) {
  walk.plan.liger = false;
  return walk.asks(Axis::kLiger) ? AxisValues{0, 1} : AxisValues{0};
}

AxisValues modelled_losses(SpaceWalk& walk) {
  AxisValues kinds = {kFirstTorchLoss};
  if (walk.asks(Axis::kLoss)) {
    kinds.insert(kinds.end(), {kFirstTorchLoss + 1, kFirstTorchLoss + 2});
  }
  std::erase_if(kinds, [&](std::int64_t kind) {
    set_loss(walk, kind);
    return !is_modelled(walk.question, walk.plan);
  });
  return kinds;
}

class TransformersSearch final : public FrameworkSearch {
 public:
  TransformersSearch() : FrameworkSearch("transformers") {}

  [[nodiscard]] bool only_if_named() const override { return false; }

  [[nodiscard]] std::span<const SearchAxis> axes() const override {
    static const std::vector<SearchAxis> rows = transformers_axes();
    return rows;
  }

  [[nodiscard]] bool begin(SpaceWalk& walk) const override {
    if (!take_precision(walk)) {
      return false;
    }
    take_optimizer(walk);
    ir::transformers::complete_data_parallel(walk.plan);
    if (ir::transformers::needs_autocast(walk.plan) && !walk.asks(Axis::kPrecision) &&
        !walk.question.model.recording) {
      walk.plan.precision = ir::Precision::kBf16AutocastBf16;
    }
    return true;
  }

  [[nodiscard]] std::vector<OfferedChange> offered_changes(
      const SpaceQuestion& /*question*/, const ir::ParallelPlan& plan) const override {
    return offered_liger(plan);
  }
};

}  // namespace

std::vector<OfferedChange> offered_liger(const ir::ParallelPlan& plan) {
  if (plan.liger) {
    return {};
  }
  ir::ParallelPlan with = plan;
  with.liger = true;
  return {{.alternative = {Axis::kLiger, 1}, .plan = std::move(with), .changes_training = false}};
}

std::vector<SearchAxis> transformers_axes() {
  return {{.axis = Axis::kAttention,
           .get =
               [](const ir::ParallelPlan& plan) {
                 return kFirstTorchAttention + static_cast<std::int64_t>(plan.attention);
               },
           .help = "sdpa, eager, flash, sdpa-no-cudnn",
           .rule = [](const SpaceQuestion& /*question*/) -> std::string {
             return "sdpa, eager, flash or sdpa-no-cudnn if the model has it";
           },
           .candidates = attentions,
           .set = set_attention},
          {.axis = Axis::kLiger,
           .get = [](const ir::ParallelPlan& plan) -> std::int64_t { return plan.liger ? 1 : 0; },
           .rule = [](const SpaceQuestion& /*question*/) -> std::string {
             return "no, or yes if Liger has kernels for the model";
           },
           .candidates = liger_switches,
           .set = [](SpaceWalk& walk, std::int64_t value) { walk.plan.liger = value != 0; }},
          {.axis = Axis::kLoss,
           .get =
               [](const ir::ParallelPlan& plan) {
                 return kFirstTorchLoss + static_cast<std::int64_t>(plan.loss);
               },
           .help = "hf, chunked, fused-linear",
           .rule = [](const SpaceQuestion& /*question*/) -> std::string {
             return "hf, chunked or fused-linear";
           },
           .candidates = modelled_losses,
           .set = set_loss},
          micro_batch_axis(),
          whole_recompute_axis(),
          {.axis = Axis::kRecomputeEvery,
           .get = [](const ir::ParallelPlan& plan) { return plan.recompute_every; },
           .rule = [](const SpaceQuestion& question) -> std::string {
             return "1, or with recompute full no more than the layers (" + layers_text(question) +
                    ")";
           }}};
}

const FrameworkSearch& transformers_search() {
  static const TransformersSearch search;
  return search;
}

}  // namespace headroom::plan
