#include "validators/measured/row_plan.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/torch/ddp_plan.h"

#include <array>
#include <string>

#include <doctest/doctest.h>

#include "runtimes/interface/runs/run_reader.h"
#include "runtimes/registry.h"
#include "validators/measured/row_reader.h"

namespace headroom::check {
namespace {

constexpr const char* kConfig =
    R"("config": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,)"
    R"( "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,)"
    R"( "vocab_size": 256})";

MeasuredRow row_of_case(const std::string& framework, const std::string& keys) {
  const std::string line = R"({"id": "r", "framework": ")" + framework + R"(", "case": {)" +
                           kConfig + (keys.empty() ? "" : ", " + keys) + R"(}, "oom": "x"})";
  const auto rows = parse_rows(line, "t.jsonl");
  REQUIRE(rows);
  return rows->front();
}

ir::RunSetting setting_of(const std::string& framework, const std::string& keys) {
  const Planned planned = plan_of_case(row_of_case(framework, keys));
  const Skip* skip = std::get_if<Skip>(&planned);
  INFO((skip != nullptr ? skip->reason : ""));
  REQUIRE(skip == nullptr);
  return std::get<ir::RunSetting>(planned);
}

std::string skip_of_row(const std::string& framework, const std::string& keys) {
  const Planned planned = plan_of_case(row_of_case(framework, keys));
  const Skip* skip = std::get_if<Skip>(&planned);
  return skip != nullptr ? skip->reason : "(planned)";
}

std::string toy_parallel(const ir::JsonValue& /*setting*/) {
  return "toys";
}

void read_toy_run(ir::RunReader& row, ir::Recorder /*recorder*/, ir::RunSetting& run) {
  constexpr std::array<std::string_view, 1> kAside = {"config"};
  row.ignore(kAside);
  run.plan.runtime = "toy";
  run.plan.world = row.integer("toys", 1, ir::kWorldRange);
}

/// A framework that knows how to read its own rows.
class ToyRuntime final : public ir::Runtime {
 public:
  [[nodiscard]] std::string_view name() const override { return "toy"; }
  [[nodiscard]] std::string_view title() const override { return "a toy"; }
  [[nodiscard]] Status check(const ir::ModelSpec& /*model*/,
                             const ir::ParallelPlan& /*plan*/) const override {
    return ok();
  }
  [[nodiscard]] Result<ir::RankProgram> lower(const ir::ModelSpec& /*model*/,
                                              const ir::ParallelPlan& /*plan*/, ir::Rank /*rank*/,
                                              const DeviceTraits& /*device*/) const override {
    return ir::RankProgram{};
  }
  [[nodiscard]] const ir::MeasuredRuns* measured_runs() const override {
    static constexpr std::array<ir::RecordedFormat, 1> kRecorded = {
        {{"toy", "toy", toy_parallel, read_toy_run}}};
    static constexpr ir::MeasuredRuns kRuns{.recorded = kRecorded, .published = {}};
    return &kRuns;
  }
};

}  // namespace

TEST_CASE("row plan: a framework that is registered reads its own rows") {
  CHECK(skip_of_row("toy", R"("toys": 3)") == "framework: 'toy'");
  const ToyRuntime runtime;
  const ir::RegisteredRuntime registered(runtime);
  const ir::RunSetting setting = setting_of("toy", R"("toys": 3)");
  CHECK(setting.plan.runtime == "toy");
  CHECK(setting.plan.world == 3);
  CHECK(setting.plan.allocator.segments == ir::SegmentPlaces::kRising);
  CHECK(labels_of(row_of_case("toy", "")).parallel == "toys");
  CHECK(skip_of_row("toy", R"("dolls": 3)") == "case.dolls: not modelled");
}

TEST_CASE("row plan: an empty transformers case takes the measuring program's defaults") {
  const ir::RunSetting setting = setting_of("transformers", "");
  CHECK(setting.model.hidden == 64);
  CHECK(setting.capacity == Bytes{600'000'000'000});
  CHECK(setting.traits == DeviceTraits{9, 0, 132, 600'000'000'000});
  ir::ParallelPlan expected;
  expected.precision = ir::Precision::kFp32;
  expected.attention = ir::AttentionKind::kSdpaNoCudnn;
  expected.allocator.segments = ir::SegmentPlaces::kRising;
  CHECK(setting.plan == expected);
}

TEST_CASE("row plan: every transformers key lands in the plan") {
  const ir::RunSetting setting = setting_of(
      "transformers+ddp",
      R"("attention": "eager", "param_dtype": "bf16", "precision": "autocast_bf16",)"
      R"( "micro_batch": 3, "seq": 500, "accumulation": 2, "steps": 4, "clip": 1.0,)"
      R"( "checkpointing": "full_reentrant", "optimizer": "sgd_momentum", "drop_logits": false,)"
      R"( "eval": true, "allocator": "expandable_segments:True,max_split_size_mb:128",)"
      R"( "gpu": {"bytes": 1000, "cc": 80, "sms": 108},)"
      R"( "lora": {"r": 8, "dropout": 0.05, "targets": ["q_proj", "v_proj"], "dora": true},)"
      R"( "parallel": {"kind": "ddp", "world": 8, "bucket_view": true, "eager": false})");
  const ir::ParallelPlan& plan = setting.plan;
  CHECK(plan.attention == ir::AttentionKind::kEager);
  CHECK(plan.precision == ir::Precision::kBf16AutocastBf16);
  CHECK(plan.workload.micro_batch == 3);
  CHECK(plan.workload.sequence == 500);
  CHECK(plan.workload.accumulation == 2);
  CHECK(plan.workload.steps == 4);
  CHECK(plan.clip_norm == 1.0);
  CHECK(plan.recompute == ir::Recompute::kFullReentrant);
  CHECK(plan.optimizer.kind == ir::OptimizerKind::kSgd);
  CHECK(plan.optimizer.momentum == 0.9);
  CHECK(plan.workload.keep_logits);
  CHECK(plan.workload.evaluation);
  CHECK(plan.allocator.expandable_segments);
  CHECK(plan.allocator.max_split_size == Bytes{128 * kMiB});
  CHECK(setting.capacity == Bytes{1000});
  CHECK(setting.traits == DeviceTraits{8, 0, 108, 1000});
  REQUIRE(plan.lora.has_value());
  CHECK(plan.lora->rank == 8);
  CHECK(plan.lora->dropout == 0.05);
  CHECK(plan.lora->dora);
  CHECK(plan.lora->targets == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(plan.world == 8);
  REQUIRE(has_ddp(plan));
  CHECK(ddp_of(plan).gradient_as_bucket_view);
  CHECK(ddp_of(plan).bucket_cap_bytes == 25 * kMiB);
}

TEST_CASE("row plan: all-linear names no target, compute capability 10.0 is written 100") {
  const ir::RunSetting setting = setting_of(
      "transformers", R"("lora": {"r": 4, "targets": "all-linear"}, "gpu": {"cc": 100})");
  CHECK(setting.plan.lora->targets.empty());
  CHECK(setting.traits.compute_major == 10);
  CHECK(setting.traits.compute_minor == 0);
}

TEST_CASE("row plan: what is not modelled skips the row with the key") {
  CHECK(skip_of_row("transformers", R"("attention": "flex")") == "case.attention: 'flex'");
  CHECK(skip_of_row("transformers", R"("optimizer": "lamb")") == "case.optimizer: 'lamb'");
  CHECK(skip_of_row("transformers", R"("experts": "grouped_mm")") == "case.experts: not modelled");
  CHECK(skip_of_row("transformers", R"("lora": {"r": 4, "rank_pattern": {}})") ==
        "case.lora.rank_pattern: not modelled");
  CHECK(skip_of_row("transformers", R"("parallel": {"kind": "tp", "world": 2})") ==
        "case.parallel.kind: 'tp'");
  CHECK(skip_of_row("transformers", R"("allocator": "roundup_power2_divisions:[256:1]")") ==
        "case.allocator: 'roundup_power2_divisions:[256:1]'");
  CHECK(skip_of_row("transformers", R"("task": "masked")") ==
        "case.task: 'masked' for a causal model");
  CHECK(skip_of_row("transformers", R"("seq": 0)").starts_with("case.seq: 0 is not"));
  CHECK(skip_of_row("transformers", R"("seq": "long")").starts_with("case.seq: \"long\" is not"));
  CHECK(skip_of_row("transformers", R"("param_dtype": "fp16", "precision": "autocast_bf16")") ==
        "case.precision: autocast over fp16 parameters");
}

TEST_CASE("row plan: frameworks without a runtime are skipped by name") {
  CHECK(skip_of_row("megatron", "") == "case.config.model_type: not modelled");
  CHECK(skip_of_row("colossalai", "") == "framework: 'colossalai'");
  CHECK(skip_of_row("", "") == "framework: not stated");
}

TEST_CASE("row plan: a configuration that cannot be read says which key") {
  const std::string line =
      R"({"id": "r", "framework": "transformers", "case": {"config": {"model_type": "lama"}},)"
      R"( "oom": "x"})";
  const Planned planned = plan_of_case(parse_rows(line, "t.jsonl")->front());
  REQUIRE(std::holds_alternative<Skip>(planned));
  CHECK(std::get<Skip>(planned).reason.find("model_type") != std::string::npos);
}

TEST_CASE("row plan: DeepSpeed sizes come from auto, then from the configuration") {
  const ir::RunSetting setting = setting_of(
      "deepspeed",
      R"("zero": 3, "world": 4, "hf_auto": true, "optimizer": "torch", "decay_groups": false,)"
      R"( "ds": {"zero_optimization": {"overlap_comm": true, "stage3_max_live_parameters": 7,)"
      R"( "stage3_prefetch_bucket_size": 11}})");
  REQUIRE(has_zero(setting.plan));
  const ir::ZeroPlan& zero = zero_of(setting.plan);
  CHECK(setting.plan.runtime == "deepspeed");
  CHECK(setting.plan.precision == ir::Precision::kBf16Master);
  CHECK(setting.plan.world == 4);
  CHECK(setting.plan.clip_norm == 1.0);
  CHECK(zero.stage == 3);
  CHECK(zero.reduce_bucket_size == 64 * 64);
  CHECK(zero.param_persistence_threshold == 640);
  CHECK(zero.prefetch_bucket_size == 11);
  CHECK(zero.max_live_parameters == 7);
  CHECK(zero.overlap_comm == true);
  CHECK(zero.allgather_bucket_size == 500'000'000);
}

TEST_CASE("row plan: DeepSpeed's optimizer, its groups, its types and its quantised weights") {
  const ir::RunSetting setting = setting_of(
      "deepspeed", R"("zero": 1, "optimizer": "torch_fused", "decay_groups": true, "eval": true,)"
                   R"( "ds": {"data_types": {"grad_accum_dtype": "fp32"}})");
  CHECK(zero_of(setting.plan).torch_adam);
  CHECK(zero_of(setting.plan).decay_groups);
  CHECK(zero_of(setting.plan).grad_accum_dtype == ir::DType::kFp32);
  CHECK(setting.plan.workload.evaluation);
  const ir::RunSetting other =
      setting_of("deepspeed",
                 R"("zero": 2, "optimizer": "fused", "param_dtype": "fp32",)"
                 R"( "ds": {"bf16": {"enabled": false}}, "quant": {"bits": 4, "compute": "fp32"},)"
                 R"( "lora": {"r": 8})");
  CHECK_FALSE(zero_of(other.plan).torch_adam);
  CHECK(other.plan.precision == ir::Precision::kFp32);
  CHECK(other.plan.quant->bits == 4);
}

TEST_CASE("row plan: DeepSpeed keys without a place in the plan skip the row") {
  CHECK(skip_of_row("deepspeed", R"("ds": {"torch_autocast": {"enabled": true}})") ==
        "case.ds.torch_autocast: not modelled");
  CHECK(skip_of_row("deepspeed", R"("ds": {"data_types": {"param_dtype": "fp32"}})") ==
        "case.ds.data_types.param_dtype: not modelled");
  CHECK(skip_of_row("deepspeed", R"("ds": {"zero_optimization": {"mics_shard_size": 8}})") ==
        "case.ds.zero_optimization.mics_shard_size: not modelled");
}

TEST_CASE("row plan: ZeRO++, leaf modules and the rank of a DeepSpeed row") {
  const ir::RunSetting plus = setting_of(
      "deepspeed",
      R"("zero": 3, "rank": 5, "node": 4, "leaf": "experts", "ds": {"zero_optimization":)"
      R"( {"zero_hpz_partition_size": 4, "zero_quantized_weights": true,)"
      R"( "zero_quantized_gradients": true}})");
  CHECK(plus.rank == ir::Rank{5});
  CHECK(zero_of(plus.plan).hpz_partition_size == 4);
  CHECK(zero_of(plus.plan).quantized_weights);
  CHECK(zero_of(plus.plan).quantized_gradients);
  CHECK(zero_of(plus.plan).node_devices == 4);
  CHECK(zero_of(plus.plan).leaf == ir::ZeroLeaf::kExperts);
}

TEST_CASE("row plan: quantised weights, adapters and 8-bit states") {
  const ir::RunSetting setting = setting_of(
      "transformers+bitsandbytes",
      R"("quant": {"bits": 4, "double": true}, "prepare_kbit": true, "precision": "autocast_bf16",)"
      R"( "peft": {"peft_type": "LORA", "r": 64, "target_modules": ["q_proj"]},)"
      R"( "optimizer": "paged_adamw8bit", "checkpointing": "none")");
  REQUIRE(setting.plan.quant.has_value());
  CHECK(*setting.plan.quant ==
        ir::QuantPlan{.bits = 4, .double_quant = true, .prepare_kbit = true});
  CHECK(setting.plan.precision == ir::Precision::kBf16AutocastBf16);
  CHECK(setting.plan.lora->rank == 64);
  CHECK(setting.plan.optimizer.form == ir::OptimizerForm::kPagedEightBit);
  CHECK(setting.plan.workload.keep_batch);  // Its loop assigns the next batch to the same names.
  const ir::RunSetting paged =
      setting_of("transformers+bitsandbytes", R"("quant": {"bits": 4, "type": "fp4"},)"
                                              R"( "optimizer": "paged_adamw32bit")");
  CHECK(paged.plan.optimizer.form == ir::OptimizerForm::kPaged);
  const char* const kGpuInt8 = R"("quant": {"bits": 8})";
  CHECK(skip_of_row("transformers+bitsandbytes", kGpuInt8) == "case.quant.load: 'gpu'");
  CHECK(skip_of_row("transformers+bitsandbytes", R"("prepare_kbit": true)") ==
        "case.prepare_kbit: true without case.quant");
  CHECK(skip_of_row("transformers+bitsandbytes", R"("peft": {"peft_type": "IA3"})") ==
        "case.peft.peft_type: 'IA3'");
}

TEST_CASE("row labels: runtime and the way of spreading") {
  const auto labels = [](const std::string& framework, const std::string& keys) {
    const RowLabels got = labels_of(row_of_case(framework, keys));
    return got.runtime + " " + got.parallel;
  };
  CHECK(labels("transformers", "") == "transformers none");
  CHECK(labels("transformers+ddp", R"("parallel": {"kind": "ddp"})") == "transformers ddp");
  CHECK(labels("transformers+bitsandbytes", "") == "transformers none");
  CHECK(labels("transformers+fsdp2", R"("parallel": {"kind": "fsdp2"})") == "fsdp fsdp2");
  CHECK(labels("transformers+fsdp2", R"("parallel": {"kind": "fsdp2", "replicate": 2})") ==
        "fsdp hsdp");
  CHECK(labels("deepspeed", R"("zero": 0)") == "deepspeed zero0");
  CHECK(labels("megatron", R"("tp": 8, "pp": 2, "cp": 1)") == "megatron tp8pp2");
  CHECK(labels("torchtitan", R"("tp": 1, "dp_replicate": 2)") == "fsdp hsdp");
  CHECK(labels("something", "") == " none");
}

}  // namespace headroom::check
