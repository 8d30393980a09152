#pragma once

#include <cstdint>

#include "planner/space/axis.h"
#include "runtimes/megatron/plan.h"

/// Axes that only Megatron-Core has.
namespace headroom::plan {

/// Converts a value of `megatron_axes::kOffloadModules` to its modules, and modules to the value.
[[nodiscard]] ir::MegatronOffload offload_modules_of(std::int64_t modules);
[[nodiscard]] std::int64_t value_with(const ir::MegatronOffload& modules);

namespace megatron_axes {

[[nodiscard]] AxisWords exchanges();
[[nodiscard]] AxisWords dispatchers();
[[nodiscard]] AxisWords mesh_orders();
[[nodiscard]] AxisWords gradient_types();
[[nodiscard]] AxisWords module_sets();
[[nodiscard]] AxisWords any_module_sets();
[[nodiscard]] std::optional<AxisValues> parse_modules(std::string_view text);
[[nodiscard]] std::string expected_modules();

namespace traits {
inline constexpr AxisTraits kContextExchange{
    .order = 80,
    .option = "cp-comm",
    .values = "KIND,..",
    .help = "communication of context parallelism: p2p (a ring) or a2a (exchange of heads)",
    .usual = "p2p",
    .words = exchanges,
    .any = exchanges,
    .needs = AxisNeeds::kSeveralGpus};
inline constexpr AxisTraits kDispatcher{
    .order = 110,
    .option = "dispatcher",
    .values = "KIND,..",
    .help = "dispatch of tokens to experts: alltoall, or hybridep if DeepEP is installed",
    .usual = "alltoall",
    .words = dispatchers,
    .any = dispatchers,
    .needs = AxisNeeds::kExperts};
inline constexpr AxisTraits kSharedOverlap{
    .order = 115,
    .option = "shared-expert-overlap",
    .values = "SWITCH",
    .help = "shared experts run while tokens are exchanged: yes, no or any",
    .usual = "yes where possible",
    .words = axis_words::switches,
    .any = axis_words::switches,
    .needs = AxisNeeds::kExperts};
inline constexpr AxisTraits kExchangeOverlap{
    .order = 125,
    .option = "overlap-moe-expert-parallel-comm",
    .values = "SWITCH",
    .help =
        "one micro-batch runs forward while another runs backward, so that the dispatch of tokens "
        "to experts overlaps with computation: yes, no or any",
    .usual = "no",
    .words = axis_words::switches,
    .any = axis_words::switches,
    .needs = AxisNeeds::kExperts};
inline constexpr AxisTraits kFirstStage{
    .order = 130,
    .option = "first-stage-layers",
    .values = "N,..",
    .help = "layers of the first pipeline stage; 0: as many as the other stages"};
inline constexpr AxisTraits kLastStage{
    .order = 140,
    .option = "last-stage-layers",
    .values = "N,..",
    .help = "layers of the last pipeline stage; 0: as many as the other stages"};
inline constexpr AxisTraits kMeshOrder{
    .order = 170,
    .option = "mesh-order",
    .values = "ORDER,..",
    .help = "order of the ranks, from the nearest: tp-cp-ep-dp-pp or tp-cp-ep-pp-dp",
    .usual = "tp-cp-ep-dp-pp",
    .words = mesh_orders,
    .any = mesh_orders,
    .needs = AxisNeeds::kSeveralGpus,
    .within_cells = true};
inline constexpr AxisTraits kFp8Parameters{
    .order = 190,
    .option = "fp8-param-gather",
    .values = "SWITCH",
    .help = "weights in 8 bits, if --precision is one of fp8-...: yes, no or any",
    .usual = "no",
    .words = axis_words::switches,
    .any = axis_words::switches};
inline constexpr AxisTraits kGradients{
    .order = 185,
    .option = "gradients",
    .values = "TYPE,..",
    .help =
        "type in which gradients are accumulated and reduced: fp32 or bf16. bf16 changes what "
        "is trained",
    .usual = "fp32",
    .words = gradient_types,
    .any = gradient_types};
inline constexpr AxisTraits kTpCommOverlap{
    .order = 235,
    .option = "tp-comm-overlap",
    .values = "SWITCH",
    .help =
        "with sequence parallelism: tensor-parallel exchange beside its matrix products: yes, "
        "no or any",
    .usual = "yes where possible",
    .words = axis_words::switches,
    .any = axis_words::switches,
    .needs = AxisNeeds::kSeveralGpus};
inline constexpr AxisTraits kRecomputeLayers{
    .order = 260,
    .option = "recompute-layers",
    .values = "N,..",
    .help =
        "with recompute uniform: layers of a group; with block: recomputed layers of each "
        "chunk",
    .absent = 1,
    .demanded = true,
    .within_cells = true};
inline constexpr AxisTraits kOffloadModules{
    .order = 290,
    .option = "offload-modules",
    .values = "A+B,..",
    .help =
        "none, or modules whose activations go to the host: qkv_linear, core_attn, attn_proj, "
        "attn_norm, mlp_norm, expert_fc1, moe_act",
    .usual = "none",
    .words = module_sets,
    .any = any_module_sets,
    .parse = parse_modules,
    .expected = expected_modules};
inline constexpr AxisTraits kDistributedOptimizer{.order = 300,
                                                  .option = "distributed-optimizer",
                                                  .values = "SWITCH",
                                                  .help = "distributed optimizer: yes, no or any",
                                                  .words = axis_words::switches,
                                                  .within_cells = true};
inline constexpr AxisTraits kOverlapGradReduce{
    .order = 310,
    .option = "overlap-grad-reduce",
    .values = "SWITCH",
    .help = "overlap of gradient reduction with the backward pass: yes, no or any",
    .words = axis_words::switches,
    .within_cells = true};
inline constexpr AxisTraits kOverlapParamGather{
    .order = 320,
    .option = "overlap-param-gather",
    .values = "SWITCH",
    .help = "overlap of the parameters' all-gather with the forward pass: yes, no or any",
    .words = axis_words::switches,
    .within_cells = true};
inline constexpr AxisTraits kAccumulationFusion{
    .order = 330,
    .option = "gradient-accumulation-fusion",
    .values = "SWITCH",
    .help = "accumulation of weight gradients inside their matrix product: yes, no or any",
    .words = axis_words::switches,
    .within_cells = true};
inline constexpr AxisTraits kLoaderMask{
    .order = 350,
    .option = "mask-in-dataloader",
    .values = "SWITCH",
    .help = "attention mask made by the data loader: yes, no or any",
    .words = axis_words::switches,
    .within_cells = true};
}  // namespace traits

inline constexpr Axis kContextExchange{traits::kContextExchange};
inline constexpr Axis kDispatcher{traits::kDispatcher};
inline constexpr Axis kSharedOverlap{traits::kSharedOverlap};
inline constexpr Axis kExchangeOverlap{traits::kExchangeOverlap};
inline constexpr Axis kGradients{traits::kGradients};
inline constexpr Axis kTpCommOverlap{traits::kTpCommOverlap};
inline constexpr Axis kFirstStage{traits::kFirstStage};
inline constexpr Axis kLastStage{traits::kLastStage};
inline constexpr Axis kMeshOrder{traits::kMeshOrder};
inline constexpr Axis kFp8Parameters{traits::kFp8Parameters};
inline constexpr Axis kRecomputeLayers{traits::kRecomputeLayers};
inline constexpr Axis kOffloadModules{traits::kOffloadModules};
inline constexpr Axis kDistributedOptimizer{traits::kDistributedOptimizer};
inline constexpr Axis kOverlapGradReduce{traits::kOverlapGradReduce};
inline constexpr Axis kOverlapParamGather{traits::kOverlapParamGather};
inline constexpr Axis kAccumulationFusion{traits::kAccumulationFusion};
inline constexpr Axis kLoaderMask{traits::kLoaderMask};

}  // namespace megatron_axes
}  // namespace headroom::plan
