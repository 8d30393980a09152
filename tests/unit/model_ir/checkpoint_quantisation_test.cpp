#include "model_ir/spec/checkpoint_quantisation.h"

#include <string>

#include <doctest/doctest.h>

#include "model_ir/json/json_reader.h"

namespace headroom::ir {
namespace {

Result<CheckpointQuantisation> read(const std::string& text) {
  const Result<JsonReader> reader = JsonReader::from_text(text, "config.json");
  if (!reader) {
    return reader.error();
  }
  CheckpointQuantisation quantisation = read_quantisation(reader->root());
  Status status = reader->finish();
  if (!status) {
    return std::move(status).error();
  }
  CHECK(reader->unread().empty());
  return quantisation;
}

}  // namespace

TEST_CASE("checkpoint quantisation: the methods, as published files write them") {
  const auto fp8 = read(R"({"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
      "weight_block_size": [128, 64], "modules_to_not_convert": ["lm_head"]})");
  REQUIRE(fp8);
  CHECK(fp8->groups[0].scales == ScaleForm::kBlock);
  CHECK(fp8->groups[0].block_columns == 64);
  CHECK(fp8->kept == std::vector<std::string>{"lm_head"});
  CHECK(describe(*fp8) == "fp8: 8 bits, blocks of 128 x 64");

  const auto tensor = read(R"({"quant_method": "fp8", "activation_scheme": "static",
      "weight_block_size": null, "ignored_layers": ["gate"]})");
  REQUIRE(tensor);
  CHECK(tensor->groups[0].scales == ScaleForm::kTensor);
  CHECK(tensor->groups[0].static_inputs);
  CHECK_FALSE(tensor->default_block);
  CHECK(tensor->kept.size() == 1);
  CHECK(read(R"({"quant_method": "fp8"})")->default_block);

  const auto gptq = read(R"({"quant_method": "gptq", "bits": 4, "group_size": -1,
      "desc_act": true, "sym": false, "dynamic": null})");
  REQUIRE(gptq);
  CHECK(gptq->groups[0].scales == ScaleForm::kChannel);
  CHECK(gptq->groups[0].reorders);
  CHECK_FALSE(gptq->groups[0].symmetric);
  CHECK(gptq->unanswered.empty());

  const auto four = read(R"({"quant_method": "bitsandbytes", "_load_in_4bit": true,
      "_load_in_8bit": false, "load_in_4bit": true, "load_in_8bit": false,
      "bnb_4bit_use_double_quant": true, "llm_int8_skip_modules": ["lm_head"]})");
  REQUIRE(four);
  CHECK(four->groups[0].bits == 4);
  CHECK(four->double_quant);
  CHECK(read(R"({"load_in_8bit": true})")->groups[0].bits == 8);

  const auto modelopt = read(R"({"quant_algo": "NVFP4", "ignore": ["lm_head", "*.gate"],
      "config_groups": {"group_0": {"targets": ["Linear"],
        "weights": {"dynamic": false, "num_bits": 4, "type": "float", "group_size": 16},
        "input_activations": {"dynamic": false, "num_bits": 4}}}})");
  REQUIRE(modelopt);
  CHECK(modelopt->method == QuantMethod::kModelOpt);
  CHECK(modelopt->groups[0].form == PackedForm::kNvfp4);
  CHECK(modelopt->groups[0].static_inputs);
}

TEST_CASE("checkpoint quantisation: compressed-tensors has groups of several kinds") {
  const auto mixed = read(R"({"quant_method": "compressed-tensors", "format": "mixed-precision",
      "quantization_status": "compressed", "ignore": ["re:.*gate$"], "kv_cache_scheme": null,
      "config_groups": {
        "a": {"targets": ["re:.*self_attn.*"], "format": "float-quantized",
              "weights": {"num_bits": 8, "type": "float", "strategy": "block",
                          "block_structure": [128, 128]},
              "input_activations": {"dynamic": true}},
        "b": {"targets": ["re:.*mlp.*"], "format": "pack-quantized",
              "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32,
                          "actorder": "group", "symmetric": false}}}})");
  REQUIRE_MESSAGE(mixed, to_text(mixed.error()));
  REQUIRE(mixed->groups.size() == 2);
  CHECK(mixed->groups[0].form == PackedForm::kFp8);
  CHECK_FALSE(mixed->groups[0].static_inputs);
  CHECK(mixed->groups[1].form == PackedForm::kPackedInt);
  CHECK(mixed->groups[1].reorders);
  CHECK(describe(*mixed) ==
        "compressed-tensors: 8 bits, blocks of 128 x 128 and 4 bits, groups of 32");
}

TEST_CASE("checkpoint quantisation: what cannot be counted says why") {
  for (const char* text :
       {R"({"quant_method": "hqq"})", R"({"quant_method": "awq", "bits": 4, "version": "gemv"})",
        R"({"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*moe.*": {}}})",
        R"({"quant_method": "modelopt", "quantized_layers": {}})",
        R"({"quant_method": "compressed-tensors", "config_groups": {}})"}) {
    CAPTURE(text);
    const auto quantisation = read(text);
    REQUIRE(quantisation);
    CHECK_FALSE(quantisation->unanswered.empty());
  }
}

TEST_CASE("checkpoint quantisation: values that no file can have are refused by key") {
  struct Broken {
    const char* text;
    const char* pointer;
  };
  for (const Broken& one :
       {Broken{R"({"quant_method": "gptq"})", "/bits"},
        Broken{R"({"quant_method": "gptq", "bits": 5})", "/bits"},
        Broken{R"({"quant_method": "gptq", "bits": 4, "group_size": 0})", "/group_size"},
        Broken{R"({"quant_method": "fp8", "weight_block_size": [128]})", "/weight_block_size"},
        Broken{R"({"quant_method": "fp8", "weight_block_size": [0, 128]})", "/weight_block_size"},
        Broken{R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "load_in_8bit": true})",
               "/load_in_4bit"},
        Broken{R"({"quant_method": "fp8", "modules_to_not_convert": [1]})",
               "/modules_to_not_convert"},
        Broken{R"({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights":
                   {"strategy": "group"}}}})",
               "/config_groups/a/weights/group_size"}}) {
    CAPTURE(one.text);
    const auto quantisation = read(one.text);
    REQUIRE_FALSE(quantisation);
    CHECK(quantisation.error().pointer == one.pointer);
  }
}

}  // namespace headroom::ir
