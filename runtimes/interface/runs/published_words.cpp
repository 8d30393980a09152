#include "runtimes/interface/runs/published_words.h"

#include <array>

#include "runtimes/interface/runs/run_reader.h"

namespace headroom::ir {
namespace {

constexpr std::array<RowWord<std::string_view>, 9> kModelTypes = {
    {{"bert (encoder, classification head)", "bert"},
     {"llama", "llama"},
     {"qwen (v1)", "qwen2"},
     {"mistral", "mistral"},
     {"qwen2", "qwen2"},
     {"qwen3", "qwen3"},
     {"gemma", "gemma"},
     {"gemma2", "gemma2"},
     {"phi3", "phi3"}}};

/// transformers classes of architectures with another head.
constexpr std::array<RowWord<std::string_view>, 1> kClasses = {
    {{"bert (encoder, classification head)", "BertForSequenceClassification"}}};

constexpr std::array<RowWord<Precision>, 9> kPublishedPrecisions = {
    {{"fp32", Precision::kFp32},
     {"bf16 (params, grads, states)", Precision::kBf16},
     {"bf16 full (params, grads)", Precision::kBf16},
     {"bf16-true", Precision::kBf16},
     {"bf16-true (weights, activations, optimizer)", Precision::kBf16},
     // PEFT keeps adapters in fp32 on bf16 weights by default, as our runtime does.
     {"bfloat16, adapters autocast to fp32", Precision::kBf16},
     {"fp16 autocast, fp32 weights and grads", Precision::kAutocastFp16},
     {"fp16 (fp32 master in the optimizer)", Precision::kFp16Master},
     {"bf16 (fp32 master in the optimizer)", Precision::kBf16Master}}};

constexpr std::array<RowWord<OptimizerPlan>, 8> kPublishedOptimizers = {
    {{"AdamW", {OptimizerKind::kAdamW, OptimizerForm::kForeach, 0}},
     // transformers' own AdamW before 4.46 (optimization.py) updates one parameter after the other.
     {"AdamW (Trainer default adamw_hf)", {OptimizerKind::kAdamW, OptimizerForm::kLoop, 0}},
     {"AdamW (bf16 states on adapters)", {OptimizerKind::kAdamW, OptimizerForm::kForeach, 0}},
     {"AdamW fused", {OptimizerKind::kAdamW, OptimizerForm::kFused, 0}},
     {"bitsandbytes Adam8bit", {OptimizerKind::kAdamW, OptimizerForm::kEightBit, 0}},
     {"AdamW 8-bit (bitsandbytes paged)",
      {OptimizerKind::kAdamW, OptimizerForm::kPagedEightBit, 0}},
     {"Adafactor", {OptimizerKind::kAdafactor, OptimizerForm::kLoop, 0}},
     {"SGD", {OptimizerKind::kSgd, OptimizerForm::kForeach, 0}}}};

constexpr std::array<RowWord<Recompute>, 5> kPublishedCheckpointing = {
    {{"none", Recompute::kNone},
     {"full", Recompute::kFull},
     {"full (every layer)", Recompute::kFull},
     {"full (every block)", Recompute::kFull},
     {"full (every layer, HF gradient_checkpointing)", Recompute::kFull}}};

constexpr std::array<RowWord<AttentionKind>, 6> kPublishedAttention = {
    {{"sdpa", AttentionKind::kSdpa},
     {"SDPA", AttentionKind::kSdpa},
     {"sdpa (transformers default)", AttentionKind::kSdpa},
     {"flash-attention 2", AttentionKind::kFlash},
     {"eager", AttentionKind::kEager},
     {"eager with dropout", AttentionKind::kEager}}};

}  // namespace

std::optional<std::string_view> published_model_type(std::string_view architecture) {
  return find_word<std::string_view>(architecture, kModelTypes);
}

std::optional<std::string_view> published_class(std::string_view architecture) {
  return find_word<std::string_view>(architecture, kClasses);
}

std::optional<Precision> published_precision(std::string_view words) {
  return find_word<Precision>(words, kPublishedPrecisions);
}

std::optional<OptimizerPlan> published_optimizer(std::string_view words) {
  return find_word<OptimizerPlan>(words, kPublishedOptimizers);
}

std::optional<Recompute> published_checkpointing(std::string_view words) {
  return find_word<Recompute>(words, kPublishedCheckpointing);
}

std::optional<AttentionKind> published_attention(std::string_view words) {
  return find_word<AttentionKind>(words, kPublishedAttention);
}

}  // namespace headroom::ir
