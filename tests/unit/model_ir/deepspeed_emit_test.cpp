#include "runtimes/deepspeed/emit.h"

#include <doctest/doctest.h>

#include "model_ir/json/json_value.h"
#include "runtimes/deepspeed/config.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/deepspeed/runtime.h"
#include "runtimes/registry.h"
#include "tests/support/random_plan.h"

namespace headroom::ir::deepspeed {
namespace {

using ir::JsonValue;

ir::ModelSpec model() {
  ir::ModelSpec spec;
  spec.hidden = 4'096;
  spec.heads = 32;
  spec.kv_heads = 8;
  spec.head_dim = 128;
  spec.ffn = 14'336;
  spec.vocabulary = 128'256;
  spec.max_positions = 131'072;
  spec.layers.resize(32);
  return spec;
}

ir::ParallelPlan zero_plan(int stage) {
  ir::ParallelPlan plan;
  plan.runtime = "deepspeed";
  plan.precision = ir::Precision::kBf16Master;
  plan.world = 8;
  edit_zero(plan) = ir::ZeroPlan{};
  edit_zero(plan).stage = stage;
  return plan;
}

JsonValue emitted(const ir::ParallelPlan& plan) {
  return ir::parse_json(emitted_config(model(), plan), "ds.json").value();
}

/// What a configuration does not hold, so that it comes from the trainer's arguments.
ir::ParallelPlan arguments_of(const ir::ParallelPlan& plan) {
  ir::ParallelPlan arguments = plan;
  arguments.precision = ir::Precision::kFp32;
  edit_zero(arguments) = ir::ZeroPlan{};
  edit_zero(arguments).decay_groups = zero_of(plan).decay_groups;
  arguments.workload.micro_batch = 1;
  arguments.workload.accumulation = 1;
  arguments.clip_norm.reset();
  arguments.runtime = "transformers";
  return arguments;
}

bool is_made_by_deepspeed(const ir::OptimizerPlan& optimizer) {
  const bool bitsandbytes = optimizer.form == ir::OptimizerForm::kEightBit ||
                            optimizer.form == ir::OptimizerForm::kPagedEightBit ||
                            optimizer.form == ir::OptimizerForm::kPaged;
  return !bitsandbytes &&
         (optimizer.kind == ir::OptimizerKind::kAdamW ||
          optimizer.kind == ir::OptimizerKind::kSgd || optimizer.kind == ir::OptimizerKind::kLion);
}

}  // namespace

TEST_CASE("property: an emitted configuration reads back as its plan") {
  test::Random random = test::seeded_random(43);
  CAPTURE(random.seed());
  for (int round = 0; round < 400; ++round) {
    const ir::ParallelPlan plan = test::random_deepspeed_plan(random);
    const std::string text = emitted_config(model(), plan);
    CAPTURE(text);
    ir::ParallelPlan arguments = arguments_of(plan);
    if (is_made_by_deepspeed(plan.optimizer)) {
      arguments.optimizer = ir::OptimizerPlan{ir::OptimizerKind::kNone};
    }
    const auto again = ir::deepspeed::parse_config(text, "ds.json", model(), arguments);
    REQUIRE(again);
    CHECK(again->plan == plan);
    CHECK(again->notes.empty());
  }
}

TEST_CASE("emitted_config: nothing is auto") {
  for (const int stage : {0, 1, 2, 3}) {
    CHECK(emitted_config(model(), zero_plan(stage)).find("auto") == std::string::npos);
  }
}

TEST_CASE("emitted_config: the three batch sizes agree") {
  ir::ParallelPlan plan = zero_plan(2);
  plan.workload.micro_batch = 3;
  plan.workload.accumulation = 5;
  const JsonValue config = emitted(plan);
  CHECK(config.find("train_batch_size")->as_integer() == 120);
  CHECK(config.find("train_micro_batch_size_per_gpu")->as_integer() == 3);
  CHECK(config.find("gradient_accumulation_steps")->as_integer() == 5);
}

TEST_CASE("emitted_config: fp16 scales its loss dynamically, bf16 not at all") {
  ir::ParallelPlan plan = zero_plan(2);
  CHECK(emitted_config(model(), plan).find("loss_scale") == std::string::npos);
  plan.precision = ir::Precision::kFp16Master;
  const JsonValue config = emitted(plan);
  const JsonValue& fp16 = *config.find("fp16");
  CHECK(fp16.find("enabled")->as_bool() == true);
  CHECK(fp16.find("loss_scale")->as_integer() == 0);  // Dynamic.
  CHECK(fp16.find("initial_scale_power")->as_integer() == 16);
  CHECK(config.find("bf16") == nullptr);
}

TEST_CASE("emitted_config: what a default decides elsewhere is written") {
  const JsonValue config = emitted(zero_plan(3));
  const JsonValue& zero = *config.find("zero_optimization");
  CHECK(zero.find("overlap_comm")->as_bool() == true);  // none in the plan: stage 3's default
  CHECK(zero.find("reduce_bucket_size")->as_integer() == 500'000'000);
  CHECK(zero.find("stage3_max_live_parameters")->as_integer() == 1'000'000'000);
  CHECK(zero.find("offload_optimizer") == nullptr);
  CHECK(config.find("gradient_clipping")->as_number() == 0);  // The default would clip at 1.
  CHECK(emitted(zero_plan(2)).find("zero_optimization")->find("overlap_comm")->as_bool() == false);
}

TEST_CASE("emitted_config: an optimizer that DeepSpeed does not have is the trainer's") {
  ir::ParallelPlan plan = zero_plan(2);
  plan.optimizer = {ir::OptimizerKind::kAdafactor, ir::OptimizerForm::kLoop, 0};
  const JsonValue config = emitted(plan);
  CHECK(config.find("optimizer") == nullptr);
  CHECK(config.find("zero_allow_untested_optimizer")->as_bool() == true);
  edit_zero(plan).offload_optimizer = ir::OffloadDevice::kCpu;
  CHECK(emitted(plan).find("zero_force_ds_cpu_optimizer")->as_bool() == false);
}

TEST_CASE("emitted_config: a share of the optimizer on the host is written out") {
  ir::ParallelPlan plan = zero_plan(3);
  edit_zero(plan).offload_optimizer = ir::OffloadDevice::kCpu;
  plan.optimizer.form = ir::OptimizerForm::kFused;
  CHECK(emitted(plan).find("zero_optimization")->find("offload_optimizer")->find("ratio") ==
        nullptr);
  edit_zero(plan).offload_ratio = 0.3;
  const JsonValue config = emitted(plan);
  const JsonValue& offload = *config.find("zero_optimization")->find("offload_optimizer");
  CHECK(offload.find("ratio")->as_number() == 0.3);
}

TEST_CASE("emitted_config: offload to a drive names its folder and its buffers") {
  ir::ParallelPlan plan = zero_plan(3);
  edit_zero(plan).offload_optimizer = ir::OffloadDevice::kNvme;
  edit_zero(plan).offload_param = ir::OffloadDevice::kCpu;
  edit_zero(plan).nvme_path = "/local_nvme";
  const JsonValue config = emitted(plan);
  const JsonValue& zero = *config.find("zero_optimization");
  CHECK(*zero.find("offload_optimizer")->find("nvme_path")->as_string() == "/local_nvme");
  CHECK(zero.find("offload_optimizer")->find("buffer_count")->as_integer() == 4);
  CHECK(zero.find("offload_param")->find("nvme_path") == nullptr);
  CHECK(config.find("aio")->find("block_size")->as_integer() == 1'048'576);
}

TEST_CASE("emitted_config: ZeRO++ is written where it is asked for, leaf modules by their class") {
  ir::ModelSpec experts = model();
  experts.family = ir::Family::kDeepseekV3;
  ir::ParallelPlan plan = zero_plan(3);
  plan.world = 16;
  const std::string plain = emitted_config(experts, plan);
  CHECK(plain.find("zero_hpz_partition_size") == std::string::npos);
  CHECK(plain.find("leaf_module") == std::string::npos);
  edit_zero(plan).hpz_partition_size = 8;
  edit_zero(plan).quantized_weights = true;
  edit_zero(plan).quantized_gradients = true;
  edit_zero(plan).leaf = ir::ZeroLeaf::kExperts;
  const std::string text = emitted_config(experts, plan);
  for (const char* part : {"\"zero_hpz_partition_size\": 8", "\"zero_quantized_weights\": true",
                           "\"zero_quantized_gradients\": true", "DeepseekV3MoE"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("emit: the framework writes the formats that it names, and no other") {
  const ir::Runtime& deepspeed = runtime();
  REQUIRE(deepspeed.configuration_formats().size() == 1);
  const std::string_view format = deepspeed.configuration_formats().front().name;
  const ir::ParallelPlan plan = zero_plan(2);
  CHECK(deepspeed.emit(model(), plan, format).value() == emitted_config(model(), plan));
  const ir::Runtime& transformers = *ir::find_runtime("transformers");
  CHECK(transformers.configuration_formats().empty());
  const auto refused = transformers.emit(model(), ir::ParallelPlan{}, format);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().key == "format");
}

}  // namespace headroom::ir::deepspeed
