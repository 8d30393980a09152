#pragma once

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::fsdp {

/// A Hugging Face model under torch.distributed.fsdp.fully_shard (FSDP2), as `rank` of
/// `plan.world` ranks sees it: a group for each layer and one for the rest.
///
/// Model:   the transformers runtime's forward and backward in the type of the gathered parameters,
///          with FSDP's hooks around layers; the optimizer steps the shards, in the type that
///          `plan.precision` stores. The model is built on the meta device. With
///          `FsdpPlan::replicas` the ranks split into as many sets that share the model each.
///          `around`: what a framework around FSDP changes in the model's code.
/// Phases:  load, stepN[.M].forward, .backward, stepN.optimizer, .zero_grad, evaluation.
/// Errors:  kInvalidArgument for quantisation, fp16, optimizers of bitsandbytes, and a world that
///          the replicas do not divide.
/// Note:    where layers are given fp32 tables, recomputation is that of checkpoint_wrapper inside
///          the groups: around them PyTorch finds other types in the second run and refuses.
/// Ignores: four-byte probes of the device while shards are made.
/// Source:  pytorch/pytorch 2.11 torch/distributed/fsdp/_fully_shard/.
[[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan, Rank rank,
                                        const DeviceTraits& device,
                                        const transformers::ModelSetting& around = {});

}  // namespace headroom::ir::fsdp
