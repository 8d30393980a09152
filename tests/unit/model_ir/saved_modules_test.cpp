// PEFT's modules_to_save. Phase totals were recorded with PyTorch 2.11.0, transformers 5.17.0 and
// PEFT 0.21.2 on compute capability 9.0: bf16, one sequence of 1100 tokens, LoRA of rank 16 on all
// linear layers, AdamW.

#include "runtimes/transformers/saved_modules.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/fsdp/plan.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/json/json_writer.h"
#include "runtimes/plan_json.h"
#include "runtimes/registry.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

ModelSpec llama_with_head(bool tied) {
  return parse_hf_config(R"({"hidden_size": 1024, "intermediate_size": 2816,
    "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 64,
    "vocab_size": 50000, "max_position_embeddings": 131072, "model_type": "llama",
    "tie_word_embeddings": )" +
                             std::string(tied ? "true}" : "false}"),
                         "small")
      .value();
}

ParallelPlan saving(std::vector<std::string> modules) {
  ParallelPlan plan;
  plan.workload.sequence = 1100;
  plan.lora = LoraPlan{.rank = 16, .targets = {}, .modules_to_save = std::move(modules)};
  return plan;
}

}  // namespace

TEST_CASE("modules to save: copies of embedding and head are trained, the originals stay") {
  const ParallelPlan plan = saving({"embed_tokens", "lm_head"});
  test::check_phases(llama_with_head(false), plan,
                     {{"load", 459'516'928, 459'574'272},
                      {"step1.forward", 868'066'816, 1'198'267'904},
                      {"step1.backward", 733'752'320, 1'308'459'520},
                      {"step1.optimizer", 1'148'005'376, 1'355'852'800},
                      {"step2.forward", 1'314'733'568, 1'644'934'656},
                      {"step2.backward", 1'148'365'824, 1'755'126'272}});
  const RankProgram program = lower(llama_with_head(false), plan, Rank{0}, DeviceTraits{}).value();
  CHECK(program.parameters == 227'931'136);
  CHECK(program.trainable_parameters == 102'981'632);
}

TEST_CASE("modules to save: a tied table is copied for each of its two modules") {
  const ParallelPlan plan = saving({"embed_tokens", "lm_head"});
  test::check_phases(llama_with_head(true), plan,
                     {{"load", 356'756'480, 356'813'824},
                      {"step1.forward", 765'306'368, 1'095'507'456},
                      {"step2.backward", 1'045'605'376, 1'652'365'824}});
  const RankProgram program = lower(llama_with_head(true), plan, Rank{0}, DeviceTraits{}).value();
  CHECK(program.parameters == 176'731'136);
  CHECK(program.trainable_parameters == 102'981'632);
}

TEST_CASE("modules to save: a saved module gets no adapter") {
  const RankProgram with =
      lower(llama_with_head(false), saving({}), Rank{0}, DeviceTraits{}).value();
  const RankProgram without =
      lower(llama_with_head(false), saving({"q_proj"}), Rank{0}, DeviceTraits{}).value();
  constexpr std::int64_t kAdapters = 2 * 16 * (1024 + 1024);
  constexpr std::int64_t kCopies = 2 * 1024 * 1024;
  CHECK(without.trainable_parameters == with.trainable_parameters - kAdapters + kCopies);
}

TEST_CASE("modules to save: the names survive the plan's JSON form") {
  const ParallelPlan plan = saving({"embed_tokens", "norm"});
  CHECK(parse_plan(to_pretty_json(plan_to_json(plan)), "plan").value() == plan);
}

TEST_CASE("modules to save: a name that no module has is refused with those there are") {
  const auto program = lower(llama_with_head(false), saving({"lm_haed"}), Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(program);
  CHECK(program.error().got == "modules_to_save=lm_haed");
  CHECK(program.error().wanted.find("lm_head") != std::string::npos);
}

namespace {

ModelSpec t5() {
  return parse_hf_config(R"({"model_type": "t5", "d_model": 512, "d_kv": 64, "d_ff": 1024,
      "num_layers": 3, "num_decoder_layers": 2, "num_heads": 8, "vocab_size": 8064})",
                         "t5")
      .value();
}

ParallelPlan saving_t5(std::vector<std::string> modules) {
  ParallelPlan plan;
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 512;
  plan.lora = LoraPlan{.rank = 8, .targets = {"q", "v"}, .modules_to_save = std::move(modules)};
  return plan;
}

}  // namespace

TEST_CASE("modules to save: each module that reads T5's table has a copy of its own") {
  test::check_phases(t5(), saving_t5({"lm_head", "embed_tokens"}),
                     {{"load", 58'670'080, 58'678'272},
                      {"step1.forward", 441'475'072, 460'087'296},
                      {"step1.backward", 151'141'376, 484'466'688},
                      {"step1.optimizer", 202'390'528, 228'146'176},
                      {"step2.backward", 202'390'528, 559'702'016}});
}

TEST_CASE("modules to save: a copy of T5's `shared`, which no module calls, gets no gradient") {
  const ParallelPlan plan = saving_t5({"shared"});
  test::check_phases(t5(), plan,
                     {{"load", 42'155'008, 58'211'328},
                      {"step1.backward", 109'722'624, 446'701'568},
                      {"step1.optimizer", 110'640'128, 111'098'880}});
  CHECK(lower(t5(), plan, Rank{0}, DeviceTraits{}).value().trainable_parameters == 4'243'456);
}

TEST_CASE("modules to save: those of a sharded T5 are refused by name") {
  ParallelPlan plan = saving_t5({"lm_head"});
  plan.runtime = "fsdp";
  plan.world = 4;
  edit_fsdp(plan) = FsdpPlan{};
  const auto refused = lower(t5(), plan, Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().key == "lora");
}

TEST_CASE("modules to save: an encoder-decoder's are left to ZeRO, DDP and one GPU") {
  const ModelSpec t5 = parse_hf_config(R"({"model_type": "t5", "d_model": 512, "d_kv": 64,
      "d_ff": 1024, "num_layers": 2, "num_heads": 8, "vocab_size": 4096})",
                                       "t5")
                           .value();
  ParallelPlan plan = saving({"shared"});
  plan.world = 2;
  edit_zero(plan) = ZeroPlan{};
  edit_zero(plan).stage = 3;
  plan.runtime = "deepspeed";
  plan.precision = Precision::kFp32;
  CHECK(lower(t5, plan, Rank{0}, DeviceTraits{}));
  plan.own.reset<ZeroPlan>();
  edit_fsdp(plan) = FsdpPlan{};
  plan.runtime = "fsdp";
  const auto refused = lower(t5, plan, Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().key == "lora");
}

}  // namespace headroom::ir
