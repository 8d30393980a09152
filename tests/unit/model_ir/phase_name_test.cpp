// Phases as values: their words, and that every framework's programs have phases of a known kind.
#include "model_ir/plan/phase_name.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/plan/work_range.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/torchtitan/plan.h"
#include "runtimes/torchtune/plan.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

using test::small_plan;

std::vector<PhaseKind> named_kinds() {
  std::vector<PhaseKind> kinds;
  for (int kind = 0; kind < kPhaseKindCount; ++kind) {
    kinds.push_back(static_cast<PhaseKind>(kind));
  }
  std::erase(kinds, PhaseKind::kOther);
  return kinds;
}

/// The phases of a program, one after the other. Each has a kind, which its text gives back.
std::string phases_of(const ParallelPlan& plan) {
  CAPTURE(plan.runtime);
  std::string all;
  for (const Phase& phase : test::small_llama_program(plan).phases) {
    const std::string text = to_text(phase.name);
    CAPTURE(text);
    CHECK(phase.name.kind != PhaseKind::kOther);
    CHECK(parse_phase_name(text) == phase.name);
    all += all.empty() ? text : " " + text;
  }
  return all;
}

ParallelPlan phase_plan(const char* runtime) {
  ParallelPlan plan = small_plan(Precision::kBf16);
  plan.runtime = runtime;
  plan.workload.sequence = 128;
  plan.workload.keep_batch = false;
  plan.workload.steps = 1;
  return plan;
}

}  // namespace

TEST_CASE("phase name: its text has the step, the micro-batch and the kind's words") {
  CHECK(to_text({.kind = PhaseKind::kLoad}) == "load");
  CHECK(to_text({.kind = PhaseKind::kForward, .at = {.step = 2, .micro_batch = 3}}) ==
        "step2.3.forward");
  CHECK(to_text({.kind = PhaseKind::kEngineStepNoop, .at = {.step = 1, .micro_batch = 1}}) ==
        "step1.1.step_noop");
  CHECK(to_text({.kind = PhaseKind::kEngineStep, .at = {.step = 12}}) == "step12.step");
  CHECK(to_text({.kind = PhaseKind::kWholeStep, .at = {.step = 2}}) == "step2");
  CHECK(to_text({.kind = PhaseKind::kFlatten}) == "deepspeed.initialize.flatten");
  CHECK(to_text(PhaseName{}).empty());
}

TEST_CASE("phase name: every kind comes back from its text, with and without a micro-batch") {
  std::set<std::string> texts;
  for (const PhaseKind kind : named_kinds()) {
    PhaseName name{.kind = kind};
    const bool outside = parse_phase_name(to_text(name)) == name;
    const std::vector<StepPosition> steps = {{.step = 1}, {.step = 10, .micro_batch = 7}};
    for (const StepPosition at : outside ? std::vector<StepPosition>{{}} : steps) {
      name.at = at;
      const std::string text = to_text(name);
      CAPTURE(text);
      CHECK(parse_phase_name(text) == name);
      CHECK(texts.insert(text).second);  // No two kinds share their words.
    }
  }
}

TEST_CASE("phase name: other texts are kept as they are") {
  for (const char* const text :
       {"", "run", "forward", "step", "steps", "step0.forward", "step01.forward", "step2.",
        "step2..forward", "step2.my.forward", "step2.0.forward", "step2.3x", "step2.3.",
        "step2.load", "step99999999999.forward", "load.forward", "step-1", "1.forward"}) {
    CAPTURE(text);
    const PhaseName name = parse_phase_name(text);
    CHECK(name.kind == PhaseKind::kOther);
    CHECK(to_text(name) == text);
  }
  CHECK(parse_phase_name("step2.my.forward").at == StepPosition{.step = 2});
  CHECK(parse_phase_name("steps").at == StepPosition{});
}

TEST_CASE("phase kinds: forwards and optimizers") {
  std::vector<PhaseKind> forwards;
  std::vector<PhaseKind> optimizers;
  for (const PhaseKind kind : named_kinds()) {
    if (runs_forward(kind)) {
      forwards.push_back(kind);
    }
    if (runs_optimizer(kind)) {
      optimizers.push_back(kind);
    }
  }
  CHECK(forwards == std::vector{PhaseKind::kForward, PhaseKind::kForwardBackward});
  CHECK(optimizers == std::vector{PhaseKind::kOptimizer, PhaseKind::kEngineStep});
}

TEST_CASE("phases: transformers, with micro-batches and what follows the steps") {
  ParallelPlan plan = phase_plan("transformers");
  plan.workload.accumulation = 2;
  plan.workload.evaluation = plan.workload.checkpoint_save = true;
  plan.workload.generation = GenerationPlan{.new_tokens = 2};
  CHECK(phases_of(plan) ==
        "load step1.1.forward step1.1.backward step1.2.forward step1.2.backward step1.optimizer "
        "step1.zero_grad evaluation checkpoint-save generation.prefill generation.decode");
}

TEST_CASE("phases: transformers on a quantised model") {
  ParallelPlan plan = phase_plan("transformers");
  plan.quant = QuantPlan{};
  plan.lora = test::all_linear(8);
  CHECK(phases_of(plan) ==
        "load peft step1.forward step1.backward step1.optimizer step1.zero_grad");
}

TEST_CASE("phases: DeepSpeed, whose engine steps after each micro-batch") {
  ParallelPlan plan = phase_plan("deepspeed");
  plan.precision = Precision::kBf16Master;
  edit_zero(plan).stage = 2;
  plan.world = 2;
  plan.workload.accumulation = 2;
  plan.workload.evaluation = plan.workload.checkpoint_save = true;
  CHECK(phases_of(plan) ==
        "model optimizer_object deepspeed.initialize "
        "step1.1.forward step1.1.backward step1.1.step_noop "
        "step1.2.forward step1.2.backward step1.2.step evaluation checkpoint-save");
}

TEST_CASE("phases: FSDP, LitGPT and torchtune") {
  const std::string steps = "load step1.forward step1.backward step1.optimizer step1.zero_grad";
  ParallelPlan sharded = phase_plan("fsdp");
  sharded.precision = Precision::kFp32;
  edit_fsdp(sharded) = FsdpPlan{};
  sharded.world = 2;
  CHECK(phases_of(sharded) == steps);
  CHECK(phases_of(phase_plan("litgpt")) == steps);
  ParallelPlan recipe = phase_plan("torchtune");
  edit_tune(recipe) = TunePlan{};
  CHECK(phases_of(recipe) == steps);
}

TEST_CASE("phases: Megatron-Core and torchtitan") {
  ParallelPlan plan = phase_plan("megatron");
  plan.precision = Precision::kBf16Master;
  edit_megatron(plan) = MegatronPlan{};
  plan.workload.accumulation = 2;
  CHECK(phases_of(plan) == "model ddp optimizer_object step1.forward_backward step1.optimizer");
  ParallelPlan titan = phase_plan("torchtitan");
  titan.precision = Precision::kFp32;
  edit_fsdp(titan) = FsdpPlan{};
  edit_titan(titan) = TitanPlan{};
  titan.world = 2;
  CHECK(phases_of(titan) == "load step1");
}

TEST_CASE("work ranges: passes of a program by their kind") {
  ParallelPlan plan = phase_plan("megatron");
  plan.precision = Precision::kBf16Master;
  edit_megatron(plan) = MegatronPlan{};
  plan.workload.accumulation = 3;
  const RankProgram program = test::small_llama_program(plan);
  const auto count = [ranges = work_ranges(program)](RangeKind kind) {
    return std::ranges::count(ranges, kind, &WorkRange::kind);
  };
  CHECK(count(RangeKind::kForwardPass) == 3);
  CHECK(count(RangeKind::kBackwardPass) == 3);
  CHECK(count(RangeKind::kInputPass) == 0);
}

}  // namespace headroom::ir
