// LoRA on bitsandbytes weights. Phase totals were recorded with PyTorch 2.11.0, transformers
// 5.17.0, PEFT 0.21.2 and bitsandbytes 0.50.2 on compute capability 9.0.

#include "runtimes/transformers/quantised.h"
#include "runtimes/fsdp/plan.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/model_of.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

using test::all_linear;
using test::check_phases;
using test::model_of;
using test::small_llama;
using test::small_plan;

ParallelPlan quantised(Precision precision, const QuantPlan& quant) {
  ParallelPlan plan = small_plan(precision);
  plan.lora = all_linear(16);
  plan.quant = quant;
  return plan;
}

constexpr QuantPlan kDouble{.bits = 4, .double_quant = true, .prepare_kbit = false};
constexpr QuantPlan kSingle{.bits = 4, .double_quant = false, .prepare_kbit = false};
constexpr QuantPlan kPrepared{.bits = 4, .double_quant = true, .prepare_kbit = true};
constexpr QuantPlan kInt8{.bits = 8, .double_quant = false, .prepare_kbit = false};
constexpr QuantPlan kInt8Prepared{.bits = 8, .double_quant = false, .prepare_kbit = true};

}  // namespace

TEST_CASE("quantised: a 4-bit weight with doubly quantised factors, worked by hand") {
  torch::Eager eager{DeviceTraits{}};
  torch::Tensor dynamic;
  // 1024 x 512: half a byte each; 8192 factors of a byte; 32 outer factors; two tables.
  const torch::Tensor whole = eager.empty({1024, 512}, DType::kBf16, TensorRole::kTemporary);
  const transformers::QuantisedWeight weight = transformers::quantise(
      eager, quantised(Precision::kBf16, kDouble), whole, DType::kUInt8, dynamic);
  CHECK(weight.packed.elements() == 262'144);
  CHECK(weight.factors.elements() == 8'192);
  CHECK(weight.factors.dtype() == DType::kUInt8);
  CHECK(weight.outer_factors.elements() == 32);
  CHECK(weight.codes.elements() == 16);
  CHECK(weight.outer_codes.elements() == 256);
  CHECK(dynamic.elements() == 256);
}

TEST_CASE("quantised: without double quantisation the factors stay in fp32") {
  torch::Eager eager{DeviceTraits{}};
  torch::Tensor dynamic;
  const torch::Tensor whole = eager.empty({1024, 512}, DType::kBf16, TensorRole::kTemporary);
  const transformers::QuantisedWeight weight = transformers::quantise(
      eager, quantised(Precision::kBf16, kSingle), whole, DType::kUInt8, dynamic);
  CHECK(weight.factors.dtype() == DType::kFp32);
  CHECK_FALSE(weight.offset.defined());
  CHECK_FALSE(dynamic.defined());
}

TEST_CASE("quantised: few rows are multiplied with the packed weight itself") {
  // bitsandbytes backends/cuda/ops.py: capability 9.0, 4096 outputs are 64 of 132 blocks, square.
  DeviceTraits hopper;
  CHECK(transformers::fused_rows(4096, 4096, hopper) == 7);
  CHECK(transformers::fused_rows(14336, 4096, hopper) == 32);
  CHECK(transformers::fused_rows(512, 2048, hopper) == 32);
  DeviceTraits ampere = hopper;
  ampere.compute_major = 8;
  ampere.compute_minor = 0;
  ampere.multiprocessors = 108;
  CHECK(transformers::fused_rows(14336, 4096, ampere) == 64);
  CHECK(transformers::fused_rows(1024, 256, ampere) == 1536);
}

TEST_CASE("quantised: LoRA on NF4 with double quantisation") {
  const ParallelPlan plan = quantised(Precision::kBf16, kDouble);
  check_phases(small_llama(), plan,
               {{"load", 142'878'720, 142'878'720},
                {"peft", 145'205'248, 145'262'592},
                {"step1.forward", 757'498'368, 1'184'421'888},
                {"step1.backward", 214'676'480, 1'320'680'448},
                {"step1.optimizer", 219'329'536, 221'656'064},
                {"step2.backward", 219'329'536, 1'356'663'808}});
}

TEST_CASE("quantised: LoRA on NF4 without double quantisation") {
  check_phases(small_llama(), quantised(Precision::kBf16, kSingle),
               {{"load", 143'902'720, 143'902'720},
                {"step1.forward", 758'522'368, 1'185'445'888},
                {"step2.backward", 220'353'536, 1'357'687'808}});
}

TEST_CASE("quantised: k-bit preparation widens what is not quantised") {
  check_phases(small_llama(), quantised(Precision::kBf16AutocastBf16, kPrepared),
               {{"load", 142'878'720, 142'878'720},
                {"peft", 278'384'640, 341'594'112},
                {"step1.forward", 942'352'896, 1'373'880'320},
                {"step2.backward", 352'508'928, 1'543'742'464}});
}

TEST_CASE("quantised: NF4 under checkpointing, both forms") {
  ParallelPlan plan = quantised(Precision::kBf16AutocastBf16, kPrepared);
  plan.recompute = Recompute::kFull;
  const std::vector<test::RecordedPhase> recorded = {
      {"step1.forward", 686'745'088, 1'119'337'472},
      {"step1.backward", 347'855'872, 1'249'927'168},
      {"step2.backward", 352'508'928, 1'288'134'656}};
  check_phases(small_llama(), plan, recorded);
  plan.recompute = Recompute::kFullReentrant;
  check_phases(small_llama(), plan, recorded);
}

TEST_CASE("quantised: a dropout keeps a mask and an input for every adapter") {
  ParallelPlan plan = quantised(Precision::kBf16, kDouble);
  plan.lora->dropout = 0.1;
  check_phases(small_llama(), plan,
               {{"step1.forward", 794'147'328, 1'221'070'848},
                {"step2.backward", 219'329'536, 1'392'751'616}});
}

TEST_CASE("quantised: biases of 4-bit layers") {
  check_phases(small_llama("qwen2"), quantised(Precision::kBf16, kDouble),
               {{"load", 142'884'864, 142'884'864},
                {"step1.forward", 758'553'088, 1'185'476'608},
                {"step2.backward", 220'384'256, 1'357'718'528}});
}

TEST_CASE("quantised: LoRA on LLM.int8 weights") {
  check_phases(small_llama(), quantised(Precision::kBf16, kInt8),
               {{"load", 154'487'808, 154'487'808},
                {"peft", 156'814'336, 156'814'336},
                {"step1.forward", 807'085'568, 1'234'009'088},
                {"step1.backward", 226'285'568, 1'370'267'648},
                {"step2.backward", 230'938'624, 1'407'201'280}});
}

TEST_CASE("quantised: int8 layers hold their inputs through a checkpoint") {
  // Linear4bit of the same case leaves 107 MB less: its node keeps no activation.
  ParallelPlan plan = quantised(Precision::kBf16AutocastBf16, kInt8Prepared);
  plan.recompute = Recompute::kFull;
  check_phases(small_llama(), plan,
               {{"step1.forward", 793'807'360, 1'226'399'744},
                {"step1.backward", 359'464'960, 1'356'989'440},
                {"step2.backward", 364'118'016, 1'395'196'928}});
}

TEST_CASE("quantised: a paged optimizer takes no device memory for large states") {
  ParallelPlan plan = quantised(Precision::kBf16, kDouble);
  plan.optimizer.form = OptimizerForm::kPaged;
  check_phases(small_llama(), plan, {{"step1.optimizer", 219'329'536, 219'329'536}});
}

TEST_CASE("quantised: saving copies only the code tables of doubly quantised weights") {
  ParallelPlan plan = quantised(Precision::kBf16, kDouble);
  plan.workload.checkpoint_save = true;
  const RankProgram program = lower(small_llama(), plan, Rank{0}, DeviceTraits{}).value();
  const cost::MemoryTimeline timeline =
      cost::replay(program, plan.allocator, Bytes{600'000'000'000});
  const cost::PhaseMemory& save = timeline.phases.back();
  CHECK(save.name.kind == PhaseKind::kCheckpointSave);
  CHECK(save.peak_allocated - save.allocated_before == Bytes{14 * 1'024});  // 14 linear layers.
  CHECK(save.allocated_after == save.allocated_before);
}

namespace {

const std::string kOpenT5 = R"({"model_type": "t5", "d_model": 512, "d_kv": 64, "d_ff": 1024,
    "num_layers": 3, "num_decoder_layers": 2, "num_heads": 8, "vocab_size": 8064)";
const std::string kThreeLayerBert =
    R"({"model_type": "bert", "hidden_size": 512, "intermediate_size": 1536,
    "num_hidden_layers": 3, "num_attention_heads": 8, "vocab_size": 8000})";

ParallelPlan quantised_pairs(const QuantPlan& quant, std::vector<std::string> targets) {
  ParallelPlan plan = quantised(Precision::kBf16, quant);
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 512;
  plan.lora->targets = std::move(targets);
  return plan;
}

}  // namespace

TEST_CASE("quantised: T5's wo, which it would keep in fp32, is not quantised") {
  ParallelPlan plan = quantised_pairs({.bits = 4, .double_quant = false, .prepare_kbit = true}, {});
  plan.recompute = Recompute::kFull;
  check_phases(model_of(kOpenT5 + "}"), plan,
               {{"load", 19'136'000, 43'908'608},
                {"peft", 35'731'968, 35'764'736},
                {"step1.forward", 151'100'928, 188'857'856},
                {"step1.backward", 105'675'264, 250'560'000},
                {"step2.backward", 111'311'360, 257'400'320}});
}

TEST_CASE("quantised: LLM.int8()'s two gradients of a gated T5's MLP are added out of place") {
  ParallelPlan plan = quantised_pairs(kInt8Prepared, {"q", "v"});
  plan.recompute = Recompute::kFull;
  const std::string gated = R"(, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false})";
  check_phases(model_of(kOpenT5 + gated), plan,
               {{"peft", 40'892'416, 42'712'064},
                {"step1.backward", 108'935'168, 313'588'736},
                {"step2.backward", 110'770'176, 315'423'744}});
}

TEST_CASE("quantised: a BERT is read parameter by parameter, its decoder tied at the end") {
  check_phases(model_of(kThreeLayerBert), quantised_pairs(kInt8, {}),
               {{"load", 16'962'560, 25'162'752},
                {"peft", 18'600'960, 18'600'960},
                {"step1.backward", 88'413'184, 208'962'560},
                {"step2.backward", 91'689'984, 245'007'360}});
}

TEST_CASE("quantised: sharded weights of a T5 are refused by name") {
  ParallelPlan plan = quantised_pairs(kDouble, {"q", "v"});
  plan.runtime = "fsdp";
  plan.world = 4;
  edit_fsdp(plan) = FsdpPlan{};
  const auto refused = lower(model_of(kOpenT5 + "}"), plan, Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().key == "qlora");
}

}  // namespace headroom::ir
