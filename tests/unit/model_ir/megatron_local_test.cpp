// Layers of Megatron-Core's own modules (--transformer-impl local).
#include <algorithm>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#include "costmodel/memory/timeline.h"
#include "model_ir/spec/hf_config.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"

namespace headroom::ir::megatron {
namespace {

constexpr std::int64_t kGptHidden = 512;
constexpr std::int64_t kGptHeads = 8;
constexpr std::int64_t kGptSequence = 1024;
constexpr std::int64_t kGptBatch = 2;

ModelSpec gpt(int layers) {
  return parse_hf_config(R"({"model_type": "gpt2", "n_embd": 512, "n_head": 8, "n_layer": )" +
                             std::to_string(layers) +
                             R"(, "n_positions": 1024, "vocab_size": 50257})",
                         "gpt")
      .value();
}

ParallelPlan local_plan() {
  ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = Precision::kBf16Master;
  edit_megatron(plan) =
      MegatronPlan{.transformer_engine = false, .attention = MegatronAttention::kUnfused};
  plan.workload.sequence = kGptSequence;
  plan.workload.micro_batch = kGptBatch;
  return plan;
}

/// Bytes asked for by which the peak of forward and backward lies above what is there before it.
std::int64_t growth(const ModelSpec& model, const ParallelPlan& plan, const std::string& phase) {
  const RankProgram program = lower(model, plan, Rank{0}, DeviceTraits{}).value();
  const cost::MemoryTimeline timeline =
      cost::replay(program, plan.allocator, Bytes{600'000'000'000});
  const auto found =
      std::ranges::find(timeline.phases, parse_phase_name(phase), &cost::PhaseMemory::name);
  REQUIRE(found != timeline.phases.end());
  REQUIRE(found != timeline.phases.begin());
  return (found->peak_requested - std::prev(found)->requested_after).value();
}

}  // namespace

// Korthikanti et al. 2022 (arXiv:2205.05198), equation 1: 34 bytes a token and feature and 5 bytes
// a score; and the statistics of two norms, 8 bytes a token each.
TEST_CASE("megatron local: a layer keeps what Korthikanti et al. count") {
  constexpr std::int64_t kTokens = kGptBatch * kGptSequence;
  constexpr std::int64_t kExpected =
      kTokens * (34 * kGptHidden + 16) + 5 * kGptBatch * kGptHeads * kGptSequence * kGptSequence;
  const std::string phase = "step2.forward_backward";
  CHECK(growth(gpt(3), local_plan(), phase) - growth(gpt(2), local_plan(), phase) == kExpected);
}

TEST_CASE("megatron local: parts of the sequence keep a share of everything but the gathered") {
  ParallelPlan plan = local_plan();
  plan.world = 4;
  plan.mesh.tensor = 4;
  edit_megatron(plan).sequence_parallel = true;
  constexpr std::int64_t kTokens = kGptBatch * kGptSequence;
  constexpr std::int64_t kExpected =
      (kTokens * (34 * kGptHidden + 16) + 5 * kGptBatch * kGptHeads * kGptSequence * kGptSequence) /
      4;
  const std::string phase = "step2.forward_backward";
  CHECK(growth(gpt(3), plan, phase) - growth(gpt(2), plan, phase) == kExpected);
}

TEST_CASE("megatron local: what its modules have no kernel for is refused") {
  const auto refused = [](const ModelSpec& model, const ParallelPlan& plan) {
    const Status status = check_plan(model, plan);
    return status ? std::string{} : status.error().wanted;
  };
  CHECK(refused(gpt(2), local_plan()).empty());
  ParallelPlan fused = local_plan();
  edit_megatron(fused).attention = MegatronAttention::kFused;
  CHECK(refused(gpt(2), fused).starts_with("attention=unfused"));
  ParallelPlan wide = local_plan();
  wide.precision = Precision::kFp32;
  CHECK(refused(gpt(2), wide).starts_with("a 16-bit --precision"));
  ModelSpec rms = gpt(2);
  rms.norm = NormKind::kRms;
  CHECK(refused(rms, local_plan()).starts_with("a model with LayerNorm"));
}

}  // namespace headroom::ir::megatron
