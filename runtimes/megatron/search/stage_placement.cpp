#include "runtimes/megatron/search/stage_placement.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "costmodel/estimate.h"
#include "costmodel/hardware/work_time.h"
#include "planner/chain/chain.h"
#include "planner/evaluate/live_bytes.h"
#include "runtimes/megatron/options.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/search/block_times.h"
#include "runtimes/megatron/search/choices.h"
#include "runtimes/megatron/search/kept_bytes.h"
#include "runtimes/megatron/search/sample_form.h"
#include "runtimes/megatron/search/step_time.h"
#include "runtimes/megatron/stage_layers.h"
#include "runtimes/plan_check.h"

namespace headroom::plan {
namespace {

using Action = LayerAction::Kind;
using Rule = PlacementRule::Kind;

/// A `LayerAction` with modules in the form of Megatron-Core's plan.
struct MegatronAction {
  Action kind = Action::kKeep;
  ir::MegatronModules modules{};
};

std::vector<LayerAction> named(const std::vector<MegatronAction>& actions) {
  std::vector<LayerAction> all;
  for (const MegatronAction& action : actions) {
    all.push_back({.kind = action.kind, .modules = ir::names_of(action.modules)});
  }
  return all;
}

/// `plan` with another recomputation.
ir::ParallelPlan with_recomputation(const ir::ParallelPlan& plan, ir::MegatronRecompute how,
                                    std::int64_t layers = 1, ir::MegatronModules modules = {}) {
  ir::ParallelPlan other = plan;
  edit_megatron(other).recompute = how;
  edit_megatron(other).recompute_layers = layers;
  edit_megatron(other).recompute_modules = modules;
  return other;
}

/// `plan` with `action` on every layer. A copied layer keeps as much as a kept one until it is
/// copied.
ir::ParallelPlan with_action(const ir::ParallelPlan& plan, const MegatronAction& action) {
  switch (action.kind) {
    case Action::kKeep:
    case Action::kCopy:
      return with_recomputation(plan, ir::MegatronRecompute::kNone);
    case Action::kModules:
      return with_recomputation(plan, ir::MegatronRecompute::kSelective, 1, action.modules);
    case Action::kFull:
      return with_recomputation(plan, ir::MegatronRecompute::kFullUniform);
  }
  return plan;
}

/// The options that `ir::check_plan` accepts for `plan`.
std::vector<MegatronAction> actions_of(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  std::vector<MegatronAction> actions = {{.kind = Action::kKeep}};
  for (const ir::MegatronModules& modules : module_sets()) {
    actions.push_back({.kind = Action::kModules, .modules = modules});
  }
  actions.push_back({.kind = Action::kFull});
  actions.push_back({.kind = Action::kCopy});
  std::erase_if(actions, [&](const MegatronAction& action) {
    return !ir::check_plan(model, with_action(plan, action));
  });
  return actions;
}

/// The layers of a model chunk.
struct ChunkLayers {
  std::vector<ir::LayerSpec> kinds;
  std::vector<std::size_t> order;  ///< The kind of each layer.
  [[nodiscard]] std::int64_t count(std::size_t kind) const {
    return std::ranges::count(order, kind);
  }
};

ChunkLayers layers_of_form(const SampleForm& form) {
  ChunkLayers layers;
  for (const LayerRun& run : form.runs) {
    const auto found = std::ranges::find(layers.kinds, run.layer);
    const auto kind = static_cast<std::size_t>(found - layers.kinds.begin());
    if (found == layers.kinds.end()) {
      layers.kinds.push_back(run.layer);
    }
    layers.order.insert(layers.order.end(), static_cast<std::size_t>(run.units), kind);
  }
  return layers;
}

/// Reads the figures of one stage.
class StageReader {
 public:
  StageReader(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
              const cost::DeviceSpec& device, const cost::Machine& machine,
              const BlockTimes& blocks)
      : model_(model), plan_(plan), device_(device), machine_(machine), blocks_(blocks) {}

  [[nodiscard]] const ir::ParallelPlan& plan() const { return plan_; }
  [[nodiscard]] const LayerTimes& times(const ir::LayerSpec& layer) const {
    return layer.moe ? blocks_.sparse : blocks_.dense;
  }

  /// The peak of allocated bytes on stage `stage` while micro-batches of `plan` run.
  [[nodiscard]] Result<Bytes> peak(const ir::ParallelPlan& plan, std::int64_t stage) const {
    const ir::Rank rank{static_cast<std::int32_t>(stage * ir::stage_stride(plan))};
    const Result<ir::RankProgram> program = cost::lower_replayed(model_, plan, device_, rank);
    if (!program) {
      return program.error();
    }
    const std::vector<std::int64_t> curve = live_curve(*program, plan.allocator);
    std::int64_t most = 0;
    for (const ir::Phase& phase : program->phases) {
      if (phase.name.kind != ir::PhaseKind::kForwardBackward) {
        continue;
      }
      for (std::size_t event = phase.begin; event < phase.end; ++event) {
        most = std::max(most, curve[event]);
      }
    }
    return Bytes{most};
  }

  /// Seconds of recomputation for one layer of `plan`.
  [[nodiscard]] double again(const ir::ParallelPlan& plan, const ir::LayerSpec& layer) const {
    ir::ModelSpec one = model_;
    one.layers = {layer};
    ir::ParallelPlan alone = plan;
    alone.mesh.pipeline = 1;
    ir::deal_evenly(edit_megatron(alone));
    alone.workload.accumulation = 1;
    return pipeline_parts(one, alone, blocks_).recomputation.value();
  }

  [[nodiscard]] double copy(std::int64_t bytes) const {
    const auto time = [&](ir::CopyKind kind) {
      return cost::work_time(machine_.performance, machine_.topology,
                             ir::CopyShape{.kind = kind, .bytes = bytes})
          .value();
    };
    return std::max(time(ir::CopyKind::kDeviceToHost), time(ir::CopyKind::kHostToDevice));
  }

  [[nodiscard]] Result<std::int64_t> kept(const ir::ParallelPlan& plan,
                                          const ir::LayerSpec& layer) const {
    return kept_bytes(model_, plan, layer, device_.traits);
  }

  /// The layers of a chunk of `stage`, the figures of the options, and the memory that is left for
  /// them.
  [[nodiscard]] Result<PlacementQuestion> question(const ChunkLayers& layers,
                                                   const std::vector<MegatronAction>& actions,
                                                   std::int64_t stage, Bytes capacity) const {
    PlacementQuestion question;
    question.passes = kept_passes(model_, plan_, stage);
    question.budget = capacity.value();
    for (std::size_t kind = 0; kind < layers.kinds.size(); ++kind) {
      const LayerTimes& one = times(layers.kinds[kind]);
      const std::int64_t count = layers.count(kind);
      question.forward += static_cast<double>(count) * one.forward.value();
      question.backward += static_cast<double>(count) * one.backward.value();
      question.kinds.push_back({.layers = count, .options = {}});
    }
    for (const MegatronAction& action : actions) {
      if (Status status = add_option(layers, action, stage, question); !status) {
        return std::move(status).error();
      }
    }
    return question;
  }

 private:
  [[nodiscard]] Status add_option(const ChunkLayers& layers, const MegatronAction& action,
                                  std::int64_t stage, PlacementQuestion& question) const {
    const ir::ParallelPlan plan = with_action(plan_, action);
    const Result<Bytes> most = peak(plan, stage);
    if (!most) {
      return most.error();
    }
    std::int64_t by_passes = 0;
    std::int64_t largest = 0;
    std::vector<LayerOption> options;
    for (std::size_t kind = 0; kind < layers.kinds.size(); ++kind) {
      const Result<std::int64_t> bytes = kept(plan, layers.kinds[kind]);
      if (!bytes) {
        return bytes.error();
      }
      options.push_back({.again = again(plan, layers.kinds[kind]), .copy = 0, .kept = *bytes});
      by_passes += question.passes * question.kinds[kind].layers * *bytes;
      largest = std::max(largest, *bytes);
    }
    const std::int64_t fixed = std::max<std::int64_t>(most->value() - by_passes, 0);
    for (std::size_t kind = 0; kind < options.size(); ++kind) {
      LayerOption& option = options[kind];
      option.fixed = fixed;
      if (action.kind == Action::kCopy) {
        // One layer in use and one in transit.
        option = {.again = 0, .copy = copy(option.kept), .kept = 0, .fixed = fixed + 2 * largest};
      }
      question.kinds[kind].options.push_back(option);
    }
    return ok();
  }

  const ir::ModelSpec& model_;
  const ir::ParallelPlan& plan_;
  const cost::DeviceSpec& device_;
  const cost::Machine& machine_;
  BlockTimes blocks_;
};

/// Evaluates the rules for one stage.
class RuleReader {
 public:
  RuleReader(const StageReader& reader, const ChunkLayers& chunk, StagePlacement& placement)
      : reader_(reader),
        chunk_(chunk),
        placement_(placement),
        layers_(static_cast<std::int64_t>(chunk.order.size())) {}

  Status run() {
    const ir::ParallelPlan& plan = reader_.plan();
    const auto uniform = [&](std::int64_t group) {
      return with_recomputation(plan, ir::MegatronRecompute::kFullUniform, group);
    };
    add_modules();
    Status own = add({.kind = Rule::kPlan, .number = megatron_of(plan).recompute_layers}, plan);
    if (!own || !option_of(Action::kFull)) {
      return own;  // Either the plan's own rule failed, or no layer can be recomputed.
    }
    for (const Status& status :
         {add({.kind = Rule::kUniform}, uniform(1)), add_square_root(), add_block()}) {
      if (!status) {
        return status;
      }
    }
    add_every();
    add_chain();
    return ok();
  }

 private:
  /// Seconds of recomputation for the first `layers` layers of a chunk under `plan`.
  [[nodiscard]] double again(const ir::ParallelPlan& plan, std::int64_t layers) const {
    std::vector<double> seconds;
    for (const ir::LayerSpec& kind : chunk_.kinds) {
      seconds.push_back(reader_.again(plan, kind));
    }
    double sum = 0;
    for (std::int64_t i = 0; i < std::min(layers, layers_); ++i) {
      sum += seconds[chunk_.order[static_cast<std::size_t>(i)]];
    }
    return sum;
  }

  [[nodiscard]] std::int64_t budget() const { return placement_.question.budget; }

  Status add(PlacementRule rule, const ir::ParallelPlan& plan) {
    const Result<Bytes> peak = reader_.peak(plan, placement_.stage);
    if (!peak) {
      return peak.error();
    }
    rule.peak = *peak;
    rule.fits = peak->value() <= budget();
    rule.modules = ir::names_of(megatron_of(plan).recompute_modules);
    if (rule.kind == Rule::kBlock ||
        megatron_of(plan).recompute == ir::MegatronRecompute::kFullBlock) {
      rule.seconds = again(with_recomputation(plan, ir::MegatronRecompute::kFullUniform),
                           megatron_of(plan).recompute_layers);
    } else {
      rule.seconds = again(plan, layers_);
    }
    placement_.rules.push_back(rule);
    return ok();
  }

  /// Adds the fastest set of modules that fits or, if none fits, the one with the lowest peak.
  void add_modules() {
    std::optional<PlacementRule> best;
    for (std::size_t i = 0; i < placement_.actions.size(); ++i) {
      if (placement_.actions[i].kind != Action::kModules) {
        continue;
      }
      const Placement all = everywhere(i);
      const PlacementRule rule{.kind = Rule::kModules,
                               .number = 1,
                               .modules = placement_.actions[i].modules,
                               .seconds = all.seconds - once(),
                               .peak = Bytes{all.bytes},
                               .fits = all.bytes <= budget()};
      const auto worth = [](const PlacementRule& one) {
        return std::pair(!one.fits, one.fits ? one.seconds : static_cast<double>(one.peak.value()));
      };
      best = !best || worth(rule) < worth(*best) ? rule : *best;
    }
    if (best) {
      placement_.rules.push_back(*best);
    }
  }

  /// Adds groups whose length divides the layers and is nearest to their square root.
  Status add_square_root() {
    const auto root = std::sqrt(static_cast<double>(layers_));
    std::int64_t group = 1;
    for (std::int64_t length = 2; length < layers_; ++length) {
      const auto distance = [&](std::int64_t of) {
        return std::abs(static_cast<double>(of) - root);
      };
      group = layers_ % length == 0 && distance(length) < distance(group) ? length : group;
    }
    return group == 1 ? ok()
                      : add({.kind = Rule::kSquareRoot, .number = group},
                            with_recomputation(reader_.plan(), ir::MegatronRecompute::kFullUniform,
                                               group));
  }

  /// Adds the smallest number of recomputed layers of a chunk that fits. Each further one keeps
  /// less.
  Status add_block() {
    const auto block = [&](std::int64_t layers) {
      return with_recomputation(reader_.plan(), ir::MegatronRecompute::kFullBlock, layers);
    };
    std::int64_t few = 1;
    std::int64_t many = layers_;
    while (few < many) {
      const std::int64_t middle = (few + many) / 2;
      const Result<Bytes> peak = reader_.peak(block(middle), placement_.stage);
      if (!peak) {
        return peak.error();
      }
      peak->value() <= budget() ? many = middle : few = middle + 1;
    }
    return add({.kind = Rule::kBlock, .number = few}, block(few));
  }

  [[nodiscard]] std::optional<std::size_t> option_of(Action action) const {
    const auto found = std::ranges::find(placement_.actions, action, &LayerAction::kind);
    return found == placement_.actions.end()
               ? std::nullopt
               : std::optional(static_cast<std::size_t>(found - placement_.actions.begin()));
  }

  /// Recomputes every Nth layer, as few as fit, or every second layer if none fits.
  void add_every() {
    const std::optional<std::size_t> full = option_of(Action::kFull);
    if (!full || layers_ < 2) {
      return;
    }
    for (std::int64_t every = layers_; every >= 2; --every) {
      std::vector<std::vector<std::int64_t>> counts = no_counts();
      for (std::size_t i = 0; i < chunk_.order.size(); ++i) {
        const bool again = static_cast<std::int64_t>(i) % every == 0;
        ++counts[chunk_.order[i]][again ? *full : 0];
      }
      const Placement all = placement_of(placement_.question, std::move(counts));
      if (all.bytes <= budget() || every == 2) {
        placement_.rules.push_back({.kind = Rule::kEvery,
                                    .number = every,
                                    .modules = {},
                                    .seconds = all.seconds - once(),
                                    .peak = Bytes{all.bytes},
                                    .fits = all.bytes <= budget()});
        return;
      }
    }
  }

  /// Each layer stores what it keeps, or only its input. Sizes are rounded up to slots.
  void add_chain() {
    constexpr std::int64_t kSlots = 2000;
    const std::optional<std::size_t> full = option_of(Action::kFull);
    if (!full || placement_.question.passes != 1 || placement_.question.kinds.empty()) {
      return;
    }
    const std::vector<LayerOption>& first = placement_.question.kinds[0].options;
    const std::int64_t fixed = std::max(first[0].fixed, first[*full].fixed);
    const std::int64_t slot = ceil_div(std::max<std::int64_t>(budget() - fixed, 1), kSlots);
    Chain chain;
    for (const std::size_t kind : chunk_.order) {
      const std::vector<LayerOption>& options = placement_.question.kinds[kind].options;
      const LayerTimes& times = reader_.times(chunk_.kinds[kind]);
      chain.push_back({.forward = times.forward.value(),
                       .backward = times.backward.value(),
                       .output = ceil_div(options[*full].kept, slot),
                       .saved = ceil_div(options[0].kept, slot)});
    }
    if (const std::optional<ChainSchedule> best =
            optimal_chain(chain, std::max<std::int64_t>(budget() - fixed, 0) / slot)) {
      placement_.rules.push_back({.kind = Rule::kChain,
                                  .number = 1,
                                  .modules = {},
                                  .seconds = best->time - once(),
                                  .peak = Bytes{best->peak * slot + fixed},
                                  .fits = true});
    }
  }

  [[nodiscard]] double once() const {
    return placement_.question.forward + placement_.question.backward;
  }
  [[nodiscard]] std::vector<std::vector<std::int64_t>> no_counts() const {
    return {chunk_.kinds.size(), std::vector<std::int64_t>(placement_.actions.size(), 0)};
  }
  [[nodiscard]] Placement everywhere(std::size_t option) const {
    std::vector<std::vector<std::int64_t>> counts = no_counts();
    for (std::size_t kind = 0; kind < chunk_.kinds.size(); ++kind) {
      counts[kind][option] = chunk_.count(kind);
    }
    return placement_of(placement_.question, std::move(counts));
  }

  const StageReader& reader_;
  const ChunkLayers& chunk_;
  StagePlacement& placement_;
  std::int64_t layers_;
};

/// If copying is an option, it is the last one.
PlacementQuestion without_copies(PlacementQuestion question,
                                 const std::vector<MegatronAction>& actions) {
  for (LayerKind& kind : question.kinds) {
    if (actions.back().kind == Action::kCopy) {
      kind.options.pop_back();
    }
  }
  return question;
}

}  // namespace

Result<std::vector<StagePlacement>> stage_placements(const ir::ModelSpec& model,
                                                     const ir::ParallelPlan& plan,
                                                     const cost::DeviceSpec& device,
                                                     const cost::Machine& machine, Bytes capacity) {
  std::vector<StagePlacement> placements;
  if (!has_megatron(plan) || !(megatron_of(plan).offload_modules == ir::MegatronOffload{})) {
    return placements;
  }
  const Result<BlockTimes> blocks = block_times(model, plan, machine, device);
  if (!blocks) {
    return blocks.error();
  }
  const StageReader reader(model, plan, device, machine, *blocks);
  const std::vector<MegatronAction> actions = actions_of(model, plan);
  const ir::ParallelPlan keeping = with_recomputation(plan, ir::MegatronRecompute::kNone);
  for (std::int64_t stage = 0; stage < plan.mesh.pipeline; ++stage) {
    const std::optional<SampleForm> form = form_of(model, keeping, stage);
    if (!form) {
      continue;
    }
    const Result<Bytes> everything = reader.peak(keeping, stage);
    if (!everything) {
      return everything.error();
    }
    if (stage > 0 && *everything <= capacity) {
      continue;
    }
    const ChunkLayers layers = layers_of_form(*form);
    Result<PlacementQuestion> question = reader.question(layers, actions, stage, capacity);
    if (!question) {
      return std::move(question).error();
    }
    StagePlacement placement{.stage = stage,
                             .question = std::move(question).value(),
                             .actions = named(actions),
                             .everything = *everything,
                             .best = {},
                             .best_without_copies = {},
                             .rules = {}};
    placement.best = best_placement(placement.question);
    placement.best_without_copies = best_placement(without_copies(placement.question, actions));
    if (Status status = RuleReader(reader, layers, placement).run(); !status) {
      return std::move(status).error();
    }
    placements.push_back(std::move(placement));
  }
  return placements;
}

}  // namespace headroom::plan
