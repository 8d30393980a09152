// Recordings of families: sizes, rules and defaults from a configuration, and that the recording of
// a family says of one of its models what that model's own recording says. The latter,
// tests/golden/recordings/smollm3.json, was recorded with PyTorch 2.11.0 and transformers 5.17.0 by
// headroom import; no configuration of it was used for configs/families/smollm3.json.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/param_count.h"
#include "model_ir/spec/recorded_family/code_unroller.h"
#include "model_ir/spec/recorded_family/config_values.h"
#include "model_ir/spec/recorded_family/dimension_expression.h"
#include "model_ir/spec/recorded_family/expansion_sizes.h"
#include "model_ir/spec/recorded_family/family_expansion.h"
#include "model_ir/spec/recorded_family/family_match.h"
#include "model_ir/spec/recorded_family/layer_rule.h"
#include "model_ir/spec/recorded_family/recorded_families.h"
#include "model_ir/spec/recording/recorded_spec.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"
#include "tests/support/random.h"

namespace headroom::ir {
namespace {

const std::string kFamily = HEADROOM_SOURCE_DIR "/configs/families/smollm3.json";
const std::string kOwn = HEADROOM_SOURCE_DIR "/tests/golden/recordings/smollm3.json";

/// Types whose default configuration builds no model in transformers, or leads to code that was not
/// recorded.
const std::vector<std::string> kWithoutDefaults = {
    "dbrx",           "dots1",    "esm",      "glm4v",    "hunyuan_v1_dense",
    "hunyuan_v1_moe", "idefics3", "kimi_k25", "lfm2_moe", "m2m_100",
    "ministral",      "nemotron", "smolvlm"};

JsonValue json(std::string_view text) {
  return parse_json(text, "json").value();
}

/// The configuration of the golden recording, with `more` keys.
std::string config_text(const std::string& more = "") {
  return R"({"model_type": "smollm3", "hidden_size": 256, "intermediate_size": 704,
             "num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 2,
             "vocab_size": 130000)" +
         more + "}";
}

/// The size as text.
std::string size(std::string_view expression) {
  const JsonValue config = json(R"({"h": 256, "a": 8, "k": 2, "part": {"d": 48}, "name": "x"})");
  const JsonValue keys = json("{}");
  const ConfigValues values(config, keys);
  const auto found = size_of(expression, values.dimensions());
  return found ? to_json(*found) : "none";
}

/// The label of a layer among eight.
std::string label(std::string_view by, std::int64_t index) {
  const JsonValue config = json(R"({"kinds": ["a", "a", "b", "b", "a", "a", "b", "b"], "dense": 3,
                                    "every": 4, "some": [1, 6]})");
  const JsonValue keys = json("{}");
  const ConfigValues values(config, keys);
  const auto found = layer_label(json(by), values.lookup(), {.index = index, .count = 8});
  return found ? to_json(json(*found)) : "none";
}

/// Replaces the numbers of templates and bodies by the templates and bodies themselves.
void set_inline(JsonValue& value, const JsonValue::Array& gradients,
                const JsonValue::Array& bodies) {
  if (JsonValue::Array* const list = value.as_array()) {
    for (JsonValue& one : *list) {
      set_inline(one, gradients, bodies);
    }
  } else if (JsonValue::Object* const members = value.as_object()) {
    for (JsonMember& one : *members) {
      const auto index = static_cast<std::size_t>(one.value.as_integer().value_or(-1));
      if (one.key == "gradient") {
        one.value = JsonValue(gradients.at(index));
      } else if (one.key == "body") {
        one.value = JsonValue(bodies.at(index));
        set_inline(one.value, gradients, bodies);
      } else {
        set_inline(one.value, gradients, bodies);
      }
    }
  }
}

/// What a recording says of a model, whatever the order of its tables.
std::vector<std::string> said_by(const JsonValue& recording) {
  std::vector<std::string> said;
  for (const char* const key : {"modules", "parameters", "buffers"}) {
    said.push_back(to_json(*recording.find(key)));
  }
  const JsonValue::Array& gradients = *recording.find("gradients")->as_array();
  for (const JsonValue& variant : *recording.find("variants")->as_array()) {
    JsonValue own = variant;
    set_inline(own, gradients, *variant.find("bodies")->as_array());
    for (const JsonMember& member : *own.as_object()) {
      if (member.key != "bodies") {
        said.push_back(member.key + to_json(member.value));
      }
    }
  }
  return said;
}

Error refused(const std::string& config) {
  const Result<ModelSpec> model = parse_hf_config(config, "config.json");
  REQUIRE_FALSE(model);
  return model.error();
}

}  // namespace

TEST_CASE("recorded family: sizes are sums of products of dimensions, B and S") {
  CHECK(size("7") == "7");
  CHECK(size("h") == "256");
  CHECK(size("h/a") == "32");
  CHECK(size("h*k/a") == "64");
  CHECK(size("2*part.d*B*S + h") == "\"96*B*S + 256\"");
  CHECK(size("h*B*ceil(S/64) - a") == "\"256*B*ceil(S/64) - 8\"");
  CHECK(size("h - 32*a") == "0");
  CHECK(size("B*S - k") == "\"B*S - 2\"");
  CHECK(size("a*B - 8*B + k") == "2");
}

TEST_CASE("recorded family: what is no whole number with this configuration is none") {
  CHECK(size("h/part.d") == "none");
  CHECK(size("missing*B") == "none");
  CHECK(size("name") == "none");
  CHECK(size("h*h*h*h*h*h*h*h") == "none");
  CHECK(size("h/0") == "none");
  CHECK(size("") == "none");
  CHECK(size("99999999999999999999") == "none");
}

TEST_CASE("recorded family: features tell the kinds of layers") {
  CHECK(label("[]", 0) == "[]");
  CHECK(label(R"([["list", "kinds"]])", 2) == R"(["b"])");
  CHECK(label(R"([["below", "dense"], ["multiple", "every", 1]])", 3) == "[false, true]");
  CHECK(label(R"([["multiple", 3, 0]])", 6) == "[true]");
  CHECK(label(R"([["in", "some"]])", 6) == "[true]");
  CHECK(label(R"([["in", "some"]])", 5) == "[false]");
  CHECK(label(R"([["first"], ["last"]])", 7) == "[false, true]");
  CHECK(label(R"([["list", "kinds"]])", 8) == "none");
  CHECK(label(R"([["below", "kinds"]])", 1) == "none");
  CHECK(label(R"([["other", "kinds"]])", 1) == "none");
}

TEST_CASE("recorded family: defaults are constants, expressions and rules for lists") {
  const JsonValue keys = json(R"({"defaults": {"a": 8, "d": {"expression": "h/a"},
      "every": 2, "count": 5, "eps": 0.5, "unset": null,
      "kinds": {"by": [["multiple", "every", 0]], "values": [[[true], "x"], [[false], "y"]],
                "count": "count"}},
      "aliases": {"hidden_size": "h"}})");
  const JsonValue config = json(R"({"hidden_size": 96, "d": null, "count": 3,
                                    "rope_scaling": {"type": "yarn"},
                                    "partial_rotary_factor": 0.4})");
  const ConfigValues values(config, keys);
  CHECK(values.number("h") == 96);
  CHECK(values.number("a") == 8);
  CHECK(values.number("d") == 12);
  CHECK(to_json(values.at("kinds").value()) == R"(["x", "y", "x"])");
  CHECK(to_json(values.at("rope_parameters.rope_type").value()) == "\"yarn\"");
  CHECK(values.at("rope_parameters.partial_rotary_factor")->as_number() == 0.4);
  CHECK(values.at("unset")->is_null());
  CHECK_FALSE(values.at("other"));
  CHECK_FALSE(values.number("eps"));
}

TEST_CASE(
    "recorded family: a list of numbers of layers makes the list by layer, or the usual one") {
  const JsonValue keys = json(R"({"defaults": {"layers": 3, "kinds": {
      "by": [["in", "attends"]], "values": [[[true], "attention"], [[false], "conv"]],
      "count": "layers",
      "otherwise": {"by": [], "values": [[[], "attention"]], "count": "layers"}}}})");
  const auto kinds = [&keys](const char* text) {
    const JsonValue config = json(text);
    return to_json(ConfigValues(config, keys).at("kinds").value());
  };
  CHECK(kinds(R"({"attends": [1]})") == to_json(json(R"(["conv", "attention", "conv"])")));
  CHECK(kinds(R"({"attends": []})") == to_json(json(R"(["conv", "conv", "conv"])")));
  const std::string usual = to_json(json(R"(["attention", "attention", "attention"])"));
  CHECK(kinds("{}") == usual);
  CHECK(kinds(R"({"attends": null})") == usual);
}

TEST_CASE("recorded family: published configurations that name layers by number are answered") {
  // https://huggingface.co/LiquidAI/LFM2-1.2B states 1,170,340,608 parameters (safetensors).
  const std::string config = R"({"model_type": "lfm2", "block_auto_adjust_ff_dim": true,
      "block_dim": 2048, "block_ff_dim": 12288, "block_ffn_dim_multiplier": 1.0,
      "block_multiple_of": 256, "conv_L_cache": 3, "conv_bias": false,
      "full_attn_idxs": [2, 5, 8, 10, 12, 14], "hidden_size": 2048,
      "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
      "max_position_embeddings": 128000, "rope_theta": 1000000.0, "vocab_size": 65536})";
  const auto model = parse_hf_config(config, "config.json");
  REQUIRE(model);
  CHECK(count_parameters(*model).total() == 1'170'340'608);
}

TEST_CASE("recorded family: it says of a model what the model's own recording says") {
  const JsonValue family = parse_json(read_file(kFamily).value(), kFamily).value();
  const JsonValue own = parse_json(read_file(kOwn).value(), kOwn).value();
  const JsonValue made =
      expand_family(family, kFamily, json(config_text()), "config.json").value().recording;
  const std::vector<std::string> expected = said_by(own);
  const std::vector<std::string> said = said_by(made);
  REQUIRE(said.size() == expected.size());
  for (std::size_t at = 0; at < said.size(); ++at) {
    CAPTURE(at);
    CHECK(said[at] == expected[at]);
  }
  CHECK(count_parameters(parse_hf_config(config_text(), "config.json").value()).total() ==
        count_parameters(read_hf_config(kOwn).value()).total());
}

TEST_CASE("recorded family: later code names values of all layers, or of all but the last") {
  const JsonValue config = json("{}");
  const JsonValue keys = json("{}");
  const ConfigValues values(config, keys);
  const auto unrolled = [&](const std::vector<LayerStack>& stacks, const std::string& last) {
    ExpansionSizes sizes(values, "family.json", "config.json");
    JsonValue code = json(
        R"([["each", 0, {"first": [0], "first_drops": [], "kinds": [
              {"code": [["layer", "i", ["<0"], [5]]], "hands": [5], "drops": []}]}, [6]], )" +
        last + "]");
    const JsonValue::Array made = CodeUnroller(stacks, sizes, 1).run(code);
    return sizes.fault() ? sizes.fault()->got : to_json(made.back());
  };
  const std::vector<LayerStack> three = {{.path = "layers", .kinds = {0, 0, 0}}};
  CHECK(unrolled(three, R"(["drop", "each 6"])") == to_json(json(R"(["drop", 1, 2, 3])")));
  CHECK(unrolled(three, R"(["drop", "back 6"])") == to_json(json(R"(["drop", 3, 2, 1])")));
  CHECK(unrolled(three, R"(["drop", 0, "most 6"])") == to_json(json(R"(["drop", 0, 1, 2])")));
  const std::vector<LayerStack> one = {{.path = "layers", .kinds = {0}}};
  CHECK(unrolled(one, R"(["drop", 0, "most 6"])") == to_json(json(R"(["drop", 0])")));
  CHECK(unrolled(three, R"(["drop", "most 7"])").find("loop") != std::string::npos);
  CHECK(unrolled(three, R"(["drop", "most "])").find("no loop") != std::string::npos);
}

TEST_CASE("recorded family: a configuration whose code was not recorded is refused by its key") {
  const Error bias = refused(config_text(R"(, "attention_bias": true)"));
  CHECK(bias.pointer == "/attention_bias");
  CHECK(bias.got == "true");
  CHECK(bias.fix.find("headroom import") != std::string::npos);
  CHECK(refused(config_text(R"(, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0})")).got ==
        "\"dynamic\"");
  CHECK(refused(config_text(R"(, "layer_types": ["sliding_attention"])")).pointer ==
        "/layer_types");
  CHECK(refused(config_text(R"(, "no_rope_layers": [1, 1, 1, 1, 7])")).pointer ==
        "/no_rope_layers");
  CHECK(refused(R"({"model_type": "smollm3", "num_attention_heads": 4})").pointer ==
        "/num_attention_heads");
  CHECK(
      refused(config_text(R"(, "architectures": ["SmolLM3ForSequenceClassification"])")).pointer ==
      "/architectures");
  CHECK(refused(R"({"model_type": "smollm3", "num_hidden_layers": 0})").pointer ==
        "/num_hidden_layers");
}

TEST_CASE("recorded family: keys that the recording does not know are never taken for granted") {
  // Code that asks for config.head_dim, which the configurations do not declare.
  CHECK(refused(config_text(R"(, "head_dim": 64)")).pointer == "/head_dim");
  CHECK(parse_hf_config(config_text(R"(, "head_dim": 32)"), "config.json"));
  CHECK(refused(config_text(R"(, "layer_types": "full_attention")")).pointer == "/layer_types");
  const auto read = inspect_hf_config(config_text(R"(, "hiden_size": 1)"), "config.json");
  REQUIRE(read);
  CHECK(read->ignored_keys == std::vector<std::string>{"/hiden_size"});
}

TEST_CASE("recorded family: an absent key without a known default is not the recorded value") {
  const JsonValue config = json(R"({"h": 8})");
  const JsonValue keys = json(R"({"fixed": {"d": 128}})");
  const Status status = check_family(keys, ConfigValues(config, keys), "config.json");
  REQUIRE_FALSE(status);
  CHECK(status.error().pointer == "/d");
  CHECK(status.error().got == "nothing");
  const JsonValue none = json(R"({"fixed": {"d": null}})");
  CHECK(check_family(none, ConfigValues(config, none), "config.json"));
}

TEST_CASE("recorded family: a list that no rule reads must be the one that transformers makes") {
  const JsonValue keys = json(R"({"lists": {"kinds": {"made": true}, "other": {"made": true}},
      "defaults": {"count": 3, "kinds": {"by": [["first"]], "count": "count",
                                         "values": [[[true], "x"], [[false], "y"]]}}})");
  const auto takes = [&keys](const char* text) {
    const JsonValue config = json(text);
    return static_cast<bool>(check_family(keys, ConfigValues(config, keys), "config.json"));
  };
  CHECK(takes("{}"));
  CHECK(takes(R"({"kinds": ["x", "y", "y"]})"));
  CHECK_FALSE(takes(R"({"kinds": ["x", "x", "y"]})"));
  CHECK(takes(R"({"other": []})"));
  CHECK_FALSE(takes(R"({"other": [1]})"));
}

TEST_CASE("recorded family: a list may repeat the value of a key for every layer") {
  const JsonValue keys = json(R"({"lists": {"heads": {"each": {"key": "a"}}}})");
  const auto takes = [&keys](const char* text) {
    const JsonValue config = json(text);
    return static_cast<bool>(check_family(keys, ConfigValues(config, keys), "config.json"));
  };
  const char* const repeated = R"({"a": 8, "heads": [8, 8, 8]})";
  CHECK(takes(repeated));
  const char* const other = R"({"a": 8, "heads": [8, 4, 8]})";
  CHECK_FALSE(takes(other));
}

TEST_CASE("recorded family: a file may write what transformers changes") {
  const JsonValue keys =
      json(R"({"fixed": {"head_dim": 64, "heads": 2}, "lists": {"kinds": ["mamba", "moe"]},
      "written": {"head_dim": {"value": 192, "makes": ["head_dim"]},
                  "pattern": {"value": "ME", "makes": ["kinds", "heads"], "alone": true}},
      "defaults": {"kinds": ["mamba", "attention"], "head_dim": 64}})");
  const auto refused_key = [&keys](const char* text) {
    const JsonValue config = json(text);
    const Status status = check_family(keys, ConfigValues(config, keys), "config.json");
    return status ? std::string() : status.error().pointer;
  };
  CHECK(refused_key(R"({"pattern": "ME"})").empty());
  CHECK(refused_key(R"({"pattern": "ME", "head_dim": 192})").empty());
  CHECK(refused_key(R"({"kinds": ["mamba", "moe"], "heads": 2})").empty());
  CHECK(refused_key(R"({"pattern": "ME", "head_dim": 128})") == "/head_dim");
  CHECK(refused_key(R"({"kinds": ["mamba", "moe"], "heads": 2, "pattern": "MM"})") == "/pattern");
  CHECK(refused_key(R"({"heads": 2})") == "/kinds");
  // The list wins over the pattern, so that both must agree.
  CHECK(refused_key(R"({"pattern": "ME", "kinds": ["mamba", "mamba"]})") == "/kinds");
  CHECK(refused_key(R"({"pattern": "ME", "kinds": ["mamba", "moe"], "heads": 2})").empty());
}

TEST_CASE("recorded family: keys that stand together for another are needed together") {
  const JsonValue keys = json(R"({"fixed": {"made": 2},
      "written": {"one": {"value": true, "makes": ["made"], "alone": true},
                  "two": {"value": 2, "makes": ["made"], "alone": true}}})");
  const auto takes = [&keys](const char* text) {
    const JsonValue config = json(text);
    return static_cast<bool>(check_family(keys, ConfigValues(config, keys), "config.json"));
  };
  CHECK(takes(R"({"one": true, "two": 2.0})"));
  CHECK_FALSE(takes(R"({"one": true})"));
  CHECK_FALSE(takes(R"({"one": true, "two": 3})"));
}

TEST_CASE("recorded family: what is no dimension is named by its key") {
  const auto error_of = [](const std::string& hidden) {
    return refused(R"({"model_type": "smollm3", "num_hidden_layers": 5, "num_attention_heads": 8,
        "num_key_value_heads": 2, "vocab_size": 130000, "intermediate_size": 704,
        "hidden_size": )" +
                   hidden + "}");
  };
  for (const char* const hidden : {"null", "2048.5", "true", "-256"}) {
    CAPTURE(hidden);
    CHECK(error_of(hidden).file == "config.json");
    CHECK(error_of(hidden).pointer == "/hidden_size");
  }
  CHECK(error_of("250").got.find("hidden_size") == 0);
}

TEST_CASE("recorded family: keys of published files that transformers never reads are free") {
  CHECK(parse_hf_config(R"({"model_type": "minimax_m2"})", "config.json"));
  CHECK(parse_hf_config(R"({"model_type": "minimax_m2", "qk_norm_type": "per_head"})",
                        "config.json"));
}

TEST_CASE("recorded family: keys that change no code are free") {
  const std::string more = R"(, "rope_theta": 5e6, "rms_norm_eps": 1e-5, "pad_token_id": 7,
      "rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "unknown": [1])";
  CHECK(count_parameters(parse_hf_config(config_text(more), "config.json").value()).total() ==
        count_parameters(read_hf_config(kOwn).value()).total());
}

TEST_CASE("recorded family: dimensions that the file leaves to defaults are named") {
  const auto read = inspect_hf_config(
      R"({"model_type": "smollm3", "hidden_size": 256, "num_hidden_layers": 5,
          "num_attention_heads": 8, "num_key_value_heads": 2})",
      "config.json");
  REQUIRE(read);
  REQUIRE(read->notes.size() == 1);
  CHECK(read->notes.front().ends_with(": intermediate_size, vocab_size"));
  CHECK(inspect_hf_config(config_text(), "config.json")->notes.empty());
}

TEST_CASE("recorded family: every recorded type is answered in its default configuration") {
  const std::string folder = HEADROOM_SOURCE_DIR "/configs/families";
  const auto families = recorded_families(folder);
  REQUIRE(families);
  CHECK(families->size() >= 120);
  std::vector<std::string> refused_types;
  for (std::size_t at = 0; at < families->size(); at += test::kListStride) {
    const std::string& type = (*families)[at].type;
    CAPTURE(type);
    const std::string config = R"({"model_type": ")" + type + R"("})";
    const auto read = model_of_family(json(config), "config.json", folder);
    if (!read) {
      CHECK(read.error().file == "config.json");  // Never the fault of the recording.
      refused_types.push_back(type);
      continue;
    }
    REQUIRE(*read);
    const ModelSpec& model = (*read)->model;
    CHECK(count_parameters(model).total() > 0);
    ParallelPlan plan;
    plan.workload.micro_batch = 2;
    plan.workload.sequence = model.position == PositionKind::kLearned
                                 ? std::min<std::int64_t>(256, model.max_positions)
                                 : 256;
    CHECK(check_plan(model, plan));
    if (at % 8 == 0) {  // All of them would take a while.
      const auto program = lower(model, plan, Rank{0}, DeviceTraits{});
      REQUIRE(program);
      CHECK(program->parameters == count_parameters(model).total());
    }
  }
  if (!test::kSanitized) {
    CHECK(refused_types == kWithoutDefaults);
  }
  CHECK(std::ranges::includes(kWithoutDefaults, refused_types));
}

TEST_CASE("recorded family: a file that is no recording of a family is refused") {
  const JsonValue config = json(config_text());
  for (const char* const text :
       {"{}", R"({"keys": {}})", R"({"keys": {}, "stacks": [{}]})",
        R"({"keys": {}, "stacks": [], "model": "m", "task": "t", "versions": {}, "sizes": {},
            "modules": [{"each": 3, "kinds": []}]})"}) {
    CAPTURE(text);
    const Result<ExpandedFamily> made =
        expand_family(json(text), "family.json", config, "config.json");
    REQUIRE_FALSE(made);
    CHECK(made.error().file == "family.json");
  }
}

}  // namespace headroom::ir
