// LitGPT's modelling code. Totals after backward and around the optimizer were recorded by running
// it (April 2024, 3bd08dd) under PyTorch 2.11.0: two layers, two sequences of 300 tokens, two
// micro-batches (compute capability 9.0, 132 multiprocessors).

#include <doctest/doctest.h>

#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

ModelSpec tiny_llama() {
  return parse_hf_config(R"({"model_type": "llama", "hidden_size": 2048,
    "intermediate_size": 5632, "num_hidden_layers": 2, "num_attention_heads": 32,
    "num_key_value_heads": 4, "vocab_size": 32000, "tie_word_embeddings": false})",
                         "TinyLlama of two layers")
      .value();
}

ModelSpec llama_2() {
  return parse_hf_config(R"({"model_type": "llama", "hidden_size": 4096,
    "intermediate_size": 11008, "num_hidden_layers": 2, "num_attention_heads": 32,
    "num_key_value_heads": 32, "vocab_size": 32000, "tie_word_embeddings": false})",
                         "Llama 2 of two layers")
      .value();
}

ParallelPlan litgpt_plan() {
  ParallelPlan plan;
  plan.runtime = "litgpt";
  plan.precision = Precision::kBf16;
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 300;
  plan.workload.accumulation = 2;
  return plan;
}

LoraPlan adapters(std::vector<std::string> targets) {
  return {.rank = 8,
          .dropout = 0.05,
          .dora = false,
          .rank_stabilised = false,
          .targets = std::move(targets)};
}

std::int64_t peak_of(const ModelSpec& model, const ParallelPlan& plan, const std::string& name) {
  const auto program = lower(model, plan, Rank{0}, DeviceTraits{});
  REQUIRE(program);
  for (const cost::PhaseMemory& phase :
       cost::replay(program.value(), plan.allocator, Bytes{600'000'000'000}).phases) {
    if (to_text(phase.name) == name) {
      return phase.peak_allocated.value();
    }
  }
  return 0;
}

}  // namespace

TEST_CASE("litgpt: full fine-tuning") {
  const ParallelPlan plan = litgpt_plan();
  test::check_phases(tiny_llama(), plan,
                     {{"step1.1.backward", 1'025'712'640, 1'028'171'264},
                      {"step1.optimizer", 1'906'557'440, 2'346'979'840},
                      {"step1.zero_grad", 1'466'135'040, 1'906'557'440},
                      {"step2.1.backward", 1'906'557'440, 1'909'016'064}});
}

TEST_CASE("litgpt: peaks of adapters on queries and values keep within the bytes of odd tensors") {
  ParallelPlan plan = litgpt_plan();
  plan.lora = adapters({"query", "value"});
  // Recorded: 1,801,675,264 and 1,836,048,896; a scalar or a table apart.
  CHECK(peak_of(llama_2(), plan, "step1.1.backward") ==
        doctest::Approx(1'801'675'264).epsilon(1e-5));
  CHECK(peak_of(llama_2(), plan, "step1.2.backward") ==
        doctest::Approx(1'836'048'896).epsilon(1e-5));
}

TEST_CASE("litgpt: adapters everywhere") {
  ParallelPlan plan = litgpt_plan();
  plan.lora = adapters({"query", "key", "value", "projection", "mlp", "head"});
  test::check_phases(tiny_llama(), plan,
                     {{"load", 442'267'648, 442'267'648},
                      {"step1.optimizer", 592'835'072, 594'526'720},
                      {"step1.zero_grad", 591'143'424, 592'835'072}});
}

TEST_CASE("litgpt: inputs of quantised layers live until the next micro-batch has its loss") {
  ParallelPlan plan = litgpt_plan();
  plan.lora = adapters({"query", "value"});
  plan.quant = QuantPlan{.bits = 4, .double_quant = false, .prepare_kbit = false};
  // Per layer the inputs of the fused projection, of the MLP and of its output layer, and the
  // attention's output: 600 tokens of 2H + 2H + 2F + 2H bytes. Both micro-batches' are alive.
  const std::int64_t kept = 2 * 600 * (3 * 2 * 2048 + 2 * 5632);
  const std::int64_t first = peak_of(tiny_llama(), plan, "step1.1.forward");
  CHECK(peak_of(tiny_llama(), plan, "step1.2.forward") - first > kept);
}

TEST_CASE("litgpt: Gemma 2 caps the scores of its attention itself") {
  // Recorded with the code of August 2024 (2b195c7).
  const ModelSpec gemma = parse_hf_config(R"({"model_type": "gemma2", "hidden_size": 2304,
    "intermediate_size": 9216, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 256000,
    "tie_word_embeddings": false})",
                                          "Gemma 2 2B of two layers")
                              .value();
  ParallelPlan plan = litgpt_plan();
  CHECK(peak_of(gemma, plan, "step1.1.forward") == doctest::Approx(5'098'870'272).epsilon(1e-3));
  CHECK(peak_of(gemma, plan, "step1.2.backward") == doctest::Approx(7'808'097'792).epsilon(1e-4));
  CHECK(peak_of(gemma, plan, "step1.optimizer") == doctest::Approx(14'046'522'368).epsilon(1e-5));
  plan.lora = adapters({"query", "key", "value", "projection", "mlp", "head"});
  CHECK(peak_of(gemma, plan, "step1.1.backward") == doctest::Approx(4'684'349'952).epsilon(1e-3));
  CHECK(peak_of(gemma, plan, "step1.optimizer") == 3'383'909'376);
}

TEST_CASE("litgpt: what its code has not is refused by name") {
  const auto refused = [](const ModelSpec& model, const ParallelPlan& plan) {
    const auto program = lower(model, plan, Rank{0}, DeviceTraits{});
    return program ? std::string() : program.error().key;
  };
  ParallelPlan plan = litgpt_plan();
  plan.precision = Precision::kFp32;
  CHECK(refused(tiny_llama(), plan) == "precision");
  ParallelPlan padded = litgpt_plan();
  padded.workload.padded_batch = true;
  CHECK(refused(tiny_llama(), padded) == "padded");
  plan = litgpt_plan();
  plan.lora = adapters({"q_proj"});
  CHECK(refused(tiny_llama(), plan) == "lora");
  ModelSpec capped = tiny_llama();
  capped.attention_softcap = 50;
  CHECK(refused(capped, litgpt_plan()) == "model");
}

}  // namespace headroom::ir
