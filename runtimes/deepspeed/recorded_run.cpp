// Reads recorded runs of DeepSpeed with models of transformers.
#include <array>
#include <string>

#include "runtimes/deepspeed/measured_runs.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/interface/runs/recorded_keys.h"
#include "runtimes/transformers/recorded_keys.h"

namespace headroom::ir::deepspeed {
namespace {

constexpr RunReader::Range kRecordedElements{0, INT64_MAX};

constexpr std::array<RowWord<OffloadDevice>, 3> kOffloadDevices = {
    {{"none", OffloadDevice::kNone}, {"cpu", OffloadDevice::kCpu}, {"nvme", OffloadDevice::kNvme}}};

OffloadDevice read_zero_offload(RunReader& zero, std::string_view key, double& ratio) {
  const JsonValue* value = zero.take(key);
  if (value == nullptr) {
    return OffloadDevice::kNone;
  }
  RunReader offload(value, "case.ds.zero_optimization." + std::string(key));
  constexpr std::array<std::string_view, 2> kAside = {"pin_memory", "nvme_path"};  // On the host.
  offload.ignore(kAside);
  const auto device = offload.word<OffloadDevice>("device", "none", kOffloadDevices);
  ratio = offload.number("ratio", ratio);
  zero.absorb(offload.trouble());
  return device;
}

/// Reads the keys of "zero_optimization".
/// Source: deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py.
void read_zero(RunReader& zero, ZeroPlan& plan) {
  struct Size {
    std::string_view key;
    std::int64_t* value;
  };
  const std::array<Size, 8> sizes = {
      {{"reduce_bucket_size", &plan.reduce_bucket_size},
       {"allgather_bucket_size", &plan.allgather_bucket_size},
       {"sub_group_size", &plan.sub_group_size},
       {"stage3_prefetch_bucket_size", &plan.prefetch_bucket_size},
       {"stage3_param_persistence_threshold", &plan.param_persistence_threshold},
       {"stage3_model_persistence_threshold", &plan.model_persistence_threshold},
       {"stage3_max_live_parameters", &plan.max_live_parameters},
       {"stage3_max_reuse_distance", &plan.max_reuse_distance}}};
  for (const Size& size : sizes) {
    *size.value = zero.integer(size.key, *size.value, kRecordedElements);
  }
  plan.stage = static_cast<int>(zero.integer("stage", plan.stage, {0, 3}));
  if (zero.take("overlap_comm") != nullptr) {
    plan.overlap_comm = zero.flag("overlap_comm", false);
  }
  plan.contiguous_gradients = zero.flag("contiguous_gradients", true);
  plan.round_robin_gradients = zero.flag("round_robin_gradients", false);
  plan.reduce_scatter = zero.flag("reduce_scatter", true);
  plan.multi_rank_allreduce = zero.flag("use_multi_rank_bucket_allreduce", true);
  plan.parameter_alignment = zero.flag("parameter_alignment", false);
  plan.compute_grad_norm = zero.flag("compute_grad_norm", true);
  plan.memory_efficient_linear = zero.flag("memory_efficient_linear", true);
  plan.allgather_sequential = zero.flag("stage3_allgather_sequential", false);
  plan.all_reduce_fetch = zero.flag("stage3_use_all_reduce_for_fetch_params", false);
  plan.hpz_partition_size = zero.integer("zero_hpz_partition_size", 1, kWorldRange);
  plan.quantized_weights = zero.flag("zero_quantized_weights", false);
  plan.quantized_gradients = zero.flag("zero_quantized_gradients", false);
  plan.offload_optimizer = read_zero_offload(zero, "offload_optimizer", plan.offload_ratio);
  double whole = 1;  // offload_param has no ratio.
  plan.offload_param = read_zero_offload(zero, "offload_param", whole);
}

/// Reads the keys that the case merges into the DeepSpeed configuration.
/// `halves`: whether the case's 16-bit type is on.
void read_configuration(RunReader& row, ZeroPlan& plan, bool& halves) {
  const JsonValue* value = row.take("ds");
  if (value == nullptr) {
    return;
  }
  RunReader configuration(value, "case.ds");
  RunReader zero(configuration.take("zero_optimization"), "case.ds.zero_optimization");
  read_zero(zero, plan);
  configuration.absorb(zero.trouble());
  RunReader types(configuration.take("data_types"), "case.ds.data_types");
  constexpr std::array<RowWord<DType>, 3> kTypes = {
      {{"fp32", DType::kFp32}, {"bf16", DType::kBf16}, {"fp16", DType::kFp16}}};
  if (const std::string accumulation = types.text("grad_accum_dtype", ""); !accumulation.empty()) {
    plan.grad_accum_dtype = types.word<DType>("grad_accum_dtype", "fp32", kTypes);
  }
  if (!configuration.text("communication_data_type", "").empty()) {
    plan.communication_dtype = configuration.word<DType>("communication_data_type", "fp32", kTypes);
  }
  configuration.absorb(types.trouble());
  RunReader bf16(configuration.take("bf16"), "case.ds.bf16");
  halves = bf16.flag("enabled", halves);
  configuration.absorb(bf16.trouble());
  row.absorb(configuration.trouble());
}

/// Applies the values that transformers sets where a configuration says "auto".
/// Source: huggingface/transformers integrations/deepspeed.py, trainer_config_finalize.
void apply_auto_sizes(std::int64_t hidden, ZeroPlan& plan) {
  plan.reduce_bucket_size = hidden * hidden;
  if (plan.stage == 3) {
    plan.prefetch_bucket_size =
        static_cast<std::int64_t>(0.9 * static_cast<double>(hidden * hidden));
    plan.param_persistence_threshold = 10 * hidden;
  }
}

void read_types(RunReader& row, bool halves, ParallelPlan& plan) {
  constexpr std::array<RowWord<Precision>, 2> kTypes = {
      {{"bf16", Precision::kBf16Master}, {"fp16", Precision::kFp16Master}}};
  plan.precision = row.word<Precision>("dtype", "bf16", kTypes);
  const std::string stored =
      halves ? (plan.precision == Precision::kBf16Master ? "bf16" : "fp16") : "fp32";
  if (const std::string type = row.text("param_dtype", stored); type != stored) {
    row.fail("param_dtype", "another type than the configuration's");
  }
  if (!halves) {
    plan.precision = Precision::kFp32;
  }
}

void read_zero_optimizer(RunReader& row, ParallelPlan& plan, ZeroPlan& zero) {
  // "fused" is DeepSpeed's own FusedAdam, "torch_fused" torch.optim.AdamW(fused=True).
  // "cpu" is DeepSpeedCPUAdam.
  constexpr std::array<RowWord<OptimizerPlan>, 13> kOptimizers = {
      {{"torch", {OptimizerKind::kAdamW, OptimizerForm::kForeach, 0}},
       {"torch_fused", {OptimizerKind::kAdamW, OptimizerForm::kFused, 0}},
       {"torch_loop", {OptimizerKind::kAdamW, OptimizerForm::kLoop, 0}},
       {"fused", {OptimizerKind::kAdamW, OptimizerForm::kFused, 0}},
       {"cpu", {OptimizerKind::kAdamW, OptimizerForm::kFused, 0}},
       {"adafactor", {OptimizerKind::kAdafactor, OptimizerForm::kLoop, 0}},
       {"adafactor_torch", {OptimizerKind::kAdafactorTorch, OptimizerForm::kForeach, 0}},
       {"sgd", {OptimizerKind::kSgd, OptimizerForm::kForeach, 0}},
       {"sgd_momentum", {OptimizerKind::kSgd, OptimizerForm::kForeach, 0.9}},
       {"adam8bit", {OptimizerKind::kAdamW, OptimizerForm::kEightBit, 0}},
       {"paged_adamw32bit", {OptimizerKind::kAdamW, OptimizerForm::kPaged, 0}},
       {"lion8bit", {OptimizerKind::kLion, OptimizerForm::kEightBit, 0}},
       {"none", {OptimizerKind::kNone, OptimizerForm::kForeach, 0}}}};
  zero.torch_adam = row.text("optimizer", "torch") == "torch_fused";
  plan.optimizer = row.word<OptimizerPlan>("optimizer", "torch", kOptimizers);
  zero.decay_groups = row.flag("decay_groups", false);
}

void read_zero_run(RunReader& row, RunSetting& run) {
  ParallelPlan& plan = run.plan;
  plan.runtime = "deepspeed";
  transformers::read_common_keys(row, plan);
  // If the recording does not write to the host or compute there, the device's memory is the same.
  constexpr std::array<std::string_view, 2> kAside = {"keep_grad_norm", "fake_host"};
  row.ignore(kAside);
  plan.world = row.integer("world", 8, kWorldRange);
  if (const std::int64_t rank = row.integer("rank", 0, {0, kWorldRange.high}); rank != 0) {
    plan.rank = rank;
  }
  ZeroPlan zero;
  zero.node_devices = row.integer("node", 8, kWorldRange);
  constexpr std::array<RowWord<ZeroLeaf>, 2> kLeaves = {
      {{"default", ZeroLeaf::kDefault}, {"experts", ZeroLeaf::kExperts}}};
  zero.leaf = row.word<ZeroLeaf>("leaf", "default", kLeaves);
  zero.stage = static_cast<int>(row.integer("zero", 2, {0, 3}));
  if (row.flag("hf_auto", false)) {
    apply_auto_sizes(run.model.hidden, zero);
  }
  bool halves = true;
  read_configuration(row, zero, halves);
  read_types(row, halves, plan);
  read_zero_optimizer(row, plan, zero);
  edit_zero(plan) = zero;
  if (const double clip = row.number("clip", 1); clip != 0) {
    plan.clip_norm = clip;
  }
  plan.workload.keep_logits = row.flag("keep_output", false);
  plan.workload.evaluation = row.flag("eval", false);
  plan.workload.resume = row.flag("resume", false);
  const std::string_view usual = zero.stage == 3 ? "zero3" : "cuda";
  if (const std::string init = row.text("init", usual); init != usual) {
    row.fail("init", "'" + init + "'");
  }
  transformers::read_quant(row, plan);
  transformers::read_lora(row, plan);
  run.rank = Rank{static_cast<std::int32_t>(plan.rank.value_or(0))};
}

}  // namespace

std::string recorded_parallel(const JsonValue& setting) {
  return "zero" + std::to_string(integer_or(setting, "zero", 2));
}

void read_recorded_run(RunReader& row, Recorder recorder, RunSetting& run) {
  transformers::read_run_of_model(row, recorder, run, read_zero_run);
}

}  // namespace headroom::ir::deepspeed
