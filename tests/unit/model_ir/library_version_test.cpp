// Earlier versions of transformers. Phase totals were recorded with the releases named in each
// case, PyTorch 2.11.0 and compute capability 9.0: bf16, two sequences of 1100 tokens, AdamW.

#include "runtimes/transformers/library_version.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/registry.h"
#include "tests/support/model_of.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

using test::model_of;
using test::plan_of_release;

/// Two layers, H 1024, F 2816, V 50000, 16 heads of which 4 KV heads.
ModelSpec llama_like(const std::string& family = "llama") {
  return parse_hf_config(R"({"hidden_size": 1024, "intermediate_size": 2816,
    "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 4,
    "vocab_size": 50000, "max_position_embeddings": 131072, "tie_word_embeddings": false,
    "model_type": ")" + family +
                             "\"}",
                         "small")
      .value();
}

constexpr const char* kGpt2 = R"({"model_type": "gpt2", "n_embd": 1024, "n_layer": 2, "n_head": 16,
    "n_positions": 2048, "vocab_size": 50257})";
constexpr const char* kWideBert =
    R"({"model_type": "bert", "hidden_size": 1024, "intermediate_size": 4096,
    "num_hidden_layers": 2, "num_attention_heads": 16, "vocab_size": 30522,
    "max_position_embeddings": 2048})";
constexpr const char* kWideT5 = R"({"model_type": "t5", "d_model": 768, "d_kv": 64, "d_ff": 3072,
    "num_layers": 2, "num_decoder_layers": 2, "num_heads": 12,
    "vocab_size": 32128})";
constexpr const char* kOpt = R"({"model_type": "opt", "hidden_size": 1024, "ffn_dim": 4096,
    "num_hidden_layers": 2, "num_attention_heads": 16, "vocab_size": 50272,
    "max_position_embeddings": 2048, "word_embed_proj_dim": 1024})";
constexpr const char* kGemma2 =
    R"({"model_type": "gemma2", "hidden_size": 1024, "intermediate_size": 4096,
    "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4,
    "head_dim": 128, "vocab_size": 64000, "sliding_window": 512,
    "max_position_embeddings": 8192})";
constexpr const char* kFalcon =
    R"({"model_type": "falcon", "hidden_size": 1024, "num_hidden_layers": 2,
    "num_attention_heads": 16, "vocab_size": 65024, "multi_query": true,
    "parallel_attn": true, "new_decoder_architecture": false, "alibi": false,
    "bias": false, "max_position_embeddings": 2048})";
constexpr const char* kStablelm =
    R"({"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 2,
    "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 50304,
    "max_position_embeddings": 4096, "model_type": "stablelm",
    "tie_word_embeddings": false})";

/// What a release did differently, and what a step of it allocated.
struct RecordedStep {
  const char* what;
  const char* version;
  AttentionKind attention = AttentionKind::kSdpa;
  std::int64_t sequence = 0;
  const char* config;
  std::vector<test::RecordedPhase> phases;
};

}  // namespace

TEST_CASE("versions: transformers 4.44 copies fp32 logits of all tokens but the last") {
  test::check_phases(llama_like(), plan_of_release("4.44.2"),
                     {{"load", 251'670'016, 251'670'016},
                      {"step1.forward", 952'709'632, 1'833'513'472},
                      {"step1.backward", 571'430'400, 1'833'495'552},
                      {"step2.forward", 1'489'740'288, 2'370'544'128},
                      {"step2.backward", 1'073'600'000, 2'370'526'208}});
}

TEST_CASE(
    "versions: from 4.46 on the output holds narrow logits beside the wide ones of the loss") {
  ParallelPlan plan = plan_of_release("4.46");
  plan.workload.keep_logits = true;
  test::check_phases(llama_like(), plan,
                     {{"step1.forward", 1'172'910'592, 2'053'714'432},
                      {"step1.backward", 571'430'400, 2'053'696'512}});
}

TEST_CASE("versions: 4.49 shifts labels, and hands sdpa contiguous heads, repeated") {
  test::check_phases(llama_like(), plan_of_release("4.49"),
                     {{"load", 251'668'992, 251'668'992},
                      {"step1.forward", 962'104'832, 1'622'725'632},
                      {"step1.backward", 571'855'360, 1'842'890'752},
                      {"step2.optimizer", 1'077'850'624, 1'329'244'672}});
}

TEST_CASE("versions: 4.57 makes a mask of packed sequences where none is passed") {
  test::check_phases(llama_like(), plan_of_release("4.57"),
                     {{"step1.forward", 963'289'600, 1'623'910'400},
                      {"step1.backward", 571'742'720, 1'844'075'520},
                      {"step2.backward", 1'075'648'000, 2'382'273'536}});
}

TEST_CASE("versions: 5.0 is as the newest, whose number may be left out") {
  const auto peak = [](const std::string& version) {
    return lower(llama_like(), plan_of_release(version), Rank{0}, DeviceTraits{})
        .value()
        .events.size();
  };
  CHECK(peak("5.0.0") == peak(""));
  CHECK(peak("5.17") == peak(""));
  CHECK(peak("4.57") != peak(""));
}

TEST_CASE("versions: what is no version, too old, too new or not Llama's modules is refused") {
  for (const char* version :
       {"4", "new", "4.43.4", "4.58", "4.99", "5.18", "4.x", "4.57.", "4.57.banana"}) {
    CAPTURE(version);
    const auto program = lower(llama_like(), plan_of_release(version), Rank{0}, DeviceTraits{});
    REQUIRE_FALSE(program);
    CHECK(program.error().key == "runtime-version");
  }
  const std::vector<std::pair<std::string, std::string>> refused{
      {"gemma2", "4.52"}, {"phi3", "4.48"}, {"mixtral", "4.47"}};
  for (const auto& [family, last] : refused) {
    CAPTURE(family);
    const auto program = lower(llama_like(family), plan_of_release(last), Rank{0}, DeviceTraits{});
    REQUIRE_FALSE(program);
    CHECK(program.error().key == "runtime-version");
    CHECK(program.error().got.find(family) != std::string::npos);
  }
  CHECK(lower(llama_like("gemma2"), plan_of_release("4.53"), Rank{0}, DeviceTraits{}));
  CHECK(lower(llama_like("mixtral"), plan_of_release("4.48"), Rank{0}, DeviceTraits{}));
}

TEST_CASE("versions: Qwen2 is refused while its rotary tables were its own") {
  ParallelPlan plan = plan_of_release("4.45");
  CHECK_FALSE(lower(llama_like("qwen2"), plan, Rank{0}, DeviceTraits{}));
  plan.runtime_version = "4.46";
  CHECK(lower(llama_like("qwen2"), plan, Rank{0}, DeviceTraits{}));
}

TEST_CASE("versions: windows before masking_utils.py, and T5's reentrant checkpoints") {
  const ModelSpec windows = model_of(R"({"model_type": "mistral", "hidden_size": 1024,
    "intermediate_size": 2816, "num_hidden_layers": 2, "num_attention_heads": 16,
    "num_key_value_heads": 4, "vocab_size": 50000, "sliding_window": 512})");
  CHECK_FALSE(lower(windows, plan_of_release("4.52"), Rank{0}, DeviceTraits{}));
  CHECK(lower(windows, plan_of_release("4.53"), Rank{0}, DeviceTraits{}));
  const std::string t5 = R"({"model_type": "t5", "d_model": 768, "d_kv": 64, "d_ff": 3072,
    "num_layers": 2, "num_decoder_layers": 2, "num_heads": 12, "vocab_size": 32128)";
  ParallelPlan plan = plan_of_release("4.57");
  CHECK(lower(model_of((t5 + "}").c_str()), plan, Rank{0}, DeviceTraits{}));
  CHECK_FALSE(lower(model_of((t5 + R"(, "tie_word_embeddings": false})").c_str()), plan, Rank{0},
                    DeviceTraits{}));
  CHECK_FALSE(
      lower(model_of((t5 + "}").c_str()), plan_of_release("4.45"), Rank{0}, DeviceTraits{}));
  plan.recompute = Recompute::kFullReentrant;
  CHECK_FALSE(lower(model_of((t5 + "}").c_str()), plan, Rank{0}, DeviceTraits{}));
}

TEST_CASE("versions: steps of other families as their releases had them") {
  for (const RecordedStep& step : std::initializer_list<RecordedStep>{
           {"GPT-2 of 4.57 masks its scores with a buffer and divides them by a tensor",
            "4.57",
            AttentionKind::kEager,
            1100,
            kGpt2,
            {{"load", 165'899'264, 268'825'600},
             {"step1.forward", 1'313'317'376, 1'976'965'632},
             {"step1.backward", 392'344'576, 2'198'297'600},
             {"step2.backward", 707'439'616, 2'545'378'304}}},
           {"GPT-2's own loss until 4.47 left the logits narrow",
            "4.47",
            AttentionKind::kSdpa,
            1100,
            kGpt2,
            {{"load", 165'899'264, 268'825'600},
             {"step1.forward", 702'110'720, 1'144'172'032},
             {"step1.backward", 391'721'984, 1'143'952'896},
             {"step2.backward", 707'986'432, 1'490'437'632}}},
           {"BERT of 4.57 masks with what it makes of ones, and a layer returns the weights",
            "4.57",
            AttentionKind::kEager,
            1100,
            kWideBert,
            {{"load", 119'699'456, 182'614'016},
             {"step1.forward", 856'288'256, 990'585'344},
             {"step1.backward", 309'301'248, 1'124'882'432},
             {"step2.backward", 549'597'184, 1'399'201'792}}},
           {"BERT of 4.44 lets them go",
            "4.44",
            AttentionKind::kEager,
            1100,
            kWideBert,
            {{"load", 119'699'456, 182'614'016},
             {"step1.forward", 856'288'256, 990'585'344},
             {"step1.backward", 309'301'248, 1'124'882'432},
             {"step2.backward", 548'750'848, 1'398'267'904}}},
           {"T5 until 4.57 adds a bias with the mask in it to the scores",
            "4.57",
            AttentionKind::kSdpa,
            1024,
            kWideT5,
            {{"load", 118'247'424, 168'579'072},
             {"step1.forward", 1'775'653'888, 1'910'920'192},
             {"step1.backward", 311'140'352, 2'039'895'040},
             {"step2.backward", 550'322'176, 2'312'696'832}}},
           {"OPT of 4.57 fills a mask and hides padding in it",
            "4.57",
            AttentionKind::kEager,
            1100,
            kOpt,
            {{"load", 157'544'448, 260'501'504},
             {"step1.forward", 1'226'672'640, 1'890'386'432},
             {"step1.backward", 385'133'568, 2'111'652'864},
             {"step2.backward", 703'638'528, 2'463'880'192}}},
           {"Gemma 2 of 4.57 scales its embedding last and makes masks of windows",
            "4.57",
            AttentionKind::kSdpa,
            1100,
            kGemma2,
            {{"load", 195'054'080, 327'174'656},
             {"step1.forward", 1'456'508'416, 2'302'260'224},
             {"step1.backward", 458'764'800, 2'584'758'272},
             {"step2.backward", 844'800'512, 3'002'292'224}}},
           {"Falcon of 4.57 asks sdpa for causality",
            "4.57",
            AttentionKind::kSdpa,
            1100,
            kFalcon,
            {{"load", 176'697'856, 310'915'584},
             {"step1.forward", 1'257'447'936, 2'116'093'952},
             {"step1.backward", 419'455'488, 2'402'475'008},
             {"step2.backward", 774'977'024, 2'789'251'072}}},
           {"StableLM of 4.48 adds masks in place and has rotary tables in each layer",
            "4.48",
            AttentionKind::kEager,
            1100,
            kStablelm,
            {{"load", 259'544'576, 259'544'576},
             {"step1.forward", 1'382'434'304, 2'489'906'688},
             {"step1.backward", 586'756'608, 2'267'188'224},
             {"step2.backward", 1'103'988'736, 2'816'664'064}}}}) {
    CAPTURE(step.what);
    ParallelPlan plan = plan_of_release(step.version);
    plan.attention = step.attention;
    plan.workload.sequence = step.sequence;
    test::check_phases(model_of(step.config), plan, step.phases);
  }
}

}  // namespace headroom::ir
