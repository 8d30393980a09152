#include "runtimes/megatron/fields.h"

#include <algorithm>
#include <array>

namespace headroom::ir {
namespace {

constexpr std::array<MegatronWhole, 15> kWholes = {
    {{"tp", &MegatronPlan::tensor},
     {"pp", &MegatronPlan::pipeline},
     {"cp", &MegatronPlan::context},
     {"ep", &MegatronPlan::expert},
     {"etp", &MegatronPlan::expert_tensor, 0},
     {"layers_per_virtual_stage", &MegatronPlan::layers_per_chunk, 0},
     {"first_stage_layers", &MegatronPlan::first_stage_layers, 0},
     {"last_stage_layers", &MegatronPlan::last_stage_layers, 0},
     {"micro_batch_group", &MegatronPlan::micro_batch_group, 0},
     {"optimizer_instances", &MegatronPlan::optimizer_instances},
     {"mtp_layers", &MegatronPlan::mtp_layers, 0},
     {"cpu_offloading_num_layers", &MegatronPlan::offloaded_layers, 0},
     {"cp_exchange_ranks", &MegatronPlan::context_exchange_ranks},
     {"recompute_layers", &MegatronPlan::recompute_layers},
     {"vocabulary_divisor", &MegatronPlan::vocabulary_divisor}}};

constexpr std::array<MegatronSwitch, 25> kSwitches = {
    {{"sequence_parallel", &MegatronPlan::sequence_parallel},
     {"tp_comm_overlap", &MegatronPlan::tp_comm_overlap},
     {"account_for_embedding", &MegatronPlan::account_for_embedding},
     {"account_for_loss", &MegatronPlan::account_for_loss},
     {"use_tp_pp_dp_mapping", &MegatronPlan::pipeline_before_data},
     {"distributed_optimizer", &MegatronPlan::distributed_optimizer},
     {"overlap_grad_reduce", &MegatronPlan::overlap_grad_reduce},
     {"overlap_param_gather", &MegatronPlan::overlap_param_gather},
     {"gradient_accumulation_fusion", &MegatronPlan::accumulation_fusion},
     {"fp32_gradients", &MegatronPlan::fp32_gradients},
     {"precision_aware", &MegatronPlan::precision_aware},
     {"bf16_moments", &MegatronPlan::bf16_moments},
     {"defer_head_gradient", &MegatronPlan::defer_head_gradient},
     {"deterministic", &MegatronPlan::deterministic},
     {"transformer_engine", &MegatronPlan::transformer_engine},
     {"perform_initialization", &MegatronPlan::perform_initialization},
     {"rope_fusion", &MegatronPlan::rope_fusion},
     {"fp8_param_gather", &MegatronPlan::fp8_parameters},
     {"mask_in_dataloader", &MegatronPlan::mask_in_dataloader},
     {"permute_fusion", &MegatronPlan::permute_fusion},
     {"aux_loss", &MegatronPlan::aux_loss},
     {"grouped_gemm", &MegatronPlan::grouped_gemm},
     {"sinkhorn", &MegatronPlan::sinkhorn},
     {"router_fp32", &MegatronPlan::router_fp32},
     {"shared_expert_overlap", &MegatronPlan::shared_expert_overlap}}};

constexpr std::array<MegatronModule, 7> kRecomputeModules = {
    {{"core_attn", &MegatronModules::core_attention},
     {"layernorm", &MegatronModules::norms},
     {"mlp", &MegatronModules::mlp},
     {"moe", &MegatronModules::moe},
     {"moe_act", &MegatronModules::moe_activation},
     {"mla_up_proj", &MegatronModules::latent_up},
     {"shared_experts", &MegatronModules::shared_experts}}};

constexpr std::array<MegatronOffloadModule, 7> kOffloadModules = {
    {{"attn_norm", &MegatronOffload::attention_norm},
     {"qkv_linear", &MegatronOffload::qkv_linear},
     {"core_attn", &MegatronOffload::core_attention},
     {"attn_proj", &MegatronOffload::attention_projection},
     {"mlp_norm", &MegatronOffload::mlp_norm},
     {"expert_fc1", &MegatronOffload::expert_up},
     {"moe_act", &MegatronOffload::expert_activation}}};

/// The names in `table` of what is set in `chosen`.
template <class Table, class Chosen>
std::vector<std::string> chosen_names(const Table& table, const Chosen& chosen) {
  std::vector<std::string> names;
  for (const auto& each : table) {
    if (chosen.*each.value) {
      names.emplace_back(each.name);
    }
  }
  return names;
}

template <class Chosen, class Table>
Result<Chosen> parse_names(std::string_view key, const Table& table,
                           const std::vector<std::string>& names) {
  Chosen chosen;
  for (const std::string& name : names) {
    const auto found =
        std::ranges::find_if(table, [&name](const auto& each) { return each.name == name; });
    if (found == table.end()) {
      std::vector<std::string> known;
      for (const auto& each : table) {
        known.emplace_back(each.name);
      }
      return Error::invalid_argument(key, name, "modules out of " + join(known),
                                     suggestion(name, known));
    }
    chosen.*found->value = true;
  }
  return chosen;
}

constexpr std::array<Word<MegatronAttention>, 3> kAttentionBackends = {
    {{"fused", MegatronAttention::kFused},
     {"flash", MegatronAttention::kFlash},
     {"unfused", MegatronAttention::kUnfused}}};

constexpr std::array<Word<MegatronContext>, 2> kContexts = {
    {{"p2p", MegatronContext::kRing}, {"a2a", MegatronContext::kAllToAll}}};

constexpr std::array<Word<MegatronDispatcher>, 3> kDispatchers = {
    {{"alltoall", MegatronDispatcher::kAllToAll},
     {"allgather", MegatronDispatcher::kAllGather},
     {"hybridep", MegatronDispatcher::kHybridEp}}};

constexpr std::array<Word<MegatronCrossEntropy>, 3> kCrossEntropies = {
    {{"none", MegatronCrossEntropy::kUnfused},
     {"native", MegatronCrossEntropy::kNative},
     {"te", MegatronCrossEntropy::kTransformerEngine}}};

constexpr std::array<Word<MegatronFp8>, 5> kFp8Recipes = {{{"none", MegatronFp8::kNone},
                                                           {"delayed", MegatronFp8::kDelayed},
                                                           {"tensorwise", MegatronFp8::kTensorwise},
                                                           {"blockwise", MegatronFp8::kBlockwise},
                                                           {"mxfp8", MegatronFp8::kMxfp8}}};

constexpr std::array<Word<MegatronRecompute>, 4> kRecomputes = {
    {{"none", MegatronRecompute::kNone},
     {"selective", MegatronRecompute::kSelective},
     {"uniform", MegatronRecompute::kFullUniform},
     {"block", MegatronRecompute::kFullBlock}}};

}  // namespace

std::span<const MegatronWhole> megatron_wholes() {
  return kWholes;
}
std::span<const MegatronSwitch> megatron_switches() {
  return kSwitches;
}
std::span<const MegatronModule> megatron_modules() {
  return kRecomputeModules;
}
std::span<const MegatronOffloadModule> megatron_offload_modules() {
  return kOffloadModules;
}
MegatronModules recomputed_modules(const MegatronPlan& megatron) {
  MegatronModules modules;
  if (megatron.recompute == MegatronRecompute::kSelective) {
    modules = megatron.recompute_modules;
    modules.core_attention = modules.core_attention || modules == MegatronModules{};
  }
  return modules;
}

std::vector<std::string> names_of(const MegatronModules& modules) {
  return chosen_names(kRecomputeModules, modules);
}
std::vector<std::string> names_of(const MegatronOffload& modules) {
  return chosen_names(kOffloadModules, modules);
}

Result<MegatronModules> parse_modules(std::string_view key, const std::vector<std::string>& names) {
  return parse_names<MegatronModules>(key, kRecomputeModules, names);
}
Result<MegatronOffload> parse_offload_modules(std::string_view key,
                                              const std::vector<std::string>& names) {
  return parse_names<MegatronOffload>(key, kOffloadModules, names);
}

std::span<const Word<MegatronAttention>> megatron_attention_words() {
  return kAttentionBackends;
}
std::span<const Word<MegatronContext>> megatron_context_words() {
  return kContexts;
}
std::span<const Word<MegatronDispatcher>> megatron_dispatcher_words() {
  return kDispatchers;
}
std::span<const Word<MegatronCrossEntropy>> megatron_cross_entropy_words() {
  return kCrossEntropies;
}
std::span<const Word<MegatronFp8>> megatron_fp8_words() {
  return kFp8Recipes;
}
std::span<const Word<MegatronRecompute>> megatron_recompute_words() {
  return kRecomputes;
}

}  // namespace headroom::ir
