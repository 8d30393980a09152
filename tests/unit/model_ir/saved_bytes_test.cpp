// What autograd keeps of one layer between forward and backward, against the closed forms that
// follow from PyTorch's derivative formulas. Nothing in the program knows these formulas: the
// engine decides operator by operator what is saved.
//
// Letters: h hidden, a heads, k KV heads, d head size, f feed-forward, r LoRA rank; bytes per
// token.

#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "costmodel/memory/timeline.h"
#include "model_ir/spec/hf_config.h"
#include "runtimes/registry.h"
#include "tests/support/accounting_device.h"

namespace headroom::ir {
namespace {

constexpr std::int64_t kTokens = 256;
constexpr std::int64_t h = 256;
constexpr std::int64_t a = 8;
constexpr std::int64_t d = 32;
constexpr std::int64_t f = 704;

ModelSpec llama_of(int layers, std::int64_t kv_heads) {
  const std::string text =
      R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 704,
    "num_attention_heads": 8, "vocab_size": 1000, "num_hidden_layers": )" +
      std::to_string(layers) + R"(, "num_key_value_heads": )" + std::to_string(kv_heads) + "}";
  return parse_hf_config(text, "test").value();
}

ParallelPlan with(Precision precision) {
  ParallelPlan plan;
  plan.precision = precision;
  return plan;
}

/// Requested bytes that forward leaves behind.
std::int64_t left_by_forward(const ModelSpec& model, const ParallelPlan& asked) {
  const ParallelPlan plan = test::on_accounting_device(asked);
  const RankProgram program = lower(model, plan, Rank{0}, DeviceTraits{}).value();
  const cost::MemoryTimeline timeline =
      cost::replay(program, plan.allocator, Bytes{1} * (kGiB * 1024));
  REQUIRE(to_text(timeline.phases.at(1).name) == "step1.forward");
  return (timeline.phases[1].requested_after - timeline.phases[0].requested_after).value();
}

/// What a second layer adds: everything outside the layers cancels.
std::int64_t saved_by_layer(ParallelPlan plan, std::int64_t kv_heads) {
  plan.workload.sequence = kTokens;
  plan.workload.steps = 1;
  return left_by_forward(llama_of(2, kv_heads), plan) -
         left_by_forward(llama_of(1, kv_heads), plan);
}

/// Flash attention's random state: two and one 64-bit numbers per layer.
constexpr std::int64_t kRandomState = 24;

}  // namespace

TEST_CASE("saved bytes: llama, bf16, flash attention, grouped heads") {
  const std::int64_t k = 2;
  CHECK(saved_by_layer(with(Precision::kBf16), k) ==
        kTokens * (16 * h + 4 * a * d + 4 * k * d + 8 * f + 4 * a + 8) + kRandomState);
}

TEST_CASE("saved bytes: llama, fp32, memory-efficient attention, equal heads") {
  const std::int64_t k = 8;
  CHECK(saved_by_layer(with(Precision::kFp32), k) ==
        kTokens * (24 * h + 8 * a * d + 8 * k * d + 16 * f + 4 * a + 8));
}

TEST_CASE(
    "saved bytes: llama, fp32 weights under bf16 autocast keep casts of activations and weights") {
  const std::int64_t k = 2;
  const std::int64_t weights = 2 * h * a * d + 2 * h * k * d + 3 * h * f;  // q, o; k, v; MLP
  CHECK(saved_by_layer(with(Precision::kAutocastBf16), k) ==
        kTokens * (26 * h + 4 * a * d + 4 * k * d + 8 * f + 4 * a + 8) + 2 * weights +
            kRandomState);
}

TEST_CASE("saved bytes: llama, LoRA with fp32 adapters on all linear layers of a bf16 model") {
  const std::int64_t k = 2;
  const std::int64_t r = 4;
  ParallelPlan plan = with(Precision::kBf16);
  plan.lora =
      LoraPlan{.rank = r, .dropout = 0, .dora = false, .rank_stabilised = false, .targets = {}};
  // The first layer of a frozen embedding saves less, so the second is compared with the third.
  plan.workload.sequence = kTokens;
  plan.workload.steps = 1;
  const std::int64_t added =
      left_by_forward(llama_of(3, k), plan) - left_by_forward(llama_of(2, k), plan);
  CHECK(added ==
        kTokens * (28 * h + 8 + 8 * a * d + 4 * k * d + 4 * a + 10 * f + 28 * r) + kRandomState);
}

TEST_CASE("saved bytes: a checkpointed layer keeps its input alone") {
  ParallelPlan plan = with(Precision::kBf16);
  plan.recompute = Recompute::kFull;
  CHECK(saved_by_layer(plan, 2) == kTokens * 2 * h);
  plan.recompute = Recompute::kFullReentrant;
  CHECK(saved_by_layer(plan, 2) == kTokens * 2 * h);
}

TEST_CASE("saved bytes: eager attention grows with the square of the sequence, flash does not") {
  const auto saved = [](AttentionKind attention, std::int64_t sequence) {
    ParallelPlan plan = with(Precision::kBf16);
    plan.attention = attention;
    plan.workload.sequence = sequence;
    plan.workload.steps = 1;
    return left_by_forward(llama_of(2, 8), plan) - left_by_forward(llama_of(1, 8), plan);
  };
  // fp32 softmax and its 16-bit copy: 6 bytes per score, beside what grows with the sequence.
  const std::int64_t quadratic = 6 * a * (512 * 512 - 2 * 256 * 256);
  CHECK(saved(AttentionKind::kEager, 512) - 2 * saved(AttentionKind::kEager, 256) == quadratic);
  CHECK(saved(AttentionKind::kSdpa, 512) - 2 * saved(AttentionKind::kSdpa, 256) == -kRandomState);
}

}  // namespace headroom::ir
