#include "runtimes/fsdp/options.h"

#include <array>

#include "model_ir/plan/plan_limits.h"
#include "runtimes/fsdp/plan.h"

namespace headroom::ir {

std::span<const Word<FsdpPrefetch>> fsdp_prefetch_words() {
  static constexpr std::array<Word<FsdpPrefetch>, 3> kPrefetches = {
      {{"pre", FsdpPrefetch::kBackwardPre},
       {"post", FsdpPrefetch::kBackwardPost},
       {"none", FsdpPrefetch::kNone}}};
  return kPrefetches;
}

}  // namespace headroom::ir

namespace headroom::ir::fsdp {
namespace {

using F = FsdpPlan;

constexpr std::array kFsdpFields = {
    field<&F::version>("version")
        .at_hand_as("FSDP version")
        .key_of("fsdp")
        .between(1, 2)
        .means("Version 2 is torch.distributed.fsdp.fully_shard; version 1 is "
               "FullyShardedDataParallel as "
               "Accelerate sets it up."),
    field<&F::reshard_after_forward>("reshard_after_forward")
        .at_hand_as("Reshard after forward")
        .key_of("fsdp", "reshard")
        .spelled({.name = "reshard_after_forward"})
        .shown_always()
        .searchable()
        .means("Parameters are sharded again after the forward pass and gathered again for the "
               "backward pass."),
    field<&F::reshard_ranks>("reshard_ranks")
        .labelled("Reshard over ranks")
        .key_of("fsdp", "reshard")
        .between(0, kMostRanks)
        .means("Number of ranks among which parameters are sharded after the forward pass; 0: all "
               "ranks."),
    field<&F::cpu_offload>("cpu_offload")
        .at_hand_as("Offload to the CPU")
        .key_of("fsdp", "offload")
        .means("Shards, gradients and optimizer states are on the host (CPUOffloadPolicy)."),
    field<&F::shard_decoder>("shard_decoder")
        .labelled("Shard decoder layers")
        .key_of("fsdp", "decoder")
        .means("Each decoder layer of an encoder-decoder model is sharded as a group of its own."),
    field<&F::shard_embeddings>("shard_embeddings")
        .key_of("fsdp", "embeddings")
        .means(
            "Embedding and output layer are sharded as groups of their own, unless their weights "
            "are tied."),
    word<&F::param_dtype, policy_dtype_words>("param_dtype")
        .at_hand_as("Arithmetic")
        .key_of("fsdp", "param")
        .spelled({.name = "param_dtype"})
        .shown_always()
        .means("Type of the gathered parameters and of the arithmetic. If it is not given and "
               "--precision is fp16 or autocast-fp16, it is fp16."),
    word<&F::reduce_dtype, policy_dtype_words>("reduce_dtype")
        .labelled("Gradient reduction")
        .key_of("fsdp", "reduce")
        .spelled({.name = "reduce_dtype"})
        .shown_always()
        .means("Type in which gradients are reduced."),
    degree<&Mesh::replicas, F>("replicas")
        .at_hand_as("Replicas")
        .key_of("fsdp")
        .between(1, kMostRanks)
        .searchable()
        .means("Hybrid sharding: number of replicas of the sharded model. As many replicas as GPUs "
               "mean NO_SHARD with version 1."),
    field<&F::use_orig_params>("use_orig_params")
        .labelled("Original parameters")
        .key_of("fsdp", "orig-params")
        .spelled({.name = "use_orig_params"})
        .means("Version 1: the optimizer gets the original parameters; otherwise it gets one flat "
               "tensor per unit."),
    word<&F::backward_prefetch, fsdp_prefetch_words>("backward_prefetch")
        .key_of("fsdp", "prefetch")
        .spelled({.name = "backward_prefetch"})
        .means("Version 1: the next unit is gathered before (pre) or after (post) the gradients of "
               "the "
               "current unit are computed, or only when it is needed (none)."),
    field<&F::forward_prefetch>("forward_prefetch")
        .key_of("fsdp")
        .spelled({.name = "forward_prefetch"})
        .means("Version 1: in the forward pass, the next unit is gathered before the current one "
               "runs."),
    field<&F::quantised_on_host>("quantised_on_host")
        .key_of("fsdp")
        .means("Version 1 with --qlora: each weight is quantised on the GPU and then kept on the "
               "host until it is sharded, as transformers 4 does with Accelerate's "
               "fsdp_cpu_ram_efficient_loading. Otherwise the whole quantised model is on every "
               "GPU first, as with transformers 5, which ignores that setting.")};

constexpr std::array kKeyedOptions = {
    KeyedOption{"fsdp", "PyTorch FSDP. --precision is the type of the shards."}};

constexpr PlanPart kFsdpPart = [] {
  PlanPart part = own_part<FsdpPlan, &Mesh::replicas>("fsdp", kFsdpFields);
  part.title = "PyTorch FSDP.";
  part.runtime = "fsdp";
  part.shards = true;
  part.keyed = kKeyedOptions;
  part.precision = [](Precision /*before*/) { return Precision::kFp32; };
  part.follow_precision = [](ParallelPlan& plan, Precision precision) {
    if (precision == Precision::kFp16 || precision == Precision::kAutocastFp16) {
      edit_fsdp(plan).param_dtype = DType::kFp16;
    }
  };
  return part;
}();

}  // namespace

const PlanPart& options() {
  return kFsdpPart;
}

}  // namespace headroom::ir::fsdp
