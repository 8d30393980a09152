#include "runtimes/interface/common_options.h"

#include <array>
#include <string>

#include "model_ir/plan/plan_limits.h"

namespace headroom::ir {
namespace {

using P = ParallelPlan;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

/// One word for two members: what is recomputed, and in every how many layers.
constexpr OptionField checkpointing_field() {
  OptionField row;
  row.name = "checkpointing";
  row.kind = OptionKind::kText;
  row.pattern = "^(none|full|full-reentrant|every-[1-9][0-9]*(-reentrant)?)$";
  row.form = "one of none, full, full-reentrant, every-K";
  row.get = [](const P& plan) {
    return JsonValue{checkpointing_text(plan.recompute, plan.recompute_every)};
  };
  row.set = [](P& plan, const JsonValue& value) {
    if (value.as_string() == nullptr) {
      return false;
    }
    const Result<Checkpointing> found = parse_checkpointing("checkpointing", *value.as_string());
    if (found) {
      plan.recompute = found->recompute;
      plan.recompute_every = found->every;
    }
    return found.has_value();
  };
  row.same = [](const P& left, const P& right) {
    return left.recompute == right.recompute && left.recompute_every == right.recompute_every;
  };
  return row;
}

// The framework is the first row. The registry checks its name.
constexpr std::array kPlanFields = {
    field<&P::runtime>("runtime")
        .as_option("runtime", "NAME")
        .usually("transformers; the framework whose options are given (--zero, --fsdp ...)")
        .searchable()
        .means("Framework that runs the model."),
    field<&P::runtime_version>("runtime_version")
        .as_option("runtime-version", "V")
        .usually("newest")
        .means("Version of transformers: 4.44 to 5.17; under torchtitan of PyTorch: 2.6 to 2.11."),
    field<&P::world>("gpus")
        .as_option("gpus", "N")
        .between(1, kMostRanks)
        .means("Ranks, one per GPU; without ZeRO they are data parallel (DDP)."),
    field<&P::rank>("rank")
        .as_option("rank", "R")
        .usually("the one with the highest peak")
        .between(0, kMostRanks - 1)
        .means("The rank that is shown."),
    word<&P::precision, precision_words>("precision")
        .as_option("precision", "RECIPE")
        .usually("bf16; fp32 with --fsdp, bf16-master with --zero")
        .searchable()
        .means("Number formats: fp32, bf16 and fp16 are those of parameters, gradients and "
               "optimizer states; autocast-bf16 and autocast-fp16 have fp32 parameters under "
               "torch.autocast, bf16-autocast has bf16 parameters under it; bf16-master and "
               "fp16-master keep an fp32 master copy (what DeepSpeed means by bf16 and fp16)."),
    word<&P::attention, attention_words>("attention")
        .as_option("attention", "KIND")
        .means("Attention: PyTorch's scaled_dot_product_attention (sdpa), with cuDNN switched off "
               "(sdpa-no-cudnn), FlashAttention 2 (flash), or plain operators (eager)."),
    word<&P::loss, loss_words>("loss")
        .as_option("loss", "KIND")
        .means("Loss: fp32 logits as in transformers (hf), in chunks of the sequence (chunked), or "
               "fused with the output layer (fused-linear, Liger)."),
    field<&P::liger>("liger").as_option("liger").means(
        "Kernels of Liger for norms, gated MLPs and rotary embedding."),
    field<&P::micro_batch>("micro_batch")
        .as_option("micro-batch", "B")
        .between(1, kMostMicroBatch)
        .searchable()
        .in_units("sequences")
        .means("Sequences per forward pass of one rank."),
    field<&P::sequence>("sequence")
        .as_option("seq", "S")
        .usually("2048, or all positions of a model that has fewer")
        .between(1, kMostSequence)
        .in_units("tokens")
        .means("Tokens per sequence."),
    field<&P::accumulation>("accumulation")
        .as_option("accumulation", "N")
        .between(1, kMostAccumulation)
        .searchable()
        .means("Micro-batches per optimizer step."),
    checkpointing_field()
        .as_option("checkpointing", "WHICH")
        .searchable()
        .means("Activation recomputation: none, of all layers (full), of every K-th layer "
               "(every-K), or of all with torch's reentrant checkpoints (full-reentrant)."),
    field<&P::clip_norm>("clip_norm")
        .as_option("clip-norm", "X")
        .within(1e-12, 1e12)
        .means("Gradients are clipped to this norm; none: no clipping."),
    field<&P::padded_batch>("padded_batch")
        .as_option("padded")
        .means("Batches contain padding, and the model gets an attention mask."),
    field<&P::keep_logits>("keep_logits")
        .as_option("keep-logits")
        .changes(OptionEffect::kMemory)
        .means("The model's output lives until the backward pass has ended."),
    field<&P::keep_batch>("keep_batch")
        .as_option("keep-batch")
        .changes(OptionEffect::kMemory)
        .means("Token ids and labels live until the next batch, as in Trainer's loop."),
    field<&P::evaluation>("evaluation")
        .as_option("evaluation")
        .changes(OptionEffect::kMemory)
        .means("One forward pass in evaluation mode follows the steps."),
    field<&P::checkpoint_save>("checkpoint_save")
        .as_option("save")
        .changes(OptionEffect::kMemory)
        .means("A checkpoint is saved after the steps."),
    field<&P::steps>("steps")
        .as_option("steps", "N")
        .between(1, kMostSteps)
        .changes(OptionEffect::kMemory)
        .means("Optimizer steps that are replayed.")};

constexpr std::array<Word<OptimizerKind>, 7> kOptimizerKinds = {
    {{"none", OptimizerKind::kNone},
     {"adamw", OptimizerKind::kAdamW},
     {"sgd", OptimizerKind::kSgd},
     {"adafactor", OptimizerKind::kAdafactor},
     {"adafactor-torch", OptimizerKind::kAdafactorTorch},
     {"lion", OptimizerKind::kLion},
     {"muon", OptimizerKind::kMuon}}};
constexpr std::array<Word<OptimizerForm>, 6> kOptimizerForms = {
    {{"foreach", OptimizerForm::kForeach},
     {"fused", OptimizerForm::kFused},
     {"loop", OptimizerForm::kLoop},
     {"8bit", OptimizerForm::kEightBit},
     {"paged-8bit", OptimizerForm::kPagedEightBit},
     {"paged", OptimizerForm::kPaged}}};

std::span<const Word<OptimizerKind>> optimizer_kind_words() {
  return kOptimizerKinds;
}
std::span<const Word<OptimizerForm>> optimizer_form_words() {
  return kOptimizerForms;
}

constexpr std::array kOptimizerFields = {
    word<&OptimizerPlan::kind, optimizer_kind_words>("kind").searchable().means(
        "The algorithm; muon updates the matrices of the layers, AdamW the other parameters."),
    word<&OptimizerPlan::form, optimizer_form_words>("form").searchable().means(
        "How the step is carried out and where its states are: PyTorch's foreach, fused or loop, "
        "bitsandbytes' 8-bit or paged states."),
    field<&OptimizerPlan::momentum>("momentum").within(0, 1).means("Momentum of SGD; 0: none.")};

constexpr std::array kLoraFields = {
    field<&LoraPlan::rank>("rank")
        .key_of("lora", "r")
        .between(1, kMostLoraRank)
        .shown_always()
        .means("Rank of the adapters."),
    field<&LoraPlan::dropout>("dropout")
        .key_of("lora")
        .within(0, 1)
        .spelled({.name = "lora_dropout"})
        .means("Dropout in front of the adapters."),
    field<&LoraPlan::dora>("dora")
        .key_of("lora")
        .spelled({.name = "use_dora"})
        .means("DoRA: weights are split into magnitude and direction."),
    field<&LoraPlan::rank_stabilised>("rank_stabilised")
        .key_of("lora", "rslora")
        .spelled({.name = "use_rslora"})
        .means("Adapters are scaled by the square root of their rank (rsLoRA)."),
    field<&LoraPlan::targets>("targets")
        .key_of("lora")
        .spelled({.name = "target_modules"})
        .means("Modules that get adapters; none named: all linear layers except the output layer."),
    field<&LoraPlan::modules_to_save>("modules_to_save")
        .key_of("lora", "save")
        .means("Modules, by the end of their names, of which copies are trained in full.")};

constexpr std::array kQuantFields = {
    one_of<4, 8>(field<&QuantPlan::bits>("bits").key_of("qlora").between(4, 8).means(
        "Bits per frozen weight: 4 (NF4) or 8 (LLM.int8()).")),
    field<&QuantPlan::double_quant>("double_quant")
        .key_of("qlora")
        .spelled({.name = "bnb_4bit_use_double_quant"})
        .means("The quantisation constants are quantised as well."),
    field<&QuantPlan::prepare_kbit>("prepare_kbit")
        .key_of("qlora", "prepare")
        .means("prepare_model_for_kbit_training is called.")};

constexpr std::array kGenerationFields = {
    field<&GenerationPlan::new_tokens>("new_tokens")
        .as_option("generate", "N")
        .usually("none")
        .between(1, kMostSequence)
        .spelled({.name = "max_new_tokens"})
        .in_units("tokens")
        .means("Tokens generated after the steps, from prompts of --seq tokens."),
    field<&GenerationPlan::static_cache>("static_cache")
        .means("The KV cache is a StaticCache; otherwise a DynamicCache, which grows by copies.")};

/// c10/core/AllocatorConfig.cpp refuses sizes of at most 20 MiB (kLargeBuffer).
constexpr std::int64_t kLeastSplit = 20 * kMiB + 1;

constexpr std::array kAllocatorFields = {
    field<&AllocatorSettings::expandable_segments>("expandable_segments")
        .changes(OptionEffect::kMemory)
        .means("Segments grow in place instead of being allocated anew."),
    field<&AllocatorSettings::max_split_size>("max_split_bytes")
        .between(kLeastSplit, kMostBytes)
        .in_units("bytes")
        .changes(OptionEffect::kMemory)
        .means("Larger blocks are not split; none: all are (max_split_size_mb)."),
    field<&AllocatorSettings::max_non_split_rounding>("max_non_split_rounding_bytes")
        .between(20 * kMiB, kMostBytes)
        .in_units("bytes")
        .changes(OptionEffect::kMemory)
        .means("A block that is not split may exceed the request by so much "
               "(max_non_split_rounding_mb)."),
    field<&AllocatorSettings::garbage_collection_threshold>("garbage_collection_threshold_ratio")
        .within(0, 1)
        .changes(OptionEffect::kMemory)
        .means("Share of the memory in use from which unused blocks are freed; 0: off."),
    one_of<0, 1, 2, 4, 8, 16, 32, 64>(
        field<&AllocatorSettings::roundup_power2_divisions>("roundup_power2_divisions")
            .between(0, 64)
            .changes(OptionEffect::kMemory)
            .means("Requests are rounded up to this division between two powers of two; 0: off."))};

constexpr PlanPart kPlanPart = [] {
  PlanPart part;
  part.name = "plan";
  part.title = "What every framework understands.";
  part.fields = kPlanFields;
  part.always = true;
  part.has = [](const P& /*plan*/) { return true; };
  part.add = [](P& /*plan*/) {};
  part.drop = [](P& plan) { plan = P{}; };
  part.usual = []() -> const P& {
    static const P usual;
    return usual;
  };
  return part;
}();

template <auto kMember>
constexpr PlanPart common_part(std::string_view name, std::span<const OptionField> fields,
                               std::string_view option, std::string_view title) {
  PlanPart part = plan_part<kMember>(name, fields);
  part.option = option;
  part.title = title;
  return part;
}

constexpr PlanPart kOptimizerPart = common_part<&P::optimizer>(
    "optimizer", kOptimizerFields, "optimizer", "The optimizer and how its step is carried out.");
constexpr PlanPart kLoraPart =
    common_part<&P::lora>("lora", kLoraFields, "lora", "Adapters of PEFT.");
constexpr PlanPart kQuantPart = common_part<&P::quant>(
    "quant", kQuantFields, "qlora", "Frozen weights under adapters, quantised by bitsandbytes.");
constexpr PlanPart kGenerationPart = common_part<&P::generation>(
    "generation", kGenerationFields, "generate", "model.generate after the steps.");
constexpr PlanPart kAllocatorPart =
    common_part<&P::allocator>("allocator", kAllocatorFields, "alloc-conf",
                               "PyTorch's caching allocator (PYTORCH_ALLOC_CONF).");

}  // namespace

const PlanPart& plan_options() {
  return kPlanPart;
}
const PlanPart& optimizer_options() {
  return kOptimizerPart;
}
const PlanPart& lora_options() {
  return kLoraPart;
}
const PlanPart& quant_options() {
  return kQuantPart;
}
const PlanPart& generation_options() {
  return kGenerationPart;
}
const PlanPart& allocator_options() {
  return kAllocatorPart;
}

}  // namespace headroom::ir
