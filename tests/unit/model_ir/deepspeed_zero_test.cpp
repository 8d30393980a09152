#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/deepspeed/plan.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

using test::small_llama_program;

// Two embeddings of 32000 x 1024; two layers of 2 x 1024 x 1024 (q, o), 2 x 256 x 1024 (k, v),
// 3 x 2816 x 1024 and two norms of 1024; a last norm.
constexpr std::int64_t kNorms = 5 * 1024;
constexpr std::int64_t kParameters =
    2 * 32'000 * 1024 + 2 * (2 * 1024 * 1024 + 2 * 256 * 1024 + 3 * 2816 * 1024) + kNorms;

ParallelPlan zero_plan(int stage, std::int64_t world) {
  ParallelPlan plan = test::small_plan(Precision::kBf16Master);
  plan.runtime = "deepspeed";
  plan.workload.micro_batch = 1;
  plan.workload.keep_batch = false;
  plan.clip_norm = 1;
  plan.world = world;
  edit_zero(plan).stage = stage;
  edit_zero(plan).reduce_bucket_size = 1024 * 1024;
  return plan;
}

/// Requested bytes, before the allocator rounds them.
struct Requested {
  std::array<std::int64_t, kTensorRoleCount> after{};  ///< By role, at the end of a phase.
  std::int64_t before = 0;
  std::int64_t peak = 0;  ///< Within the phase.
};

Requested requested(const ParallelPlan& plan, const std::string& phase) {
  const RankProgram program = small_llama_program(plan);
  const auto found = std::find_if(program.phases.begin(), program.phases.end(),
                                  [&](const Phase& each) { return to_text(each.name) == phase; });
  REQUIRE(found != program.phases.end());
  Requested sums;
  std::vector<const Event*> born(program.blocks);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < found->end; ++i) {
    const Event& event = program.events[i];
    if (event.kind != EventKind::kAllocate && event.kind != EventKind::kFree) {
      continue;
    }
    const bool is_new = event.kind == EventKind::kAllocate;
    born[event.block] = is_new ? &event : born[event.block];
    const std::int64_t bytes = is_new ? event.bytes : -born[event.block]->bytes;
    sums.after[static_cast<std::size_t>(born[event.block]->role)] += bytes;
    total += bytes;
    sums.before = i < found->begin ? total : sums.before;
    sums.peak = i < found->begin ? total : std::max(sums.peak, total);
  }
  return sums;
}

std::int64_t held(const Requested& sums, TensorRole role) {
  return sums.after[static_cast<std::size_t>(role)];
}

Work work_of(const ParallelPlan& plan, const std::string& name) {
  for (const Phase& phase : small_llama_program(plan).phases) {
    if (to_text(phase.name) == name) {
      return phase.work;
    }
  }
  FAIL("no phase " << name);
  return {};
}

const Work::Collective& collective_named(const Work& work, const std::string& operation) {
  for (const Work::Collective& each : work.collectives) {
    if (name_of(each.kind) == operation) {
      return each;
    }
  }
  FAIL("no collective " << operation);
  return work.collectives.front();
}

}  // namespace

TEST_CASE("deepspeed zero: each parameter group is padded and partitioned by itself") {
  // Three ranks: groups are padded to multiples of 6 elements. 88080384 is one; 5120 becomes 5124,
  // 88085504 becomes 88085508.
  static_assert(kParameters == 88'085'504);
  ParallelPlan plan = zero_plan(1, 3);
  const Requested one = requested(plan, "deepspeed.initialize");
  CHECK(held(one, TensorRole::kParameter) == 2 * 88'085'508);
  CHECK(held(one, TensorRole::kMasterParameter) == 4 * 29'361'836);
  edit_zero(plan).decay_groups = true;
  const Requested two = requested(plan, "deepspeed.initialize");
  CHECK(held(two, TensorRole::kParameter) == 2 * (88'080'384 + 5'124));
  CHECK(held(two, TensorRole::kMasterParameter) == 4 * (29'360'128 + 1'708));
  // Where the sums agree, the norms still have a master of their own.
  const RankProgram program = small_llama_program(plan);
  CHECK(std::count_if(program.events.begin(), program.events.end(), [](const Event& event) {
          return event.kind == EventKind::kAllocate && event.role == TensorRole::kMasterParameter;
        }) == 2);
}

TEST_CASE(
    "deepspeed zero: a group that has no room beside its parameters is flattened on the host") {
  const ParallelPlan plan = zero_plan(1, 64);
  const auto peak = [&plan](std::int64_t memory_bytes) {
    const auto program =
        lower(test::small_llama(), plan, Rank{0}, DeviceTraits{.memory_bytes = memory_bytes});
    REQUIRE(program);
    const cost::MemoryTimeline timeline =
        cost::replay(program.value(), plan.allocator, Bytes{600'000'000'000});
    std::int64_t most = 0;
    for (const cost::PhaseMemory& phase : timeline.phases) {
      const bool early =
          phase.name.kind == PhaseKind::kInitialize || phase.name.kind == PhaseKind::kFlatten;
      most = early ? std::max(most, phase.peak_allocated.value()) : most;
    }
    return most;
  };
  // 2 bytes for each parameter, twice: the model and the flat group. Or the flat group alone, and
  // of 64 ranks' parts the fp32 masters and a gradient, 8/64 bytes for each.
  CHECK(peak(0) > 4 * kParameters);
  CHECK(peak(5 * kParameters) == peak(0));
  CHECK(peak(3 * kParameters) < 2 * kParameters + kParameters / 4);
  CHECK(peak(3 * kParameters) > 2 * kParameters + kParameters / 8);
}

TEST_CASE("deepspeed zero: fp32 accumulation keeps whole gradients at stage 1, a part at stage 2") {
  ParallelPlan plan = zero_plan(1, 4);
  plan.workload.accumulation = 2;
  edit_zero(plan).grad_accum_dtype = DType::kFp32;
  const Requested first = requested(plan, "step1.1.backward");
  CHECK(held(first, TensorRole::kGradient) == (4 + 2) * kParameters);  // And the bf16 ones.
  edit_zero(plan).stage = 2;
  const Requested second = requested(plan, "step1.1.backward");
  CHECK(held(second, TensorRole::kGradient) == 4 * kParameters / 4);
}

TEST_CASE("deepspeed zero: stage 0 flattens for FusedAdam and not for a torch optimizer") {
  ParallelPlan plan = zero_plan(0, 4);
  const auto risen = [&plan] {
    const Requested step = requested(plan, "step2.step");
    return step.peak - step.before;
  };
  plan.optimizer.form = OptimizerForm::kFused;
  CHECK(risen() == 8 * kParameters);  // fp32 gradients, and the same side by side.
  edit_zero(plan).torch_adam = true;
  CHECK(risen() == 4 * kParameters);
  plan.optimizer.form = OptimizerForm::kForeach;
  CHECK(risen() == 8 * kParameters);  // fp32 gradients and the roots of all second moments.
}

TEST_CASE("deepspeed zero: FusedAdam has a flag of overflow on the device, torch's AdamW none") {
  ParallelPlan plan = zero_plan(2, 4);
  plan.optimizer.form = OptimizerForm::kFused;
  CHECK(held(requested(plan, "optimizer_object"), TensorRole::kOptimizerState) == 4);
  edit_zero(plan).torch_adam = true;
  CHECK(held(requested(plan, "optimizer_object"), TensorRole::kOptimizerState) == 0);
}

TEST_CASE("deepspeed zero: a bucket is reduced at once, an oversized gradient rank by rank") {
  ParallelPlan plan = zero_plan(2, 4);
  edit_zero(plan).reduce_bucket_size = 500'000'000;
  const Work whole = work_of(plan, "step1.backward");
  CHECK(collective_named(whole, "all_reduce").calls == 1);
  CHECK(collective_named(whole, "all_reduce").bytes == 2 * kParameters);
  // Partitions have 22021376 elements. The head's 32768000 lie in the third and the fourth, the
  // embedding's in the first (all of it) and the second; 22549504 are between them. What exceeds
  // the bucket waits alone; slices are sent as soon as they exceed it together.
  const auto calls = [&plan](std::int64_t bucket) {
    edit_zero(plan).reduce_bucket_size = bucket;
    const Work work = work_of(plan, "step1.backward");
    CHECK(collective_named(work, "all_reduce").bytes == 2 * kParameters);
    return collective_named(work, "all_reduce").calls;
  };
  CHECK(calls(32'000'000) == 3);  // Head (10746624 + 22021376), the rest, embedding.
  CHECK(calls(22'000'000) == 5);  // Head, the rest in two, the embedding's slices one by one.
}

TEST_CASE("deepspeed zero: two buckets where communication overlaps") {
  ParallelPlan plan = zero_plan(1, 4);
  plan.workload.accumulation = 2;
  const auto buckets = [&plan] {
    return held(requested(plan, "step1.1.backward"), TensorRole::kCommunication);
  };
  CHECK(buckets() == 2 * 1024 * 1024);  // Stage 1 keeps it until the last micro-batch.
  edit_zero(plan).overlap_comm = true;
  CHECK(buckets() == 2 * 2 * 1024 * 1024);
  edit_zero(plan).contiguous_gradients = false;
  CHECK(buckets() == 0);
}

TEST_CASE("deepspeed zero: an offloaded optimizer leaves one gradient's room on the device") {
  ParallelPlan plan = zero_plan(2, 4);
  plan.optimizer.form = OptimizerForm::kFused;
  edit_zero(plan).offload_optimizer = OffloadDevice::kCpu;
  const Requested rest = requested(plan, "step1.step");
  CHECK(held(rest, TensorRole::kMasterParameter) == 0);
  CHECK(held(rest, TensorRole::kOptimizerState) == 0);
  CHECK(held(rest, TensorRole::kCommunication) == 2 * 32'000 * 1024);  // The largest one's.
}

TEST_CASE("deepspeed zero: adapters take the engine's type") {
  ParallelPlan plan = zero_plan(1, 2);
  plan.lora = test::all_linear(8);
  const RankProgram program = small_llama_program(plan);
  const Requested rest = requested(plan, "deepspeed.initialize");
  // Half of the adapters as fp32 masters; they themselves as bf16.
  const std::int64_t trainable = program.trainable_parameters;
  CHECK(held(rest, TensorRole::kMasterParameter) == 2 * trainable);
  CHECK(held(rest, TensorRole::kParameter) == 2 * (kParameters + trainable));
}

TEST_CASE("deepspeed zero: fp32 without ZeRO is the optimizer as it is") {
  ParallelPlan plan = zero_plan(0, 4);
  plan.precision = Precision::kFp32;
  const Requested rest = requested(plan, "step2.step");
  CHECK(held(rest, TensorRole::kMasterParameter) == 0);
  CHECK(held(rest, TensorRole::kOptimizerState) == 8 * kParameters);
  CHECK(collective_named(work_of(plan, "step1.backward"), "all_reduce").bytes == 4 * kParameters);
}

TEST_CASE("deepspeed zero: an evaluation keeps nothing") {
  ParallelPlan plan = zero_plan(2, 4);
  plan.workload.evaluation = true;
  const Requested evaluation = requested(plan, "evaluation");
  CHECK(held(evaluation, TensorRole::kActivation) == 0);
  CHECK(evaluation.peak < requested(plan, "step2.forward").peak);
}

}  // namespace headroom::ir
