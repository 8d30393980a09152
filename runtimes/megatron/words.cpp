#include "runtimes/megatron/words.h"

#include <array>

#include "model_ir/base/counted.h"
#include "runtimes/interface/description.h"
#include "runtimes/megatron/options.h"
#include "runtimes/megatron/plan.h"

namespace headroom::ir::megatron {
namespace {

std::int64_t data_degree(const ParallelPlan& plan) {
  return plan.world / (plan.mesh.tensor * plan.mesh.pipeline * plan.mesh.context);
}

/// Joins names: "core_attn and mlp".
std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : " and ") + name;
  }
  return text;
}

std::string degree_words(const ParallelPlan& plan, const MegatronPlan& megatron) {
  std::string text;
  add_degree(text, "tp", plan.mesh.tensor, true);
  add_degree(text, "pp", plan.mesh.pipeline, true);
  add_degree(text, "vpp-layers", megatron.layers_per_chunk, megatron.layers_per_chunk > 0);
  add_degree(text, "first-stage-layers", megatron.first_stage_layers,
             megatron.first_stage_layers > 0);
  add_degree(text, "last-stage-layers", megatron.last_stage_layers, megatron.last_stage_layers > 0);
  add_degree(text, "cp", plan.mesh.context, plan.mesh.context > 1);
  add_word(text, "cp-comm=a2a", megatron.context_exchange == MegatronContext::kAllToAll);
  add_degree(text, "ep", plan.mesh.expert, plan.mesh.expert > 1);
  add_degree(text, "etp", plan.mesh.expert_tensor, plan.mesh.expert_tensor > 0);
  add_degree(text, "dp", data_degree(plan), true);
  add_word(text, "account-for-embedding", megatron.account_for_embedding);
  add_word(text, "account-for-loss", megatron.account_for_loss);
  add_word(text, "sequence-parallel", megatron.sequence_parallel);
  add_word(text, "distributed-optimizer", megatron.distributed_optimizer);
  add_word(text, "dispatcher=hybridep", megatron.dispatcher == MegatronDispatcher::kHybridEp);
  add_word(text, "optimizer-offload=" + short_number(megatron.optimizer_offload),
           megatron.optimizer_offload > 0);
  add_word(text, "mesh-order=tp-cp-ep-pp-dp", megatron.pipeline_before_data);
  return text;
}

std::string fp8_words(const MegatronPlan& megatron) {
  if (megatron.fp8 == MegatronFp8::kNone) {
    return {};
  }
  return ", fp8-" + std::string(word_of(megatron_fp8_words(), megatron.fp8)) +
         (megatron.fp8_parameters ? ", fp8-param-gather" : "");
}

std::string recompute_words(const MegatronPlan& megatron) {
  switch (megatron.recompute) {
    case MegatronRecompute::kNone:
      return "no recomputation";
    case MegatronRecompute::kSelective:
      return "recomputes " + joined(names_of(recomputed_modules(megatron)));
    case MegatronRecompute::kFullUniform:
      return "recomputes every layer in groups of " + std::to_string(megatron.recompute_layers);
    case MegatronRecompute::kFullBlock:
      return "recomputes " + counted(megatron.recompute_layers, "layer") + " of each chunk";
  }
  return "";
}

std::string offload_words(const MegatronPlan& megatron) {
  const std::string names = joined(names_of(megatron.offload_modules));
  return names.empty() ? "" : ", offloads " + names;
}

}  // namespace

std::string layout_words(const ParallelPlan& plan) {
  const MegatronPlan megatron = megatron_of(plan);
  struct Degree {
    std::string_view name;
    std::int64_t size;
  };
  const std::array<Degree, 5> degrees = {{{"TP", plan.mesh.tensor},
                                          {"PP", plan.mesh.pipeline},
                                          {"CP", plan.mesh.context},
                                          {"DP", data_degree(plan)},
                                          {"EP", plan.mesh.expert}}};
  std::string text;
  for (const Degree& degree : degrees) {
    if (degree.size > 1) {
      text += (text.empty() ? "" : " x ") + std::string(degree.name) + " " +
              std::to_string(degree.size);
    }
  }
  return text;
}

std::string kernel_words(const MegatronPlan& megatron) {
  std::string text =
      std::string(word_of(megatron_attention_words(), megatron.attention)) + " attention";
  text += megatron.context_exchange == MegatronContext::kAllToAll ? " by exchange of heads" : "";
  if (megatron.fp8 != MegatronFp8::kNone) {
    text += ", fp8 " + std::string(word_of(megatron_fp8_words(), megatron.fp8));
    text += megatron.fp8_parameters ? " of weights held in 8 bits" : "";
  }
  if (megatron.mtp_layers > 0) {
    text += ", MTP " + std::to_string(megatron.mtp_layers);
  }
  text += megatron.sequence_parallel ? ", sequence parallel" : "";
  text += megatron.distributed_optimizer ? ", distributed optimizer" : "";
  text += megatron.optimizer_offload > 0 ? " in part on the host" : "";
  if (megatron.recompute != MegatronRecompute::kNone) {
    text += ", recompute " + std::string(word_of(megatron_recompute_words(), megatron.recompute));
  }
  return text;
}

std::span<const std::string_view> worded_keys() {
  static constexpr std::array<std::string_view, 15> kKeys = {"tp",
                                                             "pp",
                                                             "cp",
                                                             "ep",
                                                             "attention=fused",
                                                             "attention=flash",
                                                             "attention=unfused",
                                                             "cp-comm-type=a2a",
                                                             "fp8-recipe",
                                                             "fp8-param-gather",
                                                             "mtp-layers",
                                                             "sequence-parallel",
                                                             "distributed-optimizer",
                                                             "optimizer-offload",
                                                             "recompute"};
  return kKeys;
}

std::string description(const ParallelPlan& plan) {
  const MegatronPlan megatron = megatron_of(plan);
  return "megatron" + degree_words(plan, megatron) + precision_words_of(plan) +
         fp8_words(megatron) + optimizer_words_of(plan) +
         batch_words(plan.workload.micro_batch, plan.workload.accumulation) +
         recompute_words(megatron) + offload_words(megatron);
}

}  // namespace headroom::ir::megatron
