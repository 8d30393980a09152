#include "model_ir/spec/hf_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "model_ir/json/json_writer.h"
#include "model_ir/spec/param_count.h"
#include "tests/support/cli.h"
#include "tests/support/model_of.h"
#include "tests/support/temporary_folder.h"

namespace headroom::ir {
namespace {

using test::model_of;

/// A small Llama, and what a test adds to it or puts in place of it.
std::string llama_config(std::string_view changes) {
  const auto base = parse_json(
      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
          "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 100})",
      "base");
  const auto change = parse_json("{" + std::string(changes) + "}", "changes");
  JsonValue::Object members = *base->as_object();
  for (const JsonMember& member : *change->as_object()) {
    bool replaced = false;
    for (JsonMember& old : members) {
      if (old.key == member.key) {
        old.value = member.value;
        replaced = true;
      }
    }
    if (!replaced) {
      members.push_back(member);
    }
  }
  return to_json(JsonValue(std::move(members)));
}

Error refusal(std::string_view text) {
  const Result<ModelSpec> model = parse_hf_config(text, "config.json");
  REQUIRE_FALSE(model);
  CHECK(model.error().code == ErrorCode::kInvalidInput);
  CHECK(model.error().file == "config.json");
  return model.error();
}

}  // namespace

TEST_CASE("hf_config: in no family is a null that stands for a default silent") {
  // Where null has a meaning of its own in transformers, or is how it writes an absent value.
  const std::set<std::string> own_meaning = {
      "pad_token_id",           "bos_token_id",    "eos_token_id",   "sep_token_id", "rope_scaling",
      "decoder_start_token_id", "rope_parameters", "sliding_window", "head_dim",     "q_lora_rank",
      "quantization_config",    "problem_type",    "layer_types"};
  const std::string path = test::source_file("tests/golden/configs/transformers-5.17.json");
  const auto golden = parse_json(read_file(path).value(), path);
  REQUIRE(golden);
  std::size_t noted = 0;
  for (const JsonValue& entry : *golden->find("cases")->as_array()) {
    const JsonValue::Object& whole = *entry.find("config")->as_object();
    for (const JsonMember& member : whole) {
      JsonValue::Object changed = whole;
      for (JsonMember& other : changed) {
        other.value = other.key == member.key ? JsonValue{} : other.value;
      }
      const auto read = inspect_hf_config(to_json(JsonValue{std::move(changed)}), "config.json");
      if (!read) {
        continue;  // Refused by name.
      }
      CAPTURE(*entry.find("name")->as_string());
      CAPTURE(member.key);
      const bool ignored =
          std::ranges::find(read->ignored_keys, "/" + member.key) != read->ignored_keys.end();
      const bool said = std::ranges::any_of(read->notes, [&](const std::string& note) {
        return note.starts_with("null is read") && note.find(member.key) != std::string::npos;
      });
      CHECK((ignored || said || own_meaning.contains(member.key)));
      noted += said ? 1U : 0U;
    }
  }
  CHECK(noted > 500);
}

TEST_CASE("hf_config: a null inside of an object that is read is said with its place") {
  const auto read = inspect_hf_config(
      R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 64,
          "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 8,
          "num_key_value_heads": 4, "vocab_size": 100, "hidden_activation": null,
          "rms_norm_eps": null, "max_position_embeddings": null}})",
      "config.json");
  REQUIRE(read);
  REQUIRE_FALSE(read->notes.empty());
  CHECK(std::ranges::any_of(read->notes, [](const std::string& note) {
    return note.find("text_config/max_position_embeddings") != std::string::npos;
  }));
}

TEST_CASE("hf_config: a Llama reads with the defaults of its class") {
  const ModelSpec model = model_of(llama_config(""));
  CHECK(model.name == "config.json");
  CHECK(model.family == Family::kLlama);
  CHECK(model.head_dim == 8);
  CHECK(model.kv_heads == 4);
  CHECK(model.max_positions == 2048);
  CHECK(model.layers.size() == 2);
  CHECK_FALSE(model.tied_embeddings);
  CHECK_FALSE(model.qkv_bias);
  CHECK(model.checkpoint_dtype == DType::kFp32);
  CHECK(model.activation == Activation::kSilu);
  CHECK(model.dropout == DropoutSpec{});
  CHECK_FALSE(model.layers[0].window);
}

TEST_CASE("hf_config: configurations from before grouped queries have as many KV heads as heads") {
  const std::string text =
      R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100,
          "num_attention_heads": 8, "pretraining_tp": 1, "rope_scaling": null})";
  CHECK(model_of(text).kv_heads == 8);
  CHECK(model_of(llama_config(R"("num_key_value_heads": null)")).kv_heads == 8);
}

TEST_CASE("hf_config: dtype and torch_dtype, the newer one first") {
  CHECK(model_of(llama_config(R"("torch_dtype": "float16")")).checkpoint_dtype == DType::kFp16);
  CHECK(model_of(llama_config(R"("dtype": "bfloat16")")).checkpoint_dtype == DType::kBf16);
  CHECK(
      model_of(llama_config(R"("torch_dtype": "float16", "dtype": "bfloat16")")).checkpoint_dtype ==
      DType::kBf16);
  CHECK(refusal(llama_config(R"("torch_dtype": "int4")")).pointer == "/torch_dtype");
}

TEST_CASE("hf_config: heads that do not divide are refused as the style asks") {
  const Error error =
      refusal(llama_config(R"("num_attention_heads": 64, "num_key_value_heads": 7)"));
  CHECK(to_text(error) ==
        "error: config.json: /num_key_value_heads: got 7, expected a divisor of "
        "num_attention_heads (64)\n  fix: use 1, 2, 4, 8, 16, 32 or 64");
  CHECK(refusal(llama_config(R"("num_attention_heads": 6, "num_key_value_heads": 2)")).pointer ==
        "/num_attention_heads");
  CHECK(
      refusal(llama_config(R"("num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8)"))
          .pointer == "/num_attention_heads");
}

TEST_CASE("hf_config: impossible dimensions are refused by key and value") {
  struct Fault {
    const char* change;
    const char* pointer;
    const char* got;
  };
  const std::vector<Fault> faults = {
      {R"("hidden_size": -64)", "/hidden_size", "-64"},
      {R"("hidden_size": 0)", "/hidden_size", "0"},
      {R"("hidden_size": "64")", "/hidden_size", "\"64\""},
      {R"("hidden_size": 64.5)", "/hidden_size", "64.5"},
      {R"("hidden_size": null)", "/hidden_size", "null"},
      {R"("hidden_size": [64])", "/hidden_size", "an array of 1"},
      {R"("hidden_size": 4611686018427387904)", "/hidden_size", "4611686018427387904"},
      {R"("hidden_size": 9223372036854775808)", "/hidden_size", "9223372036854775808"},
      {R"("num_hidden_layers": 4097)", "/num_hidden_layers", "4097"},
      {R"("num_hidden_layers": true)", "/num_hidden_layers", "true"},
      {R"("vocab_size": 134217729)", "/vocab_size", "134217729"},
      {R"("intermediate_size": 16777217)", "/intermediate_size", "16777217"},
      {R"("num_key_value_heads": 0)", "/num_key_value_heads", "0"},
      {R"("head_dim": 7)", "/head_dim", "7"},
      {R"("hidden_size": 24)", "/num_attention_heads", "8"},
      {R"("attention_dropout": 1.5)", "/attention_dropout", "1.5"},
      {R"("attention_dropout": "none")", "/attention_dropout", "\"none\""},
      {R"("hidden_act": "sine")", "/hidden_act", "\"sine\""},
      {R"("tie_word_embeddings": 1)", "/tie_word_embeddings", "1"},
      {R"("attention_bias": "false")", "/attention_bias", "\"false\""},
      {R"("per_layer_config": {"0": {}})", "/per_layer_config", "an object"},
  };
  for (const Fault& fault : faults) {
    CAPTURE(fault.change);
    const Error error = refusal(llama_config(fault.change));
    CHECK(error.pointer == fault.pointer);
    CHECK(error.got.substr(0, 5) == std::string(fault.got).substr(0, 5));
    CHECK_FALSE(error.wanted.empty());
  }
}

TEST_CASE("hf_config: products that could overflow are refused although each factor is allowed") {
  CHECK(refusal(llama_config(R"("num_attention_heads": 16777216, "hidden_size": 16777216,
                         "num_key_value_heads": 1, "head_dim": 16777216)"))
            .wanted.find("2^24") != std::string::npos);
  CHECK(refusal(llama_config(R"("hidden_size": 16777216, "vocab_size": 134217728)"))
            .wanted.find("2^50") != std::string::npos);
  CHECK(refusal(llama_config(R"("hidden_size": 16777216, "intermediate_size": 16777216,
                         "num_hidden_layers": 4096)"))
            .wanted.find("2^50") != std::string::npos);
  CHECK(refusal(R"({"model_type": "mixtral", "hidden_size": 16777216, "num_hidden_layers": 1,
                    "num_attention_heads": 8, "vocab_size": 9, "intermediate_size": 16777216,
                    "num_local_experts": 16384})")
            .wanted.find("2^50") != std::string::npos);
  CHECK(refusal(R"({"model_type": "deepseek_v3", "hidden_size": 64, "num_hidden_layers": 9,
                    "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 9,
                    "moe_intermediate_size": 16777216, "n_shared_experts": 16384})")
            .wanted.find("2^24") != std::string::npos);
}

TEST_CASE("hf_config: every size that is missing is named at once") {
  const Error error = refusal(R"({"model_type": "qwen2"})");
  CHECK(error.pointer == "/hidden_size");
  CHECK(error.got == "nothing");
  REQUIRE(error.notes.size() >= 3);
  CHECK(error.notes[0].find("/num_attention_heads") != std::string::npos);
  CHECK(error.notes[1].find("/num_hidden_layers") != std::string::npos);
  CHECK(error.notes[2].find("/vocab_size") != std::string::npos);
  CHECK(refusal(R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "vocab_size": 9})").pointer ==
        "/n_embd");
}

TEST_CASE("hf_config: an unknown model_type names its neighbour, or how to force a family") {
  const Error error = refusal(llama_config(R"("model_type": "lama")"));
  CHECK(error.pointer == "/model_type");
  CHECK(error.fix.starts_with("if llama is meant: --as llama"));
  const Error far = refusal(llama_config(R"("model_type": "rwkv")"));
  CHECK(far.fix.find("--as FAMILY") != std::string::npos);
  CHECK(refusal(R"({"hidden_size": 64})").pointer == "/model_type");
  CHECK(refusal(llama_config(R"("model_type": 5)")).pointer == "/model_type");
}

TEST_CASE("hf_config: the message about an unknown model_type says which family has such keys") {
  struct Unknown {
    const char* text;
    const char* fix;
  };
  for (const Unknown& one : {
           Unknown{
               R"({"model_type": "smollm3", "num_key_value_heads": 4, "intermediate_size": 11008,
                       "rms_norm_eps": 1e-6, "layer_types": ["full_attention"]})",
               "its keys are those of llama: if its layers are, too, --as llama"},
           Unknown{R"({"model_type": "ernie_vl", "vision_config": {}, "text_config": {
                       "num_experts": 128, "moe_intermediate_size": 768,
                       "num_key_value_heads": 4}})",
                   "its keys are those of qwen3_moe: if its layers are, too, --as qwen3_moe"},
           Unknown{R"({"model_type": "qwen3_next", "num_experts": 512,
                       "layer_types": ["linear_attention", "full_attention"],
                       "linear_num_key_heads": 16})",
                   "no known family has linear_attention, linear_num_key_heads, so that --as would "
                   "answer for another model"},
           // Near in name, but with layers that the near family has not.
           Unknown{R"({"model_type": "qwen3_5", "text_config": {"layer_types":
                       ["linear_attention"]}})",
                   "no known family has linear_attention, so that --as would answer for another"},
           Unknown{R"({"model_type": "llama4", "text_config": {"num_local_experts": 16,
                       "num_experts_per_tok": 1, "num_key_value_heads": 8}})",
                   "its keys are those of mixtral: if its layers are, too, --as mixtral"},
           Unknown{R"({"model_type": "mistral3", "text_config": {"num_key_value_heads": 8,
                       "intermediate_size": 32768, "rms_norm_eps": 1e-5}})",
                   "if mistral is meant: --as mistral"},
           // Experts, but under keys that no family of experts has.
           Unknown{R"({"model_type": "glm4_moe", "n_routed_experts": 128, "num_key_value_heads": 8,
                       "intermediate_size": 10944, "rms_norm_eps": 1e-5})",
                   "only if its layers are those of a known family: --as FAMILY"},
           Unknown{R"({"model_type": "rwkv7"})",
                   "only if its layers are those of a known family: --as FAMILY"},
           Unknown{R"({"model_type": "x1", "layer_types": [3, null]})",
                   "only if its layers are those of a known family: --as FAMILY"},
       }) {
    CAPTURE(one.text);
    const Result<ModelSpec> model = parse_hf_config(
        one.text, "config.json", {.as = {}, .name = "", .families = "/no/recordings"});
    REQUIRE_FALSE(model);
    CHECK(model.error().pointer == "/model_type");
    CHECK(model.error().fix.starts_with(one.fix));
  }
}

TEST_CASE("hf_config: a family can be forced") {
  const HfConfigOptions as_mistral{.as = Family::kMistral, .name = "mine"};
  const ModelSpec model =
      parse_hf_config(llama_config(R"("model_type": "brand_new")"), "config.json", as_mistral)
          .value();
  CHECK(model.family == Family::kMistral);
  CHECK(model.name == "mine");
  CHECK(model.layers[1].window == 4096);
  const std::string nested =
      R"({"model_type": "some_vl", "text_config": )" + llama_config("") + "}";
  CHECK(parse_hf_config(nested, "config.json", {.as = Family::kLlama, .name = {}})->hidden == 64);
}

TEST_CASE("hf_config: keys without influence are listed") {
  const HfConfig config =
      inspect_hf_config(llama_config(R"("eos_token_id": 2, "bos_token_id": 1, "mlp_bias": true)"),
                        "config.json")
          .value();
  CHECK(config.ignored_keys == std::vector<std::string>{"/eos_token_id", "/bos_token_id"});
  CHECK(config.model.mlp_bias);
}

TEST_CASE("hf_config: quantised weights are read, other towers are left out, and it is said") {
  const HfConfig config =
      inspect_hf_config(
          llama_config(R"("quantization_config": {"quant_method": "gptq", "bits": 4})"),
          "config.json")
          .value();
  CHECK(config.notes.empty());
  REQUIRE(config.quantisation);
  CHECK(config.quantisation->method == QuantMethod::kGptq);
  CHECK(config.ignored_keys.empty());
  const HfConfig tower =
      inspect_hf_config(llama_config(R"("vision_config": {"hidden_size": 8})"), "config.json")
          .value();
  REQUIRE(tower.notes.size() == 1);
  CHECK(tower.notes[0].starts_with("the answer is for the language model alone"));
  CHECK(
      inspect_hf_config(llama_config(R"("mlp_bias": true)"), "config.json").value().notes.empty());
}

TEST_CASE("hf_config: two names of one field must agree") {
  const std::string start = R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "vocab_size": 9,)";
  CHECK(model_of(start + R"("n_embd": 8, "hidden_size": 8})").hidden == 8);
  CHECK(refusal(start + R"("n_embd": 8, "hidden_size": 16})").pointer == "/hidden_size");
}

TEST_CASE("hf_config: windows follow layer_types, and need a window") {
  const std::string qwen = R"({"model_type": "qwen2", "hidden_size": 64, "num_attention_heads": 8,
      "num_key_value_heads": 4, "num_hidden_layers": 2, "vocab_size": 9, )";
  const ModelSpec model = model_of(qwen + R"("use_sliding_window": true, "sliding_window": 16,
      "layer_types": ["full_attention", "sliding_attention"]})");
  CHECK_FALSE(model.layers[0].window);
  CHECK(model.layers[1].window == 16);
  CHECK(refusal(qwen + R"("layer_types": ["full_attention"]})").pointer == "/layer_types");
  CHECK(refusal(qwen + R"("layer_types": ["full_attention", "conv"]})").pointer == "/layer_types");
  CHECK(refusal(qwen + R"("layer_types": ["full_attention", "sliding_attention"]})").pointer ==
        "/sliding_window");
  // A value for a window that is switched off does not matter.
  CHECK_FALSE(model_of(qwen + R"("sliding_window": 0})").layers[0].window);
}

TEST_CASE("hf_config: what would change tensors and is not modelled is refused") {
  CHECK(refusal(R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 9,
                    "add_cross_attention": true})")
            .pointer == "/add_cross_attention");
  CHECK(refusal(R"({"model_type": "opt", "hidden_size": 8, "num_hidden_layers": 1, "vocab_size": 9,
                    "num_attention_heads": 2, "layer_norm_elementwise_affine": false})")
            .pointer == "/layer_norm_elementwise_affine");
}

TEST_CASE("hf_config: structure of the families that differ most") {
  const std::string sizes = R"("hidden_size": 64, "num_attention_heads": 8, "num_hidden_layers": 6,
      "vocab_size": 100})";
  const ModelSpec gemma = model_of(R"({"model_type": "gemma3_text", "num_key_value_heads": 4,
      "sliding_window": 32, )" + sizes);
  CHECK(gemma.norm == NormKind::kRmsGemma);
  CHECK(gemma.norm_placement == NormPlacement::kSandwich);
  CHECK(gemma.embedding_scale == 8);
  CHECK(gemma.local_rope);
  CHECK(gemma.layers[4].window == 32);
  CHECK_FALSE(gemma.layers[5].window);

  const ModelSpec neox = model_of(R"({"model_type": "gpt_neox", )" + sizes);
  CHECK(neox.residual == ResidualForm::kParallelTwoNorms);
  CHECK(neox.rope_fraction == 0.25);
  CHECK(neox.qkv == QkvLayout::kFused);

  const ModelSpec cohere = model_of(R"({"model_type": "cohere", "use_qk_norm": true, )" + sizes);
  CHECK(cohere.norm == NormKind::kLayerNoBias);
  CHECK(cohere.residual == ResidualForm::kParallelOneNorm);
  CHECK(cohere.qk_norm == QkNorm::kPerHeadWeights);
  CHECK(cohere.logit_scale == 0.0625);

  const ModelSpec bert = model_of(R"({"model_type": "bert", )" + sizes);
  CHECK(bert.architecture == Architecture::kMaskedLm);
  CHECK(bert.norm_placement == NormPlacement::kPost);
  CHECK(bert.position_rows == 512);
  CHECK(bert.dropout.residual == 0.1);
  CHECK_FALSE(bert.final_norm);

  const ModelSpec granite =
      model_of(R"({"model_type": "granite", "logits_scaling": 8.0, )" + sizes);
  CHECK(granite.scales_embedding);
  CHECK(granite.logit_scale == 0.125);
  CHECK(refusal(R"({"model_type": "granite", "logits_scaling": 0, )" + sizes).pointer ==
        "/logits_scaling");
}

TEST_CASE("hf_config: agrees with transformers on every golden configuration") {
  const std::string path =
      std::string(HEADROOM_SOURCE_DIR) + "/tests/golden/configs/transformers-5.17.json";
  const auto document = parse_json(read_file(path).value(), path);
  REQUIRE(document);
  const JsonValue::Array& cases = *document->find("cases")->as_array();
  CHECK(cases.size() >= 150);
  for (const JsonValue& item : cases) {
    const std::string name = *item.find("name")->as_string();
    CAPTURE(name);
    const auto model = parse_hf_config(to_json(*item.find("config")), name);
    REQUIRE_MESSAGE(model, to_text(model.error()));
    const JsonValue& expected = *item.find("expected");
    CHECK(count_parameters(*model).total() == expected.find("parameters")->as_integer());
    CHECK(model->hidden == expected.find("hidden")->as_integer());
    CHECK(model->heads == expected.find("heads")->as_integer());
    CHECK(model->vocabulary == expected.find("vocabulary")->as_integer());
    CHECK(model->tied_embeddings == expected.find("tied")->as_bool());
    const JsonValue::Array& blocks = *expected.find("blocks")->as_array();
    REQUIRE(model->layers.size() == blocks.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const LayerSpec& layer = model->layers[i];
      // T5 keeps its table of relative positions in the first block.
      const std::int64_t table = i == 0 ? model->relative_buckets * model->heads : 0;
      CHECK(layer_parameters(*model, layer).total() + table == blocks[i].as_integer());
      CHECK(layer.moe == (*expected.find("moe")->as_array())[i].as_bool());
      CHECK(layer.window == (*expected.find("windows")->as_array())[i].as_integer());
    }
  }
}

TEST_CASE("hf_config: a file, a folder and nothing at all") {
  const test::TemporaryFolder folder;
  CHECK(read_hf_config(folder.write("config.json", llama_config("")))->hidden == 64);
  CHECK(read_hf_config(folder.path()).error().code == ErrorCode::kEnvironment);
  CHECK(read_hf_config(folder.path("absent.json")).error().code == ErrorCode::kEnvironment);
  CHECK(read_hf_config(folder.write("empty.json", "")).error().code == ErrorCode::kInvalidInput);
}

TEST_CASE("property: hf_config answers any damaged configuration without a crash") {
  const std::string path =
      std::string(HEADROOM_SOURCE_DIR) + "/tests/golden/configs/transformers-5.17.json";
  const auto document = parse_json(read_file(path).value(), path);
  REQUIRE(document);
  const JsonValue::Array& cases = *document->find("cases")->as_array();
  const std::vector<std::string> values = {
      "-1",     "0",    "1",     "3",    "16777216", "16777217", "4611686018427387904",
      "1e300",  "0.5",  "[]",    "null", "{}",       "\"text\"", "true",
      "[1, 2]", "-0.0", "1e-320"};
  constexpr unsigned kSeed = 20240917;
  CAPTURE(kSeed);
  std::mt19937 random(kSeed);  // Its numbers are the same everywhere; distributions' are not.
  const auto below = [&random](std::size_t limit) { return random() % limit; };
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 4'000; ++round) {
    JsonValue config = *cases[below(cases.size())].find("config");
    JsonValue::Object& members = *config.as_object();
    for (std::size_t change = 0; change <= below(3); ++change) {
      members[below(members.size())].value =
          std::move(parse_json(values[below(values.size())], "value")).value();
    }
    std::string text = to_json(config);
    if (below(4) == 0) {
      text[below(text.size())] = static_cast<char>(random() % 256);
    }
    if (below(8) == 0) {
      text.resize(below(text.size()));
    }
    CAPTURE(text);
    const Result<ModelSpec> model = parse_hf_config(text, "config.json");
    if (model) {
      ++accepted;
      const ParameterCount count = count_parameters(*model);
      CHECK(count.total() > 0);
      CHECK(count.total() <= std::int64_t{1} << 52);
      CHECK(count.active() > 0);
    } else {
      ++refused;
      CHECK_FALSE(model.error().got.empty());
      CHECK_FALSE(model.error().wanted.empty());
    }
  }
  CHECK(accepted > 150);
  CHECK(refused > 300);
}

TEST_CASE("family: names and families are one to one, in the order of the enumeration") {
  CHECK(kFamilies.size() == 27);
  for (std::size_t i = 0; i < kFamilies.size(); ++i) {
    CHECK(static_cast<std::size_t>(kFamilies[i]) == i);
    CHECK(parse_family(name_of(kFamilies[i])) == kFamilies[i]);
    CHECK(family_names()[i] == name_of(kFamilies[i]));
  }
  CHECK(parse_family("gpt-sw3") == Family::kGpt2);
  CHECK_FALSE(parse_family("LLAMA"));
}

TEST_CASE("hf_config: rotary embeddings, by the names of old and of new files") {
  const auto read = [](const std::string& keys) {
    return inspect_hf_config(llama_config(keys), "config.json").value().model.rotary;
  };
  CHECK(read(R"("mlp_bias": false)") == RotarySpec{});
  const RotarySpec old = read(
      R"("rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
         "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 8192})");
  CHECK(old == RotarySpec{.base = 500000.0,
                          .scaling = RotaryScaling::kLlama3,
                          .factor = 8,
                          .trained_positions = 8192});
  CHECK(read(R"("rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", "factor": 8.0,
                "original_max_position_embeddings": 8192})") == old);
  const RotarySpec yarn = read(R"("rope_scaling": {"type": "yarn", "factor": 32, "mscale": 0.7,
         "beta_fast": 1.0, "original_max_position_embeddings": 4096})");
  CHECK(yarn.scaling == RotaryScaling::kYarn);
  CHECK(yarn.mscale == 0.7);
  CHECK_FALSE(yarn.usual_bounds);
  // An object without a type leaves what another one has said.
  CHECK(read(R"("rope_scaling": {"type": "linear", "factor": 2},
                "rope_parameters": {"rope_theta": 7.0})")
            .scaling == RotaryScaling::kLinear);
  CHECK(read(R"("rope_scaling": {"type": "dynamic", "factor": 2})").scaling ==
        RotaryScaling::kOther);
  CHECK(inspect_hf_config(llama_config(R"("rms_norm_eps": 1e-6)"), "config.json")
            .value()
            .model.norm_epsilon == 1e-6);
}

TEST_CASE("hf_config: a type of its own is read as the class that architectures names") {
  CHECK(parse_family_class("DeepseekV3ForCausalLM") == Family::kDeepseekV3);
  CHECK(parse_family_class("Qwen2MoeForCausalLM") == Family::kQwen2Moe);
  CHECK_FALSE(parse_family_class("MiMoForCausalLM"));
  CHECK_FALSE(parse_family_class("DeepseekV3Model"));
  CHECK_FALSE(parse_family_class("ForCausalLM"));
  const auto read = [](const std::string& classes) {
    return inspect_hf_config(R"({"model_type": "kimi_k2", "hidden_size": 64, "vocab_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 96,
        "architectures": )" + classes +
                                 "}",
                             "config.json", {});
  };
  const Result<HfConfig> named = read(R"(["LlamaForCausalLM"])");
  REQUIRE(named);
  CHECK(named->model.family == Family::kLlama);
  REQUIRE(named->notes.size() == 1);
  CHECK(named->notes[0].find("kimi_k2; it is read as llama") != std::string::npos);
  CHECK_FALSE(read(R"(["LlamaForCausalLM", "GemmaForCausalLM"])"));
  CHECK_FALSE(read(R"(["OwnForCausalLM"])"));
  CHECK_FALSE(read("7"));
}

}  // namespace headroom::ir
