// The package flash-attn to the byte, as recorded with torch.cuda.memory_stats() of PyTorch 2.11.0
// running transformers 5.17.0 and flash-attn 2.8.3's Python code, whose kernels were stand-ins that
// take what csrc/flash_attn/flash_api.cpp takes.

#include <string>

#include <doctest/doctest.h>

#include "model_ir/spec/hf_config.h"
#include "runtimes/registry.h"
#include "tests/support/first_step.h"

namespace headroom::ir {
namespace {

using test::first_step;
using test::FirstStep;

std::string two_layer_config(const std::string& rest) {
  return R"({"num_hidden_layers": 2, "vocab_size": 1000, "intermediate_size": 512, )" + rest + "}";
}

const std::string kGrouped = two_layer_config(R"("model_type": "llama", "hidden_size": 256,
    "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": false)");
const std::string kOdd =
    two_layer_config(R"("model_type": "llama", "hidden_size": 252, "head_dim": 36,
    "num_attention_heads": 7, "num_key_value_heads": 7, "tie_word_embeddings": false)");
const std::string kMultiQuery = two_layer_config(R"("model_type": "falcon", "hidden_size": 256,
    "num_attention_heads": 4, "multi_query": true, "parallel_attn": true, "bias": false,
    "alibi": false, "new_decoder_architecture": false)");
const std::string kLatent = two_layer_config(R"("model_type": "deepseek_v2", "hidden_size": 256,
    "num_attention_heads": 4, "num_key_value_heads": 4, "moe_intermediate_size": 128,
    "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "first_k_dense_replace": 2, "kv_lora_rank": 64, "q_lora_rank": null, "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16, "v_head_dim": 32, "topk_method": "greedy", "n_group": null,
    "topk_group": null)");

ParallelPlan flash(Recompute recompute = Recompute::kNone) {
  ParallelPlan plan;
  plan.precision = Precision::kBf16;
  plan.attention = AttentionKind::kFlash;
  plan.recompute = recompute;
  return plan;
}

/// What `config` is told on a device of compute capability `major`.0.
std::string refused_by_package(const std::string& config, const ParallelPlan& plan, int major = 9) {
  const ModelSpec model = parse_hf_config(config, "test").value();
  const auto program = lower(model, plan, Rank{0}, DeviceTraits{.compute_major = major});
  return program ? "" : program.error().got;
}

}  // namespace

TEST_CASE("flash-attn: what the package refuses is refused by name") {
  CHECK(refused_by_package(kGrouped, flash()).empty());
  CHECK(refused_by_package(kGrouped, flash(), 7) == "flash on compute capability 7.0");
  const std::string wide = two_layer_config(R"("model_type": "llama", "hidden_size": 256,
      "head_dim": 304, "num_attention_heads": 4)");
  CHECK(refused_by_package(wide, flash()) == "flash with head size 304");
  const std::string capped = two_layer_config(R"("model_type": "gemma2", "hidden_size": 256,
      "head_dim": 64, "num_attention_heads": 4, "attention_dropout": 0.1)");
  CHECK(refused_by_package(capped, flash()) == "flash with soft-capping and attention_dropout");
  const std::string alibi = two_layer_config(R"("model_type": "falcon", "hidden_size": 256,
      "num_attention_heads": 4, "alibi": true)");
  CHECK(refused_by_package(alibi, flash()) == "flash, which this model's code does not have");
  ParallelPlan outside = flash();
  outside.precision = Precision::kAutocastBf16;
  CHECK(refused_by_package(kGrouped, outside).empty());
  outside.workload.evaluation = true;
  CHECK(refused_by_package(kGrouped, outside) ==
        "flash with fp32 weights and --evaluation or --generate");
}

TEST_CASE("flash-attn: one tensor of random state, gradients for each head of a group") {
  CHECK(first_step(kGrouped, flash()) == FirstStep{48974472, 83095040, 70494720});
}

TEST_CASE("flash-attn: heads of 36 are kept padded to 40, what comes out is cut") {
  CHECK(first_step(kOdd, flash()) == FirstStep{50308872, 84392960, 70688256});
  CHECK(first_step(kOdd, flash(Recompute::kFull)) == FirstStep{37826440, 77592576, 70688256});
}

TEST_CASE("flash-attn: Falcon's one key head serves all queries") {
  CHECK(first_step(kMultiQuery, flash()) == FirstStep{44368904, 77543424, 70376448});
}

TEST_CASE("flash-attn: values of latent attention are padded to the size of the queries") {
  CHECK(first_step(kLatent, flash()) == FirstStep{49843272, 83964416, 70184448});
}

}  // namespace headroom::ir
