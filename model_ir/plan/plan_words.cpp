#include "model_ir/plan/plan_words.h"

#include <array>
#include <charconv>

#include "model_ir/plan/plan_limits.h"

namespace headroom::ir {
namespace {

constexpr std::array<Word<Precision>, 8> kPrecisions = {
    {{"fp32", Precision::kFp32},
     {"bf16", Precision::kBf16},
     {"fp16", Precision::kFp16},
     {"autocast-bf16", Precision::kAutocastBf16},
     {"autocast-fp16", Precision::kAutocastFp16},
     {"bf16-autocast", Precision::kBf16AutocastBf16},
     {"bf16-master", Precision::kBf16Master},
     {"fp16-master", Precision::kFp16Master}}};

// foreach is torch's default on CUDA; transformers' Adafactor loops over the parameters.
constexpr std::array<Word<OptimizerPlan>, 17> kOptimizers = {
    {{"adamw", {OptimizerKind::kAdamW, OptimizerForm::kForeach, 0}},
     {"adamw-fused", {OptimizerKind::kAdamW, OptimizerForm::kFused, 0}},
     {"adamw-loop", {OptimizerKind::kAdamW, OptimizerForm::kLoop, 0}},
     {"adamw-8bit", {OptimizerKind::kAdamW, OptimizerForm::kEightBit, 0}},
     {"paged-adamw-8bit", {OptimizerKind::kAdamW, OptimizerForm::kPagedEightBit, 0}},
     {"paged-adamw-32bit", {OptimizerKind::kAdamW, OptimizerForm::kPaged, 0}},
     {"sgd", {OptimizerKind::kSgd, OptimizerForm::kForeach, 0}},
     {"sgd-momentum", {OptimizerKind::kSgd, OptimizerForm::kForeach, 0.9}},
     {"sgd-fused", {OptimizerKind::kSgd, OptimizerForm::kFused, 0}},
     {"sgd-momentum-fused", {OptimizerKind::kSgd, OptimizerForm::kFused, 0.9}},
     {"adafactor", {OptimizerKind::kAdafactor, OptimizerForm::kLoop, 0}},
     {"adafactor-torch", {OptimizerKind::kAdafactorTorch, OptimizerForm::kForeach, 0}},
     {"lion", {OptimizerKind::kLion, OptimizerForm::kForeach, 0}},
     {"lion-8bit", {OptimizerKind::kLion, OptimizerForm::kEightBit, 0}},
     {"paged-lion-8bit", {OptimizerKind::kLion, OptimizerForm::kPagedEightBit, 0}},
     {"muon", {OptimizerKind::kMuon, OptimizerForm::kForeach, 0}},
     {"none", {OptimizerKind::kNone, OptimizerForm::kForeach, 0}}}};

constexpr std::array<Word<AttentionKind>, 4> kAttentions = {
    {{"sdpa", AttentionKind::kSdpa},
     {"eager", AttentionKind::kEager},
     {"flash", AttentionKind::kFlash},
     {"sdpa-no-cudnn", AttentionKind::kSdpaNoCudnn}}};

constexpr std::array<Word<LossKind>, 3> kLosses = {{{"hf", LossKind::kHf},
                                                    {"chunked", LossKind::kChunked},
                                                    {"fused-linear", LossKind::kFusedLinear}}};

constexpr std::array<Word<DType>, 3> kPolicyDtypes = {
    {{"fp32", DType::kFp32}, {"bf16", DType::kBf16}, {"fp16", DType::kFp16}}};

constexpr std::string_view kEvery = "every-";
constexpr std::string_view kFirst = "first-";

}  // namespace

std::span<const Word<Precision>> precision_words() {
  return kPrecisions;
}
std::span<const Word<OptimizerPlan>> optimizer_words() {
  return kOptimizers;
}
std::span<const Word<AttentionKind>> attention_words() {
  return kAttentions;
}
std::span<const Word<LossKind>> loss_words() {
  return kLosses;
}

std::span<const Word<PipelineKind>> schedule_words() {
  static const std::array<Word<PipelineKind>, 6> kSchedules = [] {
    std::array<Word<PipelineKind>, 6> words{};
    constexpr std::array kKinds = {PipelineKind::kGPipe,       PipelineKind::kOneForwardOneBackward,
                                   PipelineKind::kInterleaved, PipelineKind::kZbH1,
                                   PipelineKind::kZbV,         PipelineKind::kDualPipeV};
    for (std::size_t i = 0; i < words.size(); ++i) {
      words[i] = {name_of(kKinds[i]), kKinds[i]};
    }
    return words;
  }();
  return kSchedules;
}

std::span<const Word<DType>> policy_dtype_words() {
  return kPolicyDtypes;
}

std::string join(std::span<const std::string> known) {
  std::string text;
  for (const std::string& word : known) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

std::string suggestion(std::string_view text, std::span<const std::string> known) {
  const std::optional<std::string> closest = closest_word(text, known);
  return closest ? "use '" + *closest + "'" : std::string();
}

std::string checkpointing_text(const Checkpointing& checkpointing) {
  if (checkpointing.recompute == Recompute::kNone) {
    return "none";
  }
  const std::string tail = checkpointing.recompute == Recompute::kFullReentrant ? "-reentrant" : "";
  if (checkpointing.first > 0) {
    return std::string(kFirst) + std::to_string(checkpointing.first) + tail;
  }
  return (checkpointing.every == 1 ? "full"
                                   : std::string(kEvery) + std::to_string(checkpointing.every)) +
         tail;
}

Checkpointing checkpointing_of(const ParallelPlan& plan) {
  return {
      .recompute = plan.recompute, .every = plan.recompute_every, .first = plan.recompute_first};
}

Result<Checkpointing> parse_checkpointing(std::string_view key, std::string_view text) {
  if (text == "none") {
    return Checkpointing{};
  }
  if (text == "full" || text == "full-reentrant") {
    return Checkpointing{text == "full" ? Recompute::kFull : Recompute::kFullReentrant, 1, 0};
  }
  for (const std::string_view word : {kEvery, kFirst}) {
    if (!text.starts_with(word)) {
      continue;
    }
    const char* const end = text.data() + text.size();
    std::int64_t count = 0;
    const auto [rest, fault] = std::from_chars(text.data() + word.size(), end, count);
    const std::string_view tail(rest, static_cast<std::size_t>(end - rest));
    const bool reentrant = tail == "-reentrant";
    if (fault == std::errc() && count >= 1 && count <= kMostRecomputeStep &&
        (tail.empty() || reentrant)) {
      const Recompute recompute = reentrant ? Recompute::kFullReentrant : Recompute::kFull;
      return word == kEvery ? Checkpointing{recompute, count, 0}
                            : Checkpointing{recompute, 1, count};
    }
  }
  const std::array<std::string, 5> known = {"none", "full", "full-reentrant", "every-2", "first-2"};
  return Error::invalid_argument(key, text, "one of none, full, full-reentrant, every-K, first-N",
                                 suggestion(text, known));
}

}  // namespace headroom::ir
