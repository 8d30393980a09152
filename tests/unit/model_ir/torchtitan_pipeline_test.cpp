// torchtitan's pipelines. Step totals were recorded with torchtitan 0.2.2 and PyTorch 2.11.0
// (compute capability 9.0, 132 multiprocessors): AdamW fused, four sequences of 1024 tokens one by
// one through two ranks with two data-parallel ranks each, H 1024, eight heads of 128, V 32000.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/binding_rank.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/torchtitan/pipeline.h"
#include "runtimes/torchtitan/plan.h"
#include "runtimes/torchtitan/stage_layers.h"
#include "tests/support/small_llama.h"
#include "tests/support/titan_plan.h"

namespace headroom::ir {
namespace {

using torchtitan::PipelineStep;
using torchtitan::with_gathers;

ModelSpec llama_of_layers(int layers) {
  return parse_hf_config(R"({"hidden_size": 1024, "vocab_size": 32000, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 128, "tie_word_embeddings": false,
    "intermediate_size": 2816, "model_type": "llama", "num_hidden_layers": )" +
                             std::to_string(layers) + "}",
                         "layers")
      .value();
}

ParallelPlan pipelined(PipelineKind schedule, std::int64_t stage) {
  TitanPlan titan;
  titan.schedule = schedule;
  ParallelPlan plan = test::titan_plan(4, titan, {.pipeline = 2});
  plan.workload.micro_batch = 4;
  plan.rank = 2 * stage;
  return plan;
}

std::string text_of(const std::vector<PipelineStep>& steps) {
  std::string text;
  for (const PipelineStep& step : steps) {
    const char* kind = "FBIW";
    switch (step.kind) {
      case PipelineStep::Kind::kUnshard:
        text += '+';
        break;
      case PipelineStep::Kind::kReshard:
        text += '-';
        break;
      case PipelineStep::Kind::kReduce:
        text += '!';
        break;
      case PipelineStep::Kind::kPass:
        text += kind[static_cast<int>(step.action.work)];
        break;
    }
    text += std::to_string(step.action.chunk) + " ";
  }
  return text;
}

}  // namespace

TEST_CASE("torchtitan pipeline: 1F1B holds buffers for every micro-batch, gradients whole") {
  test::check_phases(llama_of_layers(4), pipelined(PipelineKind::kOneForwardOneBackward, 0),
                     {{"step1", 526'984'704, 699'666'944}, {"step2", 526'985'216, 925'137'408}});
  test::check_phases(
      llama_of_layers(4), pipelined(PipelineKind::kOneForwardOneBackward, 1),
      {{"step1", 526'993'408, 1'065'550'848}, {"step2", 526'993'920, 1'291'025'920}});
}

TEST_CASE("torchtitan pipeline: GPipe keeps all micro-batches, logits and losses among them") {
  test::check_phases(llama_of_layers(4), pipelined(PipelineKind::kGPipe, 0),
                     {{"step2", 526'985'216, 1'053'147'648}});
  test::check_phases(
      llama_of_layers(4), pipelined(PipelineKind::kGPipe, 1),
      {{"step1", 526'993'408, 1'627'308'544}, {"step2", 526'993'920, 1'886'338'048}});
}

TEST_CASE("torchtitan pipeline: interleaved stages are gathered ahead on the compute stream") {
  test::check_phases(llama_of_layers(6), pipelined(PipelineKind::kInterleaved, 0),
                     {{"step1", 638'679'040, 939'366'912}, {"step2", 638'679'552, 1'212'036'096}});
  test::check_phases(llama_of_layers(6), pipelined(PipelineKind::kInterleaved, 1),
                     {{"step2", 638'688'256, 1'561'189'376}});
  ParallelPlan plan = pipelined(PipelineKind::kInterleaved, 0);
  edit_titan(plan).reshard = TitanReshard::kAlways;  // Gathered for every pass after all.
  test::check_phases(llama_of_layers(6), plan, {{"step2", 638'679'552, 1'184'290'816}});
  plan = pipelined(PipelineKind::kInterleaved, 1);
  plan.recompute = Recompute::kFull;
  plan.recompute_every = 2;  // Counted through the stages of the process.
  test::check_phases(llama_of_layers(6), plan, {{"step2", 638'688'256, 1'489'802'240}});
}

TEST_CASE("torchtitan pipeline: a split backward keeps the graph for the weights") {
  test::check_phases(llama_of_layers(6), pipelined(PipelineKind::kZbH1, 0),
                     {{"step1", 647'067'648, 951'986'688}, {"step2", 647'068'160, 1'224'655'872}});
  test::check_phases(
      llama_of_layers(6), pipelined(PipelineKind::kZbH1, 1),
      {{"step1", 655'464'960, 1'383'450'112}, {"step2", 655'465'472, 1'656'123'904}});
}

TEST_CASE("torchtitan pipeline: at the tip of a V tensors are handed over") {
  test::check_phases(llama_of_layers(6), pipelined(PipelineKind::kZbV, 0),
                     {{"step2", 806'439'936, 1'866'260'480}});
  test::check_phases(llama_of_layers(6), pipelined(PipelineKind::kZbV, 1),
                     {{"step1", 487'704'576, 907'006'464}, {"step2", 487'705'088, 1'095'801'856}});
  test::check_phases(
      llama_of_layers(6), pipelined(PipelineKind::kDualPipeV, 0),
      {{"step1", 800'147'968, 1'418'480'128}, {"step2", 800'148'480, 1'775'027'712}});
}

TEST_CASE("torchtitan pipeline: tensor parallelism, replicas and larger micro-batches join it") {
  ParallelPlan plan = pipelined(PipelineKind::kOneForwardOneBackward, 1);
  plan.mesh.tensor = 2;
  plan.world = 8;
  plan.rank = 4;
  test::check_phases(llama_of_layers(4), plan,
                     {{"step1", 297'355'264, 637'460'992}, {"step2", 297'355'776, 750'214'144}});
  plan.rank = 0;  // The table's gradient is whole until it is reduced.
  plan.recompute = Recompute::kFull;
  test::check_phases(llama_of_layers(4), plan,
                     {{"step1", 297'346'560, 434'733'568}, {"step2", 297'347'072, 547'482'112}});
  plan = pipelined(PipelineKind::kOneForwardOneBackward, 1);
  plan.mesh.replicas = 2;
  plan.world = 8;
  plan.rank = 4;
  test::check_phases(llama_of_layers(4), plan, {{"step2", 526'993'920, 1'291'025'920}});
  plan = pipelined(PipelineKind::kOneForwardOneBackward, 1);
  plan.workload.micro_batch = 8;
  edit_titan(plan).pipeline_batch = 2;
  test::check_phases(llama_of_layers(4), plan, {{"step2", 535'415'296, 1'838'009'856}});
  plan = pipelined(PipelineKind::kOneForwardOneBackward, 0);
  plan.workload.accumulation = 2;
  test::check_phases(llama_of_layers(4), plan, {{"step2", 526'985'216, 1'037'900'800}});
  plan = pipelined(PipelineKind::kOneForwardOneBackward, 0);
  plan.mesh.context = 2;
  plan.world = 8;
  test::check_phases(llama_of_layers(4), plan, {{"step2", 297'330'688, 688'325'120}});
}

TEST_CASE("torchtitan pipeline: layers are dealt out with the embedding and the head as layers") {
  ParallelPlan plan = pipelined(PipelineKind::kOneForwardOneBackward, 0);
  plan.mesh.pipeline = 4;
  const auto spans = [&plan](std::int64_t layers) {
    std::vector<LayerSpan> all;
    for (std::int64_t rank = 0; rank < plan.mesh.pipeline; ++rank) {
      for (const TitanChunk& chunk : titan_chunks(plan, layers, rank)) {
        all.push_back(chunk.layers);
      }
    }
    return all;
  };
  // Eight in all: two each, of which the embedding and the head are one.
  CHECK(spans(6) == std::vector<LayerSpan>{{0, 1}, {1, 2}, {3, 2}, {5, 1}});
  // Nine: the first has one more.
  CHECK(spans(7) == std::vector<LayerSpan>{{0, 2}, {2, 2}, {4, 2}, {6, 1}});
  edit_titan(plan).first_stage_less = 0;
  edit_titan(plan).last_stage_less = 2;
  CHECK(spans(6) == std::vector<LayerSpan>{{0, 2}, {2, 2}, {4, 2}, {6, 0}});
  // A V: the first rank has the first and the last part.
  edit_titan(plan) = TitanPlan{};
  plan.mesh.pipeline = 2;
  edit_titan(plan).schedule = PipelineKind::kZbV;
  CHECK(spans(6) == std::vector<LayerSpan>{{0, 1}, {5, 1}, {1, 2}, {3, 2}});
}

TEST_CASE("torchtitan pipeline: three chunks are kept gathered, others let go") {
  // A chunk at a time: 0 1 2 3, forward and back.
  std::vector<PipelineAction> actions;
  for (const std::int32_t chunk : {0, 1, 2, 3}) {
    actions.push_back({.work = PipelineWork::kForward, .chunk = chunk});
  }
  for (const std::int32_t chunk : {3, 2, 1, 0}) {
    actions.push_back({.work = PipelineWork::kBackward, .chunk = chunk});
  }
  CHECK(text_of(with_gathers(actions, 1)) ==
        "+0 +1 +2 F0 -0 +3 F1 F2 F3 B3 !3 -3 +0 B2 !2 -2 B1 !1 -1 B0 !0 -0 ");
}

TEST_CASE("torchtitan pipeline: what cannot be split or scheduled is refused") {
  const auto refused = [](const ParallelPlan& plan, int layers = 6) {
    const auto program = lower(llama_of_layers(layers), plan, Rank{0}, DeviceTraits{});
    return !program && program.error().key == "titan";
  };
  ParallelPlan plan = pipelined(PipelineKind::kOneForwardOneBackward, 0);
  CHECK_FALSE(refused(plan));
  plan.workload.micro_batch = 1;
  CHECK(refused(plan));  // Fewer micro-batches than stages.
  plan = pipelined(PipelineKind::kOneForwardOneBackward, 0);
  edit_titan(plan).pipeline_batch = 3;
  CHECK(refused(plan));
  plan = pipelined(PipelineKind::kOneForwardOneBackward, 0);
  plan.mesh.pipeline = 1;  // Nothing to schedule.
  edit_titan(plan).schedule = PipelineKind::kGPipe;
  CHECK(refused(plan));
  plan = pipelined(PipelineKind::kOneForwardOneBackward, 0);
  edit_titan(plan).stage_layers = 2;  // Two stages a rank.
  CHECK(refused(plan));
  plan = pipelined(PipelineKind::kInterleaved, 0);
  CHECK(refused(plan, 1));
  edit_titan(plan).stage_layers = 1;
  CHECK(refused(plan, 70));  // 36 stages a rank.
  edit_titan(plan).stage_layers = 0;
  plan.workload.micro_batch = 5;
  CHECK(refused(plan));  // No whole rounds of two.
  plan = pipelined(PipelineKind::kZbV, 0);
  plan.recompute = Recompute::kFull;
  CHECK(refused(plan));
  plan = pipelined(PipelineKind::kOneForwardOneBackward, 0);
  plan.loss = LossKind::kChunked;
  CHECK(refused(plan));
  ModelSpec qwen = llama_of_layers(6);
  qwen.qk_norm = QkNorm::kPerHead;
  CHECK(lower(qwen, pipelined(PipelineKind::kGPipe, 0), Rank{0}, DeviceTraits{}).error().key ==
        "titan");
  plan = pipelined(PipelineKind::kOneForwardOneBackward, 0);
  plan.world = 2;  // Nobody shares a stage's parameters.
  plan.rank = 0;
  const auto program = lower(llama_of_layers(6), plan, Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(program);
  CHECK(program.error().key == "gpus");
}

TEST_CASE("torchtitan pipeline: the rank with the highest peak is among those that are replayed") {
  for (const PipelineKind kind :
       {PipelineKind::kGPipe, PipelineKind::kOneForwardOneBackward, PipelineKind::kInterleaved,
        PipelineKind::kZbH1, PipelineKind::kZbV, PipelineKind::kDualPipeV}) {
    CAPTURE(name_of(kind));
    ParallelPlan plan = pipelined(kind, 0);
    plan.rank.reset();
    plan.mesh.pipeline = 6;
    plan.world = 12;
    plan.workload.micro_batch = 12;
    plan.workload.steps = 1;
    const ModelSpec model = llama_of_layers(14);
    const auto peak = [&](Rank rank) {
      const auto program = lower(model, plan, rank, DeviceTraits{});
      REQUIRE(program);
      return cost::replay(program.value(), plan.allocator, Bytes{600'000'000'000})
          .phases.back()
          .peak_allocated.value();
    };
    std::int64_t highest = 0;
    for (std::int32_t stage = 0; stage < 6; ++stage) {
      highest = std::max(highest, peak(Rank{2 * stage}));
    }
    std::int64_t found = 0;
    for (const Rank rank : cost::binding_ranks(model, plan)) {
      found = std::max(found, peak(rank));
    }
    CHECK(found == highest);
  }
}

}  // namespace headroom::ir
