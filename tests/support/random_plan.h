#pragma once

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/megatron/options.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/stage_layers.h"
#include "runtimes/torch/ddp_plan.h"
#include "runtimes/torchtitan/plan.h"
#include "tests/support/random.h"

namespace headroom::test {

template <typename Value>
Value random_word(Random& random, std::span<const ir::Word<Value>> words) {
  return words[static_cast<std::size_t>(
                   random.between(0, static_cast<std::int64_t>(words.size()) - 1))]
      .value;
}

/// The parts of a plan that do not depend on the runtime.
inline ir::ParallelPlan random_training(Random& random) {
  ir::ParallelPlan plan;
  plan.workload.micro_batch = random.between(1, 64);
  plan.workload.sequence = random.between(1, 8'192);
  plan.workload.accumulation = random.between(1, 32);
  plan.attention = random_word(random, ir::attention_words());
  plan.loss = random_word(random, ir::loss_words());
  plan.liger = random.chance(1, 4);
  plan.workload.keep_logits = random.chance(1, 2);
  plan.workload.evaluation = random.chance(1, 2);
  plan.workload.steps = static_cast<int>(random.between(1, 4));
  plan.world = random.between(1, 64);
  if (random.chance(1, 2)) {
    plan.recompute = random.chance(1, 2) ? ir::Recompute::kFull : ir::Recompute::kFullReentrant;
    if (random.chance(1, 4)) {
      plan.recompute_first = random.between(1, 5);
    } else {
      plan.recompute_every = random.between(1, 5);
    }
  }
  if (random.chance(1, 2)) {
    plan.clip_norm = static_cast<double>(random.between(1, 40)) / 8;
  }
  if (random.chance(1, 3)) {
    plan.lora = ir::LoraPlan{.rank = random.between(1, 64),
                             .dropout = static_cast<double>(random.between(0, 8)) / 16,
                             .dora = random.chance(1, 2),
                             .rank_stabilised = random.chance(1, 2),
                             .targets = {}};
    if (random.chance(1, 2)) {
      plan.lora->targets = {"q_proj", "v_proj"};
    }
  }
  return plan;
}

inline ir::AllocatorSettings random_allocator(Random& random) {
  ir::AllocatorSettings settings;
  settings.expandable_segments = random.chance(1, 2);
  if (random.chance(1, 2)) {
    settings.max_split_size = Bytes{random.between(21, 512) * kMiB};
  }
  settings.max_non_split_rounding = Bytes{random.between(21, 64) * kMiB};
  settings.garbage_collection_threshold = static_cast<double>(random.between(0, 10)) / 16;
  settings.roundup_power2_divisions = random.pick<std::int64_t>({0, 1, 2, 4, 8});
  return settings;
}

inline ir::ZeroPlan random_zero(Random& random) {
  ir::ZeroPlan zero;
  zero.stage = static_cast<int>(random.between(0, 3));
  if (zero.stage > 0) {
    zero.reduce_bucket_size = random.between(1, 1'000'000'000);
    zero.allgather_bucket_size = random.between(1, 1'000'000'000);
    zero.overlap_comm = random.chance(1, 2);
    zero.contiguous_gradients = random.chance(1, 2);
    zero.round_robin_gradients = random.chance(1, 2);
    zero.decay_groups = random.chance(1, 2);
    zero.reduce_scatter = random.chance(1, 2);
    zero.offload_optimizer = random_word(random, ir::offload_words());
  }
  if (zero.stage == 3) {
    zero.sub_group_size = random.between(1, 2'000'000'000);
    zero.prefetch_bucket_size = random.between(0, 100'000'000);
    zero.param_persistence_threshold = random.between(0, 1'000'000);
    zero.model_persistence_threshold = random.between(0, INT64_MAX);
    zero.max_live_parameters = random.between(0, 2'000'000'000);
    zero.max_reuse_distance = random.between(0, 2'000'000'000);
    zero.offload_param = random_word(random, ir::offload_words());
    zero.memory_efficient_linear = random.chance(1, 2);
    zero.allgather_sequential = random.chance(1, 4);
    zero.quantized_weights = random.chance(1, 4);
    zero.quantized_gradients = random.chance(1, 4);
  }
  if (zero.offload_optimizer == ir::OffloadDevice::kNvme ||
      zero.offload_param == ir::OffloadDevice::kNvme) {
    zero.nvme_path = "/local_nvme";
  }
  return zero;
}

/// Whether DeepSpeed has a step on the host for the optimizer.
inline bool steps_on_host(const ir::OptimizerPlan& optimizer) {
  const bool plain = optimizer.form == ir::OptimizerForm::kForeach ||
                     optimizer.form == ir::OptimizerForm::kFused ||
                     optimizer.form == ir::OptimizerForm::kLoop;
  return plain && optimizer.kind != ir::OptimizerKind::kAdafactor &&
         optimizer.kind != ir::OptimizerKind::kAdafactorTorch;
}

/// A plan of the runtime deepspeed that `ir::check_plan` accepts.
inline ir::ParallelPlan random_deepspeed_plan(Random& random) {
  ir::ParallelPlan plan = random_training(random);
  plan.runtime = "deepspeed";
  plan.precision = random.pick<ir::Precision>(
      {ir::Precision::kBf16Master, ir::Precision::kFp16Master, ir::Precision::kFp32});
  edit_zero(plan) = random_zero(random);
  if (zero_of(plan).stage == 3 && plan.world % 2 == 0 && random.chance(1, 4)) {
    edit_zero(plan).hpz_partition_size = 2;
  }
  if (plan.world > zero_of(plan).node_devices && plan.world % zero_of(plan).node_devices != 0) {
    edit_zero(plan).quantized_gradients = false;
  }
  if (!zero_of(plan).reduce_scatter) {
    edit_zero(plan).quantized_gradients = false;
  }
  if (zero_of(plan).quantized_weights || zero_of(plan).hpz_partition_size > 1) {
    edit_zero(plan).allgather_sequential = false;
  }
  do {
    plan.optimizer = random_word(random, ir::optimizer_words());
  } while (plan.optimizer.kind == ir::OptimizerKind::kMuon ||  // Muon needs whole matrices.
           (zero_of(plan).offload_optimizer != ir::OffloadDevice::kNone &&
            !steps_on_host(plan.optimizer)));
  if (zero_of(plan).stage > 0 && plan.precision != ir::Precision::kFp32 && random.chance(1, 2)) {
    edit_zero(plan).grad_accum_dtype = ir::DType::kFp32;
  }
  if (zero_of(plan).stage == 3 && zero_of(plan).offload_optimizer == ir::OffloadDevice::kCpu &&
      plan.optimizer.kind == ir::OptimizerKind::kAdamW &&
      plan.optimizer.form == ir::OptimizerForm::kFused) {
    edit_zero(plan).offload_ratio = static_cast<double>(random.between(0, 4)) / 4;
  }
  edit_zero(plan).torch_adam = plan.optimizer.kind == ir::OptimizerKind::kAdamW &&
                               plan.optimizer.form == ir::OptimizerForm::kFused &&
                               zero_of(plan).offload_optimizer == ir::OffloadDevice::kNone &&
                               random.chance(1, 2);
  return plan;
}

/// A plan of the runtime transformers that `ir::check_plan` accepts.
inline ir::ParallelPlan random_transformers_plan(Random& random) {
  ir::ParallelPlan plan = random_training(random);
  plan.precision = random_word(random, ir::precision_words());
  plan.optimizer = random_word(random, ir::optimizer_words());
  plan.allocator = random_allocator(random);
  if (plan.world > 1) {
    edit_ddp(plan) = ir::DdpPlan{.gradient_as_bucket_view = random.chance(1, 2),
                                 .bucket_cap_bytes = random.between(1, 100) * kMiB,
                                 .init_sync = random.chance(1, 2)};
  }
  if (plan.lora && random.chance(1, 2)) {
    plan.quant = ir::QuantPlan{.bits = random.chance(1, 2) ? 4 : 8,
                               .double_quant = random.chance(1, 2),
                               .prepare_kbit = random.chance(1, 2)};
  }
  return plan;
}

/// A plan of the runtime megatron that `ir::check_plan` accepts for a Llama with 32 layers and 8 KV
/// heads.
inline ir::ParallelPlan random_megatron_plan(Random& random) {
  ir::ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = random.pick<ir::Precision>(
      {ir::Precision::kBf16Master, ir::Precision::kFp16Master, ir::Precision::kFp32});
  ir::MegatronPlan& megatron = edit_megatron(plan);
  plan.mesh.tensor = random.pick<std::int64_t>({1, 2, 4, 8});
  plan.mesh.pipeline = random.pick<std::int64_t>({1, 2, 4});
  plan.mesh.context = random.pick<std::int64_t>({1, 2, 4});
  if (plan.mesh.pipeline > 1 && random.chance(1, 2)) {
    megatron.layers_per_chunk = random.pick<std::int64_t>({1, 2, 4});
  }
  for (const ir::OptionField& field : ir::megatron::options().fields) {
    if (field.kind == ir::OptionKind::kSwitch) {
      field.set(plan, ir::JsonValue{random.chance(1, 2)});
    }
  }
  // The model is dense. Options that need another model, or other options, have their defaults.
  const ir::MegatronPlan usual;
  megatron.permute_fusion = false;
  megatron.aux_loss = true;
  megatron.account_for_embedding = false;
  megatron.account_for_loss = false;
  for (bool ir::MegatronPlan::*const refused :
       {&ir::MegatronPlan::defer_head_gradient, &ir::MegatronPlan::fp8_parameters,
        &ir::MegatronPlan::transformer_engine, &ir::MegatronPlan::grouped_gemm,
        &ir::MegatronPlan::sinkhorn, &ir::MegatronPlan::router_fp32,
        &ir::MegatronPlan::shared_expert_overlap, &ir::MegatronPlan::overlap_expert_exchange,
        &ir::MegatronPlan::delayed_weight_gradients, &ir::MegatronPlan::fused_experts}) {
    megatron.*refused = usual.*refused;
  }
  megatron.overlap_warmup_flush = megatron.overlap_warmup_flush && ir::is_interleaved(plan);
  megatron.precision_aware = megatron.precision_aware && megatron.distributed_optimizer &&
                             plan.precision == ir::Precision::kBf16Master;
  megatron.bf16_moments = megatron.bf16_moments && megatron.precision_aware;
  if (plan.mesh.pipeline > 2 && megatron.layers_per_chunk == 0 && random.chance(1, 2)) {
    megatron.first_stage_layers = 6;  // The other stages share 18 or 20 of 32 layers.
    megatron.last_stage_layers = random.pick<std::int64_t>({6, 8});
  }
  megatron.tp_comm_overlap = megatron.tp_comm_overlap && megatron.sequence_parallel;
  megatron.overlap_param_gather = megatron.overlap_param_gather && megatron.distributed_optimizer &&
                                  megatron.overlap_grad_reduce;
  megatron.vocabulary_divisor = random.between(1, 256);
  if (plan.mesh.context > 1) {
    megatron.attention =
        random.chance(1, 2) ? ir::MegatronAttention::kFlash : ir::MegatronAttention::kFused;
  } else {
    megatron.attention = random_word(random, ir::megatron_attention_words());
  }
  if (8 % (plan.mesh.tensor * plan.mesh.context) == 0) {  // Every rank gets KV heads.
    megatron.context_exchange = random_word(random, ir::megatron_context_words());
  }
  megatron.cross_entropy = random_word(random, ir::megatron_cross_entropy_words());
  megatron.recompute = random_word(random, ir::megatron_recompute_words());
  if (megatron.recompute == ir::MegatronRecompute::kSelective) {
    megatron.recompute_modules = {.core_attention = random.chance(1, 2),
                                  .norms = random.chance(1, 2),
                                  .mlp = random.chance(1, 2)};
  } else if (megatron.recompute != ir::MegatronRecompute::kNone) {
    megatron.recompute_layers = random.between(1, 4);
  }
  plan.world = plan.mesh.tensor * plan.mesh.pipeline * plan.mesh.context * random.between(1, 4);
  plan.workload.sequence = 64 * random.between(1, 32);
  plan.workload.micro_batch = random.between(1, 4);
  plan.workload.accumulation = plan.mesh.pipeline * random.between(1, 3);
  plan.workload.steps = static_cast<int>(random.between(1, 2));
  return plan;
}

/// A plan of torchtitan that `ir::check_plan` accepts.
inline ir::ParallelPlan random_titan_plan(Random& random) {
  ir::ParallelPlan plan;
  plan.runtime = "torchtitan";
  plan.precision = ir::Precision::kFp32;
  edit_titan(plan) = ir::TitanPlan{.loss_parallel = random.chance(1, 2),
                                   .reshard = random_word(random, ir::titan_reshard_words()),
                                   .selective_operators = random.chance(1, 2),
                                   .compiled = random.chance(1, 2)};
  plan.mesh = {.tensor = random.pick<std::int64_t>({1, 2, 4, 8}),
               .context = random.pick<std::int64_t>({1, 2})};
  edit_fsdp(plan) = ir::FsdpPlan{};
  plan.mesh.replicas = random.pick<std::int64_t>({1, 2});
  plan.world = plan.mesh.tensor * plan.mesh.context * plan.mesh.replicas * random.between(2, 8);
  plan.workload.sequence = 64 * random.between(1, 32);
  plan.workload.micro_batch = random.between(1, 4);
  plan.workload.accumulation = random.between(1, 3);
  if (titan_of(plan).compiled && !titan_of(plan).selective_operators && random.chance(1, 2)) {
    edit_titan(plan).memory_budget = random.pick<double>({0, 0.1, 0.5, 1});
  }
  return plan;
}

/// A plan of any runtime.
inline ir::ParallelPlan random_plan(Random& random) {
  switch (random.between(0, 3)) {
    case 0:
      return random_deepspeed_plan(random);
    case 1:
      return random_megatron_plan(random);
    case 2:
      return random_titan_plan(random);
    default:
      return random_transformers_plan(random);
  }
}

}  // namespace headroom::test
