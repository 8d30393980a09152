// FSDP2. Phase totals were recorded with PyTorch 2.11.0 and transformers 5.17.0 on rank 0 (compute
// capability 9.0, 132 multiprocessors): fully_shard on each layer and on the model, policy bf16
// parameters and fp32 reductions, fused AdamW, one sequence of 1100 tokens.

#include <array>

#include <doctest/doctest.h>

#include "model_ir/json/json_writer.h"
#include "runtimes/fsdp/copy_tables.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/fsdp/sharded_model.h"
#include "runtimes/plan_check.h"
#include "runtimes/plan_json.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

/// Two layers, H 1024, F 2816, V 50000.
ModelSpec small_model(const std::string& head) {
  return parse_hf_config(R"({"hidden_size": 1024, "intermediate_size": 2816,
    "num_hidden_layers": 2, "num_attention_heads": 16, "vocab_size": 50000, )" +
                             head + "}",
                         "small")
      .value();
}

ModelSpec tied_llama() {
  return small_model(R"("model_type": "llama", "tie_word_embeddings": true,
    "num_key_value_heads": 4, "head_dim": 64, "max_position_embeddings": 131072)");
}

ParallelPlan sharded(const FsdpPlan& fsdp = {}) {
  ParallelPlan plan;
  plan.runtime = "fsdp";
  plan.precision = Precision::kFp32;
  plan.optimizer.form = OptimizerForm::kFused;
  plan.workload.sequence = 1100;
  plan.world = 8;
  edit_fsdp(plan) = fsdp;
  return plan;
}

}  // namespace

TEST_CASE("fsdp: shards, gathers and reductions of eight ranks") {
  test::check_phases(tied_llama(), sharded(),
                     {{"load", 37'096'960, 62'696'960},
                      {"step1.forward", 398'579'712, 854'091'776},
                      {"step1.backward", 141'080'576, 964'803'584},
                      {"step1.optimizer", 215'847'936, 215'847'936},
                      {"step1.zero_grad", 178'973'184, 215'847'936},
                      {"step2.forward", 507'407'360, 962'558'976},
                      {"step2.backward", 215'847'936, 1'073'270'784}});
}

TEST_CASE("fsdp: parameters that stay gathered until backward") {
  FsdpPlan fsdp;
  fsdp.reshard_after_forward = false;
  test::check_phases(tied_llama(), sharded(fsdp),
                     {{"step1.forward", 547'739'648, 900'489'216},
                      {"step1.backward", 141'080'576, 988'132'352},
                      {"step2.forward", 655'258'624, 1'008'008'192},
                      {"step2.backward", 215'847'936, 1'095'651'328}});
}

TEST_CASE("fsdp: one rank copies its parameters one by one") {
  ParallelPlan plan = sharded();
  plan.world = 1;
  test::check_phases(tied_llama(), plan,
                     {{"load", 302'011'392, 507'532'288},
                      {"step1.forward", 662'910'464, 1'096'234'496},
                      {"step1.backward", 666'915'840, 1'205'705'216},
                      {"step2.forward", 1'290'558'976, 1'723'162'112},
                      {"step2.backward", 1'259'019'264, 1'833'353'728}});
}

TEST_CASE("fsdp: every micro-batch is reduced, and norms of shards are added up among ranks") {
  ParallelPlan plan = sharded();
  plan.workload.accumulation = 2;
  plan.clip_norm = 1.0;
  test::check_phases(tied_llama(), plan,
                     {{"step1.1.backward", 141'080'576, 964'803'584},
                      {"step1.2.forward", 468'886'016, 924'037'632},
                      {"step1.2.backward", 141'080'576, 1'034'749'440},
                      {"step2.2.backward", 215'847'936, 1'110'145'536},
                      {"step2.optimizer", 215'847'936, 215'866'368}});
}

TEST_CASE("fsdp: layers that are run again gather nothing more") {
  ParallelPlan plan = sharded();
  plan.recompute = Recompute::kFull;
  test::check_phases(tied_llama(), plan,
                     {{"step1.forward", 304'684'032, 760'196'096},
                      {"step1.backward", 141'080'576, 870'907'904},
                      {"step2.backward", 215'847'936, 978'869'248}});
}

TEST_CASE("fsdp: fp32 tables are cast for each layer, which checkpointing keeps") {
  const ModelSpec olmo2 = small_model(
      R"("model_type": "olmo2", "tie_word_embeddings": false, "num_key_value_heads": 16)");
  ParallelPlan plan = sharded();
  plan.recompute = Recompute::kFull;
  test::check_phases(olmo2, plan,
                     {{"load", 64'271'872, 64'271'872},
                      {"step1.forward", 334'639'104, 896'061'440},
                      {"step1.backward", 195'430'400, 1'006'253'056},
                      {"step2.backward", 324'550'144, 1'169'168'896}});
}

TEST_CASE("fsdp: a buffer that scales the embedding stays in the type of the shards") {
  const ModelSpec gemma = small_model(R"("model_type": "gemma", "num_key_value_heads": 4,
    "head_dim": 64)");
  test::check_phases(gemma, sharded(),
                     {{"load", 37'097'472, 62'697'472},
                      {"step1.forward", 409'865'216, 865'377'280},
                      {"step1.backward", 141'081'088, 976'089'088}});
}

TEST_CASE("fsdp: buffers of collectives live in pools of their own streams") {
  const RankProgram program = lower(tied_llama(), sharded(), Rank{0}, DeviceTraits{}).value();
  std::array<std::int64_t, 4> bytes{};
  for (std::size_t i = program.phases[2].begin; i < program.phases[2].end; ++i) {
    const Event& event = program.events[i];
    if (event.kind == EventKind::kAllocate) {
      bytes.at(event.stream) += event.bytes;
    }
  }
  // Backward gathers the root's group and both layers', and keeps three reduced groups.
  CHECK(bytes[1] == 12'800'256 + 102'402'048 + 2 * (2'818'560 + 22'548'480));
  CHECK(bytes[2] == 2 * 5'637'120 + 25'600'512);
  CHECK(bytes[3] == 0);
}

TEST_CASE("fsdp: replicas cast what they have reduced on a stream of their own") {
  FsdpPlan fsdp;
  fsdp.reduce_dtype = DType::kBf16;
  ParallelPlan plan = sharded(fsdp);
  plan.mesh.replicas = 2;
  plan.world = 16;
  const RankProgram program = lower(tied_llama(), plan, Rank{0}, DeviceTraits{}).value();
  std::int64_t bytes = 0;
  for (std::size_t i = program.phases[2].begin; i < program.phases[2].end; ++i) {
    bytes += program.events[i].stream == 3 ? program.events[i].bytes : 0;
  }
  CHECK(bytes == 2 * 5'637'120 + 25'600'512);
}

TEST_CASE("copy tables: what the copies around a collective bring to the device") {
  // Of the run above, of all parameters in fp32, and of 512 ranks.
  const std::array<std::int64_t, 2> root = {12'800'000, 256};
  const std::array<std::int64_t, 2> wide = {25'600'000, 512};
  const std::array<std::int64_t, 2> thin = {200'704, 4};
  const DeviceTraits device{};
  CHECK(fsdp::split_copy_table_bytes(root, 8, device) == 16'752);
  CHECK(fsdp::split_copy_table_bytes(wide, 8, device) == 20'080);
  CHECK(fsdp::split_copy_table_bytes(thin, 512, device) == 344);
  CHECK(fsdp::chunk_cat_table_bytes(wide) == 100'120);
  CHECK(fsdp::chunk_cat_table_bytes(root) == 50'120);
}

TEST_CASE("fsdp: a plan written as JSON reads back the same, and other runtimes have none") {
  FsdpPlan fsdp;
  fsdp.reshard_after_forward = false;
  fsdp.shard_embeddings = true;
  fsdp.reduce_dtype = DType::kBf16;
  ParallelPlan plan = sharded(fsdp);
  plan.mesh.replicas = 2;
  CHECK(parse_plan(to_pretty_json(plan_to_json(plan)), "plan.json").value() == plan);
  CHECK(check_plan(tied_llama(), plan));
  ParallelPlan other = plan;
  other.runtime = "transformers";
  const Status status = check_plan(tied_llama(), other);
  REQUIRE_FALSE(status);
  CHECK(status.error().key == "fsdp");
}

TEST_CASE("children_first: a module's own parameters follow those of its children") {
  const std::array<std::string, 5> names = {"embed.weight", "layer.sinks", "layer.q.weight",
                                            "layer.q.bias", "head.weight"};
  CHECK(fsdp::children_first(names) == std::vector<std::size_t>{0, 2, 3, 1, 4});
}

TEST_CASE("fsdp: what it cannot follow is refused by name") {
  const auto refused = [](const ParallelPlan& plan) {
    const auto program = lower(tied_llama(), plan, Rank{0}, DeviceTraits{});
    return program ? std::string() : program.error().key;
  };
  ParallelPlan plan = sharded();
  plan.precision = Precision::kBf16Master;
  CHECK(refused(plan) == "precision");
  plan = sharded();
  plan.loss = LossKind::kChunked;
  edit_fsdp(plan).shard_embeddings = true;
  CHECK(refused(plan) == "loss");
  plan = sharded();
  plan.mesh.replicas = 3;
  CHECK(refused(plan) == "fsdp");
  plan = sharded();
  edit_fsdp(plan).reshard_ranks = 3;
  CHECK(refused(plan) == "fsdp");
  plan = sharded();
  edit_fsdp(plan).version = 1;
  edit_fsdp(plan).cpu_offload = true;
  plan.mesh.replicas = plan.world;
  CHECK(refused(plan) == "fsdp");
  edit_fsdp(plan) = FsdpPlan{};
  edit_fsdp(plan).version = 1;
  plan.lora = LoraPlan{};
  plan.lora->dora = true;
  CHECK(refused(plan) == "lora");
}

}  // namespace headroom::ir
