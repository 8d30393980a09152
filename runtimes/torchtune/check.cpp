#include "runtimes/torchtune/check.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "runtimes/fsdp/check.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/interface/refusals.h"
#include "runtimes/torch/ddp_plan.h"
#include "runtimes/torchtune/plan.h"

namespace headroom::ir::torchtune {
namespace {

/// The conflict between torchtune's options and its recipes; empty if there is none.
std::string_view tune_trouble(const ParallelPlan& plan) {
  const TunePlan& tune = tune_of(plan);
  const bool recomputed =
      plan.recompute == Recompute::kFull && plan.recompute_every == 1 && plan.recompute_first == 0;
  const bool alone = !has_fsdp(plan) && !has_ddp(plan);
  if (tune.compiled && !recomputed) {
    return "with compiled needs --checkpointing full: other checkpointing is not modelled";
  }
  if (tune.offload_activations && (!recomputed || !alone)) {
    return "with offload-activations needs --checkpointing full and one GPU";
  }
  if (tune.optimizer_in_backward && (plan.workload.accumulation > 1 || plan.clip_norm || !alone)) {
    return "with optimizer-in-backward needs one GPU, --accumulation 1 and no --clip-norm";
  }
  return {};
}

}  // namespace

Status check_family(const ModelSpec& model) {
  constexpr std::array<Family, 7> kBuilt = {Family::kLlama,  Family::kMistral, Family::kGemma,
                                            Family::kGemma2, Family::kPhi3,    Family::kQwen2,
                                            Family::kQwen3};
  if (std::ranges::find(kBuilt, model.family) != kBuilt.end()) {
    return ok();
  }
  return Error::invalid_argument("model", model.name,
                                 "a model that torchtune builds: llama, mistral, gemma, gemma2, "
                                 "phi3, qwen2 or qwen3",
                                 "use another framework, such as --runtime transformers");
}

Status check_torchtune(const ParallelPlan& plan) {
  if (Status version = refuse_version(plan); !version) {
    return version;
  }
  if (Status layers = refuse_first_layers(plan); !layers) {
    return layers;
  }
  if (Status replicas = fsdp::check_replicas(plan); !replicas) {
    return replicas;
  }
  // ac_mode is a key of full_finetune_distributed alone.
  const bool skips = plan.recompute != Recompute::kNone && plan.recompute_every > 1;
  if (skips && (plan.lora || plan.world == 1)) {
    return Error::invalid_argument(
        "checkpointing", "every-" + std::to_string(plan.recompute_every) + " with torchtune",
        "none or full: only its recipe for full fine-tuning on several GPUs leaves out layers",
        "use --checkpointing full");
  }
  const std::string_view trouble = has_tune(plan) ? tune_trouble(plan) : std::string_view{};
  if (!trouble.empty()) {
    return Error::invalid_argument("tune", trouble, {},
                                   "change these options, or leave out this key of --tune");
  }
  return ok();
}

}  // namespace headroom::ir::torchtune
