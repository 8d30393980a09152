#include "runtimes/deepspeed/changes.h"

#include <array>
#include <optional>
#include <utility>

#include "runtimes/deepspeed/plan.h"
#include "runtimes/torch/ddp_plan.h"
#include "runtimes/transformers/changes.h"

namespace headroom::ir::deepspeed {
namespace {

/// DeepSpeed's precision for the type in which the plan computes: an fp32 master copy of 16-bit
/// parameters.
Precision master_precision(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return Precision::kFp32;
    case Precision::kBf16:
    case Precision::kAutocastBf16:
    case Precision::kBf16AutocastBf16:
    case Precision::kBf16Master:
      return Precision::kBf16Master;
    case Precision::kFp16:
    case Precision::kAutocastFp16:
    case Precision::kFp16Master:
      return Precision::kFp16Master;
  }
  return precision;
}

/// The plan under a DeepSpeed engine.
ParallelPlan under_engine(ParallelPlan plan, ZeroPlan zero) {
  plan.runtime = "deepspeed";
  plan.precision = master_precision(plan.precision);
  plan.own.reset<DdpPlan>();
  edit_zero(plan) = std::move(zero);
  return plan;
}

std::optional<ParallelPlan> with_stage(const ParallelPlan& plan, int stage) {
  ZeroPlan zero = zero_of(plan);
  const bool quantised_stage3 = plan.quant.has_value() && stage == 3;
  if (plan.world < 2 || zero.stage >= stage || quantised_stage3) {
    return std::nullopt;
  }
  zero.stage = stage;
  return under_engine(plan, std::move(zero));
}

std::optional<ParallelPlan> zero1(const ParallelPlan& plan, const DeviceTypes& /*device*/) {
  return with_stage(plan, 1);
}

std::optional<ParallelPlan> zero2(const ParallelPlan& plan, const DeviceTypes& /*device*/) {
  return with_stage(plan, 2);
}

std::optional<ParallelPlan> zero3(const ParallelPlan& plan, const DeviceTypes& /*device*/) {
  return with_stage(plan, 3);
}

/// DeepSpeedCPUAdam is fused.
ParallelPlan with_host_optimizer(ParallelPlan plan) {
  if (plan.optimizer.kind == OptimizerKind::kAdamW) {
    plan.optimizer.form = OptimizerForm::kFused;
  }
  return plan;
}

std::optional<ParallelPlan> offloaded_optimizer(const ParallelPlan& plan,
                                                const DeviceTypes& /*device*/) {
  ZeroPlan zero = zero_of(plan);
  if (plan.quant || zero.offload_optimizer != OffloadDevice::kNone) {
    return std::nullopt;
  }
  zero.offload_optimizer = OffloadDevice::kCpu;
  zero.stage = zero.stage == 0 ? 2 : zero.stage;
  return with_host_optimizer(under_engine(plan, std::move(zero)));
}

std::optional<ParallelPlan> offloaded_parameters(const ParallelPlan& plan,
                                                 const DeviceTypes& /*device*/) {
  ZeroPlan zero = zero_of(plan);
  if (plan.quant || zero.offload_param != OffloadDevice::kNone) {
    return std::nullopt;
  }
  if (zero.offload_optimizer == OffloadDevice::kNone) {
    zero.offload_optimizer = OffloadDevice::kCpu;
  }
  zero.offload_param = OffloadDevice::kCpu;
  zero.stage = 3;
  return with_host_optimizer(under_engine(plan, std::move(zero)));
}

/// If the optimizer is on the host, DeepSpeedCPUAdam is fused already.
std::optional<ParallelPlan> fused_on_device(const ParallelPlan& plan, const DeviceTypes& device) {
  const bool offloaded = has_zero(plan) && zero_of(plan).offload_optimizer != OffloadDevice::kNone;
  return offloaded ? std::nullopt : changes::fused_optimizer(plan, device);
}

std::optional<ParallelPlan> master_copies(const ParallelPlan& plan, const DeviceTypes& device) {
  if (plan.precision != Precision::kFp32) {
    return std::nullopt;
  }
  ParallelPlan changed = plan;
  changed.precision = device.bf16 ? Precision::kBf16Master : Precision::kFp16Master;
  return changed;
}

/// Stage 3 does not shard quantised weights.
std::optional<ParallelPlan> unsharded_quantised(const ParallelPlan& plan,
                                                const DeviceTypes& device) {
  const bool sharded = has_zero(plan) && zero_of(plan).stage == 3;
  return sharded ? std::nullopt : transformers::quantised_adapters(plan, device);
}

constexpr std::array<OwnChange, 17> kChanges = {
    {{Change::kExpandableSegments, &changes::expandable_segments},
     {Change::kFusedOptimizer, &fused_on_device},
     {Change::kSdpaAttention, &changes::sdpa_attention},
     {Change::kDropLogits, &changes::drop_logits},
     {Change::kZero1, &zero1},
     {Change::kZero2, &zero2},
     {Change::kMixedPrecision, &master_copies},
     {Change::kUnpreparedWeights, &transformers::unprepared},
     {Change::kFusedLoss, &transformers::fused_loss},
     {Change::kFusedKernels, &transformers::fused_kernels},
     {Change::kSmallerMicroBatch, &changes::smaller_micro_batch},
     {Change::kCheckpointing, &changes::checkpointing},
     {Change::kZero3, &zero3},
     {Change::kOffloadOptimizer, &offloaded_optimizer},
     {Change::kLora, &transformers::adapters},
     {Change::kQlora, &unsharded_quantised},
     {Change::kOffloadParameters, &offloaded_parameters}}};

constexpr std::array<OwnChange, 5> kMoves = {{{Change::kZero1, &zero1},
                                              {Change::kZero2, &zero2},
                                              {Change::kZero3, &zero3},
                                              {Change::kOffloadOptimizer, &offloaded_optimizer},
                                              {Change::kOffloadParameters, &offloaded_parameters}}};

std::vector<ParallelPlan> less_offload(const ParallelPlan& plan) {
  std::vector<ParallelPlan> out;
  if (zero_of(plan).offload_param != OffloadDevice::kNone) {
    ParallelPlan& kept = out.emplace_back(plan);
    edit_zero(kept).offload_param = OffloadDevice::kNone;
  }
  if (zero_of(plan).offload_optimizer != OffloadDevice::kNone) {
    ParallelPlan& kept = out.emplace_back(plan);
    edit_zero(kept).offload_optimizer = OffloadDevice::kNone;
    edit_zero(kept).offload_ratio = 1;
  }
  return out;
}

/// ZeRO++: parameters kept a second time within a node, gathered in 8 bits, gradients in 4 bits.
/// Source: Wang et al. 2023, ZeRO++, arXiv:2306.10209, section 3.
std::vector<ParallelPlan> zero_plus(const ParallelPlan& plan) {
  const ZeroPlan& zero = zero_of(plan);
  const bool several = plan.world > zero.node_devices && plan.world % zero.node_devices == 0;
  std::vector<ParallelPlan> out;
  if (several && zero.hpz_partition_size == 1) {
    edit_zero(out.emplace_back(plan)).hpz_partition_size = zero.node_devices;
  }
  if (!zero.quantized_weights) {
    edit_zero(out.emplace_back(plan)).quantized_weights = true;
  }
  ZeroPlan& all = edit_zero(out.emplace_back(plan));
  all.hpz_partition_size = several ? zero.node_devices : all.hpz_partition_size;
  all.quantized_weights = true;
  all.quantized_gradients = true;
  std::erase(out, plan);
  return out;
}

std::vector<ParallelPlan> less_communication(const ParallelPlan& plan) {
  std::vector<ParallelPlan> out = {plan};
  ZeroPlan& less = edit_zero(out.front());
  less.stage -= 1;
  if (less.stage < 3) {  // ZeRO++ is stage 3's.
    less.hpz_partition_size = 1;
    less.quantized_weights = false;
    less.quantized_gradients = false;
  }
  if (zero_of(plan).stage == 3) {
    for (ParallelPlan& plus : zero_plus(plan)) {
      out.push_back(std::move(plus));
    }
  }
  return out;
}

}  // namespace

std::span<const OwnChange> plan_changes() {
  return kChanges;
}

std::span<const OwnChange> moves() {
  return kMoves;
}

std::vector<ParallelPlan> faster_plans(Bottleneck bottleneck, const ParallelPlan& plan) {
  if (!has_zero(plan)) {
    return {};
  }
  if (bottleneck == Bottleneck::kCommunication && zero_of(plan).stage > 1) {
    return less_communication(plan);
  }
  return bottleneck == Bottleneck::kOffload ? less_offload(plan) : std::vector<ParallelPlan>{};
}

}  // namespace headroom::ir::deepspeed
