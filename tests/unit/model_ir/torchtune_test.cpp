// torchtune's recipes: what compiled losses, the optimizer in backward, offloaded activations and
// its adapters leave on the device, against the same plan without them.
#include <algorithm>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "runtimes/fsdp/plan.h"
#include "runtimes/plan_check.h"
#include "runtimes/torchtune/plan.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

using test::all_linear;
using test::small_llama;
using test::small_plan;

/// A block of the allocator is up to 1 MiB longer than what is in it.
constexpr std::int64_t kSlack = 8 * kMiB;

ParallelPlan recipe(const TunePlan& tune) {
  ParallelPlan plan = small_plan(Precision::kBf16);
  plan.runtime = "torchtune";
  edit_tune(plan) = tune;
  plan.loss = LossKind::kChunked;
  plan.recompute = Recompute::kFull;
  plan.optimizer.form = OptimizerForm::kFused;
  return plan;
}

RankProgram program_of_recipe(const ParallelPlan& plan) {
  REQUIRE(check_plan(small_llama(), plan));
  const auto program = lower(small_llama(), plan, Rank{0}, DeviceTraits{});
  REQUIRE(program);
  return *program;
}

cost::PhaseMemory phase_of_recipe(const ParallelPlan& plan, const std::string& name) {
  const cost::MemoryTimeline timeline =
      cost::replay(program_of_recipe(plan), plan.allocator, Bytes{600'000'000'000});
  const auto found =
      std::find_if(timeline.phases.begin(), timeline.phases.end(),
                   [&name](const auto& phase) { return to_text(phase.name) == name; });
  REQUIRE(found != timeline.phases.end());
  return *found;
}

bool is_refused(const ParallelPlan& plan) {
  const Status checked = check_plan(small_llama(), plan);
  return !checked && checked.error().key == "tune";
}

}  // namespace

TEST_CASE("torchtune: only the recipe for full fine-tuning on several GPUs skips layers") {
  const auto refused = [](ParallelPlan plan, std::int64_t every) {
    plan.recompute_every = every;
    const Status checked = check_plan(small_llama(), plan);
    return checked ? std::string() : checked.error().key;
  };
  ParallelPlan plan = recipe({});
  CHECK(refused(plan, 1).empty());
  CHECK(refused(plan, 2) == "checkpointing");
  plan.world = 2;
  edit_fsdp(plan) = {};
  CHECK(refused(plan, 2).empty());
  plan.lora = test::all_linear(8);
  CHECK(refused(plan, 1).empty());
  CHECK(refused(plan, 2) == "checkpointing");
}

TEST_CASE("torchtune: a compiled loss keeps bf16 logits, an eager one fp32 probabilities") {
  const auto eager = phase_of_recipe(recipe({}), "step1.forward");
  const auto compiled = phase_of_recipe(recipe({.compiled = true}), "step1.forward");
  constexpr std::int64_t kLogits = 2 * 1100 * 32000;
  const std::int64_t saved = (eager.allocated_after - compiled.allocated_after).value();
  CHECK(std::abs(saved - kLogits * (4 - 2)) < kSlack);
}

TEST_CASE("torchtune: the optimizer in backward leaves states and no gradients") {
  const ParallelPlan plain = recipe({.compiled = true});
  const ParallelPlan fused = recipe({.compiled = true, .optimizer_in_backward = true});
  const std::int64_t left = phase_of_recipe(fused, "step1.backward").allocated_after.value();
  CHECK(std::abs(left - phase_of_recipe(plain, "step1.zero_grad").allocated_after.value()) <
        kSlack);
  const std::int64_t gradients = 2 * program_of_recipe(plain).trainable_parameters;
  CHECK(phase_of_recipe(plain, "step2.backward").allocated_after.value() - left >
        gradients - kSlack);
  const auto phases = program_of_recipe(fused).phases;
  CHECK(std::none_of(phases.begin(), phases.end(),
                     [](const auto& phase) { return runs_optimizer(phase.name.kind); }));
}

TEST_CASE("torchtune: inputs of checkpointed layers leave the device until backward") {
  const auto kept = phase_of_recipe(recipe({.compiled = true}), "step1.forward");
  const auto offloaded =
      phase_of_recipe(recipe({.compiled = true, .offload_activations = true}), "step1.forward");
  const std::int64_t input = 2 * 1100 * 1024 * 2;
  CHECK((kept.allocated_after - offloaded.allocated_after).value() == 2 * input);
}

TEST_CASE("torchtune: adapters are in the model's type") {
  ParallelPlan plan = recipe({});
  plan.lora = all_linear(16);
  ParallelPlan other = plan;
  other.runtime = "transformers";
  other.own.reset<TunePlan>();
  const std::int64_t adapters = program_of_recipe(plan).trainable_parameters;
  CHECK((phase_of_recipe(other, "load").allocated_after -
         phase_of_recipe(plan, "load").allocated_after)
            .value() == 2 * adapters);
}

TEST_CASE("torchtune: what its recipes do not do is refused by name") {
  ParallelPlan plan = recipe({.compiled = true});
  CHECK_FALSE(is_refused(plan));
  plan.recompute = Recompute::kNone;
  CHECK(is_refused(plan));
  plan = recipe({.optimizer_in_backward = true});
  plan.workload.accumulation = 2;
  CHECK(is_refused(plan));
  plan = recipe({.offload_activations = true});
  plan.recompute = Recompute::kNone;
  CHECK(is_refused(plan));
  plan = recipe({});
  plan.runtime = "transformers";
  CHECK(is_refused(plan));
  plan = recipe({});
  plan.runtime = "megatron";
  CHECK_FALSE(check_plan(small_llama(), plan));
}

}  // namespace headroom::ir
