// Muon, Liger's kernels and generation. Phase totals were recorded with PyTorch 2.11.0,
// transformers 5.17.0 and Liger 0.8.5 (compute capability 9.0, 132 multiprocessors).

#include <doctest/doctest.h>

#include "runtimes/fsdp/plan.h"
#include "runtimes/plan_check.h"
#include "tests/support/refusal.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

using test::refused_by_lowering;

/// Two layers, H 1024, F 2816, V 8000, untied.
ModelSpec two_layers() {
  return parse_hf_config(R"({"model_type": "llama", "hidden_size": 1024,
    "intermediate_size": 2816, "num_hidden_layers": 2, "num_attention_heads": 16,
    "num_key_value_heads": 4, "vocab_size": 8000, "tie_word_embeddings": false})",
                         "two layers")
      .value();
}

ParallelPlan plan_of_length(Precision precision, std::int64_t sequence) {
  ParallelPlan plan;
  plan.precision = precision;
  plan.workload.sequence = sequence;
  return plan;
}

}  // namespace

TEST_CASE("muon: matrices of the layers are orthogonalised in bf16, AdamW steps the rest") {
  ParallelPlan plan = plan_of_length(Precision::kFp32, 300);
  plan.optimizer.kind = OptimizerKind::kMuon;
  test::check_phases(two_layers(), plan,
                     {{"step1.optimizer", 620'839'936, 687'969'280},
                      {"step1.zero_grad", 460'387'328, 620'839'936},
                      {"step2.optimizer", 622'363'648, 689'492'992}});
  plan.precision = Precision::kBf16;
  test::check_phases(two_layers(), plan,
                     {{"step1.optimizer", 338'904'064, 372'468'736},
                      {"step2.optimizer", 338'682'880, 371'461'120}});
}

TEST_CASE("muon: shards are no matrices") {
  ParallelPlan plan = plan_of_length(Precision::kFp32, 300);
  plan.optimizer.kind = OptimizerKind::kMuon;
  CHECK(check_plan(two_layers(), plan));
  plan.runtime = "fsdp";
  edit_fsdp(plan) = FsdpPlan{};
  const Status status = check_plan(two_layers(), plan);
  REQUIRE_FALSE(status);
  CHECK(status.error().key == "optimizer");
}

TEST_CASE("liger: norms, gated MLPs and rotation keep their inputs alone") {
  ParallelPlan plan = plan_of_length(Precision::kBf16, 1100);
  plan.liger = true;
  test::check_phases(two_layers(), plan,
                     {{"step1.forward", 220'472'832, 273'724'416},
                      {"step1.backward", 226'833'408, 291'766'784},
                      {"step2.forward", 413'165'056, 466'416'640},
                      {"step2.backward", 383'736'832, 484'459'008}});
}

TEST_CASE("liger: the fused loss keeps gradients in the place of logits") {
  ParallelPlan plan = plan_of_length(Precision::kBf16, 1100);
  plan.liger = true;
  plan.loss = LossKind::kFusedLinear;
  test::check_phases(
      two_layers(), plan,
      {{"step1.forward", 201'588'736, 207'952'384}, {"step1.backward", 227'537'920, 246'179'328}});
}

TEST_CASE("liger: a gradient that is a view is not added to in place") {
  ParallelPlan plan = plan_of_length(Precision::kAutocastBf16, 1100);
  plan.liger = true;
  test::check_phases(
      two_layers(), plan,
      {{"step1.forward", 393'136'640, 450'893'824}, {"step1.backward", 389'372'928, 464'430'592}});
}

TEST_CASE("liger: norms that do not write in place, parts that are copied, no rotation") {
  const auto narrow = [](const std::string& rest) {
    return parse_hf_config(R"({"hidden_size": 512, "intermediate_size": 1536,
        "num_hidden_layers": 3, "num_attention_heads": 8, "vocab_size": 8000, )" +
                               rest + "}",
                           "narrow")
        .value();
  };
  ParallelPlan plan = plan_of_length(Precision::kBf16, 640);
  plan.workload.micro_batch = 2;
  plan.liger = true;
  // Norms of transposed heads, two norms with the residual between them.
  test::check_phases(narrow(R"("model_type": "gemma3_text", "num_key_value_heads": 2,
      "head_dim": 64, "sliding_window": 512, "layer_types":
      ["sliding_attention", "full_attention", "sliding_attention"])"),
                     plan,
                     {{"step1.forward", 187'948'544, 250'873'856},
                      {"step1.backward", 121'145'856, 271'824'384},
                      {"step2.backward", 176'130'560, 362'296'832}});
  test::check_phases(narrow(R"("model_type": "phi3", "num_key_value_heads": 4)"), plan,
                     {{"step1.forward", 183'462'912, 246'388'224},
                      {"step1.backward", 140'852'224, 267'338'752},
                      {"step2.backward", 211'383'296, 373'783'552}});
  test::check_phases(narrow(R"("model_type": "glm4", "num_key_value_heads": 4, "head_dim": 64)"),
                     plan,
                     {{"step1.forward", 190'534'656, 253'459'968},
                      {"step1.backward", 140'418'048, 274'410'496},
                      {"step2.backward", 211'104'768, 381'142'016}});
}

TEST_CASE("liger: what its patches of other families do is refused by name") {
  ModelSpec plain = two_layers();
  plain.norm = NormKind::kLayer;
  ParallelPlan plan = plan_of_length(Precision::kBf16, 64);
  plan.liger = true;
  CHECK(refused_by_lowering(plain, plan) == "liger");
  CHECK(refused_by_lowering(two_layers(), plan).empty());
}

TEST_CASE("generation: a prompt, then tokens whose cache is copied as it grows") {
  ParallelPlan plan = plan_of_length(Precision::kBf16, 300);
  plan.workload.steps = 0;
  plan.workload.generation = GenerationPlan{.new_tokens = 4, .static_cache = false};
  test::check_phases(two_layers(), plan,
                     {{"load", 79'703'040, 79'703'040},
                      {"generation.prefill", 113'921'536, 121'777'664},
                      {"generation.decode", 113'257'472, 114'093'568}});
  plan.workload.micro_batch = 2;
  test::check_phases(two_layers(), plan, {{"generation.decode", 113'257'472, 114'925'056}});
}

TEST_CASE("generation: a window keeps the memory of the whole prompt until the next token") {
  ParallelPlan plan = plan_of_length(Precision::kBf16, 300);
  plan.workload.steps = 0;
  plan.workload.generation = GenerationPlan{.new_tokens = 4, .static_cache = false};
  const auto windowed = [](std::int64_t tokens) {
    return parse_hf_config(R"({"model_type": "mistral", "hidden_size": 1024,
      "intermediate_size": 2816, "num_hidden_layers": 2, "num_attention_heads": 16,
      "num_key_value_heads": 4, "vocab_size": 8000, "tie_word_embeddings": false,
      "sliding_window": )" + std::to_string(tokens) +
                               "}",
                           "windowed")
        .value();
  };
  test::check_phases(windowed(128), plan,
                     {{"generation.prefill", 113'922'560, 121'868'800},
                      {"generation.decode", 113'257'472, 114'281'984}});
  plan.workload.generation->new_tokens = 6;  // The window is full from the third token on.
  test::check_phases(windowed(302), plan,
                     {{"generation.prefill", 113'922'560, 121'778'688},
                      {"generation.decode", 113'257'472, 115'177'472}});
}

TEST_CASE("generation: decoding copies the weights of the experts that were chosen") {
  const ModelSpec model = parse_hf_config(R"({"model_type": "mixtral", "hidden_size": 512,
    "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 4, "vocab_size": 8000, "num_local_experts": 8,
    "num_experts_per_tok": 2})",
                                          "experts")
                              .value();
  ParallelPlan plan = plan_of_length(Precision::kBf16, 300);
  plan.workload.steps = 0;
  plan.workload.generation = GenerationPlan{.new_tokens = 4, .static_cache = false};
  test::check_phases(model, plan,
                     {{"generation.prefill", 104'102'400, 111'634'432},
                      {"generation.decode", 103'438'336, 110'610'944}});
  plan.lora = test::all_linear(8);
  CHECK(refused_by_lowering(model, plan) == "generate");
}

TEST_CASE("generation: shards are gathered for the prompt and for every token") {
  ParallelPlan plan = plan_of_length(Precision::kFp32, 300);
  plan.runtime = "fsdp";
  plan.world = 8;
  plan.workload.steps = 0;
  plan.workload.generation = GenerationPlan{.new_tokens = 4, .static_cache = false};
  edit_fsdp(plan) = FsdpPlan{};
  test::check_phases(two_layers(), plan,
                     {{"load", 19'467'776, 19'467'776},
                      {"generation.prefill", 53'686'272, 166'459'392},
                      {"generation.decode", 53'022'208, 166'428'672}});
  edit_fsdp(plan).reshard_after_forward = false;
  test::check_phases(two_layers(), plan,
                     {{"generation.prefill", 132'339'712, 178'923'520},
                      {"generation.decode", 131'675'648, 132'511'744}});
  edit_fsdp(plan).cpu_offload = true;
  CHECK(refused_by_lowering(two_layers(), plan) == "generate");
  edit_fsdp(plan) = FsdpPlan{.version = 1};
  CHECK(refused_by_lowering(two_layers(), plan) == "generate");
}

TEST_CASE("generation: other caches are refused by name") {
  ParallelPlan plan = plan_of_length(Precision::kBf16, 64);
  plan.workload.generation = GenerationPlan{.new_tokens = 4, .static_cache = true};
  CHECK(refused_by_lowering(two_layers(), plan) == "generate");
  ModelSpec slanted = two_layers();
  slanted.position = PositionKind::kAlibi;
  plan.workload.generation->static_cache = false;
  CHECK(refused_by_lowering(slanted, plan) == "generate");
  CHECK(refused_by_lowering(two_layers(), plan).empty());
}

}  // namespace headroom::ir
