// Batches with images of a family that was recorded with them.

#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "tests/support/cli.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

/// google/gemma-3-4b-it/config.json. Its model has 4,300,079,472 parameters, according to
/// huggingface.co/api/models (safetensors.total).
constexpr const char* kGemma =
    R"({"architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999,
        "eoi_token_index": 256000, "eos_token_id": [1, 106], "image_token_index": 262144,
        "initializer_range": 0.02, "mm_tokens_per_image": 256, "model_type": "gemma3",
        "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
        "model_type": "gemma3_text", "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0,
        "rope_type": "linear"}, "sliding_window": 1024}, "torch_dtype": "bfloat16",
        "vision_config": {"hidden_size": 1152, "image_size": 896, "intermediate_size": 4304,
        "model_type": "siglip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 27,
        "patch_size": 14, "vision_use_head": false}})";
constexpr std::int64_t kWhole = 4'300'079'472;
constexpr std::int64_t kImageTokens = 256;

class Gemma {
 public:
  Gemma() : path_(folder_.write("config.json", kGemma)) {}

  [[nodiscard]] std::string fit(const std::string& options) const {
    return "fit " + path_ + " --gpu h100-80gb --precision bf16 " + options;
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::int64_t parameters(const std::string& options) const {
    return test::json_of(fit(options)).integer("model/parameters");
  }
  [[nodiscard]] std::int64_t peak(const std::string& options) const {
    return test::json_of(fit(options)).integer("peak/allocated_bytes");
  }

 private:
  test::TemporaryFolder folder_;
  std::string path_;
};

}  // namespace

TEST_CASE("images: a published model of images and text is answered by the program alone") {
  const Gemma gemma;
  CHECK(gemma.parameters("--images 2x896x896 --seq 1024") == kWhole);
  CHECK(gemma.parameters("--task image-text") == kWhole);
  CHECK(gemma.parameters("") < kWhole);  // The language model alone.
}

TEST_CASE("images: their number matters, and not their size") {
  const Gemma gemma;
  const std::int64_t two = gemma.peak("--images 2x896x896 --seq 1024");
  CHECK(gemma.peak("--images 2x1024x300 --seq 1024") == two);
  const std::int64_t three = gemma.peak("--images 3x896x896 --seq 1024");
  CHECK(three > two);
  CHECK(two > gemma.peak("--task image-text --seq 1024"));
}

TEST_CASE("images: a sequence has room for them") {
  const Gemma gemma;
  const std::string least = std::to_string(3 * (kImageTokens + 1) + 1);
  CHECK(test::headroom(gemma.fit("--images 3x896x896 --seq 600"))
            .complains("at least " + least + " tokens"));
  CHECK(test::headroom(gemma.fit("--images 3x896x896 --seq " + least)).code == ExitCode::kYes);
}

TEST_CASE("images: a model of text says so") {
  CHECK(test::headroom("fit llama-3.1-8b --gpu h100-80gb --images 1x896x896")
            .complains("leave out --images"));
}

TEST_CASE("images: the plan of an answer asks the same question") {
  const Gemma gemma;
  const test::TemporaryFolder folder;
  const std::string options = "--images 2x896x896 --seq 1024";
  const std::string plan =
      folder.write("plan.json", test::headroom(gemma.fit(options) + " --json").out);
  const test::Document again =
      test::json_of("fit " + gemma.path() + " --gpu h100-80gb --plan " + plan);
  CHECK(again.integer("peak/allocated_bytes") == gemma.peak(options));
}

TEST_CASE("images: other images than the recorded ones are refused") {
  const test::TemporaryFolder folder;
  std::string config = kGemma;
  const std::string tokens = "\"mm_tokens_per_image\": 256";
  config.replace(config.find(tokens), tokens.size(), "\"mm_tokens_per_image\": 64");
  CHECK(test::headroom("fit " + folder.write("config.json", config) +
                       " --gpu h100-80gb --images 1x896x896")
            .complains("/mm_tokens_per_image: got 64"));
  CHECK(test::headroom("fit llama-3.1-8b --gpu h100-80gb --task image-text")
            .complains("is known without a tower"));
}

TEST_CASE("images: the catalogue's Gemma 3 is the whole model if it is asked for") {
  const std::string question = "fit gemma-3-4b --gpu h100-80gb --precision bf16 ";
  const auto text = test::headroom(question);
  CHECK(text.complains("--task image-text adds the tower, --images runs images through it"));
  CHECK(test::json_of(question + "--task image-text").integer("model/parameters") == kWhole);
  const auto named = test::json_of(question + "--seq 512 --images 1x896x896");
  CHECK(named.integer("model/parameters") == kWhole);
  const Gemma file;
  CHECK(named.integer("peak/allocated_bytes") == file.peak("--seq 512 --images 1x896x896"));
  CHECK(test::headroom("fit gemma-3-1b --gpu h100-80gb --images 1x896x896")
            .complains("name the whole model, such as gemma-3-4b"));
}

}  // namespace headroom::cli
