#include "runtimes/transformers/launch.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "model_ir/base/counted.h"
#include "model_ir/json/json_value.h"
#include "model_ir/spec/auto_class.h"
#include "model_ir/spec/recording/recording.h"
#include "runtimes/torch/ddp_plan.h"
#include "runtimes/transformers/quantised.h"

namespace headroom::ir::transformers {
namespace {

/// An optimizer as Trainer names it.
/// Source: huggingface/transformers src/transformers/training_args.py, OptimizerNames.
struct TrainerOptimizer {
  OptimizerKind kind;
  OptimizerForm form;
  std::string_view name;
};
constexpr std::array<TrainerOptimizer, 10> kTrainerOptimizers = {
    {{OptimizerKind::kAdamW, OptimizerForm::kForeach, "adamw_torch"},
     {OptimizerKind::kAdamW, OptimizerForm::kFused, "adamw_torch_fused"},
     {OptimizerKind::kAdamW, OptimizerForm::kEightBit, "adamw_bnb_8bit"},
     {OptimizerKind::kAdamW, OptimizerForm::kPagedEightBit, "paged_adamw_8bit"},
     {OptimizerKind::kAdamW, OptimizerForm::kPaged, "paged_adamw_32bit"},
     {OptimizerKind::kAdafactor, OptimizerForm::kForeach, "adafactor"},
     {OptimizerKind::kSgd, OptimizerForm::kForeach, "sgd"},
     {OptimizerKind::kLion, OptimizerForm::kEightBit, "lion_8bit"},
     {OptimizerKind::kLion, OptimizerForm::kPagedEightBit, "paged_lion_8bit"},
     {OptimizerKind::kLion, OptimizerForm::kPaged, "paged_lion_32bit"}}};

std::optional<std::string> optimizer_name(const OptimizerPlan& optimizer) {
  for (const TrainerOptimizer& known : kTrainerOptimizers) {
    const bool same = known.kind == optimizer.kind &&
                      (known.form == optimizer.form || known.kind == OptimizerKind::kAdafactor);
    if (same) {
      return std::string(known.name);
    }
  }
  return std::nullopt;
}

bool is_half(Precision precision) {
  return precision == Precision::kAutocastFp16 || precision == Precision::kFp16Master;
}

/// What Trainer's --bf16 and --fp16 switch on: autocast, or DeepSpeed's masters.
bool is_mixed(Precision precision) {
  return precision == Precision::kAutocastBf16 || precision == Precision::kBf16AutocastBf16 ||
         precision == Precision::kBf16Master || is_half(precision);
}

std::string number_text(double value) {
  return to_json(JsonValue{value});
}

void add_liger(std::vector<std::string>& words, const ParallelPlan& plan) {
  const bool fused = plan.loss == LossKind::kFusedLinear;
  if (!plan.liger && !fused) {
    return;
  }
  append_words(words, {"--use_liger_kernel", "True"});
  if (plan.liger != fused) {
    const std::string kernels = plan.liger ? "true" : "false";
    append_words(words,
                 {"--liger_kernel_config",
                  R"({"rope": )" + kernels + R"(, "rms_norm": )" + kernels + R"(, "swiglu": )" +
                      kernels + R"(, "cross_entropy": false)" +
                      R"(, "fused_linear_cross_entropy": )" + (fused ? "true" : "false") + "}"});
  }
}

std::string attention_name(AttentionKind attention) {
  switch (attention) {
    case AttentionKind::kEager:
      return "eager";
    case AttentionKind::kFlash:
      return "flash_attention_2";
    case AttentionKind::kSdpa:
    case AttentionKind::kSdpaNoCudnn:
      return "sdpa";
  }
  return "sdpa";
}

/// A type in PyTorch's words.
std::string torch_name(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return "torch.bfloat16";
    case DType::kFp16:
      return "torch.float16";
    default:
      return "torch.float32";
  }
}

/// "['q_proj', 'v_proj']".
std::string python_list(const std::vector<std::string>& names) {
  std::string text = "[";
  for (const std::string& name : names) {
    text += (text.size() == 1 ? "'" : ", '") + name + "'";
  }
  return text + "]";
}

/// Source: huggingface/peft src/peft/tuners/lora/config.py, utils/other.py.
void add_adapters(std::vector<std::string>& lines, const ModelSpec& model,
                  const ParallelPlan& plan) {
  if (!plan.lora) {
    return;
  }
  if (plan.quant && plan.quant->prepare_kbit) {
    lines.push_back("model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=" +
                    python_text(plan.recompute != Recompute::kNone) + ")");
  }
  const LoraPlan& lora = *plan.lora;
  std::string config = "LoraConfig(r=" + std::to_string(lora.rank) + ", target_modules=" +
                       (lora.targets.empty() ? "'all-linear'" : python_list(lora.targets));
  config += lora.dropout > 0 ? ", lora_dropout=" + number_text(lora.dropout) : "";
  config += lora.dora ? ", use_dora=True" : "";
  config += lora.rank_stabilised ? ", use_rslora=True" : "";
  config += model.task == Task::kSequenceClassification ? ", task_type='SEQ_CLS'"
            : model.task == Task::kTokenClassification  ? ", task_type='TOKEN_CLS'"
                                                        : "";
  config +=
      lora.modules_to_save.empty() ? "" : ", modules_to_save=" + python_list(lora.modules_to_save);
  lines.push_back("model = get_peft_model(model, " + config + "))");
}

bool is_own(const ModelSpec& model) {
  return model.recording != nullptr && model.recording->task == "own";
}

/// How the model of a recorded function is made: with the types in which it was recorded.
std::vector<std::string> making_lines(const Recording& recording, const ParallelPlan& plan) {
  std::vector<std::string> lines = {
      "# the function that was recorded; attention and quantization are its own:",
      "model = " + recording.model + "()"};
  if (const DType type = param_dtype(plan.precision); type != DType::kFp32) {
    lines.insert(lines.begin() + 1, "torch.set_default_dtype(" + torch_name(type) + ")");
    lines.emplace_back("torch.set_default_dtype(torch.float32)");
  }
  return lines;
}

/// The attention to name: transformers refuses sdpa by name where a class has eager attention
/// alone.
std::string attention_of(const ModelSpec& model, const ParallelPlan& plan) {
  const bool falls_back = model.recording != nullptr && !model.recording->has_fused_attention();
  return falls_back ? "eager" : std::string(attention_name(plan.attention));
}

std::string loading_line(const ModelSpec& model, const ParallelPlan& plan, const std::string& name,
                         std::optional<DType> storage) {
  std::string line = "model = " + std::string(auto_class(model)) + ".from_pretrained(" +
                     to_json(JsonValue{name}) +
                     ", dtype=" + torch_name(param_dtype(plan.precision)) +
                     ", attn_implementation='" + attention_of(model, plan) + "'";
  if (model.task != Task::kLanguage) {
    line += ", num_labels=" + std::to_string(model.labels);
  }
  if (plan.quant) {
    line += plan.quant->bits == 8
                ? ", quantization_config=BitsAndBytesConfig(load_in_8bit=True)"
                : ", quantization_config=BitsAndBytesConfig(load_in_4bit=True, "
                  "bnb_4bit_quant_type='nf4', bnb_4bit_compute_dtype=" +
                      torch_name(four_bit_arithmetic(plan)) +
                      ", bnb_4bit_use_double_quant=" + python_text(plan.quant->double_quant) +
                      (storage ? ", bnb_4bit_quant_storage=" + torch_name(*storage) : "") + ")";
  }
  return line + ")";
}

}  // namespace

std::vector<std::string> training_arguments(const ParallelPlan& plan) {
  // Source: huggingface/transformers src/transformers/training_args.py, TrainingArguments.
  std::vector<std::string> words = {
      "--per_device_train_batch_size", std::to_string(plan.workload.micro_batch),
      "--gradient_accumulation_steps", std::to_string(plan.workload.accumulation)};
  if (is_mixed(plan.precision)) {
    append_words(words, {is_half(plan.precision) ? "--fp16" : "--bf16", "True"});
  }
  if (const std::optional<std::string> optimizer = optimizer_name(plan.optimizer)) {
    append_words(words, {"--optim", *optimizer});
  }
  append_words(words, {"--max_grad_norm", number_text(plan.clip_norm.value_or(0))});
  if (plan.recompute != Recompute::kNone) {
    const bool reentrant = plan.recompute == Recompute::kFullReentrant;
    append_words(words,
                 {"--gradient_checkpointing", "True", "--gradient_checkpointing_kwargs",
                  std::string(R"({"use_reentrant": )") + (reentrant ? "true" : "false") + "}"});
  }
  add_liger(words, plan);
  if (has_ddp(plan)) {
    append_words(words,
                 {"--ddp_bucket_cap_mb", std::to_string(ddp_of(plan).bucket_cap_bytes / kMiB)});
  }
  return words;
}

/// The path up to which all layers that run are alike, "model.language_model.": a tower may have
/// other layers that are not counted. Empty for a model without towers.
std::string path_of_layers(const ModelSpec& model, const ParallelPlan& plan) {
  if (!model.recording) {
    return {};
  }
  const Recording& recording = *model.recording;
  const auto variant = std::ranges::find_if(recording.variants, [&](const RecordedVariant& one) {
    return one.images.take(plan.workload.images);
  });
  if (variant == recording.variants.end() || variant->layers.empty()) {
    return {};
  }
  std::string path = recording.modules[variant->layers.front().module].path;
  for (const RecordedLayer& layer : variant->layers) {
    const std::string& other = recording.modules[layer.module].path;
    const auto [end, unused] = std::ranges::mismatch(path, other);
    path.erase(end, path.end());
  }
  path.erase(path.rfind('.') + 1);
  const bool is_plain = path.find_first_of("\"\\\n\r") == std::string::npos;
  return is_plain ? path : std::string();
}

std::vector<std::string> checkpointing_lines(const ModelSpec& model, const ParallelPlan& plan) {
  const bool some = plan.recompute_every > 1 || plan.recompute_first > 0;
  if (plan.recompute == Recompute::kNone || !some) {
    return {};
  }
  // Source: huggingface/transformers src/transformers/modeling_layers.py,
  // GradientCheckpointingLayer.__call__: a layer is checkpointed if its own switch is on, which
  // gradient_checkpointing_enable() sets on every layer.
  const std::string path = path_of_layers(model, plan);
  return {
      "# after model.gradient_checkpointing_enable(), which Trainer calls when it starts:",
      "from transformers.modeling_layers import GradientCheckpointingLayer",
      path.empty()
          ? "layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]"
          : "layers = [m for name, m in model.named_modules() if \"" + path +
                "\" in name and isinstance(m, GradientCheckpointingLayer)]",
      "for index, layer in enumerate(layers):",
      "    layer.gradient_checkpointing = " +
          (plan.recompute_first > 0 ? "index < " + std::to_string(plan.recompute_first)
                                    : "index % " + std::to_string(plan.recompute_every) + " == 0")};
}

std::vector<std::string> script_lines(const ModelSpec& model, const ParallelPlan& plan,
                                      const std::string& name, std::optional<DType> storage) {
  std::vector<std::string> lines = {"# from_pretrained takes the path or the Hub id of your model:",
                                    loading_line(model, plan, name, storage)};
  if (is_own(model)) {
    lines = making_lines(*model.recording, plan);
  }
  if (plan.attention == AttentionKind::kSdpaNoCudnn) {
    lines.emplace_back("torch.backends.cuda.enable_cudnn_sdp(False)");
  }
  add_adapters(lines, model, plan);
  if (!optimizer_name(plan.optimizer)) {
    lines.emplace_back(
        "# Trainer has no name for the optimizer: pass optimizers=(optimizer, None)");
  }
  if (has_ddp(plan) && (ddp_of(plan).gradient_as_bucket_view || !ddp_of(plan).init_sync)) {
    lines.emplace_back(
        "# Trainer does not pass gradient_as_bucket_view and init_sync to "
        "DistributedDataParallel: wrap the model with them");
  }
  if (plan.loss == LossKind::kChunked) {
    lines.emplace_back("# the loss is computed in chunks of the sequence by the script itself");
  }
  const std::optional<Images>& images = plan.workload.images;
  lines.push_back("# sequences of " + counted(plan.workload.sequence, "token") +
                  (images ? ", with " + counted(images->count, "image") + " of " +
                                std::to_string(images->height) + " x " +
                                std::to_string(images->width) + " pixels in each"
                          : ""));
  append_words(lines, checkpointing_lines(model, plan));
  return lines;
}

}  // namespace headroom::ir::transformers
