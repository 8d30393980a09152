// Mixtures of experts under Megatron-Core: dispatchers, routers, experts without a gate.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "costmodel/memory/timeline.h"
#include "model_ir/spec/hf_config.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "tests/support/refusal.h"

namespace headroom::ir::megatron {
namespace {

using test::refused_by_check;

constexpr std::int64_t kMixtureHidden = 512;
constexpr std::int64_t kExperts = 8;
constexpr std::int64_t kExpertWidth = 1024;
constexpr std::int64_t kMixtureLayers = 2;

ModelSpec mixture_of_eight(bool gated) {
  ModelSpec model = parse_hf_config(R"({"model_type": "mixtral", "hidden_size": 512,
    "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 8, "vocab_size": 32000, "num_local_experts": 8,
    "num_experts_per_tok": 2, "max_position_embeddings": 4096, "sliding_window": null})",
                                    "mixture")
                        .value();
  model.gated_mlp = gated;
  model.activation = gated ? Activation::kSilu : Activation::kGelu;
  return model;
}

ParallelPlan gathering(std::int64_t ranks) {
  ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = Precision::kBf16Master;
  plan.world = ranks;
  plan.workload.sequence = 1024;
  edit_megatron(plan) = MegatronPlan{.dispatcher = MegatronDispatcher::kAllGather};
  plan.mesh = {.expert = ranks};
  return plan;
}

cost::MemoryTimeline replayed(const ModelSpec& model, const ParallelPlan& plan) {
  const RankProgram program = lower(model, plan, Rank{0}, DeviceTraits{}).value();
  return cost::replay(program, plan.allocator, Bytes{600'000'000'000});
}

const cost::PhaseMemory& memory_of_phase(const cost::MemoryTimeline& timeline,
                                         const std::string& name) {
  const auto found =
      std::ranges::find(timeline.phases, parse_phase_name(name), &cost::PhaseMemory::name);
  REQUIRE(found != timeline.phases.end());
  return *found;
}

}  // namespace

TEST_CASE("megatron experts: casts to 8 bits are handed over in loops, with their tensors") {
  // Of each layer: two inputs and two gradients, eight experts, each read by rows and by columns.
  const auto loops = [](MegatronFp8 recipe) {
    ParallelPlan plan = gathering(1);
    edit_megatron(plan).fp8 = recipe;
    const DeviceTraits device{.compute_major = recipe == MegatronFp8::kMxfp8 ? 10 : 9};
    const RankProgram program = lower(mixture_of_eight(true), plan, Rank{0}, device).value();
    std::map<std::uint16_t, std::int64_t> items;
    for (const WorkItem& item : program.work.items) {
      items[item.loop] += item.kind == WorkItem::Kind::kRun && item.loop > 0 ? 1 : 0;
    }
    items.erase(0);
    return items;
  };
  using Items = std::map<std::uint16_t, std::int64_t>;
  CHECK(loops(MegatronFp8::kNone) == Items{});
  constexpr std::int64_t kCasts = 4 * kMixtureLayers * 2;  // Of two steps.
  // One item, and before it rows, columns and the scales of both for each expert.
  CHECK(loops(MegatronFp8::kMxfp8) == Items{{1 + 4 * kExperts, kCasts}});
  // For each expert zero, the largest value, the scale and the cast; before them three tensors.
  const std::int64_t each = kCasts * kExperts;
  CHECK(loops(MegatronFp8::kTensorwise) == Items{{1, 3 * each}, {1 + 3, each}});
}

TEST_CASE("megatron experts: without a gate the first product is half as wide") {
  const ParallelPlan plan = gathering(1);
  const auto weights = [&plan](bool gated) {
    return memory_of_phase(replayed(mixture_of_eight(gated), plan), "model")
        .requested_after.value();
  };
  CHECK(weights(true) - weights(false) ==
        2 * kMixtureLayers * kExperts * kExpertWidth * kMixtureHidden);
}

// GELU, the product with the probability and its two gradients are tensors of their own.
TEST_CASE("megatron experts: GELU keeps its input, its output and the weighted one") {
  const ParallelPlan plan = gathering(1);
  const auto kept = [&plan](const ModelSpec& model) {
    ModelSpec one = model;
    one.layers.resize(1);
    const auto live = [&plan](const ModelSpec& spec) {
      const cost::MemoryTimeline timeline = replayed(spec, plan);
      const cost::PhaseMemory& phase = memory_of_phase(timeline, "step2.forward_backward");
      return phase.peak_requested.value() -
             memory_of_phase(timeline, "step1.optimizer").requested_after.value();
    };
    return live(model) - live(one);
  };
  const std::int64_t rows = plan.workload.sequence * 2;  // Of two experts each.
  // SwiGLU keeps its input, of two halves, and its output: as many bytes.
  CHECK(kept(mixture_of_eight(false)) == kept(mixture_of_eight(true)));
  CHECK(kept(mixture_of_eight(false)) > 3 * 2 * rows * kExpertWidth);
}

// GlobalMemoryBuffer: bf16 [8 * 1024, H], made once for all layers, passes and steps.
TEST_CASE("megatron experts: gathered tokens lie in the process's buffer") {
  const ParallelPlan plan = gathering(8);
  const RankProgram program = lower(mixture_of_eight(true), plan, Rank{0}, DeviceTraits{}).value();
  const auto buffers = std::ranges::count_if(program.events, [&plan](const Event& event) {
    return event.kind == EventKind::kAllocate && event.role == TensorRole::kCommunication &&
           event.bytes == 2 * 8 * plan.workload.sequence * kMixtureHidden;
  });
  CHECK(buffers == 1);
}

// A token leaves once, whatever number of experts it has; its probabilities come in fp32.
TEST_CASE("megatron experts: HybridEP exchanges tokens instead of copies for each expert") {
  ParallelPlan plan = gathering(2);
  edit_megatron(plan).dispatcher = MegatronDispatcher::kHybridEp;
  const RankProgram program = lower(mixture_of_eight(true), plan, Rank{0}, DeviceTraits{}).value();
  std::int64_t exchanges = 0;
  for (const WorkShape& shape : program.work.shapes) {
    const auto* const collective = std::get_if<CollectiveShape>(&shape);
    CHECK((collective == nullptr || collective->kind != CollectiveKind::kAllToAll));
    if (collective != nullptr && collective->kind == CollectiveKind::kTokenExchange) {
      ++exchanges;
      CHECK(collective->bytes == 2 * plan.workload.sequence * kMixtureHidden);
      CHECK(collective->experts == kExperts);
    }
  }
  CHECK(exchanges == 1);  // One shape for both ways of all layers.
  // Rows are put in order by HybridEP's own kernels, which are as fast as other copies.
  CHECK(std::ranges::none_of(program.work.shapes, [](const WorkShape& shape) {
    const auto* const traffic = std::get_if<TrafficShape>(&shape);
    return traffic != nullptr && traffic->kind == TrafficKind::kPermutation;
  }));
}

TEST_CASE("megatron experts: only gpt-oss's clamps and biases run PyTorch's own kernels") {
  const ModelSpec gpt_oss = parse_hf_config(R"({"model_type": "gpt_oss", "hidden_size": 256,
    "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 32000, "num_local_experts": 8,
    "num_experts_per_tok": 4, "max_position_embeddings": 4096, "sliding_window": 128})",
                                            "gpt-oss")
                                .value();
  ParallelPlan plan = gathering(1);
  edit_megatron(plan).grouped_gemm = true;
  const auto one_by_one = [&plan](const ModelSpec& model) {
    const RankProgram program = lower(model, plan, Rank{0}, DeviceTraits{}).value();
    return std::ranges::count_if(program.work.shapes, [](const WorkShape& shape) {
      const auto* const traffic = std::get_if<TrafficShape>(&shape);
      return traffic != nullptr && traffic->kind == TrafficKind::kOneByOne;
    });
  };
  CHECK(one_by_one(gpt_oss) > 0);
  CHECK(one_by_one(mixture_of_eight(true)) == 0);
}

TEST_CASE("megatron experts: fused products take the place of casts and of the activation") {
  ParallelPlan plan = gathering(1);
  edit_megatron(plan).fp8 = MegatronFp8::kMxfp8;
  const auto program_of = [&plan](bool fused) {
    edit_megatron(plan).fused_experts = fused;
    return lower(mixture_of_eight(true), plan, Rank{0}, DeviceTraits{.compute_major = 10}).value();
  };
  const auto runs = [](const RankProgram& program) {
    return std::ranges::count(program.work.items, WorkItem::Kind::kRun, &WorkItem::kind);
  };
  const auto products = [](const RankProgram& program, GemmBatch batch) {
    return std::ranges::count_if(program.work.shapes, [batch](const WorkShape& shape) {
      const auto* const gemm = std::get_if<GemmShape>(&shape);
      return gemm != nullptr && gemm->count == kExperts && gemm->batch == batch;
    });
  };
  const RankProgram apart = program_of(false);
  const RankProgram fused = program_of(true);
  CHECK(products(apart, GemmBatch::kSeries) == 6);
  CHECK(products(fused, GemmBatch::kSeries) == 0);
  CHECK(products(fused, GemmBatch::kGrouped) == 6);
  // Of each layer: two casts of four, the activation both ways, and two tensors of swizzled scales
  // for each of six products.
  CHECK(runs(apart) - runs(fused) == (2 + 2 + 12) * kMixtureLayers * 2);  // Of two steps.
  CHECK(std::ranges::none_of(fused.work.items, [](const WorkItem& item) { return item.loop > 0; }));
}

TEST_CASE("megatron experts: HybridEP keeps its maps until the graph of the micro-batch goes") {
  ParallelPlan plan = gathering(2);
  const auto peak = [&plan](MegatronDispatcher dispatcher, std::size_t layers) {
    ModelSpec model = mixture_of_eight(true);
    model.layers.resize(layers);
    edit_megatron(plan).dispatcher = dispatcher;
    return memory_of_phase(replayed(model, plan), "step2.forward_backward").peak_requested.value() -
           memory_of_phase(replayed(model, plan), "step1.optimizer").requested_after.value();
  };
  const auto layer = [&peak](MegatronDispatcher dispatcher) {
    return peak(dispatcher, 2) - peak(dispatcher, 1);
  };
  // Fewer bytes than all-to-all, which keeps the permuted tokens: here by more than the maps.
  CHECK(layer(MegatronDispatcher::kHybridEp) < layer(MegatronDispatcher::kAllToAll));
  ParallelPlan alone = gathering(1);
  edit_megatron(alone).dispatcher = MegatronDispatcher::kHybridEp;
  CHECK(refused_by_check(mixture_of_eight(true), alone) ==
        "has dispatcher=hybridep, which needs ep of 2 or more and etp=1");
}

TEST_CASE("megatron experts: switches that do not go together are refused") {
  const ModelSpec model = mixture_of_eight(true);
  ParallelPlan fused = gathering(8);
  edit_megatron(fused).fused_experts = true;
  CHECK(refused_by_check(model, fused) == "use-transformer-engine-op-fuser");
  edit_megatron(fused).fp8 = MegatronFp8::kMxfp8;
  CHECK(refused_by_check(model, fused).empty());
  CHECK(refused_by_check(model, gathering(8)).empty());
  ParallelPlan padded = gathering(8);
  edit_megatron(padded).capacity_factor = 1.0;
  CHECK(refused_by_check(model, padded) ==
        "has dispatcher=allgather, which needs a plan without capacity-factor and permute-fusion");
  ParallelPlan balanced = gathering(8);
  edit_megatron(balanced).sinkhorn = true;
  CHECK(refused_by_check(model, balanced) == "has sinkhorn, which needs aux-loss=no");
  edit_megatron(balanced).aux_loss = false;
  CHECK(refused_by_check(model, balanced).empty());
}

}  // namespace headroom::ir::megatron
