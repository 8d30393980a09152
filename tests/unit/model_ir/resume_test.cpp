// What resuming from a checkpoint allocates on the device. The bytes of transformers, DDP and FSDP2
// were recorded (tests/measured/resume.jsonl.gz).

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/deepspeed/plan.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/registry.h"
#include "runtimes/torch/ddp_plan.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

std::vector<cost::PhaseMemory> replayed_phases(const ParallelPlan& plan) {
  const auto program = lower(test::small_llama(), plan, Rank{0}, DeviceTraits{});
  REQUIRE(program);
  return cost::replay(program.value(), plan.allocator, Bytes{600'000'000'000}).phases;
}

const cost::PhaseMemory& phase(const std::vector<cost::PhaseMemory>& phases,
                               const std::string& name) {
  for (const cost::PhaseMemory& one : phases) {
    if (to_text(one.name) == name) {
      return one;
    }
  }
  FAIL(name);
  return phases.front();
}

ParallelPlan resuming(const char* runtime, Precision precision) {
  ParallelPlan plan = test::small_plan(precision);
  plan.runtime = runtime;
  plan.workload.keep_batch = false;
  plan.workload.resume = true;
  plan.workload.steps = 1;
  plan.world = 1;
  return plan;
}

std::int64_t grown(const cost::PhaseMemory& one) {
  return (one.allocated_after - one.allocated_before).value();
}

/// Equal but for what blocks of the allocator leave over.
bool is_about(std::int64_t bytes, std::int64_t others) {
  return static_cast<double>(bytes) == doctest::Approx(static_cast<double>(others)).epsilon(0.02);
}

std::int64_t risen(const cost::PhaseMemory& one) {
  return (one.peak_allocated - one.allocated_before).value();
}

}  // namespace

TEST_CASE("resume: the states are there before the first step, which makes none") {
  ParallelPlan plan = resuming("transformers", Precision::kBf16);
  const std::vector<cost::PhaseMemory> phases = replayed_phases(plan);
  CHECK(to_text(phases[1].name) == "resume");
  const std::int64_t states = grown(phase(phases, "resume"));
  CHECK(states > 0);
  CHECK(grown(phase(phases, "step1.optimizer")) == 0);
  plan.workload.resume = false;
  const std::vector<cost::PhaseMemory> fresh = replayed_phases(plan);
  CHECK(is_about(grown(phase(fresh, "step1.optimizer")), states));
  CHECK(phases.size() == fresh.size() + 1);
}

TEST_CASE("resume: several ranks read the states to their devices, with the step counts") {
  ParallelPlan plan = resuming("transformers", Precision::kBf16);
  const std::int64_t alone = grown(phase(replayed_phases(plan), "resume"));
  plan.world = 2;
  edit_ddp(plan) = {};
  const std::vector<cost::PhaseMemory> phases = replayed_phases(plan);
  const std::int64_t counts = grown(phase(phases, "resume")) - alone;
  CHECK(counts > 0);
  CHECK(counts % 512 == 0);
  plan.optimizer.form = OptimizerForm::kFused;
  const std::int64_t fused = grown(phase(replayed_phases(plan), "resume"));
  CHECK(fused == alone + counts);
}

TEST_CASE("resume: an optimizer without states of its own has a phase that allocates nothing") {
  ParallelPlan plan = resuming("transformers", Precision::kBf16);
  plan.optimizer = {OptimizerKind::kSgd, OptimizerForm::kForeach, 0};
  CHECK(grown(phase(replayed_phases(plan), "resume")) == 0);
}

TEST_CASE("resume: FSDP2 steps with zeros, then holds new states beside those that it made") {
  ParallelPlan plan = resuming("fsdp", Precision::kFp32);
  plan.world = 4;
  edit_fsdp(plan) = {};
  const std::vector<cost::PhaseMemory> phases = replayed_phases(plan);
  const cost::PhaseMemory& resume = phase(phases, "resume");
  const std::int64_t states = grown(resume);
  // Gradients, states and roots, or two lots of states: twice the states in both.
  CHECK(risen(resume) == 2 * states);
  edit_fsdp(plan).version = 1;
  const std::vector<cost::PhaseMemory> wrapped = replayed_phases(plan);
  const cost::PhaseMemory& first = phase(wrapped, "resume");
  CHECK(first.peak_allocated == first.allocated_after);
}

TEST_CASE("resume: ZeRO loads the moments of its partitions, and none where they are offloaded") {
  for (const int stage : {1, 2, 3}) {
    CAPTURE(stage);
    ParallelPlan plan = resuming("deepspeed", Precision::kBf16Master);
    plan.world = 4;
    edit_zero(plan).stage = stage;
    const std::vector<cost::PhaseMemory> phases = replayed_phases(plan);
    const cost::PhaseMemory& resume = phase(phases, "resume");
    CHECK(grown(resume) > 0);
    CHECK(resume.peak_allocated == resume.allocated_after);
    plan.workload.resume = false;
    const std::int64_t made = grown(phase(replayed_phases(plan), "step1.step"));
    CHECK(is_about(made - grown(phase(phases, "step1.step")), grown(resume)));
    plan.workload.resume = true;
    edit_zero(plan).offload_optimizer = OffloadDevice::kCpu;
    // Stage 3 gathers its norms: five vectors of 1024 elements in bf16.
    CHECK(grown(phase(replayed_phases(plan), "resume")) == (stage == 3 ? 5 * 2048 : 0));
  }
}

TEST_CASE("resume: Megatron-Core reads into states, and FusedAdam copies them once more") {
  ParallelPlan plan = resuming("megatron", Precision::kBf16Master);
  plan.world = 2;
  for (const bool distributed : {false, true}) {
    CAPTURE(distributed);
    edit_megatron(plan).distributed_optimizer = distributed;
    const std::vector<cost::PhaseMemory> phases = replayed_phases(plan);
    const cost::PhaseMemory& resume = phase(phases, "resume");
    CHECK(risen(resume) == 2 * grown(resume));
    plan.workload.resume = false;
    CHECK(is_about(grown(phase(replayed_phases(plan), "step1.optimizer")), grown(resume)));
    plan.workload.resume = true;
  }
}

TEST_CASE("resume: torchtitan's states come from a step with gradients of zeros") {
  ParallelPlan plan = resuming("torchtitan", Precision::kFp32);
  plan.world = 4;
  edit_fsdp(plan) = {};
  plan.optimizer.form = OptimizerForm::kFused;
  const std::vector<cost::PhaseMemory> phases = replayed_phases(plan);
  const cost::PhaseMemory& resume = phase(phases, "resume");
  const std::int64_t states = grown(resume);
  const std::int64_t gradients = risen(resume) - grown(resume);
  CHECK(gradients > 0);
  CHECK(2 * gradients <= states);  // Two states of the gradients' size, and step counts.
}

TEST_CASE("resume: paged states of bitsandbytes come into the device's own memory and stay there") {
  ParallelPlan plan = resuming("transformers", Precision::kBf16);
  plan.optimizer.form = OptimizerForm::kPaged;
  const std::vector<cost::PhaseMemory> phases = replayed_phases(plan);
  const std::int64_t paged = grown(phase(phases, "resume"));
  plan.optimizer.form =
      OptimizerForm::kForeach;  // States in bf16; those of bitsandbytes have fp32.
  CHECK(paged > 3 * grown(phase(replayed_phases(plan), "resume")) / 2);
}

TEST_CASE("resume: with several ranks bitsandbytes clones the states on the device") {
  ParallelPlan plan = resuming("transformers", Precision::kBf16);
  plan.optimizer.form = OptimizerForm::kEightBit;
  plan.world = 2;
  edit_ddp(plan) = {};
  const std::vector<cost::PhaseMemory> phases = replayed_phases(plan);
  const cost::PhaseMemory& loading = phase(phases, "resume");
  CHECK(is_about(risen(loading), 2 * grown(loading)));
}

TEST_CASE(
    "resume: transformers' Adafactor widens the states of 16-bit parameters in its next step") {
  ParallelPlan plan = resuming("transformers", Precision::kBf16);
  plan.optimizer = {.kind = OptimizerKind::kAdafactor, .form = OptimizerForm::kLoop};
  const std::vector<cost::PhaseMemory> phases = replayed_phases(plan);
  CHECK(grown(phase(phases, "resume")) > 0);
  CHECK(grown(phase(phases, "step1.optimizer")) > 0);
}

TEST_CASE("resume: frameworks say for which plans runs that resume were recorded") {
  const auto measured = [](const ParallelPlan& plan) {
    return runtime_of(plan).resuming_was_measured(plan);
  };
  ParallelPlan plan = resuming("transformers", Precision::kBf16);
  CHECK(measured(plan));
  plan.optimizer.kind = OptimizerKind::kLion;
  CHECK_FALSE(measured(plan));
  plan.optimizer = {};
  for (const char* framework : {"megatron", "torchtune", "litgpt"}) {
    plan.runtime = framework;
    CHECK_FALSE(measured(plan));
  }
  plan.runtime = "fsdp";
  edit_fsdp(plan) = {};
  CHECK(measured(plan));
  edit_fsdp(plan).version = 1;
  CHECK_FALSE(measured(plan));
}

}  // namespace headroom::ir
