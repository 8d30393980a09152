#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/memory/timeline.h"
#include "model_ir/spec/hf_config.h"
#include "runtimes/registry.h"
#include "tests/support/accounting_device.h"

/// The model and the training loop of which the phase totals of PyTorch's allocator were recorded.
namespace headroom::test {

/// Two layers, H 1024, F 2816, 16 heads, 4 KV heads, V 32000, embeddings not tied.
inline ir::ModelSpec small_llama(const std::string& family = "llama") {
  return ir::parse_hf_config(R"({"hidden_size": 1024, "intermediate_size": 2816,
    "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 4,
    "vocab_size": 32000, "tie_word_embeddings": false, "max_position_embeddings": 4096,
    "model_type": ")" + family + "\"}",
                             "small")
      .value();
}

/// The dimensions of `small_llama`.
constexpr std::int64_t kLlamaHidden = 1024;
constexpr std::int64_t kLlamaFfn = 2816;
constexpr std::int64_t kLlamaHeads = 16;
constexpr std::int64_t kLlamaKvHeads = 4;
constexpr std::int64_t kLlamaHeadDim = 64;
constexpr std::int64_t kLlamaLayers = 2;
/// Elements of one layer: queries, keys and values; output; gate and up; down.
constexpr std::int64_t kLlamaWeights = (1536 + 1024 + 5632 + 2816) * kLlamaHidden;

/// The program of the first rank for `small_llama`.
inline ir::RankProgram small_llama_program(const ir::ParallelPlan& plan) {
  return ir::lower(small_llama(), plan, ir::Rank{0}, DeviceTraits{}).value();
}

/// The same on a device of this major compute capability.
inline ir::RankProgram small_llama_on(const ir::ParallelPlan& plan, int compute_major) {
  DeviceTraits device;
  device.compute_major = compute_major;
  device.compute_minor = 0;
  return ir::lower(small_llama(), plan, ir::Rank{0}, device).value();
}

/// Like `small_llama`, but with V 50000 and many positions.
inline ir::ModelSpec wide_llama() {
  return ir::parse_hf_config(R"({"hidden_size": 1024, "intermediate_size": 2816,
    "num_hidden_layers": 2, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 64,
    "vocab_size": 50000, "tie_word_embeddings": false, "max_position_embeddings": 131072,
    "model_type": "llama"})",
                             "small")
      .value();
}

/// Two sequences of 1100 tokens, and AdamW that updates all parameters at once (foreach).
inline ir::ParallelPlan small_plan(ir::Precision precision) {
  ir::ParallelPlan plan;
  plan.precision = precision;
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 1100;
  plan.workload.keep_batch = true;
  return plan;
}

/// Two sequences of 1100 tokens with that release of the framework.
inline ir::ParallelPlan plan_of_release(std::string version) {
  ir::ParallelPlan plan;
  plan.runtime_version = std::move(version);
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 1100;
  return plan;
}

inline ir::LoraPlan all_linear(std::int64_t rank) {
  return {.rank = rank, .dropout = 0, .dora = false, .rank_stabilised = false, .targets = {}};
}

/// Allocator statistics of a phase: at its end, and its peak.
struct RecordedPhase {
  std::string name;
  std::int64_t allocated_after = 0;
  std::int64_t peak_allocated = 0;
};

/// Checks that every recorded phase is predicted to the byte (compute capability 9.0, 132
/// multiprocessors).
inline void check_phases(const ir::ModelSpec& model, const ir::ParallelPlan& asked,
                         const std::vector<RecordedPhase>& recorded) {
  const ir::ParallelPlan plan = on_accounting_device(asked);
  const ir::Rank rank{static_cast<std::int32_t>(plan.rank.value_or(0))};
  const auto program = ir::lower(model, plan, rank, DeviceTraits{});
  REQUIRE(program);
  const cost::MemoryTimeline timeline =
      cost::replay(program.value(), plan.allocator, Bytes{600'000'000'000});
  for (const RecordedPhase& expected : recorded) {
    CAPTURE(expected.name);
    const cost::PhaseMemory* found = nullptr;
    for (const cost::PhaseMemory& phase : timeline.phases) {
      found = to_text(phase.name) == expected.name ? &phase : found;
    }
    REQUIRE(found != nullptr);
    CHECK(found->allocated_after.value() == expected.allocated_after);
    CHECK(found->peak_allocated.value() == expected.peak_allocated);
  }
}

}  // namespace headroom::test
