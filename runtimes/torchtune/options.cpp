#include "runtimes/torchtune/options.h"

#include <array>

#include "runtimes/torchtune/plan.h"

namespace headroom::ir::torchtune {
namespace {

using T = TunePlan;

// torchtune's own names of the options are the keys of its recipes.
constexpr std::array kTuneFields = {
    field<&T::compiled>("compiled")
        .at_hand_as("torch.compile")
        .key_of("tune")
        .shown_always()
        .spelled({.name = "compile"})
        .means("torch.compile of every layer and of the loss."),
    field<&T::optimizer_in_backward>("optimizer_in_backward")
        .at_hand_as("Optimizer in backward")
        .key_of("tune")
        .spelled({.name = "optimizer_in_bwd"})
        .means("The optimizer updates each parameter as soon as its gradient is there."),
    field<&T::offload_activations>("offload_activations")
        .at_hand_as("Offload activations")
        .key_of("tune")
        .spelled({.name = "enable_activation_offloading"})
        .means("The inputs of checkpointed layers are offloaded to the host.")};

constexpr PlanPart kTunePart = [] {
  PlanPart part = own_part<TunePlan>("tune", kTuneFields);
  part.title =
      "torchtune. Combine with --fsdp to shard, and with --lora or --qlora to train adapters.";
  part.runtime = "torchtune";
  return part;
}();

}  // namespace

const PlanPart& options() {
  return kTunePart;
}

}  // namespace headroom::ir::torchtune
