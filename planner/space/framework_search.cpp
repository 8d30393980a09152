#include "planner/space/framework_search.h"

#include <algorithm>
#include <array>

#include "model_ir/plan/plan_words.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

std::int64_t whole_recompute_of(const ir::ParallelPlan& plan) {
  return static_cast<std::int64_t>(plan.recompute == ir::Recompute::kNone ? RecomputeChoice::kNone
                                                                          : RecomputeChoice::kFull);
}

std::string micro_batch_rule(const SpaceQuestion& question) {
  return "a divisor of the sequences of a data-parallel rank (a batch of " +
         std::to_string(question.global_batch) + " over ranks that divide " + gpus_text(question) +
         " GPUs)";
}

}  // namespace

ir::Precision read_precision(const ir::Runtime& runtime, ir::Precision asked) {
  const auto offers = [&runtime](ir::Precision precision) {
    const auto offered = runtime.precisions();
    return std::ranges::find(offered, precision) != offered.end();
  };
  ir::ParallelPlan plan;
  plan.runtime = runtime.name();
  plan.precision = asked;
  runtime.prepare_for_search(plan);
  const ir::Precision masters = ir::with_masters(plan.precision);
  return !offers(plan.precision) && offers(masters) ? masters : plan.precision;
}

namespace {

/// Whether the user also names the precision of the walk by an earlier value that the framework
/// reads as the same.
bool is_second_name(const SpaceWalk& walk) {
  const FrameworkSearch& framework = search_of(walk.plan);
  const std::int64_t own = precision_position(walk.plan.precision);
  const AxisValues& given = walk.allowed().of(Axis::kPrecision);
  const auto first = std::ranges::find_if(given, [&](std::int64_t value) {
    return eight_bit_recipe(value) == 0 &&
           framework.read(Axis::kPrecision, value) == framework.read(Axis::kPrecision, own);
  });
  return first != given.end() && *first != own;
}

}  // namespace

bool take_precision(SpaceWalk& walk) {
  if (walk.eight_bit_recipe == 0 && is_second_name(walk)) {
    walk.refusal.clear();
    return false;
  }
  const ir::Runtime& runtime = ir::runtime_of(walk.plan);
  const ir::Precision asked = walk.plan.precision;
  const ir::Precision precision = read_precision(runtime, asked);
  walk.refusal = lacking(Axis::kPrecision, precision_position(asked));
  const auto offered = runtime.precisions();
  const bool has = std::ranges::find(offered, precision) != offered.end();
  if (walk.eight_bit_recipe != 0) {
    walk.refusal = "it has no 8-bit recipes";
    return false;
  }
  if (!has) {
    return false;
  }
  const bool masters = asked == ir::Precision::kBf16Master || asked == ir::Precision::kFp16Master;
  const bool plain = precision == ir::Precision::kBf16 || precision == ir::Precision::kFp16;
  if (masters && plain && !walk.asks(Axis::kRuntime)) {
    walk.refusal =
        "it keeps no fp32 master weights beside 16 bits; name it, or use --precision bf16";
    return false;
  }
  walk.plan.precision = precision;
  walk.refusal.clear();
  return true;
}

void take_optimizer(SpaceWalk& walk) {
  if (!walk.asks(Axis::kOptimizer) && walk.plan.optimizer == ir::OptimizerPlan{}) {
    walk.plan.optimizer = ir::runtime_of(walk.plan).searched_optimizer(walk.plan);
  }
}

std::string lacking(Axis axis, std::int64_t value) {
  return "it has no --" + std::string(option_of(axis)) + " " + value_text(axis, value);
}

const FrameworkSearch& search_of_runtime(std::int64_t runtime) {
  return *framework_searches()[static_cast<std::size_t>(runtime)];
}

SearchAxis micro_batch_axis() {
  const auto candidates = [](SpaceWalk& walk) {
    const std::int64_t data =
        walk.plan.world / ir::runtime_of(walk.plan).ranks_per_replica(walk.plan);
    const std::int64_t batch = walk.question.global_batch;
    return batch % data == 0 ? divisors(batch / data) : AxisValues{};
  };
  const auto set = [](SpaceWalk& walk, std::int64_t value) {
    const std::int64_t data =
        walk.plan.world / ir::runtime_of(walk.plan).ranks_per_replica(walk.plan);
    walk.plan.workload.micro_batch = value;
    walk.plan.workload.accumulation = walk.question.global_batch / data / value;
  };
  return {.axis = Axis::kMicroBatch,
          .get = [](const ir::ParallelPlan& plan) { return plan.workload.micro_batch; },
          .rule = micro_batch_rule,
          .candidates = candidates,
          .set = set};
}

SearchAxis whole_recompute_axis() {
  return {.axis = Axis::kRecompute,
          .get = whole_recompute_of,
          .help = "none, full",
          .rule = [](const SpaceQuestion& /*question*/) -> std::string { return "none or full"; }};
}

std::string gpus_text(const SpaceQuestion& question) {
  const AxisValues& given = question.constraints.of(Axis::kGpus);
  return std::to_string(given.empty() ? question.base.world : given.back());
}

std::string sequence_text(const SpaceQuestion& question) {
  const AxisValues& given = question.constraints.of(Axis::kSequence);
  return std::to_string(given.empty() ? question.base.workload.sequence : given.front());
}

std::string layers_text(const SpaceQuestion& question) {
  return std::to_string(question.model.layers.size());
}

std::string tensor_rule(const SpaceQuestion& question) {
  return "a number that divides " + std::to_string(question.model.heads) + " (heads), " +
         std::to_string(question.model.kv_heads) + " (KV heads) and " + gpus_text(question) +
         " (GPUs)";
}

std::string context_rule(const SpaceQuestion& question) {
  return "a divisor of the GPUs (" + gpus_text(question) +
         ") that the other degrees leave, and twice the degree divides the sequence (" +
         sequence_text(question) + ")";
}

AxisValues among(const Constraints& allowed, Axis axis, AxisValues candidates) {
  if (!allowed.of(axis).empty()) {
    std::erase_if(candidates, [&](std::int64_t value) { return !allowed.allows(axis, value); });
  }
  return candidates;
}

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> found;
  std::vector<std::int64_t> above;
  for (std::int64_t i = 1; i * i <= number; ++i) {
    if (number % i == 0) {
      found.push_back(i);
      if (i * i != number) {
        above.push_back(number / i);
      }
    }
  }
  found.insert(found.end(), above.rbegin(), above.rend());
  return found;
}

}  // namespace headroom::plan
