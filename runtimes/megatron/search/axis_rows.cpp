#include "runtimes/megatron/search/axis_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "planner/space/all_axes.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/search/axes.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::plan {
namespace {

using ir::MegatronPlan;
using ir::Mesh;
using ir::ParallelPlan;

MegatronPlan& plan_of(SpaceWalk& walk) {
  return edit_megatron(walk.plan);
}

const std::vector<StageForm>& forms_of(SpaceWalk& walk, std::int64_t pipeline) {
  const auto [found, added] = walk.memory<MegatronMemory>().forms.try_emplace(pipeline);
  if (added) {
    found->second = stage_forms(walk.layers(), pipeline, walk.allowed());
  }
  return found->second;
}

/// A switch of `MegatronPlan`.
template <bool MegatronPlan::*kMember>
std::int64_t get_switch(const ParallelPlan& plan) {
  return has_megatron(plan) && megatron_of(plan).*kMember ? 1 : 0;
}
template <std::int64_t MegatronPlan::*kMember>
std::int64_t get_number(const ParallelPlan& plan) {
  return megatron_of(plan).*kMember;
}

/// Values of which all but the first must be requested by the user.
AxisValues first_or_asked(const SpaceWalk& walk, Axis axis, bool possible) {
  return possible && walk.asks(axis) ? AxisValues{0, 1} : AxisValues{0};
}

/// A switch that is on wherever it can be, unless the user names the axis.
AxisValues yes_where_possible(const SpaceWalk& walk, Axis axis, bool possible) {
  if (!possible) {
    return {0};
  }
  return walk.asks(axis) ? AxisValues{1, 0} : AxisValues{1};
}

/// Whether one micro-batch can run forward while another runs backward.
bool overlaps(const SpaceWalk& walk) {
  const MegatronPlan& megatron = megatron_of(walk.plan);
  const bool staged = walk.plan.mesh.pipeline > 1;
  return walk.plan.mesh.expert > 1 && !megatron.shared_expert_overlap &&
         walk.plan.precision != ir::Precision::kFp32 &&
         (!staged || ir::chunks_per_stage(walk.plan, walk.layers()) > 1);
}

// -- Candidates and setters. ---------------------------------------------------------------------

AxisValues tensor_degrees(SpaceWalk& walk) {
  const ir::ModelSpec& model = walk.question.model;
  return divisors(std::gcd(std::gcd(model.heads, model.kv_heads), walk.plan.world));
}

AxisValues pipeline_degrees(SpaceWalk& walk) {
  AxisValues degrees = divisors(walk.plan.world / walk.plan.mesh.tensor);
  std::erase_if(degrees, [&](std::int64_t stages) {
    return !walk.allowed().allows(Axis::kPipeline, stages) || forms_of(walk, stages).empty();
  });
  return degrees;
}

AxisValues context_degrees(SpaceWalk& walk) {
  const Mesh& mesh = walk.plan.mesh;
  AxisValues degrees = divisors(walk.plan.world / mesh.tensor / mesh.pipeline);
  std::erase_if(degrees, [&](std::int64_t context) {
    return context > 1 && walk.plan.workload.sequence % (2 * context) != 0;
  });
  return degrees;
}

AxisValues expert_degrees(SpaceWalk& walk) {
  const auto& moe = walk.question.model.moe;
  return moe ? divisors(std::gcd(moe->experts, walk.plan.world / walk.plan.mesh.pipeline))
             : AxisValues{1};
}

AxisValues expert_tensor_degrees(SpaceWalk& walk) {
  const std::int64_t tensor = walk.plan.mesh.tensor;
  if (!walk.question.model.moe) {
    return walk.asks(Axis::kExpertTensor) ? AxisValues{} : AxisValues{ir::Mesh{}.expert_tensor};
  }
  return tensor > 1 ? AxisValues{1, tensor} : AxisValues{1};
}

/// Numbers of layers that a chunk can have.
AxisValues chunks_of(const ParallelPlan& plan, std::int64_t layers) {
  const MegatronPlan& megatron = megatron_of(plan);
  AxisValues chunks = {0};
  if (plan.mesh.pipeline > 1 && megatron.first_stage_layers == 0 &&
      megatron.last_stage_layers == 0) {
    const std::int64_t stage = ir::even_stage_layers(plan, layers);
    for (const std::int64_t chunk : divisors(stage)) {
      if (chunk < stage) {
        chunks.push_back(chunk);
      }
    }
  }
  return chunks;
}

/// Assignments of layers to stages, interleaved or not: indices of `MegatronMemory::dealt`.
AxisValues dealt_layers(SpaceWalk& walk) {
  const Constraints& allowed = walk.allowed();
  const std::int64_t layers = walk.layers();
  ParallelPlan plan = walk.plan;
  MegatronPlan& megatron = edit_megatron(plan);
  std::vector<DealtLayers>& dealt = walk.memory<MegatronMemory>().dealt;
  dealt.clear();
  std::set<std::array<std::int64_t, 3>> seen;
  for (const StageForm& form : forms_of(walk, plan.mesh.pipeline)) {
    form.apply_to(megatron);
    megatron.layers_per_chunk = 0;
    for (const std::int64_t chunk : among(allowed, Axis::kChunk, chunks_of(plan, layers))) {
      megatron.layers_per_chunk = chunk;
      const ir::PipelineKind kind =
          chunk > 0 ? ir::PipelineKind::kInterleaved : ir::PipelineKind::kOneForwardOneBackward;
      if (!allowed.allows(Axis::kSchedule, schedule_with(kind))) {
        continue;
      }
      // Without chunks, counting ends as layers and naming the layers of the ends can give the same
      // stages.
      const auto count = [&](std::int64_t stage) {
        return ir::chunk_layer_count(plan, layers, {.stage = stage, .chunk = 0});
      };
      const std::int64_t last = plan.mesh.pipeline - 1;
      if ((chunk == 0 && !seen.insert({count(0), count(last / 2), count(last)}).second) ||
          chunk_sizes(plan, layers).least < 1) {
        continue;
      }
      dealt.push_back({.form = form, .chunk = chunk});
    }
  }
  AxisValues numbers(dealt.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

void deal_layers(SpaceWalk& walk, std::int64_t number) {
  const DealtLayers& dealt = walk.memory<MegatronMemory>().dealt[static_cast<std::size_t>(number)];
  dealt.form.apply_to(plan_of(walk));
  plan_of(walk).layers_per_chunk = dealt.chunk;
}

std::int64_t schedule_of(const ParallelPlan& plan) {
  const bool chunks = has_megatron(plan) && ir::is_interleaved(plan);
  return schedule_with(chunks ? ir::PipelineKind::kInterleaved
                              : ir::PipelineKind::kOneForwardOneBackward);
}

std::int64_t precision_of(const ParallelPlan& plan) {
  const ir::MegatronFp8 recipe = megatron_of(plan).fp8;
  return recipe != ir::MegatronFp8::kNone ? precision_with_recipe(static_cast<int>(recipe))
                                          : precision_value(plan.precision);
}

// -- Rules. --------------------------------------------------------------------------------------

std::string number(std::int64_t value) {
  return std::to_string(value);
}

std::string pipeline_rule(const SpaceQuestion& question) {
  return "a divisor of the GPUs (" + gpus_text(question) +
         ") that the tensor degree leaves, with a layer (of " + layers_text(question) +
         ") in every stage";
}

std::string exchange_rule(const SpaceQuestion& question) {
  return "p2p, or a2a with cp above 1 if tp x cp divides the heads (" +
         number(question.model.heads) + ") and the KV heads (" + number(question.model.kv_heads) +
         ")";
}

std::string expert_rule(const SpaceQuestion& question) {
  return question.model.moe ? "a divisor of the experts (" + number(question.model.moe->experts) +
                                  ") and of a stage's ranks (of " + gpus_text(question) + " GPUs)"
                            : "1: the model has no experts";
}

std::string expert_tensor_rule(const SpaceQuestion& question) {
  return question.model.moe ? "1 or the tensor degree" : "no value: the model has no experts";
}

std::string end_rule(const SpaceQuestion& question) {
  return "0, or with several stages and no chunks, so many layers (of " + layers_text(question) +
         ") that the stages between share the rest evenly";
}

std::string account_rule(const SpaceQuestion& question) {
  return "no, or with several stages yes, if the layers (" + layers_text(question) +
         ") and what counts as one can be distributed evenly";
}

std::string chunk_rule(const SpaceQuestion& question) {
  return "0, or with several stages a divisor of a stage's layers (of " + layers_text(question) +
         ") below them";
}

/// A rule without numbers.
template <std::size_t kSize>
struct Text {
  char text[kSize];  // NOLINT(modernize-avoid-c-arrays): a string as a template argument.
  consteval Text(const char (&from)[kSize]) {  // NOLINT(*-explicit-*, *-avoid-c-arrays)
    std::copy_n(from, kSize, text);
  }
};
template <Text kRule>
std::string rule(const SpaceQuestion& /*question*/) {
  return kRule.text;
}

// -- The table. ----------------------------------------------------------------------------------

}  // namespace

std::vector<SearchAxis> megatron_axis_rows() {
  using namespace megatron_axes;  // NOLINT(google-build-using-namespace): the rows below.
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
  rows.push_back({.axis = Axis::kContext,
                  .get = get_degree<&Mesh::context>,
                  .rule = context_rule,
                  .candidates = context_degrees,
                  .set = set_degree<&Mesh::context>});
  rows.push_back({.axis = kFp8Parameters,
                  .get = get_switch<&MegatronPlan::fp8_parameters>,
                  .rule = rule<"no, or yes with an 8-bit precision, the distributed optimizer and "
                               "nothing on the host">,
                  .candidates =
                      [](SpaceWalk& walk) {
                        return first_or_asked(walk, kFp8Parameters, walk.eight_bit_recipe != 0);
                      },
                  .set = [](SpaceWalk& walk,
                            std::int64_t value) { plan_of(walk).fp8_parameters = value == 1; }});
  rows.push_back({.axis = kContextExchange,
                  .get = [](const ParallelPlan& plan) -> std::int64_t {
                    return has_megatron(plan) && megatron_of(plan).context_exchange ==
                                                     ir::MegatronContext::kAllToAll
                               ? 1
                               : 0;
                  },
                  .rule = exchange_rule,
                  .candidates =
                      [](SpaceWalk& walk) {
                        return first_or_asked(walk, kContextExchange, walk.plan.mesh.context > 1);
                      },
                  .set =
                      [](SpaceWalk& walk, std::int64_t value) {
                        plan_of(walk).context_exchange = value == 1 ? ir::MegatronContext::kAllToAll
                                                                    : ir::MegatronContext::kRing;
                      }});
  rows.push_back({.axis = Axis::kExpert,
                  .get = get_degree<&Mesh::expert>,
                  .rule = expert_rule,
                  .candidates = expert_degrees,
                  .set = set_degree<&Mesh::expert>});
  rows.push_back({.axis = Axis::kExpertTensor,
                  .get = get_degree<&Mesh::expert_tensor>,
                  .rule = expert_tensor_rule,
                  .candidates = expert_tensor_degrees,
                  .set = set_degree<&Mesh::expert_tensor>});
  rows.push_back({.axis = kDispatcher,
                  .get = [](const ParallelPlan& plan) -> std::int64_t {
                    return has_megatron(plan) &&
                                   megatron_of(plan).dispatcher == ir::MegatronDispatcher::kHybridEp
                               ? 1
                               : 0;
                  },
                  .rule = rule<"alltoall, or hybridep with experts on several ranks and etp 1">,
                  .candidates =
                      [](SpaceWalk& walk) {
                        const Mesh& mesh = walk.plan.mesh;
                        return first_or_asked(walk, kDispatcher,
                                              mesh.expert > 1 && mesh.expert_tensor == 1);
                      },
                  .set =
                      [](SpaceWalk& walk, std::int64_t value) {
                        plan_of(walk).dispatcher = value == 1 ? ir::MegatronDispatcher::kHybridEp
                                                              : ir::MegatronDispatcher::kAllToAll;
                      }});
  rows.push_back(
      {.axis = kSharedOverlap,
       .get = get_switch<&MegatronPlan::shared_expert_overlap>,
       .rule = rule<"no, or yes with ep above 1, shared experts and dispatcher alltoall">,
       .candidates =
           [](SpaceWalk& walk) {
             const auto& moe = walk.question.model.moe;
             const bool can =
                 moe && moe->shared_ffn > 0 && walk.plan.mesh.expert > 1 &&
                 megatron_of(walk.plan).dispatcher == ir::MegatronDispatcher::kAllToAll;
             // One micro-batch beside another runs its shared experts with attention.
             return can && walk.asks(kExchangeOverlap)
                        ? AxisValues{1, 0}
                        : yes_where_possible(walk, kSharedOverlap, can);
           },
       .set = [](SpaceWalk& walk,
                 std::int64_t value) { plan_of(walk).shared_expert_overlap = value != 0; }});
  rows.push_back({.axis = Axis::kChunk,
                  .get = get_number<&MegatronPlan::layers_per_chunk>,
                  .candidates = dealt_layers,
                  .set = deal_layers,
                  .several = true});
  rows.push_back({.axis = Axis::kChunk,
                  .get = get_number<&MegatronPlan::layers_per_chunk>,
                  .help = "0 for 1F1B",
                  .rule = chunk_rule});
  rows.push_back({.axis = Axis::kSchedule,
                  .get = schedule_of,
                  .help = "1f1b, interleaved",
                  .rule = rule<"1f1b, or interleaved with several stages">});
  rows.push_back({.axis = kFirstStage,
                  .get = get_number<&MegatronPlan::first_stage_layers>,
                  .rule = end_rule});
  rows.push_back(
      {.axis = kLastStage, .get = get_number<&MegatronPlan::last_stage_layers>, .rule = end_rule});
  rows.push_back({.axis = Axis::kAccountEmbedding,
                  .get = get_switch<&MegatronPlan::account_for_embedding>,
                  .rule = account_rule});
  rows.push_back({.axis = Axis::kAccountLoss,
                  .get = get_switch<&MegatronPlan::account_for_loss>,
                  .rule = account_rule});
  rows.push_back({.axis = Axis::kSequenceParallel,
                  .get = get_switch<&MegatronPlan::sequence_parallel>,
                  .rule = rule<"no, or yes with a tensor degree above 1">,
                  .candidates =
                      [](SpaceWalk& walk) {
                        return walk.plan.mesh.tensor > 1 ? AxisValues{1, 0} : AxisValues{0};
                      },
                  .set = [](SpaceWalk& walk,
                            std::int64_t value) { plan_of(walk).sequence_parallel = value != 0; }});
  rows.push_back({.axis = kTpCommOverlap,
                  .get = get_switch<&MegatronPlan::tp_comm_overlap>,
                  .rule = rule<"no, or yes with sequence parallelism">,
                  .candidates =
                      [](SpaceWalk& walk) {
                        return yes_where_possible(walk, kTpCommOverlap,
                                                  megatron_of(walk.plan).sequence_parallel);
                      },
                  .set = [](SpaceWalk& walk,
                            std::int64_t value) { plan_of(walk).tp_comm_overlap = value != 0; }});
  rows.push_back(
      {.axis = kExchangeOverlap,
       .get = get_switch<&MegatronPlan::overlap_expert_exchange>,
       .rule = rule<"no, or yes with ep above 1, one stage or several chunks on each, and "
                    "shared-expert-overlap no">,
       .candidates =
           [](SpaceWalk& walk) { return first_or_asked(walk, kExchangeOverlap, overlaps(walk)); },
       .set = [](SpaceWalk& walk,
                 std::int64_t value) { plan_of(walk).overlap_expert_exchange = value != 0; }});
  rows.push_back({.axis = kGradients,
                  .get = [](const ParallelPlan& plan) -> std::int64_t {
                    return has_megatron(plan) && !megatron_of(plan).fp32_gradients ? 1 : 0;
                  },
                  .rule = rule<"fp32, or bf16 with a bf16 precision">,
                  .candidates =
                      [](SpaceWalk& walk) {
                        return first_or_asked(walk, kGradients,
                                              walk.plan.precision == ir::Precision::kBf16Master);
                      },
                  .set = [](SpaceWalk& walk,
                            std::int64_t value) { plan_of(walk).fp32_gradients = value == 0; }});
  rows.push_back({.axis = Axis::kAttention,
                  .get = [](const ParallelPlan& plan) -> std::int64_t {
                    return has_megatron(plan) &&
                                   megatron_of(plan).attention == ir::MegatronAttention::kUnfused
                               ? 1
                               : 0;
                  },
                  .help = "fused, unfused",
                  .rule = rule<"fused, or unfused without context parallelism">,
                  .candidates =
                      [](SpaceWalk& walk) {
                        return walk.plan.mesh.context > 1 ? AxisValues{0} : AxisValues{0, 1};
                      },
                  .set =
                      [](SpaceWalk& walk, std::int64_t value) {
                        plan_of(walk).attention = value == 0 ? ir::MegatronAttention::kFused
                                                             : ir::MegatronAttention::kUnfused;
                      }});
  rows.push_back(
      {.axis = kOffloadModules,
       .get =
           [](const ParallelPlan& plan) { return value_with(megatron_of(plan).offload_modules); },
       .rule = rule<"none; or, without recompute uniform or block, modules that the model has: "
                    "core_attn (attention fused), attn_proj with it, qkv_linear; of experts "
                    "mlp_norm, expert_fc1, moe_act; of latent attention attn_norm; with an 8-bit "
                    "precision none with weights">,
       .candidates =
           [](SpaceWalk& walk) {
             const AxisValues& given = walk.allowed().of(kOffloadModules);
             return given.empty() ? AxisValues{0} : given;
           },
       .set =
           [](SpaceWalk& walk, std::int64_t value) {
             plan_of(walk).offload_modules = offload_modules_of(value);
           }});
  rows.push_back(micro_batch_axis());
  // Axes within a cell.
  rows.push_back({.axis = Axis::kRecompute,
                  .get =
                      [](const ParallelPlan& plan) {
                        return static_cast<std::int64_t>(megatron_of(plan).recompute);
                      },
                  .help = "none, selective, uniform, block",
                  .rule = rule<"none, selective, uniform or block">});
  rows.push_back({.axis = kRecomputeLayers,
                  .get = get_number<&MegatronPlan::recompute_layers>,
                  .rule = [](const SpaceQuestion& question) {
                    return "with recompute block fewer layers than a model chunk has (of " +
                           layers_text(question) + "); with uniform a divisor of them";
                  }});
  const auto add_switch = [&](Axis axis, std::int64_t (*get)(const ParallelPlan&),
                              std::string (*demands)(const SpaceQuestion&)) {
    rows.push_back({.axis = axis, .get = get, .rule = demands});
  };
  add_switch(kDistributedOptimizer, get_switch<&MegatronPlan::distributed_optimizer>,
             rule<"yes or no">);
  add_switch(kOverlapGradReduce, get_switch<&MegatronPlan::overlap_grad_reduce>, rule<"yes or no">);
  add_switch(kOverlapParamGather, get_switch<&MegatronPlan::overlap_param_gather>,
             rule<"no, or yes with distributed-optimizer and overlap-grad-reduce">);
  add_switch(kAccumulationFusion, get_switch<&MegatronPlan::accumulation_fusion>,
             rule<"yes or no">);
  add_switch(kLoaderMask, get_switch<&MegatronPlan::mask_in_dataloader>, rule<"yes or no">);
  add_switch(kMeshOrder, get_switch<&MegatronPlan::pipeline_before_data>,
             rule<"tp-cp-ep-dp-pp, or tp-cp-ep-pp-dp, with experts only if etp x ep is tp x cp">);
  rows.push_back({.axis = Axis::kLoss,
                  .get =
                      [](const ParallelPlan& plan) {
                        return static_cast<std::int64_t>(megatron_of(plan).cross_entropy);
                      },
                  .help = "unfused, native, te",
                  .rule = rule<"unfused, native or te">});
  rows.push_back({.axis = Axis::kOptimizerOffload,
                  .get = [](const ParallelPlan& plan) -> std::int64_t {
                    return std::lround(megatron_of(plan).optimizer_offload *
                                       static_cast<double>(kOffloadSteps));
                  },
                  .help = "0, with the distributed optimizer in bf16 also 0.25, 0.5, 0.75, 1",
                  .rule = rule<"0, or 0.25, 0.5, 0.75 or 1 with the distributed optimizer in bf16">,
                  .offered = true});
  // The axes that every framework has.
  rows.push_back({.axis = Axis::kPrecision,
                  .get = precision_of,
                  .help = "fp8-delayed, fp8-tensorwise, fp8-blockwise, fp8-mxfp8: bf16 with matrix "
                          "products in 8 bits",
                  .rule = rule<"8 bits on a GPU of compute capability 8.9 or later (fp8-blockwise: "
                               "9.0 only, fp8-mxfp8: 10.0 or later), fp8-delayed without "
                               "recomputation">});
  rows.push_back({.axis = Axis::kOptimizer,
                  .get = find_common_axis(Axis::kOptimizer)->get,
                  .rule = rule<"adamw">});
  return rows;
}

}  // namespace headroom::plan
