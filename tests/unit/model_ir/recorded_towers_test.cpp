// Published models of images and text, from the recordings of their families. Parameters are those
// that huggingface.co/api/models states (safetensors.total).

#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/param_count.h"

namespace headroom::ir {
namespace {

constexpr std::int64_t kQwenParameters = 8'292'166'656;  // Qwen/Qwen2.5-VL-7B-Instruct

/// The keys of the text model of Qwen2.5-VL 7B, without braces.
std::string qwen_text(const std::string& rope) {
  return R"("attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 3584,
      "initializer_range": 0.02, "intermediate_size": 18944, "max_position_embeddings": 128000,
      "max_window_layers": 28, "num_attention_heads": 28, "num_hidden_layers": 28,
      "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
      "sliding_window": 32768, "use_cache": true, "use_sliding_window": false,
      "vocab_size": 152064, "rope_scaling": )" +
         rope;
}

std::string qwen(const std::string& text) {
  return R"({"architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl",
      "initializer_range": 0.02, "tie_word_embeddings": false, "vision_config": {"depth": 32,
      "hidden_act": "silu", "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
      "in_chans": 3, "out_hidden_size": 3584, "patch_size": 14, "spatial_merge_size": 2,
      "spatial_patch_size": 14, "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31],
      "tokens_per_second": 2, "temporal_patch_size": 2}, )" +
         text + "}";
}

std::string without(std::string text, const std::string& part) {
  const std::size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.erase(at, part.size());
}

Result<HfConfig> read_published(const std::string& text) {
  return inspect_hf_config(text, "config.json", {.as = {}, .name = "m"});
}

}  // namespace

TEST_CASE("recorded towers: keys of the text model may stand at the top of the file") {
  const std::string flat =
      qwen(without(qwen_text(R"({"type": "mrope", "mrope_section": [16, 24, 24]})"),
                   "\"initializer_range\": 0.02,"));
  const auto published = read_published(flat);
  REQUIRE(published);
  CHECK(count_parameters(published->model).total() == kQwenParameters);
  CHECK(published->model.hidden == 3584);
}

TEST_CASE("recorded towers: or in a part of their own, with a window that is switched off") {
  const std::string text =
      qwen_text(R"({"mrope_section": [16, 24, 24], "rope_type": "default", "type": "default"})");
  const std::string nested =
      qwen(R"("text_config": {"model_type": "qwen2_5_vl_text", "tie_word_embeddings": false, )" +
           text + "}");
  const auto saved = read_published(nested);
  REQUIRE(saved);
  CHECK(count_parameters(saved->model).total() == kQwenParameters);
  std::string used = nested;
  const std::string off = "\"use_sliding_window\": false";
  used.replace(used.find(off), off.size(), "\"use_sliding_window\": true");
  const auto windowed = read_published(used);
  REQUIRE_FALSE(windowed);
  CHECK(windowed.error().pointer == "/text_config/sliding_window");
}

TEST_CASE("recorded towers: no key at the top of the file is passed over") {
  const std::string flat =
      qwen(without(qwen_text(R"({"type": "mrope", "mrope_section": [16, 24, 24]})"),
                   "\"initializer_range\": 0.02,"));
  struct Changed {
    std::string from;
    std::string to;
    std::string pointer;
  };
  for (const Changed& one :
       {Changed{"\"use_sliding_window\": false", "\"use_sliding_window\": true",
                "/text_config/sliding_window"},
        Changed{"\"attention_dropout\": 0.0", "\"attention_dropout\": 0.1",
                "/text_config/attention_dropout"},
        Changed{"\"hidden_act\": \"silu\", \"hidden_size\": 3584",
                "\"hidden_act\": \"gelu\", \"hidden_size\": 3584", "/text_config/hidden_act"}}) {
    CAPTURE(one.to);
    std::string text = flat;
    REQUIRE(text.find(one.from) != std::string::npos);
    text.replace(text.find(one.from), one.from.size(), one.to);
    const auto refused = read_published(text);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().pointer == one.pointer);
  }
}

}  // namespace headroom::ir
