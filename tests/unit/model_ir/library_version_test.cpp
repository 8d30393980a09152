// Earlier versions of transformers. Phase totals were recorded with the releases named in each
// case, PyTorch 2.11.0 and compute capability 9.0: bf16, two sequences of 1100 tokens, AdamW.

#include "model_ir/runtime/transformers/library_version.h"

#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "model_ir/runtime/registry.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

/// Two layers, H 1024, F 2816, V 50000, 16 heads of which 4 KV heads.
ModelSpec model(const std::string& family = "llama") {
  return parse_hf_config(R"({"hidden_size": 1024, "intermediate_size": 2816,
    "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 4,
    "vocab_size": 50000, "max_position_embeddings": 131072, "tie_word_embeddings": false,
    "model_type": ")" + family +
                             "\"}",
                         "small")
      .value();
}

ParallelPlan plan_of(std::string version) {
  ParallelPlan plan;
  plan.runtime_version = std::move(version);
  plan.micro_batch = 2;
  plan.sequence = 1100;
  return plan;
}

}  // namespace

TEST_CASE("versions: transformers 4.44 copies fp32 logits of all tokens but the last") {
  test::check_phases(model(), plan_of("4.44.2"),
                     {{"load", 251'670'016, 251'670'016},
                      {"step1.forward", 952'709'632, 1'833'513'472},
                      {"step1.backward", 571'430'400, 1'833'495'552},
                      {"step2.forward", 1'489'740'288, 2'370'544'128},
                      {"step2.backward", 1'073'600'000, 2'370'526'208}});
}

TEST_CASE(
    "versions: from 4.46 on the output holds narrow logits beside the wide ones of the loss") {
  ParallelPlan plan = plan_of("4.46");
  plan.keep_logits = true;
  test::check_phases(model(), plan,
                     {{"step1.forward", 1'172'910'592, 2'053'714'432},
                      {"step1.backward", 571'430'400, 2'053'696'512}});
}

TEST_CASE("versions: 4.49 shifts labels, and hands sdpa contiguous heads, repeated") {
  test::check_phases(model(), plan_of("4.49"),
                     {{"load", 251'668'992, 251'668'992},
                      {"step1.forward", 962'104'832, 1'622'725'632},
                      {"step1.backward", 571'855'360, 1'842'890'752},
                      {"step2.optimizer", 1'077'850'624, 1'329'244'672}});
}

TEST_CASE("versions: 4.57 makes a mask of packed sequences where none is passed") {
  test::check_phases(model(), plan_of("4.57"),
                     {{"step1.forward", 963'289'600, 1'623'910'400},
                      {"step1.backward", 571'742'720, 1'844'075'520},
                      {"step2.backward", 1'075'648'000, 2'382'273'536}});
}

TEST_CASE("versions: 5.0 is as the newest, whose number may be left out") {
  const auto peak = [](const std::string& version) {
    return lower(model(), plan_of(version), Rank{0}, DeviceTraits{}).value().events.size();
  };
  CHECK(peak("5.0.0") == peak(""));
  CHECK(peak("5.17") == peak(""));
  CHECK(peak("4.57") != peak(""));
}

TEST_CASE("versions: what is no version, too old, too new or not Llama's modules is refused") {
  for (const char* version : {"4", "new", "4.43.4", "5.18", "4.x"}) {
    CAPTURE(version);
    const auto program = lower(model(), plan_of(version), Rank{0}, DeviceTraits{});
    REQUIRE_FALSE(program);
    CHECK(program.error().key == "runtime-version");
  }
  CHECK_FALSE(lower(model("gemma2"), plan_of("4.57"), Rank{0}, DeviceTraits{}));
  CHECK(lower(model("gemma2"), plan_of("5.3"), Rank{0}, DeviceTraits{}));
}

TEST_CASE("versions: Qwen2 is refused while its rotary tables and masks were its own") {
  ParallelPlan plan = plan_of("4.45");
  CHECK_FALSE(lower(model("qwen2"), plan, Rank{0}, DeviceTraits{}));
  plan.runtime_version = "4.46";
  CHECK(lower(model("qwen2"), plan, Rank{0}, DeviceTraits{}));
  plan.attention = AttentionKind::kEager;
  CHECK_FALSE(lower(model("qwen2"), plan, Rank{0}, DeviceTraits{}));
  plan.runtime_version = "4.53";
  CHECK(lower(model("qwen2"), plan, Rank{0}, DeviceTraits{}));
}

}  // namespace headroom::ir
