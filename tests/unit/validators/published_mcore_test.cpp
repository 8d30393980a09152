#include <map>
#include <string>

#include <doctest/doctest.h>

#include "runtimes/megatron/plan.h"
#include "validators/measured/published_plan.h"
#include "validators/measured/row_reader.h"

namespace headroom::check {
namespace {

/// A row of a table about Megatron with one key changed.
std::string mcore_row(const std::string& key = "", const std::string& with = "") {
  std::map<std::string, std::string> keys = {
      {"model", R"({"name": "small", "arch": "gpt2-style", "layers": 12, "hidden": 64,)"
                R"( "heads": 4, "kv_heads": 4, "head_dim": 16, "ffn": 256, "vocab": 51200,)"
                R"( "tied_embeddings": true, "moe": null, "mla": null})"},
      {"gpu", R"j("NVIDIA A100-SXM4-80GB (Selene)")j"},
      {"num_gpus", "64"},
      {"mode", R"("train")"},
      {"framework", R"j("Megatron-LM (2022)")j"},
      {"tp", "8"},
      {"pp", "2"},
      {"vpp", "3"},
      {"sequence_parallel", "true"},
      {"precision", R"("fp16 mixed")"},
      {"optimizer", R"("adam")"},
      {"micro_batch", "1"},
      {"global_batch", "64"},
      {"seq_len", "2048"},
      {"checkpointing", R"("selective + SP")"},
      {"attention", R"j("eager (scores and softmax materialised)")j"},
      {"other", "null"},
      {"measured", R"({"step_time_ms": 1100.0, "tflops_per_gpu": 100})"}};
  if (!key.empty()) {
    keys[key] = with;
  }
  std::string text = R"({"source": "s", "rows": [{"id": "p")";
  for (const auto& [name, value] : keys) {
    text += ", \"" + name + "\": " + value;
  }
  return text + "}]}";
}

ScoreTools mcore_tools() {
  ScoreTools tools;
  tools.find_device = [](const std::string& name) -> Result<cost::DeviceSpec> {
    cost::DeviceSpec device;
    device.name = name;
    return device;
  };
  tools.estimate = [](const ir::ModelSpec&, const ir::ParallelPlan&, const cost::DeviceSpec&,
                      const ir::RunConditions&) -> Result<cost::StepEstimate> {
    cost::StepEstimate estimate;
    estimate.time = cost::StepTime{};
    estimate.time->total = Seconds{1};
    estimate.time->tokens = 64 * 2048;
    estimate.time->gpus = 64;
    return estimate;
  };
  return tools;
}

MeasuredRow parse_mcore(const std::string& text) {
  const auto rows = parse_rows(text, "book.json");
  REQUIRE(rows);
  return rows->front();
}

PublishedPlanned planned(const std::string& key = "", const std::string& with = "") {
  return plan_of_published(parse_mcore(mcore_row(key, with)), mcore_tools());
}

std::string skip_of_mcore(const std::string& key, const std::string& with) {
  const PublishedPlanned row = planned(key, with);
  const Skip* skip = std::get_if<Skip>(&row);
  return skip != nullptr ? skip->reason : "(planned)";
}

}  // namespace

TEST_CASE("published Megatron row: degrees, chunks and recomputation of a table") {
  const PublishedPlanned row = planned();
  REQUIRE(std::holds_alternative<PublishedSetting>(row));
  const auto& setting = std::get<PublishedSetting>(row);
  const ir::MegatronPlan& megatron = megatron_of(setting.run.plan);
  CHECK(setting.device.name == "a100-80gb");
  CHECK(setting.run.plan.mesh.tensor == 8);
  CHECK(setting.run.plan.mesh.pipeline == 2);
  CHECK(megatron.layers_per_chunk == 2);  // 12 layers in 2 x 3 chunks.
  CHECK(megatron.sequence_parallel);
  CHECK_FALSE(megatron.distributed_optimizer);
  CHECK(megatron.attention == ir::MegatronAttention::kUnfused);
  CHECK(megatron.recompute == ir::MegatronRecompute::kSelective);
  CHECK(megatron.recompute_modules.core_attention);
  CHECK(setting.run.plan.workload.accumulation == 16);  // 64 sequences on 4 replicas.
  CHECK(setting.run.plan.precision == ir::Precision::kFp16Master);
  CHECK(setting.run.model.position == ir::PositionKind::kLearned);
  CHECK(setting.run.model.qkv_bias);
  CHECK(setting.run.model.dropout.attention == 0.1);
}

TEST_CASE("published Megatron row: context parallelism exchanges heads where the row says so") {
  const auto exchange = [](const char* words) {
    const PublishedPlanned row = planned("other", words);
    REQUIRE(std::holds_alternative<PublishedSetting>(row));
    return megatron_of(std::get<PublishedSetting>(row).run.plan).context_exchange;
  };
  CHECK(exchange(R"("--bf16. cp-comm-type a2a.")") == ir::MegatronContext::kAllToAll);
  CHECK(exchange(R"("--bf16")") == ir::MegatronContext::kRing);
}

TEST_CASE("published Megatron row: 8-bit recipes by the names of their tables") {
  const auto recipe = [](const char* words) {
    const PublishedPlanned row = planned("precision", words);
    REQUIRE(std::holds_alternative<PublishedSetting>(row));
    const ir::ParallelPlan& plan = std::get<PublishedSetting>(row).run.plan;
    CHECK(plan.precision == ir::Precision::kBf16Master);
    return megatron_of(plan).fp8;
  };
  CHECK(recipe(R"("MXFP8")") == ir::MegatronFp8::kMxfp8);
  CHECK(recipe(R"("FP8-CS")") == ir::MegatronFp8::kTensorwise);
  CHECK(recipe("\"bf16 + FP8 (per-tensor scaling)\"") == ir::MegatronFp8::kDelayed);
}

TEST_CASE("published Megatron row: graphs, and layers that count their ends") {
  const PublishedPlanned graphs = planned("compile", R"("cuda_graph full_iteration/[]")");
  REQUIRE(std::holds_alternative<PublishedSetting>(graphs));
  CHECK(std::get<PublishedSetting>(graphs).run.conditions.all_in_graphs);
  const PublishedPlanned parts =
      planned("compile", R"("cuda_graph transformer_engine/['moe_router', 'moe_preprocess']")");
  REQUIRE(std::holds_alternative<PublishedSetting>(parts));
  const ir::RunConditions& conditions = std::get<PublishedSetting>(parts).run.conditions;
  CHECK(!conditions.all_in_graphs);
  CHECK(conditions.graphed == std::vector<std::string>{"norm", "router"});
  const PublishedPlanned ends = planned("vpp", "7");  // 12 layers and two more, in 2 x 7 chunks.
  REQUIRE(std::holds_alternative<PublishedSetting>(ends));
  const ir::MegatronPlan& megatron = megatron_of(std::get<PublishedSetting>(ends).run.plan);
  CHECK(megatron.account_for_embedding);
  CHECK(megatron.account_for_loss);
  CHECK(megatron.layers_per_chunk == 1);
}

TEST_CASE("published Megatron row: what a table leaves open skips it with the key") {
  CHECK(skip_of_mcore("precision", R"("NVFP4")") == "precision: 'NVFP4'");
  CHECK(skip_of_mcore("micro_batch", "null") == "micro_batch: not stated");
  CHECK(skip_of_mcore("global_batch", "null") == "global_batch: not stated");
  CHECK(skip_of_mcore("pp", "null") == "pp: not stated");
  CHECK(skip_of_mcore("tp", "null") == "tp: not stated");
  CHECK(skip_of_mcore("global_batch", "65").starts_with("global_batch: 65"));
  CHECK(skip_of_mcore("vpp", "5") == "vpp: 5, which leaves stages uneven");
  CHECK(skip_of_mcore("checkpointing", "null") == "checkpointing: ''");
  CHECK(skip_of_mcore("mode", R"("finetune")") == "mode: 'finetune'");
  CHECK(skip_of_mcore("compile", R"("inductor")") == "compile: 'inductor'");
}

TEST_CASE("published Megatron row: degrees that are not stated are a reason, not a division by 0") {
  CHECK(skip_of_mcore("tp", "null") == "tp: not stated");
  CHECK(skip_of_mcore("pp", "null") == "pp: not stated");
}

TEST_CASE("published Megatron row: recomputed modules and the precision-aware optimizer") {
  const PublishedPlanned modules =
      planned("checkpointing", R"j("selective modules ['layernorm', 'mlp']")j");
  REQUIRE(std::holds_alternative<PublishedSetting>(modules));
  const ir::MegatronPlan plan = megatron_of(std::get<PublishedSetting>(modules).run.plan);
  CHECK(plan.recompute == ir::MegatronRecompute::kSelective);
  CHECK(plan.recompute_modules == ir::MegatronModules{.norms = true, .mlp = true});
  const PublishedPlanned aware =
      planned("optimizer", R"("adam, precision aware, distributed", "optimizer_state_dtypes": )"
                           R"("fp32 main params, bf16 main grads, bf16 exp_avg, bf16 exp_avg_sq")");
  REQUIRE(std::holds_alternative<PublishedSetting>(aware));
  const ir::MegatronPlan states = megatron_of(std::get<PublishedSetting>(aware).run.plan);
  CHECK(states.distributed_optimizer);
  CHECK(states.precision_aware);
  CHECK(states.bf16_moments);
  CHECK_FALSE(states.fp32_gradients);
}

TEST_CASE("published Megatron row: times and rates compare as their authors count") {
  const Scoring scoring = score_row(parse_mcore(mcore_row()), mcore_tools());
  REQUIRE(scoring.scores.size() == 1);
  CHECK(scoring.scores[0].metric == Metric::kStepTime);
  CHECK(scoring.scores[0].predicted == 1000);
  REQUIRE(scoring.skipped.size() == 1);  // Nobody says how the 2022 tables count FLOPs.
  CHECK(scoring.skipped[0].metric == Metric::kTflops);
}

}  // namespace headroom::check
