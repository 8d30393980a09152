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
  row.pattern = "^(none|full|full-reentrant|(every|first)-[1-9][0-9]*(-reentrant)?)$";
  row.form = "one of none, full, full-reentrant, every-K, first-N";
  row.get = [](const P& plan) { return JsonValue{checkpointing_text(checkpointing_of(plan))}; };
  row.set = [](P& plan, const JsonValue& value) {
    if (value.as_string() == nullptr) {
      return false;
    }
    const Result<Checkpointing> found = parse_checkpointing("checkpointing", *value.as_string());
    if (found) {
      plan.recompute = found->recompute;
      plan.recompute_every = found->every;
      plan.recompute_first = found->first;
    }
    return found.has_value();
  };
  row.same = [](const P& left, const P& right) {
    return checkpointing_of(left) == checkpointing_of(right);
  };
  return row;
}

/// Images of every sequence, or null.
constexpr OptionField images_field() {
  OptionField row;
  row.name = "images";
  row.kind = OptionKind::kText;
  row.optional = true;
  row.pattern =  // Sides of at most `kMostImageSide`, 16,384 pixels.
      "^[1-9][0-9]{0,3}(x([1-9][0-9]{0,3}|1[0-5][0-9]{3}|16[0-2][0-9]{2}|163[0-7][0-9]|1638[0-4])){"
      "2}$";
  row.form =
      "COUNTxHEIGHTxWIDTH, such as 2x1024x1024 for two images in every sequence; at most 9,999 "
      "images with sides of at most 16,384 pixels";
  row.get = [](const P& plan) {
    return plan.workload.images ? JsonValue{text_of(*plan.workload.images)} : JsonValue{};
  };
  row.set = [](P& plan, const JsonValue& value) {
    std::optional<Images> images;
    if (!value.is_null()) {
      images = value.as_string() == nullptr ? std::nullopt : parse_images(*value.as_string());
      if (!images) {
        return false;
      }
    }
    plan.workload.images = images;
    return true;
  };
  row.same = [](const P& left, const P& right) {
    return left.workload.images == right.workload.images;
  };
  return row;
}

// The framework is the first row. The registry checks its name.
constexpr std::array kPlanFields = {
    field<&P::runtime>("runtime")
        .labelled("Framework")
        .as_option("runtime", "NAME")
        .usually("the framework whose options are given, otherwise transformers")
        .searchable()
        .means("Framework that trains the model."),
    field<&P::runtime_version>("runtime_version")
        .labelled("Version")
        .as_option("runtime-version", "V")
        .usually("newest")
        .means(
            "Version of transformers (4.44 to 5.17), or with torchtitan of PyTorch (2.6 to 2.11)."),
    field<&P::world>("gpus")
        .at_hand_as("Number of GPUs")
        .as_option("gpus", "N")
        .between(1, kMostRanks)
        .means("Number of GPUs, each with one rank. Without other options they are data parallel "
               "(DDP)."),
    field<&P::rank>("rank")
        .labelled("Rank shown")
        .as_option("rank", "R")
        .usually("the rank with the highest peak")
        .between(0, kMostRanks - 1)
        .means("Rank that the answer shows."),
    word<&P::precision, precision_words>("precision")
        .at_hand_as("Precision")
        .as_option("precision", "RECIPE")
        .usually(
            "depends on the framework: bf16, with --zero and --megatron bf16-master, with --fsdp "
            "and --titan fp32")
        .searchable()
        .means(
            "Number formats. fp32, bf16, fp16: parameters, gradients and optimizer states all have "
            "this format, without master weights. autocast-bf16, autocast-fp16: fp32 parameters, "
            "gradients and optimizer states, and arithmetic in 16 bits under torch.autocast. "
            "bf16-autocast: bf16 parameters, gradients and optimizer states, and arithmetic in "
            "bf16 under torch.autocast. bf16-master, fp16-master: 16-bit parameters with an fp32 "
            "master copy, which is what DeepSpeed and Megatron-Core call bf16 and fp16."),
    word<&P::attention, attention_words>("attention")
        .at_hand_as("Attention")
        .as_option("attention", "KIND")
        .means("Implementation of attention: sdpa (PyTorch's scaled_dot_product_attention), "
               "sdpa-no-cudnn (the same with cuDNN switched off), flash (FlashAttention 2), eager "
               "(plain operators)."),
    word<&P::loss, loss_words>("loss")
        .labelled("Loss")
        .as_option("loss", "KIND")
        .means(
            "Implementation of the loss: hf (fp32 logits, as in transformers), chunked (logits in "
            "chunks of the sequence), fused-linear (fused with the output layer, as in Liger)."),
    field<&P::liger>("liger")
        .labelled("Liger kernels")
        .as_option("liger")
        .means("Kernels of Liger are used for norms, gated MLPs and rotary embedding."),
    field<&Workload::micro_batch>("micro_batch")
        .at_hand_as("Micro-batch")
        .as_option("micro-batch", "B")
        .between(1, kMostMicroBatch)
        .searchable()
        .in_units("sequences")
        .means("Sequences per forward pass on each GPU."),
    field<&Workload::sequence>("sequence")
        .at_hand_as("Sequence length")
        .as_option("seq", "S")
        .usually("2048, or the model's maximum if that is less")
        .between(1, kMostSequence)
        .in_units("tokens")
        .means("Tokens per sequence."),
    images_field()
        .labelled("Images")
        .such_as("1x1024x1024 2x1024x1024")
        .as_option("images", "NxHxW")
        .means(
            "Images in every sequence: their number, height and width in pixels. The model is "
            "Gemma 3, or a recording that headroom import --images made. Their tokens count among "
            "--seq."),
    field<&Workload::accumulation>("accumulation")
        .at_hand_as("Accumulation")
        .as_option("accumulation", "N")
        .between(1, kMostAccumulation)
        .searchable()
        .means("Micro-batches per optimizer step."),
    checkpointing_field()
        .at_hand_as("Checkpointing")
        .such_as("none full full-reentrant every-2 first-8")
        .as_option("checkpointing", "WHICH")
        .searchable()
        .means("Activation checkpointing: none, full (every layer), every-2 (every second layer, "
               "and so on), first-8 (the first 8 layers, whose activations live longest), "
               "full-reentrant (every layer, with use_reentrant=True)."),
    field<&P::clip_norm>("clip_norm")
        .labelled("Gradient clipping")
        .as_option("clip-norm", "X")
        .within(1e-12, 1e12)
        .means("Maximum norm to which gradients are clipped; none: no clipping."),
    field<&Workload::padded_batch>("padded_batch")
        .labelled("Padded batches")
        .as_option("padded")
        .means("Batches contain padding, so that the model gets an attention mask."),
    field<&Workload::keep_logits>("keep_logits")
        .labelled("Keep logits")
        .as_option("keep-logits")
        .changes(OptionEffect::kMemory)
        .means("The model's output (logits) is kept until the backward pass has ended."),
    field<&Workload::keep_batch>("keep_batch")
        .labelled("Keep the batch")
        .as_option("keep-batch")
        .changes(OptionEffect::kMemory)
        .means("Token ids and labels are kept until the next batch, as in Trainer."),
    field<&Workload::evaluation>("evaluation")
        .labelled("Evaluation")
        .as_option("evaluation")
        .changes(OptionEffect::kMemory)
        .means("A forward pass in evaluation mode follows the training steps."),
    field<&Workload::checkpoint_save>("checkpoint_save")
        .labelled("Save a checkpoint")
        .as_option("save")
        .changes(OptionEffect::kMemory)
        .means("A checkpoint is saved after the training steps."),
    field<&Workload::resume>("resume")
        .labelled("Resume")
        .as_option("resume")
        .changes(OptionEffect::kMemory)
        .means("The run resumes from a checkpoint with optimizer states, which takes memory on the "
               "device and the host."),
    field<&Workload::steps>("steps")
        .labelled("Steps replayed")
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
    word<&OptimizerPlan::kind, optimizer_kind_words>("kind")
        .at_hand_as("Optimizer")
        .searchable()
        .means(
            "The algorithm; muon updates the matrices of the layers, AdamW the other parameters."),
    word<&OptimizerPlan::form, optimizer_form_words>("form")
        .at_hand_as("Optimizer step")
        .searchable()
        .means("How the step is carried out and where its states are: PyTorch's foreach, fused or "
               "loop, "
               "bitsandbytes' 8-bit or paged states."),
    field<&OptimizerPlan::momentum>("momentum")
        .labelled("SGD momentum")
        .within(0, 1)
        .means("Momentum of SGD; 0: none.")};

constexpr std::array kLoraFields = {
    field<&LoraPlan::rank>("rank")
        .at_hand_as("LoRA rank")
        .key_of("lora", "r")
        .between(1, kMostLoraRank)
        .shown_always()
        .means("Rank of the adapters."),
    field<&LoraPlan::dropout>("dropout")
        .labelled("LoRA dropout")
        .key_of("lora")
        .within(0, 1)
        .spelled({.name = "lora_dropout"})
        .means("Dropout before the adapters."),
    field<&LoraPlan::dora>("dora")
        .labelled("DoRA")
        .key_of("lora")
        .spelled({.name = "use_dora"})
        .means("DoRA: weights are split into magnitude and direction."),
    field<&LoraPlan::rank_stabilised>("rank_stabilised")
        .labelled("rsLoRA")
        .key_of("lora", "rslora")
        .spelled({.name = "use_rslora"})
        .means("rsLoRA: adapters are scaled by alpha / sqrt(rank) instead of alpha / rank. Neither "
               "this nor alpha changes memory or time."),
    field<&LoraPlan::targets>("targets")
        .labelled("Adapted modules")
        .key_of("lora")
        .spelled({.name = "target_modules"})
        .means("Modules that get adapters; without it, all linear layers except the output layer."),
    field<&LoraPlan::modules_to_save>("modules_to_save")
        .labelled("Modules trained in full")
        .key_of("lora", "save")
        .means("Modules of which full copies are trained (modules_to_save), by the end of their "
               "names.")};

constexpr std::array kQuantFields = {
    one_of<4, 8>(field<&QuantPlan::bits>("bits")
                     .at_hand_as("Bits per weight")
                     .key_of("qlora")
                     .between(4, 8)
                     .means("Bits per frozen weight: 4 (NF4) or 8 (LLM.int8()).")),
    field<&QuantPlan::double_quant>("double_quant")
        .labelled("Double quantisation")
        .key_of("qlora")
        .spelled({.name = "bnb_4bit_use_double_quant"})
        .means("The quantisation constants are quantised, too."),
    field<&QuantPlan::prepare_kbit>("prepare_kbit")
        .labelled("k-bit preparation")
        .key_of("qlora", "prepare")
        .means("prepare_model_for_kbit_training is called.")};

constexpr std::array kGenerationFields = {
    field<&GenerationPlan::new_tokens>("new_tokens")
        .at_hand_as("Generated tokens")
        .as_option("generate", "N")
        .usually("none")
        .between(1, kMostSequence)
        .spelled({.name = "max_new_tokens"})
        .in_units("tokens")
        .means("Tokens that are generated after the training steps, from prompts of --seq tokens."),
    field<&GenerationPlan::static_cache>("static_cache")
        .means("The KV cache is a StaticCache; otherwise a DynamicCache, which grows by copies.")};

/// c10/core/AllocatorConfig.cpp refuses sizes of at most 20 MiB (kLargeBuffer).
constexpr std::int64_t kLeastSplit = 20 * kMiB + 1;

constexpr std::array kAllocatorFields = {
    field<&AllocatorSettings::expandable_segments>("expandable_segments")
        .at_hand_as("Expandable segments")
        .spelled({.name = "expandable_segments"})
        .changes(OptionEffect::kMemory)
        .means("Segments grow in place instead of new ones being allocated."),
    field<&AllocatorSettings::max_split_size>("max_split_bytes")
        .spelled({.name = "max_split_size_mb"})
        .between(kLeastSplit, kMostBytes)
        .changes(OptionEffect::kMemory)
        .means("Size of the largest blocks that are split; none: all are."),
    field<&AllocatorSettings::max_non_split_rounding>("max_non_split_rounding_bytes")
        .spelled({.name = "max_non_split_rounding_mb"})
        .between(20 * kMiB, kMostBytes)
        .changes(OptionEffect::kMemory)
        .means("Largest difference between a request and an unsplit block that serves it."),
    field<&AllocatorSettings::garbage_collection_threshold>("garbage_collection_threshold_ratio")
        .spelled({.name = "garbage_collection_threshold"})
        .within(0, 1)
        .changes(OptionEffect::kMemory)
        .means("Share of the memory that must be in use before unused blocks are freed; 0: off."),
    one_of<0, 1, 2, 4, 8, 16, 32, 64>(
        field<&AllocatorSettings::roundup_power2_divisions>("roundup_power2_divisions")
            .spelled({.name = "roundup_power2_divisions"})
            .between(0, 64)
            .changes(OptionEffect::kMemory)
            .means("Requests are rounded up to one of so many divisions between two powers of two; "
                   "0: off."))};

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
constexpr PlanPart kGenerationPart = common_part<&Workload::generation>(
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
