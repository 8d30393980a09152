#include "model_ir/spec/param_count.h"

#include <doctest/doctest.h>

#include "tests/support/model_of.h"

namespace headroom::ir {
namespace {

using test::model_of;

}  // namespace

TEST_CASE("param_count: Llama-3.1-8B by hand") {
  const ModelSpec model = model_of(R"({"model_type": "llama", "hidden_size": 4096,
      "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
      "num_key_value_heads": 8, "vocab_size": 128256})");
  const LayerParameters layer = layer_parameters(model, model.layers[0]);
  CHECK(layer.attention == 4096 * (4096 + 2 * 1024) + 4096 * 4096);  // q, k and v; then o
  CHECK(layer.mlp == 3 * 4096 * 14336);
  CHECK(layer.norms == 2 * 4096);
  const ParameterCount count = count_parameters(model);
  CHECK(count.token_embedding == std::int64_t{128256} * 4096);
  CHECK(count.head == std::int64_t{128256} * 4096);
  CHECK(count.final_norm == 4096);
  CHECK(count.total() == 8'030'261'248);
  CHECK(count.active() == count.total());
}

TEST_CASE("param_count: a tied head counts once") {
  const std::string text = R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12,
      "vocab_size": 50257)";
  const ParameterCount tied = count_parameters(model_of(text + "}"));
  const ParameterCount untied =
      count_parameters(model_of(text + R"(, "tie_word_embeddings": false})"));
  CHECK(tied.total() == 124'439'808);
  CHECK(tied.head == 0);
  CHECK(untied.total() - tied.total() == 50257 * 768);
  CHECK(tied.position_embedding == 1024 * 768);
}

TEST_CASE("param_count: experts that a token leaves out are not active") {
  const ModelSpec model = model_of(R"({"model_type": "mixtral", "hidden_size": 4096,
      "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
      "num_key_value_heads": 8, "vocab_size": 32000})");
  const ParameterCount count = count_parameters(model);
  CHECK(count.total() == 46'702'792'704);
  // Six of eight experts idle in each layer: 32 * 6 * 3 * 4096 * 14336. The paper says 12.9
  // billion.
  CHECK(count.idle_experts == std::int64_t{32} * 6 * 3 * 4096 * 14336);
  CHECK(count.active() == 12'879'925'248);
}

TEST_CASE("param_count: latent attention of DeepSeek-V2-Lite by hand") {
  const ModelSpec model = model_of(R"({"model_type": "deepseek_v2", "hidden_size": 2048,
      "intermediate_size": 10944, "moe_intermediate_size": 1408, "num_hidden_layers": 27,
      "num_attention_heads": 16, "n_routed_experts": 64, "n_shared_experts": 2,
      "num_experts_per_tok": 6, "first_k_dense_replace": 1, "q_lora_rank": null,
      "kv_lora_rank": 512, "vocab_size": 102400})");
  // q: 16 heads of 128 + 64. Down to 512 + 64, norm of 512, up to 16 heads of 128 + 128. o.
  CHECK(layer_parameters(model, model.layers[1]).attention ==
        2048 * 16 * 192 + 2048 * 576 + 512 + 512 * 16 * 256 + 16 * 128 * 2048);
  CHECK(count_parameters(model).total() == 15'706'484'224);
}

TEST_CASE("param_count: an encoder-decoder has both stacks, and cross-attention in one") {
  const ModelSpec model = model_of(R"({"model_type": "t5", "d_model": 512, "d_kv": 64, "d_ff": 2048,
      "num_layers": 6, "num_heads": 8, "vocab_size": 32128})");
  const LayerParameters encoder = layer_parameters(model, LayerSpec{}, Stack::kEncoder);
  const LayerParameters decoder = layer_parameters(model, LayerSpec{});
  CHECK(encoder.cross_attention == 0);
  CHECK(decoder.cross_attention == encoder.attention);
  CHECK(decoder.norms == 3 * 512);
  CHECK(count_parameters(model).position_embedding == 2 * 32 * 8);
  CHECK(count_parameters(model).total() == 60'506'624);
}

}  // namespace headroom::ir
