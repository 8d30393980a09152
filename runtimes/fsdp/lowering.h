#pragma once

#include <optional>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::fsdp {

/// The program of rank `rank` for a Hugging Face model under torch.distributed.fsdp.fully_shard
/// (FSDP2). Each layer is a group, and the rest is another.
///
/// Model:   forward and backward are those of the transformers runtime, in the type of the gathered
///          parameters, with FSDP's hooks around layers. The optimizer steps the shards in the type
///          that `plan.precision` stores. The model is built on the meta device. With
///          `Mesh::replicas` the ranks are divided into that many sets, each of which shards
///          the whole model.
///          `around`: what a framework around FSDP changes in the model's code.
/// Phases:  load, stepN[.M].forward, .backward, stepN.optimizer, .zero_grad, evaluation.
/// Errors:  kInvalidArgument for quantisation, fp16, optimizers of bitsandbytes, and a number of
///          ranks that the number of replicas does not divide.
/// Note:    if layers receive fp32 tables, recomputation uses checkpoint_wrapper inside the groups.
///          Around the groups, PyTorch would find other types in the second run and refuse.
/// Ignores: four-byte probes of the device while shards are made.
/// Source:  pytorch/pytorch 2.11 torch/distributed/fsdp/_fully_shard/.
[[nodiscard]] Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan, Rank rank,
                                        const DeviceTraits& device,
                                        const transformers::ModelSetting& around = {});

/// Why FSDP cannot run the plan, whatever the device; nothing if it can.
[[nodiscard]] std::optional<Error> unsupported(const ModelSpec& model, const ParallelPlan& plan);

/// Why FSDP cannot run the plan, whatever the device; nothing if it can.
[[nodiscard]] std::optional<Error> unsupported(const ModelSpec& model, const ParallelPlan& plan);

}  // namespace headroom::ir::fsdp
