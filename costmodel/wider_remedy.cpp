#include "costmodel/wider_remedy.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <utility>

#include "costmodel/combined_remedies.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"

namespace headroom::cost {
namespace {

using ir::ParallelPlan;

/// More GPUs than this are named only if the states alone need them. A choice.
constexpr std::int64_t kMostGpus = 4096;
/// More GPUs than this are never replayed: a rank's program grows with their number, and nobody
/// has as many to fit one model. A choice.
constexpr std::int64_t kMostReplayedGpus = 16'384;

std::int64_t gpus_per_node(const RemedyQuestion& question) {
  return question.machine != nullptr
             ? std::max<std::int64_t>(question.machine->topology.devices_per_node, 1)
             : 8;
}

/// A power of two within a node, or whole nodes.
std::int64_t rounded_up(std::int64_t gpus, std::int64_t node) {
  const auto power =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(gpus, 1L))));
  return power <= node ? power : ceil_div(gpus, node) * node;
}

/// Tries one number of GPUs after the other.
class WiderSearch {
 public:
  WiderSearch(const RemedyQuestion& question, Deadline deadline)
      : question_(question), deadline_(deadline) {}

  /// Looks at `plan` with more and more GPUs, from `gpus` on.
  void run(ParallelPlan plan, std::int64_t gpus) {
    const std::int64_t node = gpus_per_node(question_);
    const std::int64_t most = std::min(std::max(kMostGpus, 2 * gpus), kMostReplayedGpus);
    const ir::Runtime& runtime = ir::runtime_of(plan);
    std::optional<Bytes> before;
    gpus = rounded_up(gpus, node);
    while (!found_.mending && gpus <= most && !out_of_time()) {
      std::optional<ParallelPlan> wider = widened(runtime, plan, gpus);
      if (!wider) {
        return;
      }
      gpus = wider->world;
      plan = *wider;
      const std::optional<Bytes> margin = judge(*wider);
      // Past the size of what is not sharded, more GPUs save nothing.
      constexpr std::int64_t kGain = 64 * kMiB;
      if (margin && before && *margin < *before + Bytes{kGain}) {
        return;
      }
      before = margin ? margin : before;
      gpus = rounded_up(gpus < node ? gpus + 1 : gpus + std::max(node, gpus / 4), node);
    }
  }

  [[nodiscard]] WiderRemedies& found() { return found_; }
  [[nodiscard]] bool out_of_time() const {
    return std::chrono::steady_clock::now() > deadline_ || question_.stop.stop_requested();
  }

 private:
  /// The plan on at least `gpus`; with twice the stages where the framework has stages.
  std::optional<ParallelPlan> widened(const ir::Runtime& runtime, const ParallelPlan& plan,
                                      std::int64_t gpus) const {
    if (runtime.with_more_stages(question_.model, plan)) {
      std::optional<ParallelPlan> staged = plan;
      while (staged && staged->world < gpus) {
        staged = runtime.with_more_stages(question_.model, *staged);
      }
      return staged;
    }
    ParallelPlan wider = plan;
    wider.world = gpus;
    return wider;
  }

  /// Looks for a combination on the plan's GPUs. Returns the best margin; nothing if the framework
  /// refuses the plan.
  std::optional<Bytes> judge(const ParallelPlan& plan) {
    if (!ir::check_plan(question_.model, plan)) {
      return std::nullopt;
    }
    Result<StepEstimate> alone = replayed(question_, plan);
    if (!alone) {
      return std::nullopt;
    }
    if (question_.judge) {
      question_.judge(plan, alone.value());
    }
    Remedy whole;
    whole.plan = plan;
    take_result(*alone, whole);
    if (is_yes(alone->verdict, alone->chance)) {
      found_.mending = whole;
      return whole.margin;
    }
    RemedyQuestion asked{.model = question_.model,
                         .plan = plan,
                         .device = question_.device,
                         .budget = question_.budget,
                         .count = 1,
                         .tree = TreeWalk::kNone,
                         .machine = question_.machine,
                         .load = question_.load,
                         .judge = question_.judge};
    RemedyJudge judge(asked, *alone, deadline_);
    Combinations combined = combined_remedies(judge, Training::kSame);
    if (!combined.mending.empty()) {
      found_.mending = std::move(combined.mending.front());
      return found_.mending->margin;
    }
    keep_if_leaner(whole);
    Bytes best = least_margin(whole.margin, whole.host);
    for (const Remedy& lean : combined.short_ones) {
      best = std::max(best, least_margin(lean.margin, lean.host));
      if (!lean.ruled_out && !lean.estimated) {
        keep_if_leaner(lean);
      }
    }
    return best;
  }

  void keep_if_leaner(const Remedy& remedy) {
    if (!found_.short_one || least_margin(remedy.margin, remedy.host) >
                                 least_margin(found_.short_one->margin, found_.short_one->host)) {
      found_.short_one = remedy;
    }
  }

  const RemedyQuestion& question_;
  Deadline deadline_;
  WiderRemedies found_;
};

}  // namespace

WiderRemedies wider_remedies(const RemedyQuestion& question, std::int64_t least_gpus,
                             Deadline deadline) {
  WiderSearch search(question, deadline);
  const std::int64_t first = std::max(least_gpus, question.plan.world + 1);
  search.run(question.plan, first);
  for (const ir::Runtime* const other : ir::runtimes()) {
    if (search.found().mending) {
      break;
    }
    // The same GPUs may do where layers are sharded.
    const std::int64_t node = gpus_per_node(question);
    ParallelPlan narrow = question.plan;
    narrow.world = node;
    if (std::optional<ParallelPlan> sharded = other->with_sharded_layers(narrow)) {
      search.run(*std::move(sharded), std::max({least_gpus, question.plan.world, node}));
    }
  }
  if (!search.found().mending && question.plan.lora && question.plan.quant) {
    // Not all quantised weights can be sharded, and 16-bit weights can.
    ParallelPlan whole = question.plan;
    whole.quant.reset();
    search.run(std::move(whole), std::max<std::int64_t>(question.plan.world, 2));
  }
  search.found().cut_short = !search.found().mending && search.out_of_time();
  return std::move(search.found());
}

}  // namespace headroom::cost
