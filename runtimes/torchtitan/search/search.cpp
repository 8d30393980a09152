#include "runtimes/torchtitan/search/search.h"

#include <array>
#include <numeric>
#include <set>

#include "planner/evaluate/plan_bounds.h"
#include "planner/search/evaluator.h"
#include "planner/space/all_axes.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/registry.h"
#include "runtimes/torchtitan/model.h"
#include "runtimes/torchtitan/plan.h"
#include "runtimes/torchtitan/search/axes.h"
#include "runtimes/torchtitan/search/titan_bounds.h"
#include "runtimes/torchtitan/search/titan_choices.h"

namespace headroom::plan {
namespace titan_axes {
namespace {

using ir::Mesh;
using ir::ParallelPlan;
using ir::TitanPlan;

TitanPlan& plan_of(SpaceWalk& walk) {
  return edit_titan(walk.plan);
}

template <std::int64_t TitanPlan::*kMember>
std::int64_t get_number(const ParallelPlan& plan) {
  return titan_of(plan).*kMember;
}

bool is_pipelined(const ParallelPlan& plan) {
  return has_titan(plan) && plan.mesh.pipeline > 1;
}

// -- Candidates and setters. ---------------------------------------------------------------------

/// Tensor parallelism includes sequence parallelism.
AxisValues tensor_degrees(SpaceWalk& walk) {
  const ir::ModelSpec& model = walk.question.model;
  AxisValues degrees = divisors(std::gcd(std::gcd(model.heads, model.kv_heads), walk.plan.world));
  std::erase_if(degrees, [&](std::int64_t tensor) {
    return !walk.allowed().allows(Axis::kSequenceParallel, tensor > 1 ? 1 : 0);
  });
  return degrees;
}

AxisValues pipeline_degrees(SpaceWalk& walk) {
  return divisors(walk.plan.world / walk.plan.mesh.tensor);
}

/// How many layers the embedding or the head counts for when layers are distributed over stages.
AxisValues end_weights(const SpaceWalk& walk, Axis axis) {
  if (walk.plan.mesh.pipeline == 1) {
    return {0};
  }
  return walk.asks(axis) ? AxisValues{1, 0} : AxisValues{1};
}
template <std::int64_t TitanPlan::*kMember>
void set_end_weight(SpaceWalk& walk, std::int64_t value) {
  plan_of(walk).*kMember = walk.plan.mesh.pipeline > 1 ? value : TitanPlan{}.*kMember;
}
template <std::int64_t TitanPlan::*kMember>
std::int64_t get_end_weight(const ParallelPlan& plan) {
  return is_pipelined(plan) && titan_of(plan).*kMember > 0 ? 1 : 0;
}

/// The ranks that share the parameters of a tensor-parallel rank of a stage.
std::int64_t holders_of(const SpaceWalk& walk) {
  return walk.plan.world / walk.plan.mesh.tensor / walk.plan.mesh.pipeline;
}

AxisValues context_degrees(SpaceWalk& walk) {
  const std::int64_t tensor = walk.plan.mesh.tensor;
  const std::int64_t sequence = walk.plan.workload.sequence;
  AxisValues degrees = divisors(holders_of(walk));
  std::erase_if(degrees, [&](std::int64_t context) {
    return context > 1 && (sequence % (2 * context) != 0 || sequence % (context * tensor) != 0);
  });
  return degrees;
}

/// At least two ranks share parameters, or nothing is sharded.
AxisValues replica_counts(SpaceWalk& walk) {
  const std::int64_t ranks = holders_of(walk);
  AxisValues counts = divisors(ranks / walk.plan.mesh.context);
  std::erase_if(counts, [&](std::int64_t replicas) {
    walk.plan.mesh.replicas = replicas;
    return ranks / replicas < 2 && !is_unsharded_titan(walk.plan);
  });
  return counts;
}

/// The ranks that share a layer's experts.
std::int64_t expert_holders(const SpaceWalk& walk) {
  return holders_of(walk) / walk.plan.mesh.replicas * walk.plan.mesh.tensor;
}

AxisValues expert_degrees(SpaceWalk& walk) {
  const auto& moe = walk.question.model.moe;
  return moe ? divisors(std::gcd(moe->experts, expert_holders(walk))) : AxisValues{1};
}

AxisValues expert_tensor_degrees(SpaceWalk& walk) {
  const Mesh& mesh = walk.plan.mesh;
  const bool cuts = walk.question.model.moe && mesh.expert > 1 && mesh.tensor > 1 &&
                    expert_holders(walk) % (mesh.expert * mesh.tensor) == 0;
  return cuts ? AxisValues{1, mesh.tensor} : AxisValues{1};
}

/// The chunked loss is a candidate only if the user asks for it.
AxisValues losses(SpaceWalk& walk) {
  constexpr std::int64_t kChunked =
      kFirstTorchLoss + static_cast<std::int64_t>(ir::LossKind::kChunked);
  return walk.asks(Axis::kLoss) ? AxisValues{kFirstTorchLoss, kChunked}
                                : AxisValues{kFirstTorchLoss};
}

std::int64_t sequences_of_rank(const SpaceWalk& walk) {
  return walk.question.global_batch / (holders_of(walk) / walk.plan.mesh.context);
}

AxisValues micro_batches(SpaceWalk& walk) {
  const bool spreads =
      walk.question.global_batch % (holders_of(walk) / walk.plan.mesh.context) == 0;
  return spreads ? divisors(sequences_of_rank(walk)) : AxisValues{};
}

void set_micro_batch(SpaceWalk& walk, std::int64_t micro) {
  const std::int64_t share = sequences_of_rank(walk);
  const bool pipelined = walk.plan.mesh.pipeline > 1;
  walk.plan.workload.micro_batch = pipelined ? share : micro;
  walk.plan.workload.accumulation = pipelined ? 1 : share / micro;
  plan_of(walk).pipeline_batch = pipelined ? micro : 1;
}

std::int64_t recompute_of(const ParallelPlan& plan) {
  if (has_titan(plan) && titan_of(plan).selective_operators) {
    return static_cast<std::int64_t>(RecomputeChoice::kSelective);
  }
  return static_cast<std::int64_t>(plan.recompute == ir::Recompute::kNone ? RecomputeChoice::kNone
                                                                          : RecomputeChoice::kFull);
}

std::int64_t reshard_of(const ParallelPlan& plan) {
  const ir::TitanReshard reshard = titan_of(plan).reshard;
  const bool usual = reshard == ir::TitanReshard::kDefault && !is_pipelined(plan);
  return reshard == ir::TitanReshard::kAlways || usual ? 1 : 0;
}

// -- Rules. --------------------------------------------------------------------------------------

std::string pipeline_rule(const SpaceQuestion& question) {
  return "a divisor of the GPUs (" + gpus_text(question) +
         ") that the tensor degree leaves, with a layer (of " + layers_text(question) +
         ") in every stage and two ranks or more that shard a stage";
}

std::string expert_rule(const SpaceQuestion& question) {
  return question.model.moe
             ? "a divisor of the experts (" + std::to_string(question.model.moe->experts) +
                   ") and of a stage's ranks (of " + gpus_text(question) + " GPUs)"
             : "1: the model has no experts";
}

std::string chunk_rule(const SpaceQuestion& question) {
  return "0, or with several stages (interleaved, zb-h1) fewer layers than a stage has (of " +
         layers_text(question) + ") that give every rank as many chunks";
}

std::string schedule_rule(const SpaceQuestion& /*question*/) {
  return "1f1b, or with several stages gpipe, interleaved, and with eager blocks that keep all "
         "zb-h1, zb-v, dualpipev";
}

std::string runs_rule(const SpaceQuestion& /*question*/) {
  return "1, or with several stages a divisor of a rank's micro-batches that leaves each run as "
         "many as stages";
}

std::string every_rule(const SpaceQuestion& question) {
  return "1, or with recompute full no more layers than a rank has (of " + layers_text(question) +
         ")";
}

std::string compile_rule(const SpaceQuestion& /*question*/) {
  return "no, or yes for a dense model with tp and cp of 1";
}

std::string replicas_rule(const SpaceQuestion& question) {
  return "a divisor of the GPUs (" + gpus_text(question) + ") below them";
}

std::string reshard_rule(const SpaceQuestion& /*question*/) {
  return "yes or no";
}

std::string account_rule(const SpaceQuestion& /*question*/) {
  return "no, or yes with several stages";
}

// -- The table. ----------------------------------------------------------------------------------

std::vector<SearchAxis> make_axes() {
  std::vector<SearchAxis> rows;
  rows.push_back({.axis = Axis::kTensor,
                  .get = get_degree<&Mesh::tensor>,
                  .rule = tensor_rule,
                  .candidates = tensor_degrees,
                  .set = set_degree<&Mesh::tensor>});
  rows.push_back({.axis = Axis::kPipeline,
                  .get = get_degree<&Mesh::pipeline>,
                  .rule = pipeline_rule,
                  .candidates = pipeline_degrees,
                  .set = set_degree<&Mesh::pipeline>});
  rows.push_back(
      {.axis = Axis::kAccountEmbedding,
       .get = get_end_weight<&TitanPlan::first_stage_less>,
       .help = "yes unless you say no",
       .rule = account_rule,
       .candidates = [](SpaceWalk& walk) { return end_weights(walk, Axis::kAccountEmbedding); },
       .set = set_end_weight<&TitanPlan::first_stage_less>});
  rows.push_back(
      {.axis = Axis::kAccountLoss,
       .get = get_end_weight<&TitanPlan::last_stage_less>,
       .help = "yes unless you say no",
       .rule = account_rule,
       .candidates = [](SpaceWalk& walk) { return end_weights(walk, Axis::kAccountLoss); },
       .set = set_end_weight<&TitanPlan::last_stage_less>});
  rows.push_back({.axis = Axis::kContext,
                  .get = get_degree<&Mesh::context>,
                  .rule = context_rule,
                  .candidates = context_degrees,
                  .set = set_degree<&Mesh::context>});
  rows.push_back({.axis = Axis::kReplicas,
                  .get = get_degree<&ir::Mesh::replicas>,
                  .rule = replicas_rule,
                  .candidates = replica_counts,
                  .set = set_degree<&ir::Mesh::replicas>});
  rows.push_back({.axis = Axis::kExpert,
                  .get = get_degree<&Mesh::expert>,
                  .rule = expert_rule,
                  .candidates = expert_degrees,
                  .set = set_degree<&Mesh::expert>});
  rows.push_back({.axis = Axis::kExpertTensor,
                  .get = [](const ParallelPlan& plan) { return titan_expert_tensor(plan.mesh); },
                  .rule = [](const SpaceQuestion& question) -> std::string {
                    return question.model.moe ? "1 or the tensor degree"
                                              : "no value: the model has no experts";
                  },
                  .candidates = expert_tensor_degrees,
                  .set =
                      [](SpaceWalk& walk, std::int64_t value) {
                        walk.plan.mesh.expert_tensor = value > 1 ? value : Mesh{}.expert_tensor;
                      }});
  rows.push_back(
      {.axis = Axis::kLoss,
       .get =
           [](const ParallelPlan& plan) {
             return kFirstTorchLoss + static_cast<std::int64_t>(plan.loss);
           },
       .help = "hf, chunked",
       .rule = [](const SpaceQuestion& /*question*/) -> std::string { return "hf or chunked"; },
       .candidates = losses,
       .set =
           [](SpaceWalk& walk, std::int64_t value) {
             walk.plan.loss = static_cast<ir::LossKind>(value - kFirstTorchLoss);
           }});
  rows.push_back({.axis = Axis::kMicroBatch,
                  .get = sequences_of_pass,
                  .rule = micro_batch_axis().rule,
                  .candidates = micro_batches,
                  .set = set_micro_batch});
  // Axes within a cell.
  rows.push_back(
      {.axis = Axis::kSchedule,
       .get = [](const ParallelPlan& plan) { return schedule_with(titan_of(plan).schedule); },
       .help = "1f1b, interleaved, gpipe, zb-h1, zb-v, dualpipev",
       .rule = schedule_rule});
  rows.push_back({.axis = Axis::kChunk,
                  .get = get_number<&TitanPlan::stage_layers>,
                  .help = "0 for one or two chunks of a rank",
                  .rule = chunk_rule});
  rows.push_back({.axis = kPipelineRuns,
                  .get =
                      [](const ParallelPlan& plan) {
                        return is_pipelined(plan) ? plan.workload.accumulation : std::int64_t{1};
                      },
                  .rule = runs_rule});
  rows.push_back({.axis = Axis::kSequenceParallel,
                  .get = [](const ParallelPlan& plan) -> std::int64_t {
                    return has_titan(plan) && plan.mesh.tensor > 1 ? 1 : 0;
                  },
                  .rule = [](const SpaceQuestion& /*question*/) -> std::string {
                    return "yes with a tensor degree above 1, otherwise no";
                  }});
  rows.push_back({.axis = Axis::kRecompute,
                  .get = recompute_of,
                  .help = "none, selective, full",
                  .rule = [](const SpaceQuestion& /*question*/) -> std::string {
                    return "none, selective or full";
                  }});
  rows.push_back({.axis = Axis::kRecomputeEvery,
                  .get = [](const ParallelPlan& plan) { return plan.recompute_every; },
                  .rule = every_rule});
  rows.push_back({.axis = Axis::kCompiled,
                  .get = [](const ParallelPlan& plan) -> std::int64_t {
                    return has_titan(plan) && titan_of(plan).compiled ? 1 : 0;
                  },
                  .rule = compile_rule});
  rows.push_back({.axis = Axis::kReshard, .get = reshard_of, .rule = reshard_rule});
  rows.push_back({.axis = Axis::kPrecision, .get = [](const ParallelPlan& plan) {
                    const bool wide = plan.precision == ir::Precision::kFp32;
                    return precision_value(wide ? ir::Precision::kBf16Master : plan.precision);
                  }});
  return rows;
}

std::vector<ParallelPlan> plans_of(const SpaceQuestion& question, const ParallelPlan& plan) {
  std::vector<ParallelPlan> plans;
  for (const TitanChoice& one : titan_choices(question, plan)) {
    plans.push_back(plan);
    one.apply_to(plans.back());
  }
  return plans;
}

/// The memory of a walk over torchtitan's plans.
struct TitanMemory {
  bool unknown_model = false;  ///< torchtitan does not train the model, whatever the plan is.
};

class TitanSearch final : public FrameworkSearch {
 public:
  TitanSearch() : FrameworkSearch("torchtitan") {}

  [[nodiscard]] bool only_if_named() const override { return false; }

  [[nodiscard]] std::span<const SearchAxis> axes() const override {
    static const std::vector<SearchAxis> rows = make_axes();
    return rows;
  }

  /// As in the lowering, grouped products of experts need compute capability 9.0.
  [[nodiscard]] bool begin(SpaceWalk& walk) const override {
    const bool experts = !walk.question.model.moe || walk.question.device.compute_major >= 9;
    ParallelPlan& plan = walk.plan;
    const bool stored = plan.precision == ir::Precision::kBf16;
    if (plan.lora) {
      walk.refusal = "it has no --lora";
      return false;
    }
    if (!(plan.precision == ir::Precision::kBf16Master || stored) || walk.eight_bit_recipe != 0 ||
        !experts) {
      walk.refusal = "it needs " + requirement(walk.question);
      return false;
    }
    take_optimizer(walk);
    if (!stored) {
      plan.precision = ir::Precision::kFp32;  // The type of the shards, which are gathered in bf16.
    }
    plan.attention = ir::AttentionKind::kSdpa;
    edit_fsdp(plan) = ir::FsdpPlan{};
    edit_titan(plan) = TitanPlan{};
    plan.mesh = {};
    return true;
  }

  [[nodiscard]] std::int64_t read(Axis axis, std::int64_t value) const override {
    return canonical(axis, value);
  }

  [[nodiscard]] std::uint64_t choose_first(SpaceWalk& walk) const override {
    bool& unknown_model = walk.memory<TitanMemory>().unknown_model;
    if (unknown_model) {
      return 0;
    }
    const std::vector<TitanChoice> choices = titan_choices(walk.question, walk.plan);
    if (choices.empty()) {
      return 0;
    }
    choices.front().apply_to(walk.plan);
    const std::optional<Error> error = ir::torchtitan::unsupported(walk.question.model, walk.plan);
    unknown_model = error && error->key == "model";
    return error ? 0 : choices.size();
  }

  [[nodiscard]] std::unique_ptr<const Choices> choices(const SpaceQuestion& question,
                                                       const Cell& cell) const override {
    return std::make_unique<ListedChoices>(plans_of(question, cell.plan));
  }

  [[nodiscard]] AxisValues values_of(const SpaceQuestion& question, const Cell& cell,
                                     Axis axis) const override {
    const SearchAxis* const own = find_axis(*this, axis);
    if (own == nullptr) {
      return {value_of(cell.plan, axis)};
    }
    std::set<std::int64_t> values;
    for (const ParallelPlan& plan : plans_of(question, cell.plan)) {
      values.insert(own->get(plan));
    }
    return {values.begin(), values.end()};
  }

  [[nodiscard]] std::string requirement(const SpaceQuestion& question) const override {
    ParallelPlan plan = question.base;
    plan.runtime = runtime();
    plan.precision = ir::Precision::kFp32;
    plan.world = 2;
    const std::optional<Error> error = ir::torchtitan::unsupported(question.model, plan);
    if (!error && question.model.moe && question.device.compute_major < 9) {
      return "a GPU of compute capability 9.0 or more for experts with torchtitan";
    }
    return error ? error->wanted : "degrees that torchtitan has, in bf16 with an AdamW";
  }

  [[nodiscard]] std::vector<Alternative> alternatives(const ParallelPlan& plan) const override {
    std::vector<Alternative> all = halves_and_doubles(
        plan, std::array{Axis::kTensor, Axis::kPipeline, Axis::kContext, Axis::kMicroBatch});
    all.push_back({Axis::kCompiled, titan_of(plan).compiled ? 0 : 1});
    all.push_back({Axis::kReshard, 1 - value_of(plan, Axis::kReshard)});
    return all;
  }

  [[nodiscard]] std::unique_ptr<PlanBounds> bounds(const SearchInputs& inputs) const override {
    return titan_bounds(inputs);
  }
};

}  // namespace
}  // namespace titan_axes

const FrameworkSearch& torchtitan_search() {
  static const titan_axes::TitanSearch search;
  return search;
}

}  // namespace headroom::plan
