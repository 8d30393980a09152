#include "runtimes/deepspeed/check.h"

#include <algorithm>
#include <string>

#include "model_ir/json/json_value.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/interface/refusals.h"

namespace headroom::ir::deepspeed {
namespace {

bool in_fp16(Precision precision) {
  return precision == Precision::kFp16 || precision == Precision::kAutocastFp16;
}

Status check_precision(const ParallelPlan& plan) {
  const bool master =
      plan.precision == Precision::kBf16Master || plan.precision == Precision::kFp16Master;
  if (!master && plan.precision != Precision::kFp32) {
    return Error::invalid_argument(
        "precision", word_of(precision_words(), plan.precision),
        "bf16-master, fp16-master or fp32: DeepSpeed keeps an fp32 "
        "master copy of 16-bit parameters",
        in_fp16(plan.precision) ? "use --precision fp16-master" : "use --precision bf16-master");
  }
  return ok();
}

/// ZeRO++ and leaf modules need stage 3. Source: deepspeed/utils/groups.py,
/// _create_zero_param_parallel_group.
Status check_zero_plus(const ParallelPlan& plan, const ZeroPlan& zero) {
  const std::int64_t ranks = std::min(zero.hpz_partition_size, plan.world);
  const bool plus = zero.hpz_partition_size != 1 || zero.quantized_weights ||
                    zero.quantized_gradients || zero.leaf != ZeroLeaf::kDefault;
  if (plus && zero.stage != 3) {
    return Error::invalid_argument(
        "zeropp", "needs --zero 3, but the plan has --zero " + std::to_string(zero.stage), {},
        "use --zero 3, or leave out --zeropp");
  }
  if (zero.quantized_gradients && plan.world > zero.node_devices &&
      plan.world % zero.node_devices != 0) {
    return no_divisor_of_gpus("zeropp", "node=" + std::to_string(zero.node_devices), plan.world);
  }
  if (zero.hpz_partition_size < 1 || plan.world % ranks != 0) {
    return no_divisor_of_gpus("zeropp", "hpz=" + std::to_string(zero.hpz_partition_size),
                              plan.world);
  }
  return ok();
}

/// Switches that DeepSpeed itself refuses, and combinations of switches whose behaviour is not
/// known.
/// Source: deepspeed/runtime/zero/config.py, stage_1_and_2.py (__init__), stage3.py
/// (__reduce_and_partition_ipg_grads); runtime/engine.py, _do_sanity_check_optimizer.
Status check_zero_switches(const ParallelPlan& plan, const ZeroPlan& zero) {
  if (!zero.compute_grad_norm) {
    const bool bf16_optimizer =
        zero.stage == 1 && plan.precision == Precision::kBf16Master && zero.grad_accum_dtype;
    const bool fails = zero.stage < 1 || zero.stage > 2 || plan.clip_norm || bf16_optimizer ||
                       zero.offload_optimizer != OffloadDevice::kNone;
    if (fails) {
      return Error::invalid_argument(
          "compute_grad_norm", "false",
          "ZeRO stage 1 or 2 without clipping, optimizer offload, or (stage 1) bf16 gradients "
          "accumulated in fp32",
          "leave out compute_grad_norm, or set gradient_clipping to 0");
    }
  }
  if (!zero.reduce_scatter && zero.quantized_gradients) {
    return Error::invalid_argument("reduce_scatter", "false together with zero_quantized_gradients",
                                   "true: DeepSpeed quantises only gradients that it scatters",
                                   "leave out reduce_scatter or zero_quantized_gradients");
  }
  const bool gathers_whole = zero.quantized_weights || zero.hpz_partition_size != 1;
  if (gathers_whole && (zero.allgather_sequential || zero.all_reduce_fetch)) {
    return Error::invalid_argument(
        zero.allgather_sequential ? "allgather_sequential" : "use_all_reduce_for_fetch_params",
        "true together with ZeRO++", "false: this combination is not modelled",
        "leave out this key, or zero_quantized_weights and zero_hpz_partition_size");
  }
  return ok();
}

/// What DeepSpeed asserts of a ratio below 1. With NVMe a ratio is refused, too, because swapping
/// does not know it.
/// Source: deepspeed/runtime/zero/config.py, offload_ratio_check; stage3.py, __init__ ("Hybrid
/// Optimizer Only Supports DeepSpeedCPUAdam"), _create_fp32_partitions.
Status check_offload_ratio(const ParallelPlan& plan, const ZeroPlan& zero) {
  if (zero.offload_ratio == 1) {
    return ok();
  }
  const std::string value = "optimizer-ratio=" + to_json(JsonValue{zero.offload_ratio});
  if (!(zero.offload_ratio >= 0 && zero.offload_ratio <= 1)) {
    return Error::invalid_argument("offload", value, "a share from 0 to 1");
  }
  if (zero.stage != 3 || zero.offload_optimizer != OffloadDevice::kCpu) {
    return Error::invalid_argument("offload", value, "ZeRO stage 3 with optimizer=cpu",
                                   "add --zero 3 --offload optimizer=cpu");
  }
  const bool cpu_adam = plan.optimizer.kind == OptimizerKind::kAdamW &&
                        plan.optimizer.form == OptimizerForm::kFused && !zero.torch_adam;
  if (!cpu_adam) {
    return Error::invalid_argument("offload", value,
                                   "adamw-fused without torch_adam (DeepSpeedCPUAdam), the only "
                                   "optimizer that DeepSpeed splits",
                                   "leave out --optimizer");
  }
  return ok();
}

/// The optimizers that step on the host: DeepSpeed asks for its own AdamW there, and Accelerate
/// puts it in the place of PyTorch's. States in 8 bits, paged states and the factors of Adafactor
/// have no step on the host in DeepSpeed. Source: deepspeed/runtime/engine.py, _configure_optimizer
/// (zero_force_ds_cpu_optimizer); accelerate/utils/deepspeed.py, map_pytorch_optim_to_deepspeed.
Status check_host_optimizer(const ParallelPlan& plan, const ZeroPlan& zero) {
  const OptimizerPlan& optimizer = plan.optimizer;
  const bool plain = optimizer.form == OptimizerForm::kForeach ||
                     optimizer.form == OptimizerForm::kFused ||
                     optimizer.form == OptimizerForm::kLoop;
  const bool has_step = plain && optimizer.kind != OptimizerKind::kAdafactor &&
                        optimizer.kind != OptimizerKind::kAdafactorTorch;
  if (zero.offload_optimizer == OffloadDevice::kNone || has_step) {
    return ok();
  }
  return Error::invalid_argument(
      "optimizer", std::string(word_of(optimizer_words(), optimizer)) + " with --offload optimizer",
      "adamw, which is DeepSpeedCPUAdam on the host",
      "use --optimizer adamw, or leave out --offload");
}

Status check_zero(const ParallelPlan& plan) {
  if (!has_zero(plan)) {
    return ok();
  }
  const ZeroPlan& zero = zero_of(plan);
  if (zero.offload_optimizer != OffloadDevice::kNone && zero.stage == 0) {
    return Error::invalid_argument("offload", "needs ZeRO: stage 1, 2 or 3", {}, "add --zero 2");
  }
  if (zero.offload_param != OffloadDevice::kNone && zero.stage != 3) {
    return Error::invalid_argument("offload", "needs ZeRO stage 3 for param=cpu and param=nvme", {},
                                   "use --zero 3");
  }
  if (zero.grad_accum_dtype && (*zero.grad_accum_dtype != DType::kFp32 || zero.stage == 0 ||
                                plan.precision == Precision::kFp32)) {
    return Error::invalid_argument(
        "grad_accum_dtype", name_of(*zero.grad_accum_dtype),
        "fp32, for 16-bit parameters from ZeRO stage 1 on",
        "leave out grad_accum_dtype to accumulate in the parameters' type");
  }
  const bool nvme =
      zero.offload_optimizer == OffloadDevice::kNvme || zero.offload_param == OffloadDevice::kNvme;
  if (nvme && zero.nvme_path.empty()) {
    return Error::invalid_argument("offload", "nvme without a path",
                                   "the folder of the drive as well",
                                   "add path=/local_nvme to --offload");
  }
  for (const Status& status : {check_host_optimizer(plan, zero), check_offload_ratio(plan, zero)}) {
    if (!status) {
      return status;
    }
  }
  const Status plus = check_zero_plus(plan, zero);
  return plus ? check_zero_switches(plan, zero) : plus;
}

}  // namespace

Status check_deepspeed(const ParallelPlan& plan) {
  if (Status version = refuse_version(plan); !version) {
    return version;
  }
  if (Status precision = check_precision(plan); !precision) {
    return precision;
  }
  return check_zero(plan);
}

}  // namespace headroom::ir::deepspeed
