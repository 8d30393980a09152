// Encoders and encoder-decoders to the byte. Every number is what PyTorch 2.11.0 (CUDA 13.0) with
// transformers 5.17.0 allocated for exactly this model and step on a device of compute capability
// 9.0: torch.cuda.memory_allocated() at the phase's end and torch.cuda.max_memory_allocated();
// the tensor of one number that initialises the device is part of both.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/memory/timeline.h"
#include "model_ir/spec/hf_config.h"
#include "runtimes/registry.h"
#include "tests/support/accounting_device.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

constexpr std::string_view kBert = R"({"model_type": "bert", "hidden_size": 256,
    "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000,
    "max_position_embeddings": 128})";
constexpr std::string_view kT5 = R"({"model_type": "t5", "d_model": 256, "d_kv": 32, "d_ff": 512,
    "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "vocab_size": 1000})";
constexpr std::string_view kGatedT5 = R"({"model_type": "t5", "d_model": 256, "d_kv": 32,
    "d_ff": 512, "num_layers": 2, "num_decoder_layers": 1, "num_heads": 4, "vocab_size": 1000,
    "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false})";

/// Bytes at the end of a phase and at its peak.
struct Level {
  std::int64_t after = 0;
  std::int64_t peak = 0;
  [[maybe_unused]] friend bool operator==(const Level&, const Level&) = default;
};

/// One step of two sequences of 128 tokens.
ParallelPlan step(Precision precision, AttentionKind attention) {
  ParallelPlan plan;
  plan.precision = precision;
  plan.attention = attention;
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 128;
  plan.workload.steps = 1;
  return plan;
}

/// Two steps of two sequences of 512 tokens in bf16.
ParallelPlan two_steps(AttentionKind attention) {
  ParallelPlan plan = step(Precision::kBf16, attention);
  plan.workload.sequence = 512;
  plan.workload.steps = 2;
  return plan;
}

/// load, forward, backward, optimizer, zero_grad.
std::vector<Level> levels(std::string_view config, const ParallelPlan& asked) {
  const ParallelPlan plan = test::on_accounting_device(asked);
  const ModelSpec model = parse_hf_config(config, "test").value();
  const RankProgram program = lower(model, plan, Rank{0}, DeviceTraits{}).value();
  const cost::MemoryTimeline timeline =
      cost::replay(program, plan.allocator, Bytes{1} * (kGiB * 1024));
  std::vector<Level> result;
  for (const auto& phase : timeline.phases) {
    result.push_back({phase.allocated_after.value(), phase.peak_allocated.value()});
  }
  return result;
}

void check_levels(const std::vector<Level>& predicted, const std::vector<Level>& measured) {
  REQUIRE(predicted.size() == measured.size());
  for (std::size_t i = 0; i < measured.size(); ++i) {
    CAPTURE(i);
    CHECK(predicted[i].after == measured[i].after);
    CHECK(predicted[i].peak == measured[i].peak);
  }
}

}  // namespace

TEST_CASE("encoder: a BERT in bf16 with flash attention") {
  check_levels(levels(kBert, step(Precision::kBf16, AttentionKind::kSdpa)), {{2824704, 3338752},
                                                                             {42095104, 42607104},
                                                                             {73804800, 76294656},
                                                                             {79450112, 82272768},
                                                                             {76627456, 79450112}});
}

TEST_CASE("encoder: a BERT under autocast, eager attention recomputed") {
  ParallelPlan plan = step(Precision::kAutocastBf16, AttentionKind::kEager);
  plan.recompute = Recompute::kFull;
  check_levels(levels(kBert, plan), {{5647360, 6675456},
                                     {43944960, 46825984},
                                     {80498688, 84494848},
                                     {91789312, 97434624},
                                     {86144000, 91789312}});
}

TEST_CASE("encoder: 4096 tokens sort the gradients of both tables, the one of two rows fused") {
  ParallelPlan plan = step(Precision::kBf16, AttentionKind::kSdpa);
  plan.workload.micro_batch = 32;
  plan.optimizer.kind = OptimizerKind::kSgd;
  check_levels(levels(kBert, plan), {{2824704, 3338752},
                                     {112044544, 120236544},
                                     {73804800, 181765120},
                                     {73804800, 73804800},
                                     {70982144, 73804800}});
}

TEST_CASE("encoder-decoder: a T5 in bf16") {
  check_levels(levels(kT5, step(Precision::kBf16, AttentionKind::kEager)), {{4189184, 5725184},
                                                                            {55443456, 56086528},
                                                                            {75487232, 89718272},
                                                                            {83865600, 88054784},
                                                                            {79676416, 83865600}});
}

TEST_CASE("encoder-decoder: reentrant checkpoints hand the position biases on as views") {
  ParallelPlan plan = step(Precision::kBf16, AttentionKind::kEager);
  plan.recompute = Recompute::kFullReentrant;
  check_levels(levels(kT5, plan), {{4189184, 5725184},
                                   {40818688, 41461760},
                                   {75487232, 80472064},
                                   {83865600, 88054784},
                                   {79676416, 83865600}});
}

TEST_CASE("encoder-decoder: a gated T5 of unequal stacks under autocast, recomputed") {
  ParallelPlan plan = step(Precision::kAutocastBf16, AttentionKind::kEager);
  plan.recompute = Recompute::kFull;
  check_levels(levels(kGatedT5, plan), {{7849984, 10921984},
                                        {46474240, 50656256},
                                        {82808832, 90544640},
                                        {98508800, 106358784},
                                        {90658816, 98508800}});
}

TEST_CASE(
    "encoder-decoder: a T5 with sdpa, whose learned bias lies too loosely for fused kernels") {
  check_levels(levels(kT5, step(Precision::kBf16, AttentionKind::kSdpa)), {{4189184, 5725184},
                                                                           {57188352, 57831424},
                                                                           {75487232, 91463168},
                                                                           {83865600, 88054784},
                                                                           {79676416, 83865600}});
}

TEST_CASE("encoder-decoder: sdpa in reentrant checkpoints, with the gradient of a bias of zeros") {
  ParallelPlan plan = step(Precision::kBf16, AttentionKind::kSdpa);
  plan.recompute = Recompute::kFullReentrant;
  check_levels(levels(kT5, plan), {{4189184, 5725184},
                                   {40753152, 41813504},
                                   {75487232, 80492544},
                                   {83865600, 88054784},
                                   {79676416, 83865600}});
}

TEST_CASE("encoder-decoder: a T5 in fp16 keeps wo in fp32, which widens what is not clamped") {
  const ModelSpec t5 = parse_hf_config(R"({"model_type": "t5", "vocab_size": 32128,
    "d_model": 1024, "d_kv": 64, "d_ff": 4096, "num_layers": 2, "num_decoder_layers": 2,
    "num_heads": 16, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false})",
                                       "test")
                           .value();
  ParallelPlan plan = two_steps(AttentionKind::kSdpa);
  plan.precision = Precision::kFp16;
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 640;
  // Recorded with transformers 5.17 and PyTorch 2.11.
  test::check_phases(t5, plan,
                     {{"load", 250374144, 447768576},
                      {"step1.forward", 1483192320, 1565440000},
                      {"step1.backward", 575721472, 1647687680},
                      {"step1.optimizer", 1078304768, 1328678912}});
}

TEST_CASE("encoder-decoder: sdpa under autocast pads the rows of a bias of 100 columns") {
  ParallelPlan plan = step(Precision::kAutocastBf16, AttentionKind::kSdpa);
  plan.recompute = Recompute::kFull;
  plan.workload.sequence = 100;
  check_levels(levels(kT5, plan), {{8377344, 11449344},
                                   {46202880, 50682880},
                                   {83863552, 87587328},
                                   {100618240, 108995584},
                                   {92240896, 100618240}});
}

TEST_CASE("encoder-decoder: adapters on a T5, whose embeddings want gradients for checkpoints") {
  const ModelSpec t5 = parse_hf_config(R"({"model_type": "t5", "vocab_size": 32128,
    "d_model": 1024, "d_kv": 64, "d_ff": 2816, "num_layers": 2, "num_decoder_layers": 2,
    "num_heads": 16, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false})",
                                       "test")
                           .value();
  ParallelPlan plan = two_steps(AttentionKind::kSdpa);
  plan.lora = test::all_linear(16);
  plan.recompute = Recompute::kFull;
  test::check_phases(
      t5, plan,
      {{"step1.forward", 352'168'960, 420'072'448}, {"step2.backward", 281'569'280, 570'887'168}});
  plan.recompute = Recompute::kNone;
  plan.lora->dora = true;
  test::check_phases(t5, plan, {{"step2.backward", 282'388'480, 1'598'852'096}});
  plan.lora->modules_to_save = {"pooler"};  // T5 has none.
  const auto program = lower(t5, plan, Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(program);
  CHECK(program.error().key == "lora");
}

TEST_CASE("encoder: adapters on a BERT in reentrant checkpoints") {
  const ModelSpec bert = parse_hf_config(R"({"model_type": "bert", "hidden_size": 1024,
    "num_hidden_layers": 2, "num_attention_heads": 16, "intermediate_size": 4096,
    "vocab_size": 30522, "max_position_embeddings": 1200})",
                                         "test")
                             .value();
  ParallelPlan plan = two_steps(AttentionKind::kSdpa);
  plan.lora = test::all_linear(16);
  plan.recompute = Recompute::kFullReentrant;
  test::check_phases(
      bert, plan,
      {{"step1.forward", 235'874'304, 300'886'016}, {"step2.backward", 197'116'928, 401'287'168}});
}

TEST_CASE("reentrant checkpoints: BLOOM's attention weights are returned and get zeros") {
  const ModelSpec bloom = parse_hf_config(R"({"model_type": "bloom", "hidden_size": 1024,
    "n_layer": 3, "n_head": 16, "vocab_size": 50000})",
                                          "test")
                              .value();
  ParallelPlan plan = two_steps(AttentionKind::kEager);
  plan.workload.padded_batch = true;
  plan.recompute = Recompute::kFullReentrant;
  test::check_phases(bloom, plan,
                     {{"step1.forward", 432'167'936, 740'457'984},
                      {"step2.backward", 782'950'400, 1'234'496'512}});
}

TEST_CASE("encoder-decoder: flash attention under the learned bias is refused by name") {
  const ModelSpec model = parse_hf_config(kT5, "test").value();
  const auto program =
      lower(model, step(Precision::kBf16, AttentionKind::kFlash), Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(program);
  CHECK(program.error().key == "attention");
}

TEST_CASE("flash-attn: padded batches are refused, whose tokens without padding are not stated") {
  ParallelPlan plan = step(Precision::kBf16, AttentionKind::kFlash);
  plan.workload.padded_batch = true;
  const auto program = lower(test::wide_llama(), plan, Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(program);
  CHECK(program.error().got == "flash with --padded");
}

}  // namespace headroom::ir
