#pragma once

#include <string_view>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/megatron/plan.h"

/// Checks of single options of Megatron-Core, which `check_megatron` runs.
namespace headroom::ir {

/// The error of a plan with `value`, which Megatron-Core does not run.
[[nodiscard]] Error unsupported_megatron(std::string_view value, std::string_view expected,
                                         std::string_view fix = {});

/// FP8 products need bf16 otherwise, and sizes of whole blocks.
/// Errors:  kInvalidArgument naming the recipe and what it does not go with.
/// Source:  transformer_engine/pytorch/utils.py, assert_dim_for_fp8_exec; tensor/mxfp8_tensor.py.
[[nodiscard]] Status check_megatron_fp8(const ModelSpec& model, const ParallelPlan& plan);

/// A recipe needs a device that has its products.
/// Errors:  kInvalidArgument naming the recipe and the compute capability that it asks for.
/// Source:  transformer_engine/pytorch/quantization.py, check_fp8_support and those beside it.
[[nodiscard]] Status check_megatron_fp8_device(MegatronFp8 recipe, const DeviceTraits& device);

/// Weights stored only in 8 bits need a recipe and the distributed optimizer's copies.
/// Errors:  kInvalidArgument naming the key and what it does not go with.
/// Source:  megatron/training/arguments.py, validate_args; megatron/core/optimizer/
///          optimizer_config.py, __post_init__.
[[nodiscard]] Status check_megatron_fp8_parameters(const MegatronPlan& megatron);

/// The modules in --offload-modules exist, save tensors, and run once.
/// Errors:  kInvalidArgument naming the modules and what they do not go with.
/// Source:  megatron/core/transformer/transformer_config.py, __post_init__;
///          megatron/training/arguments.py, validate_args.
[[nodiscard]] Status check_megatron_offload(const ModelSpec& model, const MegatronPlan& megatron);

/// What sliding windows, attention sinks and experts with biases go together with.
/// Errors:  kInvalidArgument naming the option and what would do.
/// Source:  transformer_engine/pytorch/attention/dot_product_attention/utils.py,
///          get_attention_backend; megatron/core/transformer/moe/experts.py, TEGroupedMLP;
///          megatron/core/transformer/transformer_config.py, __post_init__.
[[nodiscard]] Status check_megatron_special_layers(const ModelSpec& model,
                                                   const ParallelPlan& plan);

/// Layers that are offloaded whole: fewer than there are, on one stage, that run once.
/// Errors:  kInvalidArgument naming --cpu-offloading-num-layers and what it does not go with.
/// Source:  megatron/core/transformer/transformer_config.py, __post_init__;
///          transformer_engine/pytorch/cpu_offload.py, get_cpu_offload_context.
[[nodiscard]] Status check_megatron_layer_offload(const ModelSpec& model,
                                                  const MegatronPlan& megatron);

}  // namespace headroom::ir
