#include "runtimes/torchtitan/options.h"

#include <array>

#include "model_ir/plan/plan_limits.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir {
namespace {

constexpr std::array<Word<Float8Recipe>, 4> kFloat8Recipes = {
    {{"none", Float8Recipe::kNone},
     {"tensorwise", Float8Recipe::kTensorwise},
     {"rowwise", Float8Recipe::kRowwise},
     {"rowwise-gw-hp", Float8Recipe::kRowwiseGradientHp}}};

constexpr std::array<Word<TitanReshard>, 3> kTitanReshards = {{{"default", TitanReshard::kDefault},
                                                               {"always", TitanReshard::kAlways},
                                                               {"never", TitanReshard::kNever}}};

}  // namespace

std::span<const Word<TitanReshard>> titan_reshard_words() {
  return kTitanReshards;
}

std::span<const Word<Float8Recipe>> float8_recipe_words() {
  return kFloat8Recipes;
}

}  // namespace headroom::ir

namespace headroom::ir::torchtitan {
namespace {

using T = TitanPlan;

// The framework's own names are the paths of torchtitan's configuration.
// Source: pytorch/torchtitan torchtitan/config/job_config.py (0.2.2).
constexpr std::array kTitanFields = {
    degree<&Mesh::tensor, T>("tp")
        .at_hand_as("Tensor parallel")
        .key_of("titan")
        .between(1, kMostRanks)
        .shown_always()
        .searchable()
        .spelled({.name = "parallelism.tensor_parallel_degree"})
        .means("Tensor-parallel degree; sequence parallelism comes with it."),
    degree<&Mesh::context, T>("cp")
        .at_hand_as("Context parallel")
        .key_of("titan")
        .between(1, kMostRanks)
        .searchable()
        .spelled({.name = "parallelism.context_parallel_degree"})
        .means("Context-parallel degree (ring attention)."),
    degree<&Mesh::expert, T>("ep")
        .at_hand_as("Expert parallel")
        .key_of("titan")
        .between(1, kMostRanks)
        .searchable()
        .spelled({.name = "parallelism.expert_parallel_degree"})
        .means("Expert-parallel degree, taken from the ranks that share data."),
    degree<&Mesh::expert_tensor, T, 1>("etp")
        .labelled("Expert tensor parallel")
        .key_of("titan")
        .between(1, kMostRanks)
        .searchable()
        .spelled({.name = "parallelism.expert_tensor_parallel_degree"})
        .means("Tensor-parallel degree of the experts: 1 or tp."),
    degree<&Mesh::pipeline, T>("pp")
        .at_hand_as("Pipeline stages")
        .key_of("titan")
        .between(1, kMostRanks)
        .searchable()
        .spelled({.name = "parallelism.pipeline_parallel_degree"})
        .means("Pipeline-parallel degree."),
    word<&T::schedule, schedule_words>("schedule")
        .at_hand_as("Pipeline schedule")
        .key_of("titan")
        .searchable()
        .spelled({.name = "parallelism.pipeline_parallel_schedule"})
        .means("Pipeline schedule; zb-h1 is InterleavedZeroBubble."),
    field<&T::pipeline_batch>("pp_batch")
        .labelled("Sequences per stage")
        .key_of("titan")
        .between(1, kMostMicroBatch)
        .spelled({.name = "parallelism.pipeline_parallel_microbatch_size"})
        .in_units("sequences")
        .means("Sequences per micro-batch of the pipeline."),
    field<&T::stage_layers>("pp_layers")
        .labelled("Layers per stage")
        .key_of("titan")
        .between(0, kMostRanks)
        .spelled({.name = "parallelism.pipeline_parallel_layers_per_stage"})
        .means("Layers per pipeline stage; 0: one stage per rank, or two where the schedule needs "
               "several."),
    field<&T::first_stage_less>("pp_first_less")
        .labelled("Embedding as layers")
        .key_of("titan")
        .between(0, kMostRanks)
        .means("Number of layers as which the embedding counts when layers are distributed over "
               "stages."),
    field<&T::last_stage_less>("pp_last_less")
        .labelled("Output as layers")
        .key_of("titan")
        .between(0, kMostRanks)
        .means("Number of layers as which the last norm and the output layer count."),
    field<&T::loss_parallel>("loss_parallel")
        .key_of("titan")
        .means("With tensor parallelism, logits stay sharded along the vocabulary."),
    word<&T::reshard, titan_reshard_words>("reshard")
        .labelled("Reshard after forward")
        .key_of("titan")
        .shown_always()
        .searchable()
        .spelled({.name = "parallelism.fsdp_reshard_after_forward"})
        .means("Whether parameters are sharded again after the forward pass; default: all but the "
               "last group, and none in a pipeline."),
    field<&T::selective_operators>("selective_operators")
        .at_hand_as("Selective checkpointing")
        .key_of("titan", "selective")
        .searchable()
        .means("Selective activation checkpointing by operators: layers are recomputed except "
               "every second matrix product, attention and reduce-scatters."),
    field<&T::compiled>("compiled")
        .at_hand_as("torch.compile")
        .key_of("titan")
        .searchable()
        .means("torch.compile of each transformer block."),
    field<&T::memory_budget>("memory_budget")
        .labelled("Activation memory budget")
        .key_of("titan")
        .within(0, 1)
        .searchable()
        .means("Activation checkpointing by memory budget: share of the activations of compiled "
               "blocks that is kept."),
    word<&T::float8, float8_recipe_words>("float8")
        .at_hand_as("Float8 recipe")
        .key_of("titan")
        .searchable()
        .means("Scaling recipe of torchao's float8 linear layers."),
    field<&T::float8_gather>("float8_gather")
        .labelled("Float8 all-gather")
        .key_of("titan", "fp8-all-gather")
        .searchable()
        .spelled({.name = "enable_fsdp_float8_all_gather"})
        .means("Weights of the float8 layers are gathered in 8 bits."),
    field<&T::float8_precompute>("float8_precompute")
        .labelled("Float8 scales at once")
        .key_of("titan", "precompute-scale")
        .spelled({.name = "precompute_float8_dynamic_scale_for_fsdp"})
        .means("The scales of gathered float8 weights are computed all at once after the "
               "optimizer step.")};

constexpr std::array kKeyedOptions = {
    KeyedOption{"titan", "torchtitan. Combine with --fsdp to set how it shards."}};

constexpr PlanPart kTitanPart = [] {
  PlanPart part = own_part<TitanPlan, &Mesh::tensor, &Mesh::context, &Mesh::expert,
                           &Mesh::expert_tensor, &Mesh::pipeline>("titan", kTitanFields);
  part.title = "torchtitan. Combine with --fsdp to set how it shards.";
  part.runtime = "torchtitan";
  part.keyed = kKeyedOptions;
  return part;
}();

}  // namespace

const PlanPart& options() {
  return kTitanPart;
}

}  // namespace headroom::ir::torchtitan
