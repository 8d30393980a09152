#include "runtimes/megatron/options.h"

#include <algorithm>
#include <array>

#include "model_ir/plan/plan_limits.h"
#include "runtimes/megatron/plan.h"

namespace headroom::ir {
namespace {

using M = MegatronPlan;

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

/// The names in `table` of the modules that are set in `chosen`.
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

}  // namespace

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

Result<MegatronOffload> parse_offload_modules(std::string_view key,
                                              const std::vector<std::string>& names) {
  MegatronOffload chosen;
  for (const std::string& name : names) {
    const auto* const found =
        std::ranges::find(kOffloadModules, name, &MegatronOffloadModule::name);
    if (found == kOffloadModules.end()) {
      std::vector<std::string> known;
      for (const MegatronOffloadModule& each : kOffloadModules) {
        known.emplace_back(each.name);
      }
      return Error::invalid_argument(key, name, "modules out of " + join(known),
                                     suggestion(name, known));
    }
    chosen.*found->value = true;
  }
  return chosen;
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

namespace megatron {
namespace {

constexpr OptionField recompute_field() {
  OptionField row =
      word<&M::recompute, megatron_recompute_words>("recompute").at_hand_as("Recomputation");
  row.form = "one of none, selective, uniform, block (full recomputation is uniform or block)";
  return row;
}

constexpr std::array kMegatronFields = {
    degree<&Mesh::tensor, M>("tp")
        .at_hand_as("Tensor parallel")
        .key_of("megatron")
        .spelled({.name = "--tensor-model-parallel-size"})
        .between(1, kMostRanks)
        .shown_always()
        .searchable()
        .means("Tensor-parallel degree."),
    degree<&Mesh::pipeline, M>("pp")
        .at_hand_as("Pipeline stages")
        .key_of("megatron")
        .spelled({.name = "--pipeline-model-parallel-size"})
        .between(1, kMostRanks)
        .searchable()
        .means("Pipeline-parallel degree: the number of pipeline stages."),
    degree<&Mesh::context, M>("cp")
        .at_hand_as("Context parallel")
        .key_of("megatron")
        .spelled({.name = "--context-parallel-size"})
        .between(1, kMostRanks)
        .searchable()
        .means("Context-parallel degree: each rank holds 1/cp of every sequence."),
    degree<&Mesh::expert, M>("ep")
        .at_hand_as("Expert parallel")
        .key_of("megatron")
        .spelled({.name = "--expert-model-parallel-size"})
        .between(1, kMostRanks)
        .searchable()
        .means("Expert-parallel degree."),
    degree<&Mesh::expert_tensor, M>("etp")
        .labelled("Expert tensor parallel")
        .key_of("megatron")
        .spelled({.name = "--expert-tensor-parallel-size"})
        .between(0, kMostRanks)
        .searchable()
        .means("Tensor-parallel degree of the experts; 0: that of the other layers."),
    field<&M::layers_per_chunk>("layers_per_virtual_stage")
        .labelled("Layers per virtual stage")
        .key_of("megatron")
        .spelled({.name = "--num-layers-per-virtual-pipeline-stage"})
        .between(0, kMostRanks)
        .searchable()
        .means("Layers per virtual pipeline stage (interleaved schedule); 0: one chunk per stage."),
    field<&M::first_stage_layers>("first_stage_layers")
        .key_of("megatron")
        .spelled({.name = "--decoder-first-pipeline-num-layers"})
        .between(0, kMostRanks)
        .means("Layers of the first pipeline stage; 0: as many as the other stages."),
    field<&M::last_stage_layers>("last_stage_layers")
        .key_of("megatron")
        .spelled({.name = "--decoder-last-pipeline-num-layers"})
        .between(0, kMostRanks)
        .means("Layers of the last pipeline stage; 0: as many as the other stages."),
    field<&M::micro_batch_group>("micro_batch_group")
        .key_of("megatron")
        .spelled({.name = "--microbatch-group-size-per-virtual-pipeline-stage"})
        .between(0, kMostRanks)
        .means("Consecutive micro-batches on one virtual pipeline stage; 0: as many as there are "
               "stages."),
    field<&M::overlap_warmup_flush>("overlap_p2p_communication_warmup_flush")
        .key_of("megatron")
        .spelled({.name = "--overlap-p2p-communication-warmup-flush"})
        .means("While the pipeline fills and empties, a virtual stage receives the next tensor "
               "during a pass instead of after it; requires virtual stages."),
    field<&M::optimizer_instances>("optimizer_instances")
        .key_of("megatron")
        .spelled({.name = "--num-distributed-optimizer-instances"})
        .between(1, kMostRanks)
        .means("Copies of the distributed optimizer among the data-parallel ranks."),
    field<&M::mtp_layers>("mtp_layers")
        .labelled("MTP layers")
        .key_of("megatron")
        .spelled({.name = "--mtp-num-layers"})
        .between(0, kMostRanks)
        .means("Layers for multi-token prediction."),
    field<&M::offloaded_layers>("cpu_offloading_num_layers")
        .labelled("Layers offloaded")
        .key_of("megatron")
        .spelled({.name = "--cpu-offloading-num-layers"})
        .between(0, kMostRanks)
        .searchable()
        .means("Number of layers, from the first, whose saved activations go to host memory."),
    field<&M::context_exchange_ranks>("cp_exchange_ranks")
        .labelled("CP exchange ranks")
        .key_of("megatron")
        .between(1, kMostRanks)
        .means("The ranks in a group of N exchange heads (a2a), and the CP/N groups pass keys and "
               "values around a ring (p2p), as --cp-comm-type a2a+p2p does with "
               "--hierarchical-context-parallel-sizes N CP/N; 1: p2p only."),
    field<&M::recompute_layers>("recompute_layers")
        .at_hand_as("Recomputed layers")
        .key_of("megatron")
        .spelled({.name = "--recompute-num-layers"})
        .between(1, kMostRanks)
        .searchable()
        .means(
            "With recompute=uniform, layers per group; with recompute=block, recomputed layers of "
            "each chunk."),
    field<&M::vocabulary_divisor>("vocabulary_divisor")
        .key_of("megatron")
        .spelled({.name = "--make-vocab-size-divisible-by"})
        .between(1, kMostRanks)
        .means("The vocabulary is padded to a multiple of this number times the tensor-parallel "
               "degree."),
    field<&M::sequence_parallel>("sequence_parallel")
        .at_hand_as("Sequence parallel")
        .key_of("megatron")
        .spelled({.name = "--sequence-parallel"})
        .searchable()
        .means("Sequence parallelism: activations outside of the tensor-parallel layers are "
               "sharded along the sequence."),
    field<&M::tp_comm_overlap>("tp_comm_overlap")
        .key_of("megatron")
        .spelled({.name = "--tp-comm-overlap"})
        .searchable()
        .means("The gathers and scatters of sequence parallelism overlap with the matrix products "
               "that need them."),
    field<&M::account_for_embedding>("account_for_embedding")
        .key_of("megatron")
        .spelled({.name = "--account-for-embedding-in-pipeline-split"})
        .means("The embedding counts as a layer when layers are distributed over pipeline stages."),
    field<&M::account_for_loss>("account_for_loss")
        .key_of("megatron")
        .spelled({.name = "--account-for-loss-in-pipeline-split"})
        .means("The loss counts as a layer when layers are distributed over pipeline stages."),
    field<&M::pipeline_before_data>("use_tp_pp_dp_mapping")
        .labelled("TP-PP-DP mapping")
        .key_of("megatron")
        .spelled({.name = "--use-tp-pp-dp-mapping"})
        .searchable()
        .changes(OptionEffect::kTime)
        .means("Pipeline stages are neighbouring ranks and data-parallel ranks lie far apart."),
    field<&M::distributed_optimizer>("distributed_optimizer")
        .at_hand_as("Distributed optimizer")
        .key_of("megatron")
        .spelled({.name = "--use-distributed-optimizer"})
        .searchable()
        .means(
            "Distributed optimizer: optimizer states are sharded among the data-parallel ranks."),
    field<&M::overlap_grad_reduce>("overlap_grad_reduce")
        .key_of("megatron")
        .spelled({.name = "--overlap-grad-reduce"})
        .searchable()
        .means("The reduction of gradients overlaps with the backward pass."),
    field<&M::overlap_param_gather>("overlap_param_gather")
        .key_of("megatron")
        .spelled({.name = "--overlap-param-gather"})
        .searchable()
        .means("The all-gather of parameters overlaps with the forward pass."),
    field<&M::accumulation_fusion>("gradient_accumulation_fusion")
        .key_of("megatron")
        .spelled({.name = "--no-gradient-accumulation-fusion", .negated = true})
        .means("Weight gradients are accumulated inside their matrix product."),
    field<&M::fp32_gradients>("fp32_gradients")
        .key_of("megatron")
        .spelled({.name = "--accumulate-allreduce-grads-in-fp32"})
        .means("Gradients of bf16 parameters are accumulated and reduced in fp32."),
    field<&M::precision_aware>("precision_aware")
        .key_of("megatron")
        .spelled({.name = "--use-precision-aware-optimizer"})
        .searchable()
        .means("Precision-aware optimizer: instead of an fp32 copy it stores the 16 bits that each "
               "bf16 "
               "parameter lacks."),
    field<&M::bf16_moments>("bf16_moments")
        .key_of("megatron")
        .searchable()
        .means("The precision-aware optimizer stores its moments in bf16."),
    field<&M::defer_head_gradient>("defer_head_gradient")
        .key_of("megatron")
        .spelled({.name = "--defer-embedding-wgrad-compute"})
        .means(
            "The weight gradient of the output layer is computed at the end of the pipeline. The "
            "key is recognised, but every plan with it is refused, because this is not "
            "modelled."),
    field<&M::deterministic>("deterministic")
        .key_of("megatron")
        .spelled({.name = "--deterministic-mode"})
        .means("PyTorch's deterministic algorithms with CUBLAS_WORKSPACE_CONFIG=:4096:8."),
    field<&M::transformer_engine>("transformer_engine")
        .key_of("megatron")
        .spelled({.name = "--transformer-impl", .on = "transformer_engine", .off = "local"})
        .means("Layers are modules of Transformer Engine; otherwise Megatron-Core's own."),
    field<&M::perform_initialization>("perform_initialization")
        .key_of("megatron")
        .spelled({.name = "--no-initialization", .negated = true})
        .changes(OptionEffect::kMemory)
        .means("Weights are initialised. Without it, Megatron-Core does not mark the vocabulary "
               "layers as sharded, so that the gradient norm counts them on the first "
               "tensor-parallel rank only."),
    field<&M::rope_fusion>("rope_fusion")
        .key_of("megatron")
        .spelled({.name = "--no-rope-fusion", .negated = true})
        .means("Fused rotary embedding."),
    field<&M::fp8_parameters>("fp8_param_gather")
        .key_of("megatron")
        .spelled({.name = "--fp8-param-gather"})
        .searchable()
        .means("Weights of linear layers are stored and gathered in 8 bits (under mxfp8 gathered "
               "in 16); requires fp8-recipe and distributed-optimizer."),
    field<&M::mask_in_dataloader>("mask_in_dataloader")
        .key_of("megatron")
        .changes(OptionEffect::kMemory)
        .means("The data loader makes the attention mask (--create-attention-mask-in-dataloader)."),
    field<&M::permute_fusion>("permute_fusion")
        .key_of("megatron")
        .spelled({.name = "--moe-permute-fusion"})
        .searchable()
        .means("Fused permutation of tokens before and after the experts."),
    field<&M::aux_loss>("aux_loss")
        .key_of("megatron")
        .means("The router has a load-balancing loss (--moe-router-load-balancing-type aux_loss)."),
    field<&M::grouped_gemm>("grouped_gemm")
        .key_of("megatron")
        .spelled({.name = "--moe-grouped-gemm"})
        .means("All experts of a rank run as one grouped matrix product; otherwise one after the "
               "other."),
    field<&M::sinkhorn>("sinkhorn")
        .key_of("megatron")
        .means(
            "Sinkhorn routing (--moe-router-load-balancing-type sinkhorn); requires aux-loss=no."),
    field<&M::router_fp32>("router_fp32")
        .key_of("megatron")
        .spelled({.name = "--moe-router-dtype", .on = "fp32"})
        .means("The router computes in fp32."),
    field<&M::shared_expert_overlap>("shared_expert_overlap")
        .key_of("megatron")
        .spelled({.name = "--moe-shared-expert-overlap"})
        .searchable()
        .means("Shared experts overlap with the dispatch of tokens."),
    field<&M::overlap_expert_exchange>("overlap_moe_expert_parallel_comm")
        .key_of("megatron")
        .spelled({.name = "--overlap-moe-expert-parallel-comm"})
        .means("One micro-batch runs forward while another runs backward, layer by layer, so that "
               "the dispatch of tokens overlaps with computation."),
    field<&M::delayed_weight_gradients>("delay_wgrad_compute")
        .key_of("megatron")
        .spelled({.name = "--delay-wgrad-compute"})
        .means("Products for gradients of weights wait until communication overlaps with them; "
               "requires overlap-moe-expert-parallel-comm."),
    field<&M::fused_experts>("use_transformer_engine_op_fuser")
        .key_of("megatron")
        .spelled({.name = "--use-transformer-engine-op-fuser"})
        .means("The experts' products also compute the activation and the casts; requires "
               "fp8-recipe=mxfp8. The memory is that of separate kernels, which is no less."),
    field<&M::pipeline_layout>("pipeline_layout")
        .key_of("megatron")
        .spelled({.name = "--pipeline-model-parallel-layout"})
        .without_commas()
        .means("Layers of every chunk, such as Et*4|(t*4|)*14tmL; empty: the other keys distribute "
               "the "
               "layers."),
    word<&M::attention, megatron_attention_words>("attention")
        .labelled("Attention backend")
        .key_of("megatron")
        .spelled({.name = "--attention-backend"})
        .searchable()
        .means("Backend of the attention."),
    word<&M::context_exchange, megatron_context_words>("cp_comm_type")
        .key_of("megatron")
        .spelled({.name = "--cp-comm-type"})
        .searchable()
        .means(
            "Communication of context parallelism: p2p passes keys and values around a ring, a2a "
            "exchanges heads for tokens."),
    word<&M::dispatcher, megatron_dispatcher_words>("dispatcher")
        .key_of("megatron")
        .spelled({.name = "--moe-token-dispatcher-type"})
        .searchable()
        .means("Dispatch of tokens to experts; hybridep is flex with --moe-flex-dispatcher-backend "
               "hybridep."),
    word<&M::fp8, megatron_fp8_words>("fp8_recipe")
        .at_hand_as("FP8 recipe")
        .key_of("megatron")
        .spelled({.name = "--fp8-recipe"})
        .searchable()
        .means("Scaling recipe of 8-bit matrix products in the linear layers (with --fp8-format "
               "hybrid)."),
    word<&M::cross_entropy, megatron_cross_entropy_words>("cross_entropy_fusion")
        .key_of("megatron")
        .spelled({.name = "--cross-entropy-fusion-impl"})
        .searchable()
        .means("Fused cross entropy (with --cross-entropy-loss-fusion)."),
    recompute_field()
        .key_of("megatron")
        .spelled({.name = "--recompute-method"})
        .searchable()
        .means("Activation recomputation: selective modules (--recompute-granularity selective), "
               "or whole layers, uniform or block."),
    modules<&M::recompute_modules, megatron_modules>("recompute_modules")
        .key_of("megatron")
        .spelled({.name = "--recompute-modules"})
        .searchable()
        .means("Modules that recompute=selective recomputes; none named: core_attn."),
    modules<&M::offload_modules, megatron_offload_modules>("offload_modules")
        .key_of("megatron")
        .spelled({.name = "--offload-modules"})
        .searchable()
        .means("Modules whose saved activations go to host memory "
               "(--fine-grained-activation-offloading); none named: offloading is off."),
    field<&M::least_offloaded>("min_offloaded_tensor_size")
        .labelled("Least offloaded tensor")
        .key_of("megatron")
        .spelled({.name = "--min-offloaded-tensor-size"})
        .between(1, kMostElements)
        .in_units("elements")
        .means("Size of the smallest tensor that offload-modules copies."),
    field<&M::capacity_factor>("capacity_factor")
        .key_of("megatron")
        .spelled({.name = "--moe-expert-capacity-factor"})
        .within(1e-3, 1e6)
        .means(
            "Capacity of each expert, relative to an even share of the tokens; experts are padded "
            "to it. none: no token is dropped."),
    field<&M::expert_load>("expert_load")
        .key_of("megatron")
        .within(1e-3, 1e4)
        .means("Tokens that reach the experts of the shown rank, relative to an even share; 1: "
               "balanced "
               "routing."),
    field<&M::optimizer_offload>("optimizer_offload")
        .labelled("Optimizer offload")
        .key_of("megatron")
        .spelled({.name = "--optimizer-offload-fraction"})
        .within(0, 1)
        .searchable()
        .means("Share of the optimizer whose states and fp32 masters are in host memory "
               "(--optimizer-cpu-offload); 0: none.")};

constexpr std::array kKeyedOptions = {
    KeyedOption{"megatron", "Megatron-Core, such as tp=2,sequence-parallel."}};

constexpr PlanPart kMegatronPart = [] {
  PlanPart part = own_part<MegatronPlan, &Mesh::tensor, &Mesh::pipeline, &Mesh::context,
                           &Mesh::expert, &Mesh::expert_tensor>("megatron", kMegatronFields);
  part.title =
      "Megatron-Core with Transformer Engine. The degrees and the data-parallel degree, which is "
      "what they leave, multiply up to the GPUs.";
  part.runtime = "megatron";
  part.shards = true;
  part.keyed = kKeyedOptions;
  return part;
}();

}  // namespace

const PlanPart& options() {
  return kMegatronPart;
}

}  // namespace megatron

}  // namespace headroom::ir
