#include "validators/measured/published_words.h"

#include <array>
#include <span>

namespace headroom::check {
namespace {

template <typename T>
struct Entry {
  std::string_view words;
  T meaning;
};

template <typename T>
std::optional<T> find_words(std::string_view words, std::span<const Entry<T>> table) {
  for (const Entry<T>& entry : table) {
    if (entry.words == words) {
      return entry.meaning;
    }
  }
  return std::nullopt;
}

/// As `find_words`, but a remark in brackets or a version may follow: "torchtitan (FSDP2)".
template <typename T>
std::optional<T> find_beginning(std::string_view words, std::span<const Entry<T>> table) {
  for (const Entry<T>& entry : table) {
    const std::string_view rest =
        words.starts_with(entry.words) ? words.substr(entry.words.size()) : "-";
    if (rest.empty() || rest.front() == ' ') {
      return entry.meaning;
    }
  }
  return std::nullopt;
}

constexpr std::array<Entry<std::string_view>, 16> kPublishedRuntimes = {
    {{"transformers Trainer", "transformers"},
     {"transformers", "transformers"},
     {"PEFT method comparison (transformers)", "transformers"},
     {"LitGPT", "litgpt"},
     {"torchtune", "torchtune"},
     {"Qwen finetune.py", "transformers"},
     {"TRL SFTTrainer + PEFT", "transformers"},
     {"PEFT examples", "transformers"},
     {"torchtitan", "fsdp"},
     {"llm-foundry", "fsdp"},
     {"Megatron-LM", "megatron"},
     {"Megatron-Bridge", "megatron"},
     {"NeMo", "megatron"},
     {"DeepSpeed", "deepspeed"},
     {"deepspeed", "deepspeed"},
     {"megatron", "megatron"}}};

constexpr std::array<Entry<std::string_view>, 9> kModelTypes = {
    {{"bert (encoder, classification head)", "bert"},
     {"llama", "llama"},
     {"qwen (v1)", "qwen2"},
     {"mistral", "mistral"},
     {"qwen2", "qwen2"},
     {"qwen3", "qwen3"},
     {"gemma", "gemma"},
     {"gemma2", "gemma2"},
     {"phi3", "phi3"}}};

/// Classes of transformers that architectures with another head stand for.
constexpr std::array<Entry<std::string_view>, 1> kClasses = {
    {{"bert (encoder, classification head)", "BertForSequenceClassification"}}};

constexpr std::array<Entry<std::string_view>, 41> kPublishedDevices = {
    {{"NVIDIA L40S", "l40s"},
     {"NVIDIA B200-SXM 180GB-class (8x NVLink)", "b200"},
     {"NVIDIA A100 80GB PCIe", "a100-80gb-pcie"},
     {"NVIDIA A100-SXM4-80GB (Selene)", "a100-80gb"},
     {"NVIDIA A100-SXM4-80GB (Selene, HDR IB)", "a100-80gb"},
     {"NVIDIA A100-SXM4-40GB (DGX-A100)", "a100-40gb"},
     {"NVIDIA H100 80GB", "h100-80gb"},
     {"NVIDIA H100 80GB HBM3", "h100-80gb"},
     {"NVIDIA H100 80GB SXM", "h100-80gb"},
     {"NVIDIA H100", "h100-80gb"},
     {"NVIDIA H100 ~95GB HBM2e lower TDP", "h100-96gb"},
     {"AMD MI300X", "mi300x"},
     {"NVIDIA A100 40GB", "a100-40gb"},
     {"NVIDIA B200", "b200"},
     {"NVIDIA B200 (power limited)", "b200"},
     {"NVIDIA GB200 (192GB)", "gb200"},
     {"NVIDIA B300", "b300"},
     {"NVIDIA GB300 (288GB)", "gb300"},
     {"H100-80GB (DGX-H100)", "h100-80gb"},
     {"B200 (DGX-B200)", "b200"},
     {"GB200 (DGX-GB200)", "gb200"},
     {"NVIDIA A100 (dgx_a100; A100-80GB assumed)", "a100-80gb"},
     {"NVIDIA H100 (dgx_h100; H100-80GB assumed)", "h100-80gb"},
     {"NVIDIA GB200 (dgx_gb200)", "gb200"},
     {"L40S-48GB", "l40s"},
     {"NVIDIA RTX 4090 24GB", "rtx-4090"},
     {"NVIDIA RTX A6000 48GB", "rtx-a6000"},
     {"NVIDIA A10G 24GB", "a10g"},
     {"NVIDIA A100-SXM4-40GB", "a100-40gb"},
     {"NVIDIA A100-SXM4-80GB", "a100-80gb"},
     {"NVIDIA A100 80GB", "a100-80gb"},
     {"NVIDIA A100 80GB (assumed)", "a100-80gb"},
     {"A100-80GB", "a100-80gb"},
     {"A100-SXM4-80GB", "a100-80gb"},
     {"NVIDIA H100-SXM5-80GB", "h100-80gb"},
     {"H100-80GB", "h100-80gb"},
     {"NVIDIA H100 96GB HBM2e 500W (Grand Teton, 2.4 TB/s)", "h100-96gb"},
     {"NVIDIA B200 (178.35 GiB)", "b200"},
     {"NVIDIA H200", "h200"},
     {"V100-SXM2-16GB", "v100-16gb"},
     {"NVIDIA V100-SXM2-32GB", "v100-32gb"}}};

constexpr std::array<Entry<ir::Precision>, 9> kPublishedPrecisions = {
    {{"fp32", ir::Precision::kFp32},
     {"bf16 (params, grads, states)", ir::Precision::kBf16},
     {"bf16 full (params, grads)", ir::Precision::kBf16},
     {"bf16-true", ir::Precision::kBf16},
     {"bf16-true (weights, activations, optimizer)", ir::Precision::kBf16},
     // PEFT keeps adapters in fp32 on bf16 weights by default, as our runtime does.
     {"bfloat16, adapters autocast to fp32", ir::Precision::kBf16},
     {"fp16 autocast, fp32 weights and grads", ir::Precision::kAutocastFp16},
     {"fp16 (fp32 master in the optimizer)", ir::Precision::kFp16Master},
     {"bf16 (fp32 master in the optimizer)", ir::Precision::kBf16Master}}};

using ir::OptimizerForm;
using ir::OptimizerKind;
constexpr std::array<Entry<ir::OptimizerPlan>, 8> kPublishedOptimizers = {
    {{"AdamW", {OptimizerKind::kAdamW, OptimizerForm::kForeach, 0}},
     // transformers' own of before 4.46 (optimization.py): one parameter after the other.
     {"AdamW (Trainer default adamw_hf)", {OptimizerKind::kAdamW, OptimizerForm::kLoop, 0}},
     {"AdamW (bf16 states on adapters)", {OptimizerKind::kAdamW, OptimizerForm::kForeach, 0}},
     {"AdamW fused", {OptimizerKind::kAdamW, OptimizerForm::kFused, 0}},
     {"bitsandbytes Adam8bit", {OptimizerKind::kAdamW, OptimizerForm::kEightBit, 0}},
     {"AdamW 8-bit (bitsandbytes paged)",
      {OptimizerKind::kAdamW, OptimizerForm::kPagedEightBit, 0}},
     {"Adafactor", {OptimizerKind::kAdafactor, OptimizerForm::kLoop, 0}},
     {"SGD", {OptimizerKind::kSgd, OptimizerForm::kForeach, 0}}}};

constexpr std::array<Entry<ir::Recompute>, 5> kPublishedCheckpointing = {
    {{"none", ir::Recompute::kNone},
     {"full", ir::Recompute::kFull},
     {"full (every layer)", ir::Recompute::kFull},
     {"full (every block)", ir::Recompute::kFull},
     {"full (every layer, HF gradient_checkpointing)", ir::Recompute::kFull}}};

constexpr std::array<Entry<ir::AttentionKind>, 6> kPublishedAttention = {
    {{"sdpa", ir::AttentionKind::kSdpa},
     {"SDPA", ir::AttentionKind::kSdpa},
     {"sdpa (transformers default)", ir::AttentionKind::kSdpa},
     {"flash-attention 2", ir::AttentionKind::kFlash},
     {"eager", ir::AttentionKind::kEager},
     {"eager with dropout", ir::AttentionKind::kEager}}};

using cost::AttentionCount;
constexpr std::array<Entry<FlopCount>, 9> kFlopCounts = {
    {{"Megatron-LM (mcore)", {AttentionCount::kSeenKeys, false}},
     {"Megatron-LM / mcore", {AttentionCount::kSeenKeys, false}},
     {"Megatron-LM (2020)", {AttentionCount::kAllKeys, true}},
     {"Megatron-LM (2021)", {AttentionCount::kAllKeys, true}},
     {"Megatron-LM PTD-P", {AttentionCount::kAllKeys, true}},
     {"DeepSpeed ZeRO-3", {AttentionCount::kAllKeys, true}},
     {"Megatron-Bridge", {AttentionCount::kSeenKeys, false}},
     {"NeMo", {AttentionCount::kAllKeys, false}},
     {"llm-foundry", {AttentionCount::kAllKeys, false}}}};

constexpr std::array<Entry<Metric>, 3> kPeaks = {{{"max_allocated", Metric::kPeakAllocated},
                                                  {"max_reserved", Metric::kPeakReserved},
                                                  {"max_active", Metric::kPeakActive}}};
// "nvidia-smi (upper bound)" and the like are not the driver's peak of a run.
constexpr std::array<Entry<Metric>, 3> kDriver = {
    {{"nvidia-smi", Metric::kPeakDriver},
     {"nvidia-smi (nvml used) after training, so reserved + context", Metric::kPeakDriver},
     {"driver", Metric::kPeakDriver}}};

constexpr std::array<Entry<double>, 5> kUnits = {
    {{"bytes", 1},
     {"MiB", 1048576},
     {"MiB (printed MB, code divides by 1024**2)", 1048576},
     {"GiB", 1073741824},
     {"GB(1e9)", 1e9}}};

}  // namespace

std::optional<std::string_view> published_runtime(std::string_view framework) {
  return find_beginning<std::string_view>(framework, kPublishedRuntimes);
}
std::optional<std::string_view> published_model_type(std::string_view architecture) {
  return find_words<std::string_view>(architecture, kModelTypes);
}
std::optional<std::string_view> published_class(std::string_view architecture) {
  return find_words<std::string_view>(architecture, kClasses);
}
std::optional<std::string_view> published_device(std::string_view gpu) {
  return find_words<std::string_view>(gpu, kPublishedDevices);
}
std::optional<ir::Precision> published_precision(std::string_view words) {
  return find_words<ir::Precision>(words, kPublishedPrecisions);
}
std::optional<ir::OptimizerPlan> published_optimizer(std::string_view words) {
  return find_words<ir::OptimizerPlan>(words, kPublishedOptimizers);
}
std::optional<ir::Recompute> published_checkpointing(std::string_view words) {
  return find_words<ir::Recompute>(words, kPublishedCheckpointing);
}
std::optional<ir::AttentionKind> published_attention(std::string_view words) {
  return find_words<ir::AttentionKind>(words, kPublishedAttention);
}
std::optional<FlopCount> published_flop_count(std::string_view framework,
                                              std::string_view remarks) {
  if (remarks.find("simu_tools/megatron_scripts") != std::string_view::npos) {
    return FlopCount{.attention = AttentionCount::kAllKeys, .recomputed = false};
  }
  return find_beginning<FlopCount>(framework, kFlopCounts);
}
std::optional<Metric> published_metric(std::string_view words) {
  const auto peak = find_beginning<Metric>(words, kPeaks);
  return peak ? peak : find_words<Metric>(words, kDriver);
}
std::optional<double> published_unit(std::string_view words) {
  return find_words<double>(words, kUnits);
}

}  // namespace headroom::check
