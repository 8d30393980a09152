#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/cli.h"
#include "tests/support/gguf_file.h"
#include "tests/support/schema.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;

constexpr const char* kSmallLlama = R"({"model_type": "llama", "hidden_size": 64,
  "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 256,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16")";

std::string header_only(const std::string& header) {
  std::string bytes;
  for (unsigned shift = 0; shift < 64; shift += 8) {
    bytes += static_cast<char>(header.size() >> shift & 0xFFU);
  }
  return bytes + header;
}

}  // namespace

TEST_CASE("weights: a model of the catalogue, stored nowhere") {
  const Answer answer = test::headroom("weights llama-3.1-8b");
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("8,030,261,248 parameters"));
  CHECK(answer.says("vLLM: 15.0 GiB (16,060,522,496 bytes) when loaded for inference"));
}

TEST_CASE("weights: a model of the catalogue that is published in 4 bits") {
  const Answer answer = test::headroom("weights gpt-oss-20b");
  CHECK(answer.says("20,914,757,184 parameters, mxfp4"));
  CHECK(answer.says("transformers: 12.8 GiB (13,774,535,808 bytes) when loaded for inference"));
  CHECK(test::headroom("weights deepseek-r1").says("fp8: 8 bits, blocks of 128 x 128"));
}

TEST_CASE("weights: headers alone, without a config.json, give exact bytes") {
  const test::TemporaryFolder folder;
  const std::string path = folder.write(
      "model.safetensors",
      header_only(R"({"w": {"dtype": "BF16", "shape": [4096, 4096], "data_offsets": [0, 33554432]},
        "s": {"dtype": "F8_E4M3", "shape": [64], "data_offsets": [33554432, 33554496]}})"));
  const Document answer = test::json_of("weights " + path);
  CHECK(answer.integer("stored/bytes") == 33'554'496);
  CHECK(answer.integer("stored/elements") == 16'777'280);
  CHECK(answer.text("stored/types/0/type") == "BF16");
  CHECK(answer.array("loaded").empty());
  CHECK(answer.array("notes").size() == 2);  // No config.json; cut off.
  const Answer fit = test::headroom("fit " + path + " --gpu h100");
  CHECK(fit.code == ExitCode::kEnvironment);
  CHECK(fit.complains("headroom weights " + path));
}

TEST_CASE("weights: a quantised checkpoint by its quantization_config") {
  const test::TemporaryFolder folder;
  const std::string path =
      folder.write("config.json", std::string(kSmallLlama) +
                                      R"(, "quantization_config": {"quant_method": "fp8",
         "activation_scheme": "dynamic", "weight_block_size": [128, 128]}})");
  const Document answer = test::json_of("weights " + path);
  // 4 x 64 x 64 and 3 x 64 x 128 weights in bytes, a scale each; two matrices of 256 x 64 and three
  // norms of 64 in 16 bits.
  const std::int64_t linear = 4 * 64 * 64 + 3 * 64 * 128;
  CHECK(answer.integer("loaded/0/bytes") == linear + 7 * 4 + 2 * (2 * 256 * 64 + 3 * 64));
  CHECK(answer.integer("loaded/1/bytes") == linear + 7 * 4 + 2 * (2 * 256 * 64 + 3 * 64));
  CHECK(answer.text("model/quantisation") == "fp8: 8 bits, blocks of 128 x 128");
  CHECK(answer.array("notes").empty());
  const Answer fit = test::headroom("fit " + path + " --gpu h100 --seq 128");
  CHECK((fit.code == ExitCode::kYes || fit.code == ExitCode::kNo));
  CHECK(fit.complains("loaded for inference, they take"));
  CHECK(fit.complains("FineGrainedFP8Config(dequantize=True)"));
}

TEST_CASE(
    "weights: a description of the quantisation in a file of its own is not read, and it is said") {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("config.json", std::string(kSmallLlama) + "}");
  CHECK(test::json_of("weights " + path).array("notes").empty());
  folder.write("hf_quant_config.json", "{}");
  CHECK(test::headroom("weights " + path).complains("hf_quant_config.json beside it is not read"));
}

TEST_CASE("weights: a GGUF file that is cut off after its header") {
  const test::TemporaryFolder folder;
  test::GgufParts parts = test::llama_parts();
  const std::string whole = folder.write("whole.gguf", test::gguf(parts));
  parts.data_bytes = 0;
  const std::string cut = folder.write("cut.gguf", test::gguf(parts));
  const Document a = test::json_of("weights " + whole);
  const Document b = test::json_of("weights " + cut);
  CHECK(a.integer("stored/bytes") == b.integer("stored/bytes"));
  CHECK(a.integer("model/parameters") == a.integer("stored/elements"));
  CHECK(b.array("notes").size() == 1);
  const Answer fit = test::headroom("fit " + cut + " --gpu h100 --seq 128");
  CHECK((fit.code == ExitCode::kYes || fit.code == ExitCode::kNo));
}

TEST_CASE("schema: what weights answers is what the schema says") {
  const test::TemporaryFolder folder;
  const ir::JsonValue schema = test::read_schema("weights.schema.json");
  const std::string quantised = folder.write(
      "config.json",
      std::string(kSmallLlama) +
          R"(, "quantization_config": {"quant_method": "compressed-tensors", "config_groups":
         {"a": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}}})");
  const std::string gguf = folder.write("m.gguf", test::gguf(test::llama_parts()));
  const std::string unknown =
      folder.write("unknown.json",
                   std::string(kSmallLlama) + R"(, "quantization_config": {"quant_method": "x"}})");
  for (const std::string& line : {std::string("weights gpt2"), "weights " + quantised,
                                  "weights " + gguf, "weights " + unknown}) {
    CAPTURE(line);
    for (const std::string& fault : test::SchemaCheck::faults(schema, test::json_of(line).at(""))) {
      FAIL_CHECK(fault);
    }
  }
}

}  // namespace headroom::cli
