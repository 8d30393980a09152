#include "runtimes/deepspeed/options.h"

#include <array>
#include <limits>

#include "model_ir/plan/plan_limits.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/interface/settle.h"

namespace headroom::ir {
namespace {

constexpr std::array<Word<OffloadDevice>, 3> kOffloads = {
    {{"none", OffloadDevice::kNone}, {"cpu", OffloadDevice::kCpu}, {"nvme", OffloadDevice::kNvme}}};

}  // namespace

std::span<const Word<OffloadDevice>> offload_words() {
  return kOffloads;
}

std::span<const Word<ZeroLeaf>> zero_leaf_words() {
  static constexpr std::array<Word<ZeroLeaf>, 2> kLeaves = {
      {{"default", ZeroLeaf::kDefault}, {"experts", ZeroLeaf::kExperts}}};
  return kLeaves;
}

}  // namespace headroom::ir

namespace headroom::ir::deepspeed {
namespace {

using Z = ZeroPlan;

constexpr std::int64_t kMostCount = std::numeric_limits<std::int64_t>::max();

/// A number of elements that only plan files and DeepSpeed's own configuration set.
template <auto kMember>
constexpr OptionField elements(std::string_view name) {
  return field<kMember>(name).between(0, kMostCount).in_units("elements");
}

// DeepSpeed's own names of the options are their paths in its configuration.
constexpr std::array kZeroFields = {
    field<&Z::stage>("stage")
        .at_hand_as("ZeRO stage")
        .as_option("zero", "STAGE")
        .usually("no DeepSpeed")
        .between(0, 3)
        .searchable()
        .spelled({.name = "zero_optimization.stage"})
        .means("DeepSpeed ZeRO stage: 1 shards optimizer states, 2 also gradients, 3 also "
               "parameters."),
    elements<&Z::reduce_bucket_size>("reduce_bucket_elements")
        .between(0, kMostElements)  // It is one tensor.
        .spelled({.name = "zero_optimization.reduce_bucket_size"})
        .means("Size of the buckets in which gradients are reduced."),
    elements<&Z::allgather_bucket_size>("allgather_bucket_elements")
        .spelled({.name = "zero_optimization.allgather_bucket_size"})
        .means("Size of the buckets in which parameters are gathered at stages 1 and 2."),
    field<&Z::overlap_comm>("overlap_comm")
        .spelled({.name = "zero_optimization.overlap_comm"})
        .means("The reduction of gradients overlaps with the backward pass; none: yes at stage 3, "
               "otherwise no."),
    field<&Z::contiguous_gradients>("contiguous_gradients")
        .spelled({.name = "zero_optimization.contiguous_gradients"})
        .means("Gradients are copied into one buffer as they are produced."),
    field<&Z::round_robin_gradients>("round_robin_gradients")
        .spelled({.name = "zero_optimization.round_robin_gradients"})
        .means("Gradients are dealt out to the ranks in turn before their offload."),
    elements<&Z::sub_group_size>("sub_group_elements")
        .spelled({.name = "zero_optimization.sub_group_size"})
        .means("Stage 3: size of the groups of parameters that the optimizer steps one by one."),
    elements<&Z::prefetch_bucket_size>("prefetch_bucket_elements")
        .spelled({.name = "zero_optimization.stage3_prefetch_bucket_size"})
        .means("Stage 3: parameters that are gathered in advance."),
    elements<&Z::param_persistence_threshold>("param_persistence_threshold_elements")
        .spelled({.name = "zero_optimization.stage3_param_persistence_threshold"})
        .means("Stage 3: smaller parameters are not sharded."),
    elements<&Z::model_persistence_threshold>("model_persistence_threshold_elements")
        .spelled({.name = "zero_optimization.stage3_model_persistence_threshold"})
        .means("Stage 3: the most elements that stay unsharded altogether."),
    elements<&Z::max_live_parameters>("max_live_parameters")
        .spelled({.name = "zero_optimization.stage3_max_live_parameters"})
        .means("Stage 3: the most elements that are gathered at a time."),
    elements<&Z::max_reuse_distance>("max_reuse_distance_elements")
        .spelled({.name = "zero_optimization.stage3_max_reuse_distance"})
        .means("Stage 3: a parameter that is used again within so many elements stays gathered."),
    word<&Z::offload_optimizer, offload_words>("offload_optimizer")
        .at_hand_as("Optimizer offload")
        .key_of("offload", "optimizer")
        .spelled({.name = "zero_optimization.offload_optimizer.device"})
        .means("Where optimizer states and fp32 masters are."),
    word<&Z::offload_param, offload_words>("offload_param")
        .at_hand_as("Parameter offload")
        .key_of("offload", "param")
        .spelled({.name = "zero_optimization.offload_param.device"})
        .means("Stage 3: where sharded parameters are."),
    field<&Z::offload_ratio>("offload_ratio")
        .labelled("Offloaded share")
        .key_of("offload", "optimizer-ratio")
        .within(0, 1)
        .spelled({.name = "zero_optimization.offload_optimizer.ratio"})
        .means("Stage 3: share of the sub-groups whose optimizer states are off the device."),
    field<&Z::nvme_path>("nvme_path")
        .labelled("NVMe folder")
        .key_of("offload", "path")
        .spelled({.name = "zero_optimization.offload_optimizer.nvme_path"})
        .means("Folder of the drive that offload to nvme uses."),
    field<&Z::decay_groups>("decay_groups")
        .as_option("decay-groups")
        .changes(OptionEffect::kMemory)
        .means("Norms and biases form a separate parameter group without weight decay, as in "
               "Trainer."),
    word<&Z::grad_accum_dtype, policy_dtype_words>("grad_accum_dtype")
        .spelled({.name = "data_types.grad_accum_dtype"})
        .means("Type in which gradients are accumulated; none: that of the parameters."),
    field<&Z::torch_adam>("torch_adam")
        .spelled({.name = "optimizer.params.torch_adam"})
        .means("A fused AdamW is PyTorch's own; otherwise DeepSpeed's FusedAdam."),
    field<&Z::hpz_partition_size>("hpz_partition_ranks")
        .labelled("ZeRO++ hpZ ranks")
        .key_of("zeropp", "hpz")
        .between(1, kMostRanks)
        .spelled({.name = "zero_optimization.zero_hpz_partition_size"})
        .means("ZeRO++ hpZ: ranks that share a second partition of the parameters; 1: none."),
    field<&Z::quantized_weights>("quantized_weights")
        .labelled("ZeRO++ qwZ")
        .key_of("zeropp", "qwz")
        .spelled({.name = "zero_optimization.zero_quantized_weights"})
        .means("ZeRO++ qwZ: parameters are gathered as 8-bit integers."),
    field<&Z::quantized_gradients>("quantized_gradients")
        .labelled("ZeRO++ qgZ")
        .key_of("zeropp", "qgz")
        .spelled({.name = "zero_optimization.zero_quantized_gradients"})
        .means("ZeRO++ qgZ: gradients are exchanged as 4-bit integers."),
    field<&Z::node_devices>("node_devices")
        .labelled("GPUs per node (qgZ)")
        .key_of("zeropp", "node")
        .between(1, kMostRanks)
        .means("GPUs of a node, among which qgZ exchanges gradients first."),
    word<&Z::leaf, zero_leaf_words>("leaf")
        .labelled("Leaf modules")
        .key_of("zeropp", "leaf")
        .means("Modules whose parameters stage 3 gathers and releases as one: the blocks of "
               "experts that DeepSpeed knows itself, or every block of experts."),
    field<&Z::reduce_scatter>("reduce_scatter")
        .spelled({.name = "zero_optimization.reduce_scatter"})
        .means("Each rank receives only the gradients it owns; otherwise all ranks receive the "
               "whole bucket."),
    field<&Z::multi_rank_allreduce>("multi_rank_allreduce")
        .spelled({.name = "zero_optimization.use_multi_rank_bucket_allreduce"})
        .means("Stages 1 and 2: one all-reduce for the gradients of several owners; otherwise a "
               "reduction to each owner."),
    field<&Z::parameter_alignment>("parameter_alignment")
        .spelled({.name = "zero_optimization.parameter_alignment"})
        .changes(OptionEffect::kMemory)
        .means("Stages 1 and 2: parameters begin at multiples of 16 bytes of the flat buffer."),
    field<&Z::compute_grad_norm>("compute_grad_norm")
        .spelled({.name = "zero_optimization.compute_grad_norm"})
        .means("Stages 1 and 2: the norm of the gradients is computed; without, there is neither "
               "clipping nor offload."),
    field<&Z::memory_efficient_linear>("memory_efficient_linear")
        .spelled({.name = "zero_optimization.memory_efficient_linear"})
        .means("Stage 3: DeepSpeed's own linear function; PyTorch's keeps gathered weights until "
               "the backward pass."),
    field<&Z::allgather_sequential>("allgather_sequential")
        .spelled({.name = "zero_optimization.stage3_allgather_sequential"})
        .means("Stage 3: parameters are gathered one by one."),
    field<&Z::all_reduce_fetch>("all_reduce_fetch")
        .spelled({.name = "zero_optimization.stage3_use_all_reduce_for_fetch_params"})
        .means("Stage 3: parameters are gathered by an all-reduce in which each rank adds its "
               "shard to zeros."),
    word<&Z::communication_dtype, policy_dtype_words>("communication_dtype")
        .spelled({.name = "communication_data_type"})
        .means("Type in which gradients are reduced; none: that of the parameters.")};

constexpr std::array kKeyedOptions = {
    KeyedOption{"offload", "What ZeRO keeps in host memory (cpu) or on a drive (nvme)."},
    KeyedOption{"zeropp", "ZeRO++ and leaf modules, with --zero 3."}};

constexpr PlanPart kZeroPart = [] {
  PlanPart part = own_part<ZeroPlan>("zero", kZeroFields);
  part.title = "DeepSpeed ZeRO.";
  part.runtime = "deepspeed";
  part.shards = true;
  part.keyed = kKeyedOptions;
  part.precision = with_masters;
  return part;
}();

}  // namespace

const PlanPart& options() {
  return kZeroPart;
}

}  // namespace headroom::ir::deepspeed
