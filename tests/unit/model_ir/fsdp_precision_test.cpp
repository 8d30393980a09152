// FSDP with 4-bit weights, fp16 and 8-bit states. Phase totals were recorded with PyTorch 2.11.0,
// transformers 5.17.0, PEFT 0.21.2 and bitsandbytes 0.50.2 on rank 0 of four, or of three (compute
// capability 9.0, 132 multiprocessors): two layers, one sequence of 1100 tokens.

#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "runtimes/fsdp/plan.h"
#include "tests/support/refusal.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

using test::refused_by_check;
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

/// Recorded: QLoRA as Accelerate sets it up under transformers 5, on rank 0 of four: one sequence
/// of 512 tokens, weights quantised on the GPU by from_pretrained.
ModelSpec with_layers(std::int64_t layers) {
  return ir::parse_hf_config(R"({"hidden_size": 1024, "intermediate_size": 2816,
    "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 8000,
    "tie_word_embeddings": false, "max_position_embeddings": 4096, "model_type": "llama",
    "num_hidden_layers": )" + std::to_string(layers) +
                                 "}",
                             "four layers")
      .value();
}

ParallelPlan offloaded() {
  ParallelPlan plan = four_bits(1);
  plan.workload.sequence = 512;
  plan.recompute = Recompute::kFullReentrant;
  edit_fsdp(plan).use_orig_params = false;
  edit_fsdp(plan).cpu_offload = true;
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
  edit_fsdp(plan).quantised_on_host = true;
  test::check_phases(few_words(), plan,
                     {{"load", 12'720'640, 79'831'552},
                      {"step1.forward", 204'054'016, 259'558'400},
                      {"step1.backward", 80'120'320, 280'988'160},
                      {"step2.forward", 239'197'696, 294'702'080},
                      {"step2.zero_grad", 80'701'952, 80'701'952}});
}

TEST_CASE("fsdp 1: with offload, 4-bit shards and the adapters are on the host") {
  test::check_phases(with_layers(4), offloaded(),
                     {{"load", 2'833'408, 77'743'616},
                      {"step1.forward", 92'764'672, 118'389'248},
                      {"step1.optimizer", 69'942'272, 69'942'272}});
  ParallelPlan plan = offloaded();
  plan.quant->double_quant = true;
  test::check_phases(with_layers(4), plan,
                     {{"load", 784'384, 75'694'592}, {"step1.optimizer", 67'893'248, 67'893'248}});
}

TEST_CASE("fsdp 1: 4-bit weights on the host never lie whole on the device") {
  ParallelPlan plan = offloaded();
  const auto load_peak = [&plan] {
    const auto program = ir::lower(with_layers(32), plan, Rank{0}, DeviceTraits{});
    return cost::replay(program.value(), plan.allocator, Bytes{600'000'000'000})
        .phases.front()
        .peak_allocated;
  };
  const std::int64_t codes = 32 * std::int64_t{11'272'192} / 2;  // Four bits a weight.
  CHECK(load_peak() > Bytes{codes});
  edit_fsdp(plan).quantised_on_host = true;
  CHECK(load_peak() < Bytes{codes});
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
  plan = four_bits(2);
  edit_fsdp(plan).cpu_offload = true;
  CHECK(refused_by_lowering(few_words(), plan) == "fsdp");
  plan = sharded_in(Precision::kFp32, 1);
  edit_fsdp(plan).quantised_on_host = true;
  CHECK(refused_by_lowering(few_words(), plan) == "fsdp");
}

TEST_CASE("fsdp 2: transformers' Adafactor, whose step fails on DTensors, is refused") {
  ParallelPlan plan = sharded_in(Precision::kFp32, 2);
  plan.optimizer = {OptimizerKind::kAdafactor, OptimizerForm::kLoop, 0};
  CHECK(refused_by_check(few_words(), plan).find("adafactor") == 0);
  edit_fsdp(plan).version = 1;
  CHECK(refused_by_check(few_words(), plan).empty());
  edit_fsdp(plan).version = 2;
  plan.optimizer = {OptimizerKind::kAdafactorTorch, OptimizerForm::kForeach, 0};
  CHECK(refused_by_check(few_words(), plan).empty());
}

}  // namespace headroom::ir
