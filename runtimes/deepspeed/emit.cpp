#include "runtimes/deepspeed/emit.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "model_ir/json/json_writer.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/deepspeed/leaf_modules.h"
#include "runtimes/deepspeed/plan.h"

namespace headroom::ir::deepspeed {
namespace {

// Defaults of transformers' TrainingArguments: learning_rate, adam_beta1, adam_beta2, adam_epsilon,
// weight_decay.
constexpr double kLearningRate = 5e-5;
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kEpsilon = 1e-8;
constexpr double kWeightDecay = 0;

JsonValue betas() {
  return JsonValue{JsonValue::Array{JsonValue{kBeta1}, JsonValue{kBeta2}}};
}

JsonFields scaling_fields() {
  JsonFields fields;
  fields.add("enabled", true);
  fields.add("loss_scale", 0);  // Dynamic loss scaling.
  fields.add("initial_scale_power", 16);
  fields.add("loss_scale_window", 1000);
  fields.add("hysteresis", 2);
  fields.add("min_loss_scale", 1);
  return fields;
}

void add_precision(JsonFields& root, Precision precision) {
  JsonFields off;
  off.add("enabled", false);
  if (precision == Precision::kFp16Master) {
    root.add("fp16", scaling_fields());
    return;
  }
  JsonFields bf16;
  bf16.add("enabled", precision == Precision::kBf16Master);
  root.add("bf16", std::move(bf16));
  root.add("fp16", std::move(off));  // Without this section the trainer assumes fp16.
}

/// The switches with which torch.optim chooses its implementation.
void add_torch_form(JsonFields& params, OptimizerForm form) {
  if (form == OptimizerForm::kFused) {
    params.add("fused", true);
  } else {
    params.add("foreach", form == OptimizerForm::kForeach);
  }
}

JsonFields adam_params(OptimizerForm form, bool torch_adam) {
  JsonFields params;
  params.add("lr", kLearningRate);
  params.add("betas", betas());
  params.add("eps", kEpsilon);
  params.add("weight_decay", kWeightDecay);
  // A fused optimizer is DeepSpeed's FusedAdam, unless torch's is requested.
  const bool torch = form != OptimizerForm::kFused || torch_adam;
  params.add("torch_adam", torch);
  if (torch) {
    add_torch_form(params, form);
  }
  return params;
}

JsonFields sgd_params(const OptimizerPlan& plan) {
  JsonFields params;
  params.add("lr", kLearningRate);
  params.add("momentum", plan.momentum);
  params.add("weight_decay", kWeightDecay);
  add_torch_form(params, plan.form);
  return params;
}

JsonFields lion_params() {
  JsonFields params;
  params.add("lr", kLearningRate);
  params.add("betas", betas());
  params.add("weight_decay", kWeightDecay);
  return params;
}

bool is_bitsandbytes(OptimizerForm form) {
  return form == OptimizerForm::kEightBit || form == OptimizerForm::kPagedEightBit ||
         form == OptimizerForm::kPaged;
}

/// Writes the optimizer by name. For one that DeepSpeed cannot make by name, permits the trainer's
/// own.
void add_optimizer(JsonFields& root, const ParallelPlan& plan) {
  const OptimizerPlan& optimizer = plan.optimizer;
  JsonFields section;
  bool untested = false;
  if (is_bitsandbytes(optimizer.form)) {
    untested = true;
  } else if (optimizer.kind == OptimizerKind::kAdamW) {
    section.add("type", "AdamW");
    section.add("params", adam_params(optimizer.form, zero_of(plan).torch_adam));
  } else if (optimizer.kind == OptimizerKind::kLion) {
    section.add("type", "Lion");
    section.add("params", lion_params());
  } else if (optimizer.kind == OptimizerKind::kSgd) {
    section.add("type", "SGD");
    section.add("params", sgd_params(optimizer));
    untested = true;
  } else {
    untested = true;
  }
  JsonValue finished = std::move(section).finish();
  if (!finished.as_object()->empty()) {
    root.add("optimizer", std::move(finished));
  } else if (has_zero(plan) && zero_of(plan).offload_optimizer != OffloadDevice::kNone) {
    root.add("zero_force_ds_cpu_optimizer", false);
  }
  root.add("zero_allow_untested_optimizer", untested);
}

JsonFields offload_fields(OffloadDevice device, const std::string& nvme_path) {
  JsonFields fields;
  fields.add("device", word_of(offload_words(), device));
  if (device == OffloadDevice::kNvme) {
    fields.add("nvme_path", nvme_path);
  }
  fields.add("pin_memory", true);
  return fields;
}

/// Buffers that stage transfers to NVMe, with DeepSpeed's defaults.
JsonFields optimizer_offload(const ZeroPlan& zero) {
  JsonFields fields = offload_fields(zero.offload_optimizer, zero.nvme_path);
  if (zero.offload_optimizer == OffloadDevice::kNvme) {
    fields.add("buffer_count", 4);
    fields.add("pipeline_read", false);
    fields.add("pipeline_write", false);
  }
  if (zero.offload_ratio < 1) {
    fields.add("ratio", zero.offload_ratio);
  }
  return fields;
}

JsonFields param_offload(const ZeroPlan& zero) {
  JsonFields fields = offload_fields(zero.offload_param, zero.nvme_path);
  if (zero.offload_param == OffloadDevice::kNvme) {
    fields.add("buffer_count", 5);
    fields.add("buffer_size", 100'000'000);
    fields.add("max_in_cpu", 1'000'000'000);
  }
  return fields;
}

void add_stage3(JsonFields& fields, const ModelSpec& model, const ZeroPlan& zero) {
  fields.add("sub_group_size", zero.sub_group_size);
  fields.add("stage3_prefetch_bucket_size", zero.prefetch_bucket_size);
  fields.add("stage3_param_persistence_threshold", zero.param_persistence_threshold);
  fields.add("stage3_model_persistence_threshold", zero.model_persistence_threshold);
  fields.add("stage3_max_live_parameters", zero.max_live_parameters);
  fields.add("stage3_max_reuse_distance", zero.max_reuse_distance);
  fields.add("memory_efficient_linear", zero.memory_efficient_linear);
  if (zero.allgather_sequential) {
    fields.add("stage3_allgather_sequential", true);
  }
  if (zero.all_reduce_fetch) {
    fields.add("stage3_use_all_reduce_for_fetch_params", true);
  }
  if (zero.hpz_partition_size > 1) {
    fields.add("zero_hpz_partition_size", zero.hpz_partition_size);
  }
  if (zero.quantized_weights) {
    fields.add("zero_quantized_weights", true);
  }
  if (zero.quantized_gradients) {
    fields.add("zero_quantized_gradients", true);
  }
  const std::string_view experts = experts_class(model.family);
  if (zero.leaf == ZeroLeaf::kExperts && !experts.empty()) {
    JsonFields leaf;
    leaf.add("classes", JsonValue{JsonValue::Array{JsonValue{std::string(experts)}}});
    fields.add("leaf_module", std::move(leaf));
  }
  if (zero.offload_param != OffloadDevice::kNone) {
    fields.add("offload_param", param_offload(zero));
  }
}

/// The switches that stages 1 and 2 read, where they differ from DeepSpeed's defaults.
void add_bucket_switches(JsonFields& fields, const ZeroPlan& zero) {
  if (!zero.multi_rank_allreduce) {
    fields.add("use_multi_rank_bucket_allreduce", false);
  }
  if (zero.parameter_alignment) {
    fields.add("parameter_alignment", true);
  }
  if (!zero.compute_grad_norm) {
    fields.add("compute_grad_norm", false);
  }
}

JsonFields zero_fields(const ModelSpec& model, const ZeroPlan& zero) {
  JsonFields fields;
  fields.add("stage", zero.stage);
  if (zero.stage == 0) {
    return fields;
  }
  fields.add("contiguous_gradients", zero.contiguous_gradients);
  fields.add("overlap_comm", zero.overlap_comm.value_or(zero.stage == 3));
  fields.add("reduce_scatter", zero.reduce_scatter);
  fields.add("reduce_bucket_size", zero.reduce_bucket_size);
  fields.add("allgather_partitions", true);
  fields.add("allgather_bucket_size", zero.allgather_bucket_size);
  fields.add("round_robin_gradients", zero.round_robin_gradients);
  if (zero.stage < 3) {
    add_bucket_switches(fields, zero);
  }
  if (zero.offload_optimizer != OffloadDevice::kNone) {
    fields.add("offload_optimizer", optimizer_offload(zero));
  }
  if (zero.stage == 3) {
    add_stage3(fields, model, zero);
  }
  return fields;
}

void add_drive(JsonFields& root, const ZeroPlan& zero) {
  if (zero.offload_optimizer != OffloadDevice::kNvme &&
      zero.offload_param != OffloadDevice::kNvme) {
    return;
  }
  JsonFields aio;
  aio.add("block_size", 1 << 20);
  aio.add("queue_depth", 8);
  aio.add("intra_op_parallelism", 1);
  aio.add("single_submit", false);
  aio.add("overlap_events", true);
  root.add("aio", std::move(aio));
}

}  // namespace

std::string emitted_config(const ModelSpec& model, const ParallelPlan& plan) {
  const ZeroPlan zero = zero_of(plan);
  JsonFields root;
  root.add("train_batch_size", plan.world * plan.workload.micro_batch * plan.workload.accumulation);
  root.add("train_micro_batch_size_per_gpu", plan.workload.micro_batch);
  root.add("gradient_accumulation_steps", plan.workload.accumulation);
  root.add("gradient_clipping", plan.clip_norm.value_or(0.0));
  add_precision(root, plan.precision);
  add_optimizer(root, plan);
  if (zero.grad_accum_dtype) {
    JsonFields types;
    types.add("grad_accum_dtype", name_of(*zero.grad_accum_dtype));
    root.add("data_types", std::move(types));
  }
  if (zero.communication_dtype) {
    root.add("communication_data_type", name_of(*zero.communication_dtype));
  }
  root.add("zero_optimization", zero_fields(model, zero));
  add_drive(root, zero);
  return to_pretty_json(std::move(root).finish()) + "\n";
}

bool is_in_file(const ParallelPlan& plan, std::string_view option) {
  constexpr std::array<std::string_view, 9> kHeld = {"gpus",        "runtime",      "zero",
                                                     "offload",     "zeropp",       "precision",
                                                     "micro-batch", "accumulation", "clip-norm"};
  if (option == "optimizer") {
    return plan.optimizer.kind != OptimizerKind::kAdafactor &&
           !is_bitsandbytes(plan.optimizer.form);
  }
  return std::ranges::find(kHeld, option) != kHeld.end();
}

}  // namespace headroom::ir::deepspeed
