#include "runtimes/plan_check.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/megatron/plan.h"

#include <doctest/doctest.h>

#include "tests/support/random_plan.h"

namespace headroom::ir {
namespace {

ModelSpec llama_8b() {
  ModelSpec model;
  model.hidden = 4'096;
  model.heads = 32;
  model.kv_heads = 8;
  model.head_dim = 128;
  model.embedding_dim = model.hidden;
  model.ffn = 14'336;
  model.vocabulary = 128'256;
  model.max_positions = 131'072;
  model.layers.resize(32);
  return model;
}

std::string refused_key(const ModelSpec& model, const ParallelPlan& plan) {
  const Status status = check_plan(model, plan);
  return status ? "" : status.error().key;
}

}  // namespace

TEST_CASE("check_plan: the usual plan passes") {
  CHECK(check_plan(llama_8b(), ParallelPlan{}));
}

TEST_CASE("property: check_plan accepts every plan of the generators") {
  test::Random random = test::seeded_random(42);
  CAPTURE(random.seed());
  for (int round = 0; round < 200; ++round) {
    ParallelPlan plan = test::random_transformers_plan(random);
    CHECK(check_plan(llama_8b(), plan));
    plan = test::random_deepspeed_plan(random);
    CHECK(check_plan(llama_8b(), plan));
    plan = test::random_megatron_plan(random);
    CHECK(check_plan(llama_8b(), plan));
  }
}

TEST_CASE("check_plan: sizes that could overflow are refused, also in product") {
  ParallelPlan plan;
  plan.workload.micro_batch = std::int64_t{1} << 20;
  plan.workload.sequence = 17;  // 2^20 * 17 > 2^24 tokens
  CHECK(refused_key(llama_8b(), plan) == "micro-batch");
  plan = ParallelPlan{};
  plan.workload.sequence = std::int64_t{1} << 22;
  CHECK(refused_key(llama_8b(), plan) == "micro-batch");
  ModelSpec many_heads = llama_8b();
  many_heads.heads = std::int64_t{1} << 24;
  plan.workload.sequence = std::int64_t{1}
                           << 20;  // 2^20 tokens * 2^24 heads * 2^20 keys = 2^64 scores
  CHECK(refused_key(many_heads, plan) == "micro-batch");
}

TEST_CASE("check_plan: learned positions end") {
  ModelSpec model = llama_8b();
  model.position = PositionKind::kLearned;
  model.max_positions = 1'024;
  ParallelPlan plan;
  plan.workload.sequence = 1'025;
  CHECK(refused_key(model, plan) == "seq");
  plan.workload.sequence = 1'024;
  CHECK(check_plan(model, plan));
  plan.workload.generation = GenerationPlan{.new_tokens = 2};
  CHECK(refused_key(model, plan) == "generate");
  plan.workload.sequence = 1'023;
  CHECK(refused_key(model, plan) != "generate");
}

TEST_CASE("check_plan: degrees of the mesh that a framework does not have are refused") {
  ParallelPlan plan;
  plan.world = 2;
  CHECK(check_plan(llama_8b(), plan));
  plan.mesh.tensor = 2;
  CHECK(refused_key(llama_8b(), plan) == "mesh");
  plan.runtime = "fsdp";
  plan.precision = Precision::kFp32;
  edit_fsdp(plan) = FsdpPlan{};
  plan.mesh = {.replicas = 2};
  CHECK(refused_key(llama_8b(), plan) != "mesh");
  plan.mesh.expert = 2;
  CHECK(refused_key(llama_8b(), plan) == "mesh");
}

TEST_CASE("check_plan: options that Megatron does not read are refused one by one") {
  ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = Precision::kBf16Master;
  edit_megatron(plan) = MegatronPlan{};
  CHECK(check_plan(llama_8b(), plan));
  ParallelPlan padded = plan;
  padded.workload.padded_batch = true;
  CHECK(refused_key(llama_8b(), padded) == "padded");
  ParallelPlan adapted = plan;
  adapted.lora = LoraPlan{};
  CHECK(refused_key(llama_8b(), adapted) == "lora");
  ParallelPlan kept = plan;
  kept.workload.keep_batch = true;
  CHECK(refused_key(llama_8b(), kept) == "keep-batch");
}

TEST_CASE(
    "check_plan: layers that predict further tokens run again one by one, and not in 8 bits") {
  ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = Precision::kBf16Master;
  edit_megatron(plan) = MegatronPlan{.mtp_layers = 1, .recompute = MegatronRecompute::kFullUniform};
  CHECK(check_plan(llama_8b(), plan));
  edit_megatron(plan).recompute_layers = 2;
  CHECK(refused_key(llama_8b(), plan) == "megatron");
  edit_megatron(plan).recompute_layers = 1;
  edit_megatron(plan).fp8 = MegatronFp8::kTensorwise;
  CHECK(refused_key(llama_8b(), plan) == "megatron");
  edit_megatron(plan).recompute = MegatronRecompute::kNone;
  CHECK(check_plan(llama_8b(), plan));
}

TEST_CASE("check_plan: a share of the optimizer on the host, at stage 3 with DeepSpeedCPUAdam") {
  ParallelPlan plan;
  plan.runtime = "deepspeed";
  plan.precision = Precision::kBf16Master;
  plan.optimizer.form = OptimizerForm::kFused;
  edit_zero(plan) = ZeroPlan{};
  edit_zero(plan).stage = 3;
  edit_zero(plan).offload_ratio = 0.5;
  CHECK(refused_key(llama_8b(), plan) == "offload");  // Of what?
  edit_zero(plan).offload_optimizer = OffloadDevice::kCpu;
  CHECK(check_plan(llama_8b(), plan));
  edit_zero(plan).offload_ratio = 1.5;
  CHECK(refused_key(llama_8b(), plan) == "offload");
  edit_zero(plan).offload_ratio = 0;
  CHECK(check_plan(llama_8b(), plan));
  edit_zero(plan).stage = 2;
  CHECK(refused_key(llama_8b(), plan) == "offload");
  edit_zero(plan).stage = 3;
  plan.optimizer.form = OptimizerForm::kForeach;
  CHECK(refused_key(llama_8b(), plan) == "offload");
  plan.optimizer.form = OptimizerForm::kFused;
  edit_zero(plan).offload_optimizer = OffloadDevice::kNvme;
  edit_zero(plan).nvme_path = "/local_nvme";
  CHECK(refused_key(llama_8b(), plan) == "offload");
}

TEST_CASE("check_plan: on DeepSpeed's host only optimizers run that it has there") {
  ParallelPlan plan;
  plan.runtime = "deepspeed";
  plan.precision = Precision::kBf16Master;
  edit_zero(plan).stage = 2;
  for (const Word<OptimizerPlan>& word : optimizer_words()) {
    CAPTURE(word.text);
    plan.optimizer = word.value;
    edit_zero(plan).offload_optimizer = OffloadDevice::kNone;
    const std::string alone = check_plan(llama_8b(), plan) ? "" : refused_key(llama_8b(), plan);
    edit_zero(plan).offload_optimizer = OffloadDevice::kCpu;
    const std::string text(word.text);
    const bool has_step = text.find("8bit") == std::string::npos &&
                          text.find("paged") == std::string::npos &&
                          text.find("adafactor") == std::string::npos;
    const std::string offloaded = check_plan(llama_8b(), plan) ? "" : refused_key(llama_8b(), plan);
    CHECK(offloaded == (has_step ? alone : "optimizer"));
  }
}

TEST_CASE("check_plan: ZeRO belongs to deepspeed, and offload to its stages") {
  ParallelPlan plan;
  edit_zero(plan) = ZeroPlan{};
  CHECK(refused_key(llama_8b(), plan) == "zero");
  plan.runtime = "deepspeed";
  CHECK(refused_key(llama_8b(), plan) == "precision");  // Pure bf16.
  plan.precision = Precision::kBf16Master;
  CHECK(check_plan(llama_8b(), plan));
  edit_zero(plan).offload_optimizer = OffloadDevice::kCpu;
  CHECK(refused_key(llama_8b(), plan) == "offload");
  edit_zero(plan).stage = 2;
  CHECK(check_plan(llama_8b(), plan));
  edit_zero(plan).offload_param = OffloadDevice::kCpu;
  CHECK(refused_key(llama_8b(), plan) == "offload");
  edit_zero(plan).stage = 3;
  CHECK(check_plan(llama_8b(), plan));
  edit_zero(plan).offload_param = OffloadDevice::kNvme;
  CHECK(refused_key(llama_8b(), plan) == "offload");  // Where to?
  edit_zero(plan).nvme_path = "/local_nvme";
  CHECK(check_plan(llama_8b(), plan));
}

TEST_CASE("check_plan: forms that an optimizer does not have are refused") {
  ParallelPlan plan;
  plan.optimizer = {OptimizerKind::kAdafactor, OptimizerForm::kFused, 0};
  CHECK(refused_key(llama_8b(), plan) == "optimizer");
  plan.optimizer = {OptimizerKind::kSgd, OptimizerForm::kForeach, 0.37};
  CHECK(check_plan(llama_8b(), plan));
}

TEST_CASE("check_plan: quantised weights need adapters") {
  ParallelPlan plan;
  plan.quant = QuantPlan{};
  CHECK(refused_key(llama_8b(), plan) == "qlora");
  plan.lora = LoraPlan{};
  CHECK(check_plan(llama_8b(), plan));
}

}  // namespace headroom::ir
