// FSDP with 4-bit weights, fp16 and 8-bit states. Phase totals were recorded with PyTorch 2.11.0,
// transformers 5.17.0, PEFT 0.21.2 and bitsandbytes 0.50.2 on rank 0 of four, or of three (compute
// capability 9.0, 132 multiprocessors): two layers, one sequence of 1100 tokens.

#include <doctest/doctest.h>

#include "runtimes/fsdp/plan.h"
#include "tests/support/refusal.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

using test::refused_by_lowering;

ModelSpec few_words() {
  ModelSpec model = test::small_llama();
  model.vocabulary = 8000;
  return model;
}

ParallelPlan sharded_in(Precision precision, int version) {
  ParallelPlan plan;
  plan.runtime = "fsdp";
  plan.precision = precision;
  plan.workload.sequence = 1100;
  plan.world = 4;
  edit_fsdp(plan) = {};
  edit_fsdp(plan).version = version;
  return plan;
}

ParallelPlan four_bits(int version) {
  ParallelPlan plan = sharded_in(Precision::kBf16AutocastBf16, version);
  plan.lora = test::all_linear(8);
  plan.quant = QuantPlan{.bits = 4, .double_quant = false, .prepare_kbit = false};
  return plan;
}

ParallelPlan half(int version) {
  ParallelPlan plan = sharded_in(Precision::kAutocastFp16, version);
  edit_fsdp(plan).param_dtype = DType::kFp16;
  edit_fsdp(plan).reduce_dtype = DType::kFp16;
  plan.clip_norm = 1.0;
  return plan;
}

}  // namespace

TEST_CASE("fsdp: 4-bit weights come whole to the device and are sharded layer by layer") {
  ParallelPlan plan = four_bits(2);
  plan.recompute = Recompute::kFull;
  test::check_phases(few_words(), plan,
                     {{"load", 12'720'640, 48'972'800},
                      {"step1.forward", 91'252'736, 186'244'608},
                      {"step1.backward", 80'120'320, 202'034'176},
                      {"step1.optimizer", 80'701'952, 80'992'768},
                      {"step2.forward", 125'388'800, 221'265'408},
                      {"step2.backward", 80'701'952, 235'858'944}});
}

TEST_CASE("fsdp 1: 4-bit weights are quantised on the host, their factors stay whole") {
  ParallelPlan plan = four_bits(1);
  edit_fsdp(plan).reduce_dtype = DType::kBf16;
  test::check_phases(few_words(), plan,
                     {{"load", 12'720'640, 79'831'552},
                      {"step1.forward", 204'054'016, 259'558'400},
                      {"step1.backward", 80'120'320, 280'988'160},
                      {"step2.forward", 239'197'696, 294'702'080},
                      {"step2.zero_grad", 80'701'952, 80'701'952}});
}

TEST_CASE("fsdp: fp16 under a GradScaler whose findings the ranks add up") {
  test::check_phases(few_words(), half(2),
                     {{"load", 38'934'528, 38'934'528},
                      {"step1.forward", 216'001'024, 325'357'568},
                      {"step1.backward", 145'370'112, 343'921'664},
                      {"step1.optimizer", 223'630'336, 262'564'352},
                      {"step2.backward", 223'238'144, 454'620'160}});
}

TEST_CASE("fsdp: fp16 gradients on their way to fp32 are padded and copied one by one") {
  ParallelPlan plan = half(2);
  edit_fsdp(plan).reduce_dtype = DType::kFp32;
  plan.world = 3;
  test::check_phases(few_words(), plan,
                     {{"step1.forward", 228'629'504, 338'018'816},
                      {"step1.backward", 171'283'456, 356'550'656},
                      {"step1.optimizer", 277'698'560, 332'568'576},
                      {"step2.backward", 277'698'560, 494'548'992}});
}

TEST_CASE("fsdp 1: fp16 under a ShardedGradScaler") {
  test::check_phases(few_words(), half(1),
                     {{"step1.forward", 248'587'776, 301'387'776},
                      {"step1.backward", 145'370'112, 342'500'352},
                      {"step1.optimizer", 223'629'312, 262'563'328},
                      {"step2.zero_grad", 223'237'120, 223'237'120}});
}

TEST_CASE("fsdp 1: 8-bit states of the parts of parameters that a rank has") {
  ParallelPlan plan = sharded_in(Precision::kAutocastBf16, 1);
  edit_fsdp(plan).reduce_dtype = DType::kBf16;
  plan.optimizer = {OptimizerKind::kAdamW, OptimizerForm::kEightBit, 0};
  test::check_phases(few_words(), plan,
                     {{"step1.optimizer", 165'635'584, 165'635'584},
                      {"step2.forward", 303'515'136, 356'315'136},
                      {"step2.backward", 165'243'392, 397'426'176}});
}

TEST_CASE("fsdp: what the libraries themselves break off at is refused by name") {
  ParallelPlan plan = four_bits(2);
  plan.quant->bits = 8;
  CHECK(refused_by_lowering(few_words(), plan) == "qlora");
  plan = four_bits(1);
  plan.quant->prepare_kbit = true;
  CHECK(refused_by_lowering(few_words(), plan) == "qlora");
  plan = four_bits(1);
  edit_fsdp(plan).reshard_after_forward = false;
  CHECK(refused_by_lowering(few_words(), plan) == "qlora");
  plan = four_bits(2);
  edit_fsdp(plan).param_dtype = DType::kFp32;
  CHECK(refused_by_lowering(few_words(), plan) == "precision");
  plan = half(2);
  edit_fsdp(plan).param_dtype = DType::kBf16;
  CHECK(refused_by_lowering(few_words(), plan) == "fsdp");
  plan = sharded_in(Precision::kFp32, 2);
  plan.optimizer = {OptimizerKind::kAdamW, OptimizerForm::kEightBit, 0};
  CHECK(refused_by_lowering(few_words(), plan) == "optimizer");
}

}  // namespace headroom::ir
