// DoRA. Phase totals were recorded with PyTorch 2.11.0, transformers 5.17.0, PEFT 0.21.2 and
// bitsandbytes 0.50.2 on compute capability 9.0.

#include "runtimes/transformers/dora.h"

#include <doctest/doctest.h>

#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

using test::all_linear;
using test::check_phases;
using test::small_llama;
using test::small_plan;

/// Rank 4 on all linear layers, AdamW parameter by parameter, labels that are the ids.
ParallelPlan dora(Precision precision, Recompute recompute) {
  ParallelPlan plan = small_plan(precision);
  plan.workload.keep_batch = false;
  plan.optimizer.form = OptimizerForm::kLoop;
  plan.recompute = recompute;
  plan.lora = all_linear(4);
  plan.lora->dora = true;
  return plan;
}

ParallelPlan dora_on(const QuantPlan& quant) {
  ParallelPlan plan = small_plan(Precision::kBf16);
  plan.lora = all_linear(16);
  plan.lora->dora = true;
  plan.quant = quant;
  return plan;
}

}  // namespace

TEST_CASE("dora: bf16 weights under checkpointing, both forms") {
  const std::vector<test::RecordedPhase> recorded = {
      {"load", 211'430'400, 228'402'176},
      {"step1.forward", 511'389'696, 938'313'216},
      {"step1.backward", 245'640'192, 1'074'571'776},
      {"step1.optimizer", 246'950'912, 247'057'408},
      {"step2.backward", 246'950'912, 1'109'436'928}};
  check_phases(small_llama(), dora(Precision::kBf16, Recompute::kFull), recorded);
  check_phases(small_llama(), dora(Precision::kBf16, Recompute::kFullReentrant), recorded);
}

TEST_CASE("dora: fp32 weights under autocast and checkpointing") {
  check_phases(small_llama(), dora(Precision::kAutocastBf16, Recompute::kFull),
               {{"load", 394'941'440, 431'637'504},
                {"step1.forward", 769'729'536, 1'201'449'472},
                {"step1.backward", 429'151'232, 1'332'911'616},
                {"step2.backward", 430'461'952, 1'367'776'768}});
}

TEST_CASE("dora: with dropout the frozen product is computed a second time") {
  ParallelPlan plan = dora(Precision::kBf16, Recompute::kNone);
  plan.lora->dropout = 0.1;
  plan.lora->targets = {"q_proj", "v_proj"};
  check_phases(small_llama(), plan,
               {{"load", 210'891'776, 217'112'064},
                {"step1.forward", 722'243'584, 1'149'167'104},
                {"step1.backward", 244'562'944, 1'285'425'664},
                {"step2.backward", 244'796'416, 1'317'513'728}});
}

TEST_CASE("dora: on NF4 weights, which are dequantised for their norm") {
  check_phases(small_llama(), dora_on({.bits = 4, .double_quant = true, .prepare_kbit = false}),
               {{"peft", 178'833'408, 202'369'024},
                {"step1.forward", 1'004'792'320, 1'431'715'840},
                {"step1.backward", 214'823'936, 1'567'974'400},
                {"step2.backward", 219'624'448, 1'604'854'784}});
}

TEST_CASE("dora: on LLM.int8 weights") {
  check_phases(small_llama(), dora_on({.bits = 8, .double_quant = false, .prepare_kbit = false}),
               {{"peft", 190'442'496, 239'721'472},
                {"step1.forward", 1'055'342'080, 1'482'265'600},
                {"step1.backward", 226'433'024, 1'618'524'160},
                {"step2.backward", 231'233'536, 1'656'244'224}});
}

}  // namespace headroom::ir
