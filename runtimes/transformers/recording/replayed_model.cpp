#include "runtimes/transformers/recording/replayed_model.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/base/check.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/transformers/expert_adapter.h"
#include "runtimes/transformers/recording/code_runner.h"
#include "runtimes/transformers/recording/constructors.h"
#include "runtimes/transformers/recording/padded_batch.h"
#include "runtimes/transformers/recording/prepared_code.h"
#include "runtimes/transformers/recording/quantised_constructors.h"
#include "runtimes/transformers/recording/recorded_loss.h"
#include "runtimes/transformers/recording/typed_code.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Tensor;

std::string precision_text(const std::string& precision, std::string_view attention) {
  return precision + " with attention " + std::string(attention);
}

void add_once(std::vector<std::string>& words, std::string word) {
  if (std::ranges::find(words, word) == words.end()) {
    words.push_back(std::move(word));
  }
}

/// The same for quantised linear layers, as it is typed.
std::string qlora_text(bool prepared, const std::string& precision, std::string_view attention) {
  return "prepare=" + std::string(prepared ? "yes" : "no") + " --precision " + precision +
         " --attention " + std::string(attention);
}

/// The sequence lengths for which a variant holds.
std::string lengths_of(const RecordedVariant& variant, const BatchSizes& sizes) {
  const std::int64_t least = std::max(variant.sequence_from, variant.images.shortest(sizes.images));
  std::string text = "at least " + std::to_string(least) + " tokens";
  if (variant.sequence_below) {
    text += " and below " + std::to_string(*variant.sequence_below);
  }
  if (variant.sequence_multiple > 1) {
    text += ", a multiple of " + std::to_string(variant.sequence_multiple);
  }
  if (variant.sequence_no_multiple) {
    text += ", no multiple of " + std::to_string(*variant.sequence_no_multiple);
  }
  return text;
}

/// The error for images that were not recorded, or for none where all recorded batches have some.
std::optional<Error> images_trouble(const ModelSpec& spec, const ParallelPlan& plan) {
  const std::optional<Images>& asked = plan.workload.images;
  std::vector<std::string> recorded;
  for (const RecordedVariant& variant : spec.recording->variants) {
    if (variant.images.take(asked)) {
      return std::nullopt;
    }
    add_once(recorded, variant.images.kind == RecordedImages::Kind::kThese
                           ? text_of(variant.images.these)
                           : "none");
  }
  return Error::invalid_argument(
      "images", asked ? text_of(*asked) : "none", "what the recording holds: " + join(recorded),
      asked
          ? "record the model with these images, which needs PyTorch and the model's config.json: "
            "headroom import FOLDER/config.json --images " +
                text_of(*asked) + " --output my-model.json"
          : "add --images " + recorded.front());
}

/// The micro-batches that were recorded one by one, for a model whose code depends on the number
/// of images; empty if there are others.
std::vector<std::string> recorded_batches(const ModelSpec& spec, const ParallelPlan& plan) {
  std::vector<std::string> batches;
  for (const RecordedVariant& variant : spec.recording->variants) {
    if (!variant.images.take(plan.workload.images)) {
      continue;
    }
    if (!variant.micro_batch || *variant.micro_batch == plan.workload.micro_batch) {
      return {};
    }
    const std::string text = std::to_string(*variant.micro_batch);
    if (std::ranges::find(batches, text) == batches.end()) {
      batches.push_back(text);
    }
  }
  return batches;
}

/// The options with which the recording answers for quantised linear layers.
std::vector<std::string> recorded_with_quantised_layers(const ModelSpec& spec,
                                                        const ParallelPlan& plan) {
  std::vector<std::string> recorded;
  for (const RecordedVariant& variant : spec.recording->variants) {
    const bool one_type = !variant.quantised && !variant.autocast;  // See `computes`.
    if (!variant.images.take(plan.workload.images) || variant.masks_made || variant.liger ||
        !(variant.quantised || one_type)) {
      continue;
    }
    for (const std::string& precision : precisions_of(*spec.recording, variant)) {
      const bool plain = variant.quantised || precision.find("autocast") == std::string::npos;
      if (precision != "fp32" && plain) {
        add_once(recorded, qlora_text(variant.prepared, precision, variant.attention));
      }
    }
  }
  return recorded;
}

/// Whether the recording answers for the plan with the other choice of PEFT's preparation.
bool prepares_otherwise(const ModelSpec& spec, const ParallelPlan& plan) {
  ParallelPlan other = plan;
  other.quant->prepare_kbit = !plan.quant->prepare_kbit;
  return code_for(spec, other).has_value();
}

/// The error for a precision, an attention or a length that was not recorded. Requires that no code
/// answers for the plan.
Error variant_trouble(const ModelSpec& spec, const ParallelPlan& plan) {
  std::map<std::string, std::vector<std::string>> held;  // Precisions by attention.
  std::vector<std::string> lengths;
  std::vector<std::string> kinds;  // Attention that has the precision.
  for (const RecordedVariant& variant : spec.recording->variants) {
    if (computes(*spec.recording, variant, plan) && variant.images.take(plan.workload.images) &&
        !variant.masks_made) {
      add_once(kinds, variant.attention);
      const BatchSizes sizes = sizes_of(plan);
      const bool has_room = variant.images.shortest(sizes.images) <
                            variant.sequence_below.value_or(SizeExpression::kGreatest);
      if (variant.attention == attention_for(spec, plan) && has_room) {
        add_once(lengths, lengths_of(variant, sizes_of(plan)));
      }
    }
    if (variant.quantised || variant.liger != plan.liger ||
        !variant.images.take(plan.workload.images)) {
      continue;
    }
    std::vector<std::string>& precisions = held[variant.attention];
    for (std::string& precision : precisions_of(*spec.recording, variant)) {
      add_once(precisions, std::move(precision));
    }
  }
  if (plan.liger && std::ranges::none_of(spec.recording->variants, &RecordedVariant::liger)) {
    return Error::invalid_argument(
        "liger", "for " + spec.name,
        "the code with Liger's kernels, which the recording does not have",
        "leave out --liger, or, if Liger has this type of model, record it with headroom import "
        "CONFIG --liger");
  }
  if (const std::vector<std::string> batches = recorded_batches(spec, plan); !batches.empty()) {
    return Error::invalid_argument(
        "micro-batch", std::to_string(plan.workload.micro_batch),
        "one of " + join(batches) + ": the code depends on the number of images of a micro-batch",
        "choose one of these, or record the model again with headroom import --micro-batches");
  }
  if (!lengths.empty()) {
    return Error::invalid_argument("seq", std::to_string(plan.workload.sequence),
                                   join(lengths) + ": the code of other lengths was not recorded",
                                   "choose such a --seq");
  }
  const std::string precision(word_of(precision_words(), plan.precision));
  const std::string_view attention = word_of(attention_words(), plan.attention);
  if (!kinds.empty()) {
    return Error::invalid_argument(
        "attention", std::string(attention),
        join(kinds) + ": the recording has no other attention in this precision",
        "leave out --attention");
  }
  if (plan.quant && prepares_otherwise(spec, plan)) {
    const bool prepare = plan.quant->prepare_kbit;
    return Error::invalid_argument(
        "qlora",
        std::string(prepare ? "PEFT's prepare_model_for_kbit_training, which is usual"
                            : "prepare=no"),
        std::string("prepare=") + (prepare ? "no" : "yes") + ", with which the model was recorded",
        std::string("add prepare=") + (prepare ? "no" : "yes") +
            " to --qlora, and let your script do the same");
  }
  if (plan.quant) {
    const std::vector<std::string> quantised = recorded_with_quantised_layers(spec, plan);
    return Error::invalid_argument(
        "qlora", qlora_text(plan.quant->prepare_kbit, precision, attention),
        quantised.empty() ? "the code of quantised linear layers, which the recording does not have"
                          : "what the recording holds: " + join(quantised),
        std::string(quantised.empty() ? "" : "choose one of these, or ") +
            "record this model with headroom import CONFIG --qlora");
  }
  const bool half = param_dtype(plan.precision) == DType::kFp16;
  if (half && spec.recording->differs_in_fp16) {
    return Error::invalid_argument(
        "precision", precision,
        "fp32 weights, or bf16: in fp16, this model may run other code than was recorded in bf16",
        "use --precision autocast-fp16");
  }
  if (plan.precision == Precision::kBf16AutocastBf16) {  // FSDP asks so, too: it gathers in bf16.
    return Error::invalid_argument(
        "precision", "bf16-autocast (16-bit weights under autocast)",
        "bf16 without autocast, or autocast-bf16 over fp32 weights: autocast would change this "
        "model's code, which was not recorded so",
        "use --precision bf16 or autocast-bf16; with --fsdp, --precision fp32 or param=fp32");
  }
  std::string holds;
  for (const auto& [kind, precisions] : held) {
    holds += (holds.empty() ? "" : "; ") + precision_text(join(precisions), kind);
  }
  return Error::invalid_argument(
      "precision", precision_text(precision, attention), "what the recording holds: " + holds,
      "choose one of these, or record the model again with headroom import");
}

/// The error for adapters on experts with dropout or DoRA, which PEFT refuses there.
std::optional<Error> adapter_trouble(const ModelSpec& spec, const ParallelPlan& plan) {
  const bool plain = !plan.lora || (!plan.lora->dora && plan.lora->dropout == 0);
  if (plain || !adapts_experts(spec, *plan.lora)) {
    return std::nullopt;
  }
  return Error::invalid_argument("lora", "dropout or dora on experts or their router",
                                 "adapters without dropout and dora, which PEFT refuses there",
                                 "leave out dropout and dora, or name other targets");
}

/// The error for an option that changes the code of the model, which was recorded without it.
std::optional<Error> option_trouble(const ParallelPlan& plan) {
  struct Option {
    bool given;
    std::string_view key;
    std::string_view fix;
  };
  const Workload& workload = plan.workload;
  const std::array<Option, 4> options = {{
      {plan.loss != LossKind::kHf && plan.loss != LossKind::kFusedLinear, "loss",
       "use --loss fused-linear, or leave out --loss"},
      {workload.generation.has_value(), "generate", "leave out --generate"},
      {workload.evaluation && autocast_dtype(plan.precision).has_value(), "evaluation",
       "leave out --evaluation, or choose --precision bf16: evaluation runs outside autocast, in "
       "fp32"},
      {!plan.runtime_version.empty(), "runtime-version", "leave out --runtime-version"},
  }};
  const auto* const given = std::ranges::find_if(options, &Option::given);
  if (given == options.end()) {
    return std::nullopt;
  }
  return Error::invalid_argument(
      given->key, "is not supported for recorded models: it runs other code than was recorded", {},
      given->fix);
}

/// The error for a fused loss in the place of another one than that of causal language models.
std::optional<Error> loss_trouble(const ParallelPlan& plan, const RecordedVariant& variant) {
  if (plan.loss != LossKind::kFusedLinear || plan.workload.evaluation) {
    return std::nullopt;
  }
  if (!find_causal_loss(variant.forward)) {
    return Error::invalid_argument(
        "loss", "fused-linear",
        "a model whose code computes the usual loss of causal language models right behind its "
        "output layer: this one has another loss, or scales or caps its logits",
        "leave out --loss");
  }
  return std::nullopt;
}

bool reads_any(const RecordedCode& code, const RecordedScope& scope,
               const std::set<std::uint32_t>& weights) {
  return std::ranges::any_of(code.instructions, [&](const Instruction& instruction) {
    const bool inner = instruction.loop && reads_any(instruction.loop->body.code, scope, weights);
    return inner || std::ranges::any_of(instruction.inputs, [&](const Reference& input) {
             return input.kind == Reference::Kind::kParameter &&
                    weights.contains(scope.parameters[input.index]);
           });
  });
}

/// The error for code that reads the weight of a linear layer past the layer: there it would find
/// codes.
std::optional<Error> quantised_trouble(const ModelSpec& spec, const ParallelPlan& plan,
                                       const RecordedVariant& variant) {
  if (!plan.quant) {
    return std::nullopt;
  }
  std::set<std::uint32_t> weights;
  for (const RecordedModule& module : spec.recording->modules) {
    if (!module.linear.empty()) {
      weights.insert(module.linear.front());
    }
  }
  for (const RecordedParameter& parameter : spec.recording->parameters) {
    if (parameter.is_tied()) {  // The head's, which is not quantised.
      weights.erase(static_cast<std::uint32_t>(&parameter - spec.recording->parameters.data()));
    }
  }
  const bool read = reads_any(variant.forward, variant.forward_scope, weights) ||
                    std::ranges::any_of(variant.layers, [&](const RecordedLayer& layer) {
                      return reads_any(variant.bodies[layer.body].code, layer.scope, weights);
                    });
  if (!read) {
    return std::nullopt;
  }
  return Error::invalid_argument("qlora",
                                 "a model whose code reads weights of linear layers itself",
                                 "linear layers that are called", "use --lora");
}

constexpr std::int64_t kMostTurns = 1 << 16;

bool is_bounded(const RecordedOutput& output, const BatchSizes& sizes) {
  std::int64_t elements = 1;
  for (const SizeExpression& size : output.shape) {
    const std::optional<std::int64_t> value = size.at(sizes);
    if (!value || __builtin_mul_overflow(elements, *value, &elements) ||
        elements > SizeExpression::kGreatest) {
      return false;
    }
  }
  return !output.bytes || output.bytes->at(sizes).has_value();
}

bool are_bounded(const std::vector<RecordedOutput>& outputs, const BatchSizes& sizes) {
  return std::ranges::all_of(
      outputs, [&](const RecordedOutput& output) { return is_bounded(output, sizes); });
}

/// Whether the sizes of all tensors and the turns of loops are within bounds.
bool are_bounded(const RecordedCode& code, const BatchSizes& sizes) {
  return std::ranges::all_of(code.instructions, [&](const Instruction& instruction) {
    if (instruction.loop) {
      const std::int64_t turns = instruction.loop->turns.at(sizes).value_or(0);
      return turns >= 1 && turns <= kMostTurns && are_bounded(instruction.loop->body.code, sizes);
    }
    const bool inner = std::ranges::all_of(instruction.inside, [&](const InnerStep& step) {
      return step.bytes.at(sizes).has_value();
    });
    return inner && are_bounded(instruction.outputs, sizes);
  });
}

/// The error for a micro-batch or a sequence length for which the recorded sizes do not hold.
std::optional<Error> size_trouble(const ModelSpec& spec, const ParallelPlan& plan,
                                  const TypedCode& code) {
  const Recording& recording = *spec.recording;
  const RecordedVariant& variant = *code.variant;
  const BatchSizes sizes = sizes_of(plan);
  if (sizes.sequence % recording.sequence_multiple != 0) {
    return Error::invalid_argument("seq", std::to_string(sizes.sequence),
                                   "a multiple of " + std::to_string(recording.sequence_multiple) +
                                       ", for which the code of this model was recorded",
                                   "choose another --seq");
  }
  const auto bounded = [&](const auto& each) { return are_bounded(each.code, sizes); };
  if (are_bounded(variant.inputs, sizes) && are_bounded(code.load->code, sizes) &&
      are_bounded(variant.forward, sizes) && std::ranges::all_of(variant.bodies, bounded) &&
      std::ranges::all_of(recording.gradients, bounded)) {
    return std::nullopt;
  }
  return Error::invalid_argument(
      "micro-batch", std::to_string(sizes.batch) + " x " + std::to_string(sizes.sequence),
      "sizes for which no tensor of the recording has more than 2^53 elements, and no loop of it "
      "more than " +
          std::to_string(kMostTurns) + " turns",
      "lower --micro-batch or --seq");
}

}  // namespace

std::optional<Error> recording_trouble(const ModelSpec& spec, const ParallelPlan& plan) {
  if (const std::optional<Error> trouble = option_trouble(plan)) {
    return trouble;
  }
  if (const std::optional<Error> trouble = adapter_trouble(spec, plan)) {
    return trouble;
  }
  if (const std::optional<Error> trouble = images_trouble(spec, plan)) {
    return trouble;
  }
  const std::optional<TypedCode> code = code_for(spec, plan);
  if (!code) {
    return variant_trouble(spec, plan);
  }
  if (const std::optional<Error> trouble = quantised_trouble(spec, plan, *code->variant)) {
    return trouble;
  }
  if (const std::optional<Error> trouble = loss_trouble(plan, *code->variant)) {
    return trouble;
  }
  if (plan.workload.padded_batch) {
    if (const std::optional<Error> trouble = padding_trouble(*spec.recording, *code)) {
      return trouble;
    }
  }
  return size_trouble(spec, plan, *code);
}

Model load_recorded(Eager& eager, const ModelSource& source,
                    const std::function<void(const Tensor&)>& created) {
  const Recording& recording = *source.spec.recording;
  const std::optional<TypedCode> code = code_for(source.spec, source.plan);
  HEADROOM_ASSERT(code.has_value());
  Model model;
  model.spec = &source.spec;
  model.plan = &source.plan;
  model.graph = &source.graph;
  model.setting = source.setting;
  model.parameters.resize(source.graph.tensor_count());
  model.buffers.resize(recording.buffers.size());
  const auto prepared =
      std::make_shared<PreparedModel>(eager, recording, *code, source.graph, sizes_of(source.plan));
  if (model.setting.hooks_modules) {
    prepared->find_calls();
  }
  model.recorded = prepared;
  if (source.plan.quant) {
    load_quantised_recording(eager, model);
  } else {
    run_constructors(eager, model, created);
  }
  for (std::size_t i = 0; i < recording.parameters.size(); ++i) {
    const Tensor& parameter = model.parameters[i];
    HEADROOM_ASSERT(parameter.defined());
    model.parameter_count += parameter.elements();
    if (parameter.requires_grad()) {
      model.trainable.push_back(parameter);
      model.trainable_count += parameter.elements();
    }
  }
  eager.program().parameters = model.parameter_count;
  eager.program().trainable_parameters = model.trainable_count;
  return model;
}

std::vector<Tensor> recorded_inputs(Eager& eager, const Model& model, const Tensor& ids) {
  std::vector<Tensor> inputs;
  const std::vector<RecordedOutput>& recorded = model.recorded->variant().inputs;
  for (std::size_t i = 1; i < recorded.size(); ++i) {
    if (model.spec->task == Task::kTokenClassification) {  // A label for each token.
      inputs.push_back(ids);
      continue;
    }
    inputs.push_back(eager.empty(model.recorded->shape_of(recorded[i].shape),
                                 model.recorded->type_of(recorded[i].dtype), TensorRole::kInput));
  }
  return inputs;
}

ModelOutput forward_recorded(Eager& eager, Model& model, const Batch& batch) {
  const auto runner = std::make_shared<CodeRunner>(eager, model);
  std::vector<Tensor> result = runner->forward(batch);
  ModelOutput output;
  output.loss = std::move(result[0]);
  if (result.size() > 1) {
    output.logits = std::move(result[1]);
  }
  return output;
}

}  // namespace headroom::ir::transformers
