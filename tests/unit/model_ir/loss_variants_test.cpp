// Losses that never hold all logits in fp32. Phase totals were recorded with PyTorch 2.11.0,
// transformers 5.17.0 and Liger-Kernel 0.8.5 (its loss alone), or torchtune 0.6.1's
// CEWithChunkedOutputLoss on eight pieces, on compute capability 9.0.

#include "runtimes/transformers/losses.h"

#include <doctest/doctest.h>

#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

using test::all_linear;
using test::check_phases;
using test::small_llama;
using test::small_plan;

ParallelPlan with_loss(LossKind loss, Precision precision) {
  ParallelPlan plan = small_plan(precision);
  plan.loss = loss;
  return plan;
}

}  // namespace

TEST_CASE("fused linear loss: bf16, the weight's gradient exists from forward on") {
  check_phases(small_llama(), with_loss(LossKind::kFusedLinear, Precision::kBf16),
               {{"step1.forward", 491'077'120, 504'210'944},
                {"step1.backward", 423'677'952, 541'656'064},
                {"step1.optimizer", 781'594'624, 959'010'816},
                {"step2.backward", 781'553'664, 918'017'024}});
}

TEST_CASE("fused linear loss: fp32 goes through a temporary of the weight's size") {
  check_phases(small_llama(), with_loss(LossKind::kFusedLinear, Precision::kFp32),
               {{"step1.forward", 1'242'934'784, 1'400'497'664},
                {"step1.backward", 782'315'520, 1'627'654'144},
                {"step2.backward", 1'492'250'624, 2'336'770'048}});
}

TEST_CASE("fused linear loss: under autocast every chunk casts the weight again") {
  check_phases(small_llama(), with_loss(LossKind::kFusedLinear, Precision::kAutocastBf16),
               {{"step1.forward", 844'886'528, 993'470'976},
                {"step1.backward", 787'984'384, 891'387'904},
                {"step2.backward", 1'503'023'104, 1'630'778'880}});
}

TEST_CASE("fused linear loss: a frozen head has no gradient") {
  ParallelPlan plan = with_loss(LossKind::kFusedLinear, Precision::kBf16AutocastBf16);
  plan.lora = all_linear(16);
  plan.quant = QuantPlan{.bits = 4, .double_quant = true, .prepare_kbit = true};
  plan.recompute = Recompute::kFull;
  check_phases(small_llama(), plan,
               {{"step1.forward", 348'601'856, 437'520'384},
                {"step1.backward", 347'855'872, 568'526'336},
                {"step2.backward", 352'508'928, 573'068'800}});
}

TEST_CASE("chunked loss: bf16, fp32 log probabilities of all pieces stay for backward") {
  check_phases(small_llama(), with_loss(LossKind::kChunked, Precision::kBf16),
               {{"step1.forward", 709'431'296, 889'059'328},
                {"step1.backward", 423'677'952, 778'036'736},
                {"step2.backward", 781'553'664, 1'169'995'264}});
}

TEST_CASE("chunked loss: fp32 weights under autocast") {
  check_phases(small_llama(), with_loss(LossKind::kChunked, Precision::kAutocastBf16),
               {{"step1.forward", 1'057'686'528, 1'241'820'160},
                {"step1.backward", 788'103'168, 1'126'291'968},
                {"step2.backward", 1'500'946'432, 1'868'814'848}});
}

TEST_CASE("chunked loss: pieces are not copied for a frozen head") {
  ParallelPlan plan = with_loss(LossKind::kChunked, Precision::kBf16);
  plan.lora = all_linear(16);
  check_phases(small_llama(), plan,
               {{"step1.forward", 793'145'344, 972'773'376},
                {"step1.backward", 249'018'368, 861'750'784},
                {"step2.backward", 253'671'424, 903'509'504}});
}

TEST_CASE("losses: evaluation makes the logits whichever loss trains") {
  ParallelPlan plan = with_loss(LossKind::kFusedLinear, Precision::kBf16);
  plan.workload.evaluation = true;
  plan.workload.steps = 1;
  const auto peak = [&plan] {
    const RankProgram program = lower(small_llama(), plan, Rank{0}, DeviceTraits{}).value();
    return cost::replay(program, plan.allocator, Bytes{600'000'000'000}).phases.back();
  };
  const cost::PhaseMemory fused = peak();
  plan.loss = LossKind::kHf;
  const cost::PhaseMemory own = peak();
  CHECK(fused.name.kind == PhaseKind::kEvaluation);
  CHECK(fused.peak_allocated - fused.allocated_before == own.peak_allocated - own.allocated_before);
}

}  // namespace headroom::ir
