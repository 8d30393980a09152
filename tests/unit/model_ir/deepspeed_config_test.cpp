#include "runtimes/deepspeed/config.h"

#include <doctest/doctest.h>

#include "runtimes/deepspeed/plan.h"
#include "runtimes/plan_check.h"

namespace headroom::ir::deepspeed {
namespace {

ModelSpec model_of_width(std::int64_t hidden) {
  ModelSpec model;
  model.hidden = hidden;
  return model;
}

Result<ConfigReading> read(const std::string& text, const ParallelPlan& arguments = {}) {
  return parse_config(text, "ds.json", model_of_width(4'096), arguments);
}

std::string refusal(const std::string& text) {
  const auto config = read(text);
  return config ? "" : to_text(config.error());
}

}  // namespace

TEST_CASE("deepspeed config: an empty one has DeepSpeed's defaults") {
  const ParallelPlan plan = read("{}")->plan;
  CHECK(plan.runtime == "deepspeed");
  CHECK(plan.precision == Precision::kFp32);
  CHECK(zero_of(plan) == ZeroPlan{});
  CHECK(plan.clip_norm == 1.0);  // GRADIENT_CLIPPING_DEFAULT
  CHECK(plan.optimizer == OptimizerPlan{});
}

TEST_CASE("deepspeed config: auto sizes are the trainer's, of the hidden size") {
  const std::string sizes =
      R"("reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
         "stage3_param_persistence_threshold": "auto")";
  const ZeroPlan three =
      zero_of(read(R"({"zero_optimization": {"stage": 3, )" + sizes + "}}")->plan);
  CHECK(three.reduce_bucket_size == 16'777'216);    // 4096^2
  CHECK(three.prefetch_bucket_size == 15'099'494);  // int(0.9 * 4096^2)
  CHECK(three.param_persistence_threshold == 40'960);
  // transformers fills the last two at stage 3 only.
  const ZeroPlan two = zero_of(read(R"({"zero_optimization": {"stage": 2, )" + sizes + "}}")->plan);
  CHECK(two.reduce_bucket_size == 16'777'216);
  CHECK(two.prefetch_bucket_size == 50'000'000);
  CHECK(two.param_persistence_threshold == 100'000);
}

TEST_CASE("deepspeed config: text that is no JSON is refused with line and column") {
  CHECK(read("{\n  \"zero_optimization\": {,}\n}").error().pointer == "line 2, column 25");
  CHECK(read("").error().got == "an empty file");
  CHECK(read("[]").error().wanted == "a JSON object");
}

TEST_CASE("deepspeed config: numbers may be written as 5e8") {
  CHECK(zero_of(read(R"({"zero_optimization": {"stage": 2, "reduce_bucket_size": 2e8}})")->plan)
            .reduce_bucket_size == 200'000'000);
  CHECK(refusal(R"({"zero_optimization": {"reduce_bucket_size": 2.5}})")
            .find("/zero_optimization/reduce_bucket_size") != std::string::npos);
}

TEST_CASE("deepspeed config: the precision follows bf16 and fp16, auto the arguments") {
  CHECK(read(R"({"bf16": {"enabled": true}})")->plan.precision == Precision::kBf16Master);
  CHECK(read(R"({"fp16": {"enabled": true, "loss_scale": 0}})")->plan.precision ==
        Precision::kFp16Master);
  ParallelPlan arguments;
  arguments.precision = Precision::kAutocastBf16;
  const std::string both = R"({"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}})";
  CHECK(read(both, arguments)->plan.precision == Precision::kBf16Master);
  arguments.precision = Precision::kFp32;
  CHECK(read(both, arguments)->plan.precision == Precision::kFp32);
  CHECK_FALSE(read(R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})"));
}

TEST_CASE("deepspeed config: two of the three batch sizes give the third") {
  ParallelPlan arguments;
  arguments.world = 8;
  arguments.workload.micro_batch = 5;
  arguments.workload.accumulation = 7;
  const auto batch = [&](const char* text) {
    const ParallelPlan plan = read(text, arguments)->plan;
    return std::pair(plan.workload.micro_batch, plan.workload.accumulation);
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  CHECK(batch(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2})") == Pair{2, 4});
  CHECK(batch(R"({"train_batch_size": 64, "gradient_accumulation_steps": 2})") == Pair{4, 2});
  CHECK(batch(R"({"train_batch_size": 64})") == Pair{8, 1});
  CHECK(batch(R"({"train_micro_batch_size_per_gpu": 3})") == Pair{3, 1});
  CHECK(batch("{}") == Pair{5, 7});
  CHECK(batch(R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
                  "gradient_accumulation_steps": "auto"})") == Pair{5, 7});
  const auto wrong =
      read(R"({"train_batch_size": 60, "train_micro_batch_size_per_gpu": 2})", arguments);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().pointer == "/train_batch_size");
}

TEST_CASE("deepspeed config: optimizers by name, and their implementations") {
  const auto optimizer = [](const std::string& section) {
    return read(R"({"optimizer": )" + section + "}")->plan.optimizer;
  };
  using Form = OptimizerForm;
  CHECK(optimizer(R"({"type": "AdamW", "params": {"lr": "auto"}})") ==
        OptimizerPlan{OptimizerKind::kAdamW, Form::kFused, 0});
  CHECK(optimizer(R"({"type": "Adam", "params": {"torch_adam": true}})") ==
        OptimizerPlan{OptimizerKind::kAdamW, Form::kForeach, 0});
  CHECK(optimizer(R"({"type": "AdamW", "params": {"torch_adam": true, "foreach": false}})") ==
        OptimizerPlan{OptimizerKind::kAdamW, Form::kLoop, 0});
  CHECK(optimizer(R"({"type": "SGD", "params": {"momentum": 0.9}})") ==
        OptimizerPlan{OptimizerKind::kSgd, Form::kForeach, 0.9});
  CHECK(optimizer(R"({"type": "Lion"})").kind == OptimizerKind::kLion);
  CHECK(refusal(R"({"optimizer": {"type": "OneBitAdam"}})").find("/optimizer/type") !=
        std::string::npos);
}

TEST_CASE("deepspeed config: fp32 accumulation from stage 1 on, and torch's fused AdamW") {
  const auto zero = [](const std::string& stage) {
    return zero_of(
        read(R"({"zero_optimization": {"stage": )" + stage + R"(}, "bf16": {"enabled": true},
                     "data_types": {"grad_accum_dtype": "fp32"}, "optimizer": {"type": "AdamW",
                     "params": {"torch_adam": true, "fused": true}}})")
            ->plan);
  };
  CHECK(zero("1").grad_accum_dtype == DType::kFp32);
  CHECK(zero("2").torch_adam);
  // What a configuration does not hold is the trainer's.
  ParallelPlan arguments;
  edit_zero(arguments).decay_groups = true;
  CHECK(zero_of(read(R"({"zero_optimization": {"stage": 2}})", arguments)->plan).decay_groups);
}

TEST_CASE("deepspeed config: offload, in its new and its old form") {
  const ZeroPlan zero = zero_of(read(R"({"zero_optimization": {"stage": 3,
      "offload_optimizer": {"device": "cpu", "pin_memory": true},
      "offload_param": {"device": "nvme", "nvme_path": "/drive", "buffer_size": 1e8}}})")
                                    ->plan);
  CHECK(zero.offload_optimizer == OffloadDevice::kCpu);
  CHECK(zero.offload_param == OffloadDevice::kNvme);
  CHECK(zero.nvme_path == "/drive");
  const auto old = read(R"({"zero_optimization": {"stage": 2, "cpu_offload": true}})");
  CHECK(zero_of(old->plan).offload_optimizer == OffloadDevice::kCpu);
  CHECK(old->notes.size() == 1);
}

TEST_CASE("deepspeed config: a share of the optimizer on the host, at stage 3 alone") {
  const auto text = [](const std::string& stage, const std::string& device) {
    return R"({"zero_optimization": {"stage": )" + stage +
           R"(, "offload_optimizer": {"device": ")" + device +
           R"(", "ratio": 0.3, "nvme_path": "/drive"}}})";
  };
  CHECK(zero_of(read(text("3", "cpu"))->plan).offload_ratio == 0.3);
  const std::string below = refusal(text("2", "cpu"));
  CHECK(below.find("/zero_optimization/offload_optimizer/ratio") != std::string::npos);
  CHECK_FALSE(refusal(text("3", "nvme")).empty());
  const auto idle = read(text("3", "none"));
  CHECK(zero_of(idle->plan).offload_ratio == 1);
  CHECK(idle->notes.size() == 1);
}

TEST_CASE("deepspeed config: a key that DeepSpeed does not know is named") {
  // At the top DeepSpeed ignores it; inside a section it refuses it (pydantic, extra="forbid").
  const auto top = read(R"({"gradient_cliping": 1.0})");
  REQUIRE(top);
  REQUIRE(top->notes.size() == 1);
  CHECK(top->notes[0].find("gradient_clipping") != std::string::npos);
  const auto section = read(R"({"zero_optimization": {"stage": 2, "overlap_com": true}})");
  REQUIRE_FALSE(section);
  CHECK(section.error().pointer == "/zero_optimization/overlap_com");
  CHECK(section.error().fix.find("overlap_comm") != std::string::npos);
}

TEST_CASE("deepspeed config: what changes memory and is not modelled is refused, not guessed") {
  for (const char* text :
       {R"({"zero_optimization": {"stage": 3, "mics_shard_size": 8}})",
        R"({"zero_optimization": {"stage": 3, "zeropp_loco_param": {"err_beta": 0.8}}})",
        R"({"zero_optimization": {"stage": 3, "leaf_module": {"classes": ["LlamaMLP"]}}})",
        R"({"zero_optimization": {"stage": 3, "stage3_module_granularity_threshold": 5}})",
        R"({"zero_optimization": {"offload_optimizer": {"device": "cpu", "ratio": 0.3}}})",
        R"({"data_types": {"grad_accum_dtype": "fp32"}, "bf16": {"enabled": true}})",
        R"({"bf16": {"enabled": true, "bf16_master_weights_and_grads": true}})",
        R"({"torch_autocast": {"enabled": true}})", R"({"communication_data_type": "int8"})"}) {
    CAPTURE(text);
    CHECK_FALSE(refusal(text).empty());
  }
  // The neutral values pass.
  CHECK(read(R"({"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 1,
                 "offload_optimizer": {"device": "cpu", "ratio": 1}},
                 "torch_autocast": {"enabled": false}, "bf16": {"enabled": true},
                 "data_types": {"grad_accum_dtype": "bf16"}})"));
}

TEST_CASE("deepspeed config: what DeepSpeed 0.19 breaks off at") {
  CHECK_FALSE(refusal(R"({"sparse_gradients": true})").empty());
  CHECK_FALSE(refusal(R"({"amp": {"enabled": true}})").empty());
  for (const char* text : {R"({"sparse_gradients": false})", R"({"amp": {"enabled": false}})",
                           R"({"elasticity": {"enabled": false}})", R"({"nebula": {}})"}) {
    CAPTURE(text);
    const auto reading = read(text);
    REQUIRE(reading);
    REQUIRE(reading->notes.size() == 1);
    CHECK(reading->notes[0].find("breaks off") != std::string::npos);
  }
  CHECK_FALSE(
      refusal(R"({"zero_optimization": {"stage": 2}, "prescale_gradients": true})").empty());
  CHECK_FALSE(
      refusal(R"({"zero_optimization": {"stage": 3}, "gradient_predivide_factor": 2})").empty());
  CHECK(read(R"({"zero_optimization": {"stage": 1}, "prescale_gradients": true,
                 "gradient_predivide_factor": 2})"));
}

TEST_CASE("deepspeed config: a switch that the stage does not read passes either way") {
  CHECK(read(R"({"zero_optimization": {"stage": 2, "allgather_partitions": false}})"));
  CHECK(read(R"({"zero_optimization": {"stage": 2, "memory_efficient_linear": false}})"));
  CHECK(read(R"({"zero_optimization": {"stage": 3, "use_multi_rank_bucket_allreduce": false}})"));
  const auto read_zero = [](const char* text) { return zero_of(read(text)->plan); };
  CHECK(read_zero(R"({"zero_optimization": {"stage": 2, "memory_efficient_linear": false}})")
            .memory_efficient_linear);
  CHECK_FALSE(read_zero(R"({"zero_optimization": {"stage": 3, "memory_efficient_linear": false}})")
                  .memory_efficient_linear);
  CHECK(read_zero(R"({"zero_optimization": {"stage": 3, "parameter_alignment": true}})")
            .parameter_alignment == false);
  const ZeroPlan first = read_zero(
      R"({"zero_optimization": {"stage": 1, "use_multi_rank_bucket_allreduce": false,
          "parameter_alignment": true, "reduce_scatter": false}, "communication_data_type": "fp16"})");
  CHECK_FALSE(first.multi_rank_allreduce);
  CHECK_FALSE(first.reduce_scatter);
  CHECK(first.parameter_alignment);
  CHECK(first.communication_dtype == DType::kFp16);
  const ZeroPlan third =
      read_zero(R"({"zero_optimization": {"stage": 3, "allgather_sequential": true,
          "stage3_use_all_reduce_for_fetch_params": true}})");
  CHECK(third.allgather_sequential);
  CHECK(third.all_reduce_fetch);
}

TEST_CASE("deepspeed config: a norm that is not computed is refused where DeepSpeed refuses it") {
  const auto checked = [](const std::string& rest) {
    const auto reading = read(R"({"zero_optimization": {"compute_grad_norm": false, )" + rest);
    REQUIRE(reading);
    const Status status = check_plan(model_of_width(8), reading->plan);
    return status ? std::string() : status.error().key;
  };
  CHECK(checked(R"("stage": 2}, "gradient_clipping": 0})").empty());
  CHECK(checked(R"("stage": 2}, "gradient_clipping": 1})") == "compute_grad_norm");
  CHECK(checked(R"("stage": 3}, "gradient_clipping": 0})") == "compute_grad_norm");
  CHECK(
      checked(R"("stage": 2, "offload_optimizer": {"device": "cpu"}}, "gradient_clipping": 0})") ==
      "compute_grad_norm");
}

TEST_CASE("deepspeed config: ZeRO++ and leaf modules") {
  const auto plus = read(R"({"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8,
    "zero_quantized_weights": true, "zero_quantized_gradients": true}})");
  REQUIRE(plus);
  CHECK(zero_of(plus->plan).hpz_partition_size == 8);
  CHECK(zero_of(plus->plan).quantized_weights);
  CHECK(zero_of(plus->plan).quantized_gradients);
  CHECK(plus->notes.empty());
  // Nothing is frozen when zero.Init partitions.
  CHECK(read(R"({"zero_optimization": {"stage": 3, "zero_quantized_nontrainable_weights": true}})")
            ->notes.size() == 1);
  ModelSpec experts = model_of_width(8);
  experts.family = Family::kDeepseekV3;
  const auto leaf = parse_config(
      R"({"zero_optimization": {"stage": 3, "leaf_module": {"classes":
          ["transformers.models.deepseek_v3.modeling_deepseek_v3.DeepseekV3MoE"]}}})",
      "ds.json", experts, {});
  REQUIRE(leaf);
  CHECK(zero_of(leaf->plan).leaf == ZeroLeaf::kExperts);
  CHECK(refusal(R"({"zero_optimization": {"mics_shard_size": 8}})").find("removed") !=
        std::string::npos);
}

TEST_CASE("deepspeed config: every fault is reported, the first one as the error") {
  const std::string text = refusal(
      R"({"zero_optimization": {"stage": 9}, "bf16": {"enabled": "yes"}, "gradient_clipping": -1})");
  for (const char* part : {"/zero_optimization/stage", "/bf16/enabled", "/gradient_clipping"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("deepspeed config: what is no object, or no JSON, is bad input") {
  CHECK(read("[]").error().code == ErrorCode::kInvalidInput);
  CHECK(read("{").error().code == ErrorCode::kInvalidInput);
  CHECK(read(R"({"zero_optimization": 2})").error().pointer == "/zero_optimization");
  CHECK(read_config("no/such.json", model_of_width(1), {}).error().code == ErrorCode::kEnvironment);
}

TEST_CASE("deepspeed config: what it does not hold stays as the arguments have it") {
  ParallelPlan arguments;
  arguments.workload.sequence = 333;
  arguments.recompute = Recompute::kFull;
  arguments.attention = AttentionKind::kFlash;
  arguments.lora = LoraPlan{};
  const ParallelPlan plan = read(R"({"zero_optimization": {"stage": 2}})", arguments)->plan;
  CHECK(plan.workload.sequence == 333);
  CHECK(plan.recompute == Recompute::kFull);
  CHECK(plan.attention == AttentionKind::kFlash);
  CHECK(plan.lora.has_value());
}

TEST_CASE("deepspeed config: clipping of auto is what Trainer fills in, unless it is given") {
  const auto trainer = read(R"({"gradient_clipping": "auto"})");
  CHECK(trainer->plan.clip_norm == 1.0);
  CHECK(trainer->notes.size() == 1);
  ParallelPlan arguments;
  arguments.clip_norm = 0.5;
  CHECK(read(R"({"gradient_clipping": "auto"})", arguments)->plan.clip_norm == 0.5);
}

TEST_CASE("deepspeed config: clipping of zero is none") {
  CHECK_FALSE(read(R"({"gradient_clipping": 0.0})")->plan.clip_norm.has_value());
  CHECK(read(R"({"gradient_clipping": 0.5})")->plan.clip_norm == 0.5);
}

}  // namespace headroom::ir::deepspeed
