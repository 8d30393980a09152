#pragma once

#include <string_view>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/megatron/plan.h"

/// Checks of single options of Megatron-Core, which `check_megatron` runs.
namespace headroom::ir {

/// The error for a plan with `value`, which Megatron-Core does not support.
[[nodiscard]] Error unsupported_megatron(std::string_view value, std::string_view expected,
                                         std::string_view fix = {});

/// tp x pp x cp must divide the number of GPUs.
/// Errors:  kInvalidArgument that begins with the degrees that are not 1, "tp=2,pp=4".
[[nodiscard]] Status check_megatron_ranks(const ParallelPlan& plan);

/// Sequence parallelism cuts a rank's part of the sequence into one piece for each rank of tp.
/// Errors:  kInvalidArgument naming sequence-parallel and the next length that can be cut.
[[nodiscard]] Status check_megatron_pieces(const ParallelPlan& plan);

/// FP8 requires bf16 for everything else, and sizes of whole blocks.
/// Errors:  kInvalidArgument naming the recipe and the option that conflicts with it.
/// Source:  transformer_engine/pytorch/utils.py, assert_dim_for_fp8_exec; tensor/mxfp8_tensor.py.
[[nodiscard]] Status check_megatron_fp8(const ModelSpec& model, const ParallelPlan& plan);

/// A recipe needs a device that supports its products.
/// Errors:  kInvalidArgument naming the recipe and the compute capability that it needs.
/// Source:  transformer_engine/pytorch/quantization.py, check_fp8_support and the functions next to
///          it.
[[nodiscard]] Status check_megatron_fp8_device(MegatronFp8 recipe, const DeviceTraits& device);

/// Weights that are stored only in FP8 need a recipe and the distributed optimizer's copies.
/// Errors:  kInvalidArgument naming the key and the option that conflicts with it.
/// Source:  megatron/training/arguments.py, validate_args;
///          megatron/core/optimizer/optimizer_config.py, __post_init__.
[[nodiscard]] Status check_megatron_fp8_parameters(const MegatronPlan& megatron);

/// The modules in --offload-modules exist, save tensors, and run once.
/// Errors:  kInvalidArgument naming the modules and the option that conflicts with them.
/// Source:  megatron/core/transformer/transformer_config.py, __post_init__;
///          megatron/training/arguments.py, validate_args.
[[nodiscard]] Status check_megatron_offload(const ModelSpec& model, const MegatronPlan& megatron);

/// Sliding windows, attention sinks and experts with biases work only with some options.
/// Errors:  kInvalidArgument naming the option and what is supported instead.
/// Source:  transformer_engine/pytorch/attention/dot_product_attention/utils.py,
///          get_attention_backend; megatron/core/transformer/moe/experts.py, TEGroupedMLP;
///          megatron/core/transformer/transformer_config.py, __post_init__.
[[nodiscard]] Status check_megatron_special_layers(const ModelSpec& model,
                                                   const ParallelPlan& plan);

/// Layers that are offloaded whole must be fewer than all layers, be on a single stage, and run
/// once.
/// Errors:  kInvalidArgument naming --cpu-offloading-num-layers and the option that conflicts with
///          it.
/// Source:  megatron/core/transformer/transformer_config.py, __post_init__;
///          transformer_engine/pytorch/cpu_offload.py, get_cpu_offload_context.
[[nodiscard]] Status check_megatron_layer_offload(const ModelSpec& model, const ParallelPlan& plan);

/// Forward and backward that run at the same time need expert parallelism, and on several stages
/// several chunks.
/// Errors:  kInvalidArgument naming overlap-moe-expert-parallel-comm and what it needs.
/// Source:  megatron/core/transformer/transformer_config.py, __post_init__.
[[nodiscard]] Status check_megatron_exchange_overlap(const ModelSpec& model,
                                                     const ParallelPlan& plan);

/// Interleaved stages process micro-batches in groups, of which the last may be smaller.
///
/// Source:  megatron/core/pipeline_parallel/schedules.py,
///          forward_backward_pipelining_with_interleaving.
/// Errors:  kInvalidArgument for other groups, and for options of interleaved stages without them.
[[nodiscard]] Status check_micro_batch_groups(const ParallelPlan& plan);

}  // namespace headroom::ir
