#include "runtimes/transformers/quantised_defaults.h"

#include <cstdint>

#include "model_ir/base/units.h"
#include "model_ir/spec/recording/used_parameters.h"
#include "runtimes/transformers/library_version.h"

namespace headroom::ir::transformers {
namespace {

/// Parameters of the routed experts that are no linear layers: gate, up and down projection of
/// each.
std::int64_t expert_parameters(const ModelSpec& model, const ParallelPlan& plan) {
  if (model.recording) {
    return use_of(*model.recording).fused_experts;
  }
  if (!model.moe || expert_weights(model, plan) != ExpertWeights::kFused) {
    return 0;
  }
  std::int64_t layers = 0;
  for (const LayerSpec& layer : model.layers) {
    layers += layer.moe ? 1 : 0;
  }
  constexpr std::int64_t kProjections = 3;
  return layers * model.moe->experts * kProjections * model.hidden * model.moe->expert_ffn;
}

}  // namespace

UsualRecomputation recomputation_of_prepared(const ParallelPlan& plan) {
  if (!plan.quant || !plan.quant->prepare_kbit) {
    return {};
  }
  return {.recompute = Recompute::kFull,
          .note =
              "PEFT's prepare_model_for_kbit_training switches gradient checkpointing on, so "
              "that --checkpointing full is assumed; --checkpointing none leaves it off"};
}

std::vector<TrainerDefaults> adapter_trainers(const ParallelPlan& plan) {
  if (!plan.lora || plan.workload.generation) {
    return {};
  }
  return {{.trainer = "TRL's SFTTrainer",
           .settings = {{"micro-batch", "8"},
                        {"seq", "1024"},
                        {"checkpointing", "full"},
                        {"clip-norm", "1"}}},
          {.trainer = "transformers' Trainer",
           .settings = {{"micro-batch", "8"}, {"checkpointing", "none"}, {"clip-norm", "1"}}}};
}

bool needs_autocast(const ParallelPlan& plan) {
  return plan.quant && plan.quant->prepare_kbit && plan.precision == Precision::kBf16;
}

std::vector<std::string> quantised_notes(const ModelSpec& model, const ParallelPlan& plan) {
  std::vector<std::string> notes;
  const Bytes narrow{plan.quant ? 2 * expert_parameters(model, plan) : 0};
  if (narrow > Bytes{0}) {
    notes.push_back("experts are not quantised (" + to_text(narrow) + " in 16 bits" +
                    (plan.quant->prepare_kbit ? ", " + to_text(2 * narrow) +
                                                    " once PEFT's preparation has made them fp32; "
                                                    "prepare=no leaves that out"
                                              : "") +
                    "): bitsandbytes quantises linear layers, and transformers 5 keeps the experts "
                    "of a layer as one parameter; transformers 4 kept them as linear layers, "
                    "which is not modelled");
  }
  return notes;
}

}  // namespace headroom::ir::transformers
