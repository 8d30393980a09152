// Mixtures of experts before transformers 5.0, which loop over them in Python. Phase totals were
// recorded with the releases named in each case, PyTorch 2.11.0 and compute capability 9.0: two
// sequences of 1100 tokens, AdamW; what the host reads back said that routing is even.

#include "runtimes/transformers/expert_loop.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/graph/decoder.h"
#include "runtimes/registry.h"
#include "runtimes/torch/functions_indexed.h"
#include "tests/support/graph_verify/verify.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

using test::plan_of_release;

/// Two layers, H 1024, 16 heads.
ModelSpec mixture_of(const std::string& rest, const std::string& vocabulary = "50000") {
  return parse_hf_config(R"({"hidden_size": 1024, "num_hidden_layers": 2,
    "num_attention_heads": 16, "max_position_embeddings": 4096, "vocab_size": )" +
                             vocabulary + ", " + rest + "}",
                         "small")
      .value();
}

const std::string kMixtralKeys = R"("model_type": "mixtral", "num_key_value_heads": 4,
    "intermediate_size": 1408, "num_local_experts": 8, "num_experts_per_tok": 2,
    "sliding_window": null, "tie_word_embeddings": false, "head_dim": 64)";
const std::string kQwen2Keys = R"("model_type": "qwen2_moe", "num_key_value_heads": 4,
    "intermediate_size": 2816, "moe_intermediate_size": 704,
    "shared_expert_intermediate_size": 1408, "num_experts": 12, "num_experts_per_tok": 4,
    "tie_word_embeddings": false, "norm_topk_prob": false)";
const std::string kQwen3Keys = R"("model_type": "qwen3_moe", "num_key_value_heads": 4,
    "intermediate_size": 2816, "moe_intermediate_size": 384, "num_experts": 32,
    "num_experts_per_tok": 4, "head_dim": 64, "tie_word_embeddings": true, "norm_topk_prob": true)";
const std::string kDeepseek3Keys = R"("model_type": "deepseek_v3", "num_key_value_heads": 16,
    "intermediate_size": 2816, "moe_intermediate_size": 512, "n_routed_experts": 16,
    "num_experts_per_tok": 4, "n_shared_experts": 1, "n_group": 4, "topk_group": 2,
    "first_k_dense_replace": 1, "q_lora_rank": 384, "kv_lora_rank": 256, "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32, "v_head_dim": 64, "tie_word_embeddings": false)";
const std::string kGptOssKeys = R"("model_type": "gpt_oss", "num_key_value_heads": 4,
    "intermediate_size": 1024, "num_local_experts": 16, "num_experts_per_tok": 4, "head_dim": 64,
    "sliding_window": 128, "tie_word_embeddings": false)";

std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const TensorId id : graph.parameters()) {
    names.push_back(graph.tensor(id).name);
  }
  return names;
}

}  // namespace

TEST_CASE("expert loop: routing is even, the remainder goes to the first experts") {
  // 11 choices for 4 experts: 3, 3, 3, 2.
  std::int64_t sum = 0;
  for (std::int64_t expert = 0; expert < 4; ++expert) {
    CHECK(transformers::tokens_of(expert, 11, 4) == (expert < 3 ? 3 : 2));
    sum += transformers::tokens_of(expert, 11, 4);
  }
  CHECK(sum == 11);
}

TEST_CASE("expert loop: scratch of nonzero as observed on three devices") {
  const auto on = [](int major, int multiprocessors) {
    return DeviceTraits{.compute_major = major, .multiprocessors = multiprocessors};
  };
  CHECK(torch::count_bytes(4096, on(9, 132)) == 1);
  CHECK(torch::count_bytes(4097, on(9, 132)) == 21'503);
  CHECK(torch::count_bytes(3'000'000, on(9, 132)) == 21'503);
  CHECK(torch::count_bytes(4400, on(8, 108)) == 17'663);
  CHECK(torch::count_bytes(4400, on(10, 148)) == 24'063);
  CHECK(torch::pick_bytes(8) == 1023);
  CHECK(torch::pick_bytes(135'168) == 1023);
  CHECK(torch::pick_bytes(135'169) == 1279);
  CHECK(torch::pick_bytes(1'000'000) == 2815);
  CHECK(torch::pick_bytes(3'000'000) == 6655);
}

TEST_CASE("expert loop: experts that are modules have three weights each, in registration order") {
  const BatchShape shape{.batch = 2, .sequence = 16};
  for (const std::string& config : {kMixtralKeys, kQwen2Keys, kQwen3Keys, kDeepseek3Keys}) {
    CAPTURE(config);
    const ModelSpec spec = mixture_of(config);
    const Graph graph = build_graph(spec, shape, ExpertWeights::kModules);
    CHECK(verify(graph).empty());
    CHECK(parameter_count(graph) == parameter_count(build_graph(spec, shape)));
  }
  const auto mixtral =
      names_of(build_graph(mixture_of(kMixtralKeys), shape, ExpertWeights::kModules));
  CHECK(mixtral.at(5) == "model.layers.0.block_sparse_moe.gate.weight");
  CHECK(mixtral.at(6) == "model.layers.0.block_sparse_moe.experts.0.w1.weight");
  CHECK(mixtral.at(7) == "model.layers.0.block_sparse_moe.experts.0.w2.weight");
  CHECK(mixtral.at(9) == "model.layers.0.block_sparse_moe.experts.1.w1.weight");
  const auto qwen = names_of(build_graph(mixture_of(kQwen3Keys), shape, ExpertWeights::kModules));
  CHECK(qwen.at(7) == "model.layers.0.mlp.gate.weight");
  CHECK(qwen.at(9) == "model.layers.0.mlp.experts.0.up_proj.weight");
}

TEST_CASE("expert loop: Mixtral 4.48 goes through all experts") {
  test::check_phases(mixture_of(kMixtralKeys), plan_of_release("4.48"),
                     {{"load", 358'656'512, 358'656'512},
                      {"step1.forward", 1'127'330'304, 2'228'335'104},
                      {"step1.backward", 788'014'080, 2'008'116'224},
                      {"step1.optimizer", 1'500'525'568, 1'854'725'120},
                      {"step2.backward", 1'500'208'640, 2'755'538'432}});
}

TEST_CASE("expert loop: Mixtral 4.57 goes through those that tokens chose, by tensors") {
  ParallelPlan plan = plan_of_release("4.57");
  plan.attention = AttentionKind::kEager;
  plan.recompute = Recompute::kFullReentrant;
  test::check_phases(mixture_of(kMixtralKeys), plan,
                     {{"step1.forward", 864'823'808, 1'525'444'608},
                      {"step1.backward", 789'008'384, 1'745'609'728},
                      {"step2.backward", 1'499'506'688, 2'488'569'856}});
}

TEST_CASE("expert loop: Qwen2-MoE runs its shared expert after the others") {
  test::check_phases(mixture_of(kQwen2Keys), plan_of_release("4.57"),
                     {{"load", 339'940'864, 339'940'864},
                      {"step1.forward", 1'210'190'336, 1'870'811'136},
                      {"step1.backward", 750'106'112, 2'090'976'256},
                      {"step2.backward", 1'432'817'152, 2'807'077'888}});
}

TEST_CASE("expert loop: Qwen3-MoE under autocast, layers run again in backward") {
  ParallelPlan plan = plan_of_release("4.57");
  plan.precision = Precision::kAutocastBf16;
  plan.recompute = Recompute::kFull;
  test::check_phases(mixture_of(kQwen3Keys), plan,
                     {{"load", 537'156'096, 742'676'992},
                      {"step1.forward", 1'157'101'568, 1'989'147'648},
                      {"step1.backward", 1'153'467'392, 2'037'887'488},
                      {"step2.backward", 2'219'151'872, 3'134'415'360}});
}

TEST_CASE("expert loop: DeepSeek-V3 sums in fp32, expands latents before it rotates") {
  test::check_phases(mixture_of(kDeepseek3Keys), plan_of_release("4.51"),
                     {{"load", 288'143'360, 288'143'360},
                      {"step1.forward", 1'106'037'760, 1'766'658'560},
                      {"step1.backward", 643'722'240, 1'986'823'680},
                      {"step2.backward", 1'220'791'296, 2'600'762'880}});
}

TEST_CASE("expert loop: gpt-oss loops in training and runs all experts on all tokens otherwise") {
  ParallelPlan plan = plan_of_release("4.57");
  plan.attention = AttentionKind::kEager;
  plan.precision = Precision::kAutocastBf16;
  plan.recompute = Recompute::kFull;
  plan.workload.evaluation = true;
  plan.workload.steps = 1;
  test::check_phases(mixture_of(kGptOssKeys, "2000"), plan,
                     {{"load", 440'773'120, 440'773'120},
                      {"step1.forward", 557'320'192, 1'023'342'592},
                      {"step1.backward", 952'336'896, 1'800'293'888},
                      {"evaluation", 1'391'524'352, 2'759'218'688}});
}

TEST_CASE("expert loop: adapters reach the linear layers of experts and routers") {
  ParallelPlan plan = plan_of_release("4.57");
  plan.lora = LoraPlan{};
  plan.lora->rank = 8;
  const auto trainable = [&](const std::string& config) {
    return lower(mixture_of(config), plan, Rank{0}, DeviceTraits{}).value().trainable_parameters;
  };
  // 8 * (in + out) of all linear layers but the head.
  CHECK(trainable(kMixtralKeys) == 1'056'896);
  CHECK(trainable(kDeepseek3Keys) == 862'720);  // Its router is no linear layer.
}

TEST_CASE("expert loop: what is not modelled is refused with the release and a way out") {
  const auto refused = [](const std::string& config, const ParallelPlan& plan) {
    const auto program = lower(mixture_of(config), plan, Rank{0}, DeviceTraits{});
    REQUIRE_FALSE(program);
    CHECK(program.error().key == "runtime-version");
    CHECK_FALSE(program.error().fix.empty());
    return program.error().got;
  };
  ParallelPlan few = plan_of_release("4.57");
  few.workload.micro_batch = 1;
  few.workload.sequence = 7;
  CHECK(refused(kQwen3Keys, few) == "4.57 with 7 tokens for 32 experts");
  few.workload.sequence = 8;
  CHECK(lower(mixture_of(kQwen3Keys), few, Rank{0}, DeviceTraits{}));
  refused(kMixtralKeys + R"(, "output_router_logits": true)", plan_of_release("4.57"));
  refused(kMixtralKeys, plan_of_release("4.47"));
  refused(kQwen3Keys, plan_of_release("4.50"));
  refused(kDeepseek3Keys, plan_of_release("4.50"));
  refused(kGptOssKeys, plan_of_release("4.55"));
}

}  // namespace headroom::ir
