#include "runtimes/checkpoint/loaded_weights.h"

#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "model_ir/json/json_value.h"
#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/model_catalogue.h"
#include "tests/support/configs.h"

namespace headroom::ir::checkpoint {
namespace {

constexpr const char* kBlocks =
    R"("quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128])";

CheckpointQuantisation quantisation_of(const std::string& text) {
  const auto reader = JsonReader::from_text("{" + text + "}", "config.json");
  CheckpointQuantisation read = read_quantisation(reader->root());
  REQUIRE(reader->finish());
  return read;
}

LoadedWeights load(const std::string& model, const std::string& quantisation, Loader loader) {
  const ModelSpec spec = load_model(test::kConfigs + "/models", model).value();
  const CheckpointQuantisation read = quantisation_of(quantisation);
  return loaded_weights(spec, &read, loader);
}

std::int64_t bytes(const std::string& model, const std::string& quantisation,
                   Loader loader = Loader::kTransformers) {
  const LoadedWeights loaded = load(model, quantisation, loader);
  CHECK(loaded.refused.empty());
  std::int64_t sum = 0;
  for (const LoadedTotal& total : loaded.parts) {
    sum += total.bytes.value();
  }
  CHECK(sum == loaded.total.value());
  return loaded.total.value();
}

}  // namespace

TEST_CASE("loaded weights: fp8 in transformers, to the byte") {
  // Oracle: bytes of all parameters of the model that transformers 5.17.0 builds on the meta device
  // in bf16, after FineGrainedFP8HfQuantizer._process_model_before_weight_loading.
  CHECK(bytes("qwen3-8b", kBlocks) == 9'437'399'040);
  CHECK(bytes("deepseek-v3", kBlocks) == 673'150'552'416);
  CHECK(bytes("deepseek-v3", std::string(kBlocks) + R"(, "scale_fmt": "ue8m0")") ==
        673'028'037'720);
  CHECK(bytes("qwen2-57b-a14b", kBlocks) == 58'518'243'392);
  CHECK(bytes("glm-4-9b", kBlocks) == 10'644'628'480);
  std::string gates = R"(, "modules_to_not_convert": ["lm_head")";
  for (int layer = 0; layer < 48; ++layer) {
    gates += ", \"model.layers." + std::to_string(layer) + ".mlp.gate\"";
  }
  CHECK(bytes("qwen3-30b-a3b", kBlocks + gates + "]") == 31'174'545'408);
  // "model.layers.1" also keeps layers 10 to 19, and a list without lm_head converts the head.
  CHECK(bytes("qwen3-8b", R"("quant_method": "fp8", "activation_scheme": "static",
        "weight_block_size": null, "modules_to_not_convert": ["model.layers.1"])") ==
        10'935'692'672);
}

TEST_CASE("loaded weights: fbgemm's fp8 in transformers, with fp32 biases") {
  // Oracle: as above, with FbgemmFp8HfQuantizer.
  CHECK(bytes("llama-3.1-8b", R"("quant_method": "fbgemm_fp8", "modules_to_not_convert":
        ["lm_head", "model.layers.0.self_attn", "model.layers.31.mlp"])") == 9'304'638'308);
  CHECK(bytes("qwen2.5-7b", R"("quant_method": "fbgemm_fp8")") == 8'711'765'776);
}

TEST_CASE("loaded weights: GPT-2's Conv1D is no linear layer, except to bitsandbytes") {
  const LoadedWeights fp8 = load("gpt2", kBlocks, Loader::kTransformers);
  CHECK(fp8.quantised_parameters == 0);
  const LoadedWeights four = load("gpt2", R"("quant_method": "bitsandbytes", "load_in_4bit": true)",
                                  Loader::kTransformers);
  CHECK(four.quantised_parameters == 12 * 12 * 768 * 768);
}

TEST_CASE("loaded weights: 4 bits of bitsandbytes have the library's tables") {
  // A linear layer of n weights: n / 2 codes and ceil(n / 64) scales, which are fp32, or bytes with
  // an fp32 scale for 256 of them, an offset and two tables. Measured with bitsandbytes 0.50.2: 300
  // x 130 weights take 22,004 and 21,214 bytes.
  const ModelSpec spec = parse_hf_config(R"({"model_type": "opt", "hidden_size": 130,
      "ffn_dim": 300, "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 64,
      "word_embed_proj_dim": 130, "torch_dtype": "bfloat16"})",
                                         "config.json")
                             .value();
  const auto quantised = [&spec](const std::string& text) {
    const CheckpointQuantisation read =
        quantisation_of(R"("quant_method": "bitsandbytes", "load_in_4bit": true)" + text);
    const LoadedWeights loaded = loaded_weights(spec, &read, Loader::kTransformers);
    std::int64_t sum = 0;
    for (const LoadedTotal& total : loaded.parts) {
      sum += total.part == LoadedPart::kOther ? 0 : total.bytes.value();
    }
    return sum;
  };
  // Four projections of 130 x 130: 8,450 codes and 265 scales each; two of 300 x 130.
  CHECK(quantised("") == 4 * (8'450 + 265 * 4 + 64) + 2 * 22'004);
  CHECK(quantised(R"(, "bnb_4bit_use_double_quant": true)") ==
        4 * (8'450 + 265 + (2 + 16 + 256 + 1) * 4) + 2 * 21'214);
}

TEST_CASE("loaded weights: the experts of gpt-oss in mxfp4") {
  // 24 layers x 32 experts of 3 x 2,880 x 2,880 weights: half a byte and a byte for 32 of them. The
  // biases of the experts, 3 x 2,880 each, are fp32 in transformers.
  const std::int64_t experts = 24LL * 32 * 3 * 2'880 * 2'880;
  const std::int64_t biases = 24LL * 32 * 3 * 2'880;
  const std::int64_t others = 20'914'757'184 - experts;
  constexpr const char* kText =
      R"("quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn",
         "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"])";
  CHECK(bytes("gpt-oss-20b", kText) == experts / 2 + experts / 32 + 2 * others + 2 * biases);
  CHECK(bytes("gpt-oss-20b", kText, Loader::kVllm) == experts / 2 + experts / 32 + 2 * others);
  // The published config.json names no type; then bf16 is taken, not fp32.
  ModelSpec spec = load_model(test::kConfigs + "/models", "gpt-oss-20b").value();
  spec.checkpoint_dtype = DType::kFp32;
  const CheckpointQuantisation read = quantisation_of(kText);
  CHECK(loaded_weights(spec, &read, Loader::kTransformers).total ==
        Bytes{experts / 2 + experts / 32 + 2 * others + 2 * biases});
}

TEST_CASE("loaded weights: GPTQ and AWQ, as stored and as Marlin's kernels hold them") {
  // Qwen2.5 7B: 28 layers; columns that are inputs, and rows that are outputs.
  constexpr std::int64_t kHidden = 3'584;
  constexpr std::int64_t kWide = 18'944;
  constexpr std::int64_t kMatrices[][2] = {{kHidden, kHidden}, {kHidden, 512},   {kHidden, 512},
                                           {kHidden, kHidden}, {kHidden, kWide}, {kHidden, kWide},
                                           {kWide, kHidden}};
  std::int64_t weights = 0;
  std::int64_t inputs = 0;
  for (const auto& matrix : kMatrices) {
    weights += 28 * matrix[0] * matrix[1];
    inputs += 28 * matrix[0];
  }
  const std::int64_t others = 2 * (7'615'616'512 - weights);
  const std::int64_t codes = weights / 2;
  const std::int64_t scales = weights / 128 * 2;
  const std::int64_t zeros = weights / 128 / 2;
  constexpr const char* kGptq =
      R"("quant_method": "gptq", "bits": 4, "group_size": 128, "sym": true)";
  CHECK(bytes("qwen2.5-7b", kGptq) == others + codes + scales + zeros + 4 * inputs);
  CHECK(bytes("qwen2.5-7b", kGptq, Loader::kVllm) == others + codes + scales);
  CHECK(bytes("qwen2.5-7b", std::string(kGptq) + R"(, "desc_act": true)", Loader::kVllm) ==
        others + codes + scales + 8 * inputs);
  CHECK(bytes("qwen2.5-7b", R"("quant_method": "gptq", "bits": 4, "sym": false)", Loader::kVllm) ==
        others + codes + scales + zeros + 4 * inputs);
  constexpr const char* kAwq = R"("quant_method": "awq", "bits": 4, "group_size": 128)";
  CHECK(bytes("qwen2.5-7b", kAwq) == others + codes + scales + zeros);
  CHECK(bytes("qwen2.5-7b", kAwq, Loader::kVllm) == others + codes + scales + zeros);
}

TEST_CASE("loaded weights: compressed-tensors is widened by transformers, at first use or before") {
  constexpr const char* kText =
      R"("quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
         "config_groups": {"a": {"targets": ["Linear"], "weights": {"num_bits": 8,
         "type": "float", "strategy": "channel"}, "input_activations": {"dynamic": true}}})";
  const LoadedWeights dense = load("llama-3.1-8b", kText, Loader::kTransformers);
  REQUIRE(dense.after_first_use);
  CHECK(*dense.after_first_use == Bytes{2 * 8'030'261'248});
  CHECK(dense.total < *dense.after_first_use);
  // The experts of a mixture are dense as soon as they are loaded.
  const LoadedWeights sparse = load("mixtral-8x7b", kText, Loader::kTransformers);
  CHECK(sparse.quantised_parameters == 32LL * (2 * 4'096 * 4'096 + 2 * 4'096 * 1'024));
  CHECK(load("mixtral-8x7b", kText, Loader::kVllm).quantised_parameters > 45'000'000'000);
}

TEST_CASE("loaded weights: what a program cannot load, or what is not known, is said") {
  const LoadedWeights nvfp4 =
      load("llama-3.1-8b",
           R"("quant_method": "modelopt", "ignore": ["lm_head"], "config_groups": {"a": {"weights":
         {"num_bits": 4, "type": "float", "group_size": 16}, "input_activations": {}}})",
           Loader::kTransformers);
  CHECK(nvfp4.refused == "transformers 5.17 has no quantizer named modelopt");
  CHECK_FALSE(load("mixtral-8x7b", R"("quant_method": "awq", "bits": 4)", Loader::kTransformers)
                  .refused.empty());
  CHECK(load("llama-3.1-8b", R"("quant_method": "fp8")", Loader::kTransformers)
            .refused.starts_with("the file does not say"));
  CHECK(load("llama-3.1-8b", std::string(kBlocks) + R"x(, "modules_to_not_convert": ["(?!x)"])x",
             Loader::kTransformers)
            .refused.starts_with("its pattern"));
  CHECK_FALSE(load("llama-3.1-8b", kBlocks, Loader::kTransformers).training.empty());
}

TEST_CASE(
    "loaded weights: without quantisation they are the parameters, in vLLM padded and 16 bits") {
  const ModelSpec spec = load_model(test::kConfigs + "/models", "gpt2").value();
  CHECK(loaded_weights(spec, nullptr, Loader::kTransformers).total == Bytes{4 * 124'439'808});
  // 50,257 rows of the vocabulary become 50,304.
  CHECK(loaded_weights(spec, nullptr, Loader::kVllm).total == Bytes{2 * (124'439'808 + 47 * 768)});
}

}  // namespace headroom::ir::checkpoint
