// ZeRO++ and other ranks than the first. Phase totals were recorded with DeepSpeed 0.19.8, PyTorch
// 2.11.0 and transformers 5.17.0 (compute capability 9.0, 132 multiprocessors): bf16, one sequence
// of 1100 tokens, gradients clipped, sizes as transformers' "auto" sets them.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/deepspeed/plan.h"
#include "runtimes/deepspeed/quantised_tensor.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

/// On 16 ranks.
ParallelPlan plan_of_stage(int stage) {
  ParallelPlan plan;
  plan.runtime = "deepspeed";
  plan.precision = Precision::kBf16Master;
  plan.optimizer.form = OptimizerForm::kForeach;
  plan.workload.sequence = 1100;
  plan.world = 16;
  plan.clip_norm = 1.0;
  edit_zero(plan) = {};
  edit_zero(plan).stage = stage;
  edit_zero(plan).reduce_bucket_size = 1024 * 1024;
  if (stage == 3) {
    edit_zero(plan).prefetch_bucket_size = 943'718;
    edit_zero(plan).param_persistence_threshold = 10'240;
  }
  return plan;
}

/// Bytes of the full buffers of one collective among `ranks` in a phase.
std::int64_t gathered_bytes(const RankProgram& program, std::string_view phase, CollectiveKind kind,
                            std::int64_t ranks) {
  std::int64_t bytes = 0;
  for (const Phase& each : program.phases) {
    for (const Work::Collective& one : each.work.collectives) {
      const bool wanted = to_text(each.name) == phase && one.kind == kind && one.ranks == ranks;
      bytes += wanted ? one.bytes : 0;
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("zero++: a second partition lives from zero.Init, or its first release, to the step") {
  ParallelPlan plan = plan_of_stage(3);
  edit_zero(plan).hpz_partition_size = 8;
  test::check_phases(test::wide_llama(), plan,
                     {{"model", 46'860'288, 149'620'736},
                      {"deepspeed.initialize", 96'033'280, 198'793'728},
                      {"step1.forward", 456'206'336, 786'407'424},
                      {"step1.backward", 163'151'360, 896'600'064},
                      {"step1.step", 194'398'720, 288'103'424},
                      {"step2.forward", 773'479'424, 1'103'680'512},
                      {"step2.backward", 225'634'816, 1'213'873'152},
                      {"step2.step", 194'398'720, 288'103'936}});
}

TEST_CASE("zero++: gathers come from the node as long as there is a second partition") {
  ParallelPlan plan = plan_of_stage(3);
  edit_zero(plan).hpz_partition_size = 8;
  const RankProgram program = lower(test::wide_llama(), plan, Rank{0}, DeviceTraits{}).value();
  CHECK(gathered_bytes(program, "step1.forward", CollectiveKind::kAllGather, 8) > 0);
  CHECK(gathered_bytes(program, "step1.forward", CollectiveKind::kAllGather, 16) == 0);
  // The step has made the second partitions stale: forward makes them again.
  CHECK(gathered_bytes(program, "step2.forward", CollectiveKind::kAllGather, 16) > 0);
}

TEST_CASE("zero++: weights gathered as integers and gradients exchanged in 4 bits") {
  ParallelPlan plan = plan_of_stage(3);
  edit_zero(plan).hpz_partition_size = 8;
  edit_zero(plan).quantized_weights = true;
  edit_zero(plan).quantized_gradients = true;
  test::check_phases(test::wide_llama(), plan,
                     {{"step1.forward", 456'206'336, 786'407'424},
                      {"step1.backward", 163'151'360, 896'600'064},
                      {"step1.step", 194'398'720, 288'103'424},
                      {"step2.forward", 772'430'848, 1'102'631'936},
                      {"step2.backward", 225'634'816, 1'212'824'576},
                      {"step2.step", 194'398'720, 288'103'936}});
}

TEST_CASE("zero++: gradients in 4 bits, added up over two micro-batches") {
  ParallelPlan plan = plan_of_stage(3);
  edit_zero(plan).quantized_gradients = true;
  plan.workload.accumulation = 2;
  plan.recompute = Recompute::kFull;
  test::check_phases(test::wide_llama(), plan,
                     {{"step1.1.backward", 131'912'704, 772'999'680},
                      {"step1.2.backward", 131'922'944, 1'057'178'112},
                      {"step2.2.forward", 680'828'928, 1'011'030'016},
                      {"step2.2.backward", 194'398'720, 1'121'222'656}});
}

TEST_CASE("zero++: within one node gradients are not quantised") {
  ParallelPlan plan = plan_of_stage(3);
  edit_zero(plan).quantized_gradients = true;
  edit_zero(plan).node_devices = 16;
  const RankProgram program = lower(test::wide_llama(), plan, Rank{0}, DeviceTraits{}).value();
  CHECK(gathered_bytes(program, "step1.backward", CollectiveKind::kAllToAll, 16) == 0);
  CHECK(gathered_bytes(program, "step1.backward", CollectiveKind::kReduceScatter, 16) > 0);
}

TEST_CASE("zero++: groups of the quantiser") {
  using deepspeed::quantisation_groups;
  CHECK(quantisation_groups(64) == 1);
  // 8 * 1000: one group would do, and is not above 8000.
  CHECK(quantisation_groups(8'000) == 1);
  // 65536 / 8000 rounds up to 9; the next that divides 8192 is 16, of 4096 elements each.
  CHECK(quantisation_groups(65'536) == 16);
  // 8 * 1009, and 1009 is prime: two groups would do, but only 1009 divide it.
  CHECK(quantisation_groups(8 * 1'009) == 1'009);
}

TEST_CASE("zero++: a partition that the quantiser cannot cut is refused by name") {
  ParallelPlan plan = plan_of_stage(3);
  edit_zero(plan).quantized_weights = true;
  plan.world = 3;
  const auto program = lower(test::wide_llama(), plan, Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(program);
  CHECK(to_text(program.error()).find("a multiple of 8") != std::string::npos);
}

TEST_CASE("zero++: it is stage 3's, and its groups divide the ranks") {
  ParallelPlan plan = plan_of_stage(2);
  edit_zero(plan).quantized_weights = true;
  CHECK_FALSE(check_plan(test::wide_llama(), plan));
  plan = plan_of_stage(3);
  edit_zero(plan).hpz_partition_size = 6;
  CHECK_FALSE(check_plan(test::wide_llama(), plan));
  edit_zero(plan).hpz_partition_size = 64;  // As DeepSpeed takes it: all ranks.
  CHECK(check_plan(test::wide_llama(), plan));
}

TEST_CASE("ranks: the last one of stage 2 has the padding, and gradients of its own partition") {
  ParallelPlan plan = plan_of_stage(2);
  plan.world = 7;
  edit_zero(plan).decay_groups = true;
  plan.rank = 6;
  test::check_phases(test::wide_llama(), plan,
                     {{"deepspeed.initialize", 321'300'992, 392'700'928},
                      {"step1.backward", 490'822'144, 1'123'171'840},
                      {"step1.step", 531'219'456, 776'410'112},
                      {"step2.backward", 633'622'528, 1'299'010'560},
                      {"step2.step", 531'219'456, 776'421'888}});
}

TEST_CASE("ranks: one in the middle of stage 1 owns parts of two parameters") {
  ParallelPlan plan = plan_of_stage(1);
  plan.world = 7;
  edit_zero(plan).decay_groups = true;
  plan.rank = 3;
  test::check_phases(test::wide_llama(), plan,
                     {{"step1.backward", 430'364'160, 1'123'171'840},
                      {"step1.step", 531'219'456, 715'952'640},
                      {"step2.forward", 858'977'280, 1'189'178'368},
                      {"step2.backward", 573'164'544, 1'299'371'008}});
}

TEST_CASE("infinity: fp32 gradients of a bucket wait on the device for their way to a drive") {
  // What reductions hold at once, beside the bucket: 16 bits and 32 of one part at a time, or the
  // 32 bits of all parts of the bucket.
  const auto held = [](OffloadDevice device) {
    ParallelPlan plan = plan_of_stage(3);
    plan.optimizer.form = OptimizerForm::kFused;
    edit_zero(plan).offload_optimizer = device;
    edit_zero(plan).nvme_path = "/local_nvme";
    edit_zero(plan).reduce_bucket_size = 130'000'000;  // Everything.
    const RankProgram program = lower(test::wide_llama(), plan, Rank{0}, DeviceTraits{}).value();
    std::vector<std::int64_t> sizes(program.blocks);
    std::int64_t live = 0;
    std::int64_t most = 0;
    for (const Event& event : program.events) {
      const bool reduces =
          program.operations[program.sites[event.site].operation] == "zero3.reduce_scatter";
      if (event.kind == EventKind::kAllocate && reduces && event.role == TensorRole::kTemporary) {
        sizes[event.block] = event.bytes;
        live += event.bytes;
        most = std::max(most, live);
      } else if (event.kind == EventKind::kFree) {
        live -= std::exchange(sizes[event.block], 0);
      }
    }
    return most;
  };
  // 124,949,504 elements on 16 ranks are 7,809,344 of each; the head's 3,200,000 come last.
  CHECK(held(OffloadDevice::kNvme) - held(OffloadDevice::kCpu) == 4 * (7'809'344 - 3'200'000));
}

TEST_CASE("ranks: one beyond the last is refused") {
  ParallelPlan plan = plan_of_stage(3);
  plan.rank = 16;
  CHECK_FALSE(check_plan(test::wide_llama(), plan));
}

}  // namespace headroom::ir
