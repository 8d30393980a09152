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
    field<&F::version>("version").key_of("fsdp").between(1, 2).means(
        "2: torch.distributed.fsdp.fully_shard. 1: FullyShardedDataParallel as Accelerate sets it "
        "up."),
    field<&F::reshard_after_forward>("reshard_after_forward")
        .key_of("fsdp", "reshard")
        .spelled({.name = "reshard_after_forward"})
        .shown_always()
        .searchable()
        .means("Parameters are sharded again after the forward pass and gathered again for the "
               "backward pass."),
    field<&F::reshard_ranks>("reshard_ranks")
        .key_of("fsdp", "reshard")
        .between(0, kMostRanks)
        .means("After the forward pass, parameters are sharded among so many ranks only; 0: among "
               "all of them."),
    field<&F::cpu_offload>("cpu_offload")
        .key_of("fsdp", "offload")
        .means("Shards, gradients and optimizer states are on the host (CPUOffloadPolicy)."),
    field<&F::shard_decoder>("shard_decoder")
        .key_of("fsdp", "decoder")
        .means("The decoder layers of an encoder-decoder model are groups of their own."),
    field<&F::shard_embeddings>("shard_embeddings")
        .key_of("fsdp", "embeddings")
        .means("Embedding and output layer are groups of their own, unless their weights are "
               "tied."),
    word<&F::param_dtype, policy_dtype_words>("param_dtype")
        .key_of("fsdp", "param")
        .spelled({.name = "param_dtype"})
        .shown_always()
        .means("Type of the gathered parameters and of the arithmetic."),
    word<&F::reduce_dtype, policy_dtype_words>("reduce_dtype")
        .key_of("fsdp", "reduce")
        .spelled({.name = "reduce_dtype"})
        .shown_always()
        .means("Type in which gradients are reduced."),
    field<&F::replicas>("replicas")
        .key_of("fsdp")
        .between(1, kMostRanks)
        .searchable()
        .means("Hybrid sharding: replicas of the sharded model. As many as there are GPUs: "
               "NO_SHARD under version 1."),
    field<&F::use_orig_params>("use_orig_params")
        .key_of("fsdp", "orig-params")
        .spelled({.name = "use_orig_params"})
        .means("Version 1: the optimizer sees the parameters themselves; without, one flat tensor "
               "per unit."),
    word<&F::backward_prefetch, fsdp_prefetch_words>("backward_prefetch")
        .key_of("fsdp", "prefetch")
        .spelled({.name = "backward_prefetch"})
        .means("Version 1: when the next unit is gathered in the backward pass: before (pre) or "
               "after (post) the gradients of the unit under way."),
    field<&F::forward_prefetch>("forward_prefetch")
        .key_of("fsdp")
        .spelled({.name = "forward_prefetch"})
        .means("Version 1: the next unit is gathered before this one runs.")};

constexpr std::array kKeyedOptions = {
    KeyedOption{"fsdp", "PyTorch FSDP, whose shards have the type that --precision says."}};

constexpr PlanPart kFsdpPart = [] {
  PlanPart part = own_part<FsdpPlan>("fsdp", kFsdpFields);
  part.title = "PyTorch FSDP.";
  part.runtime = "fsdp";
  part.shards = true;
  part.keyed = kKeyedOptions;
  part.precision = [](Precision /*before*/) { return Precision::kFp32; };
  return part;
}();

}  // namespace

const PlanPart& options() {
  return kFsdpPart;
}

}  // namespace headroom::ir::fsdp
