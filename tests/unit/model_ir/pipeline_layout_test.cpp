#include "runtimes/megatron/pipeline_layout.h"

#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/stage_layers.h"
#include "runtimes/plan_check.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

using Counts = std::vector<std::int64_t>;

Counts layer_counts(std::string_view text) {
  return parse_pipeline_layout(text).value().layers;
}

std::string wanted(std::string_view text) {
  const Result<PipelineLayout> layout = parse_pipeline_layout(text);
  return layout ? "" : layout.error().wanted;
}

ParallelPlan pipelined_plan(std::int64_t stages, const MegatronPlan& megatron) {
  ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = Precision::kBf16Master;
  edit_megatron(plan) = megatron;
  plan.mesh.pipeline = stages;
  plan.world = stages;
  plan.workload.sequence = 1024;
  plan.workload.accumulation = 4 * stages;
  return plan;
}

/// What is refused, and what is expected instead.
std::string refused_layout(std::int64_t layers, std::int64_t stages, const MegatronPlan& megatron) {
  ModelSpec model = test::small_llama();
  model.layers.resize(static_cast<std::size_t>(layers), model.layers.front());
  const Status status = check_plan(model, pipelined_plan(stages, megatron));
  return status ? "" : status.error().got + ": " + status.error().wanted;
}

}  // namespace

TEST_CASE("pipeline layout: letters are layers, bars end chunks, products are written out") {
  CHECK(layer_counts("EtttL") == Counts{3});
  CHECK(layer_counts("Ettt|tt|L") == Counts{3, 2, 0});
  CHECK(layer_counts("E|t|tL") == Counts{0, 1, 1});
  CHECK(layer_counts("Et*3,|,t*2|tL") == Counts{3, 2, 1});    // Commas mean nothing.
  const Counts deepseek = layer_counts("Et*4|(t*4|)*14tmL");  // Of NVIDIA's GB300 recipe.
  CHECK(deepseek.size() == 16);
  CHECK(deepseek.back() == 1);
  CHECK(std::accumulate(deepseek.begin(), deepseek.end(), std::int64_t{0}) == 61);
  CHECK(parse_pipeline_layout("Et*4|(t*4|)*14tmL")->mtp_layers == 1);
  const Counts pairs = layer_counts("Et|(tt|)*30mL");
  CHECK(pairs.size() == 32);
  CHECK(pairs[1] == 2);
  CHECK(pairs.back() == 0);
  CHECK(layer_counts("(Et)*1|tL") == Counts{1, 1});
  CHECK(layer_counts("Et(|t)*2|L") == Counts{1, 1, 1, 0});
}

TEST_CASE("pipeline layout: what cannot be one says what is expected") {
  for (const char* text :
       {"Et*|tL", "E(t(t)*2)*2L", "E(tL", "Et)*2L", "E(t)L", "*2EtL", "Et*99999999L", "Et*-1L",
        "E(tttt)*4611686018427387904L", "Et*65000t*65000t*65000L"}) {
    CAPTURE(text);
    CHECK(wanted(text).starts_with("letters, `t*N` and"));
  }
  CHECK(wanted("Etx|tL").starts_with("E (embedding), t (layer)"));
  for (const char* text : {"", "t|tL", "Et|t", "tE|tL", "Et|LtL", "EEt|L"}) {
    CAPTURE(text);
    CHECK(wanted(text) == "E once, at the beginning, and L once, at the end");
  }
  CHECK(wanted("Etm|tL") == "m in the chunk of L, behind its layers");
  CHECK(wanted("Et|m|L") == "m in the chunk of L, behind its layers");
}

TEST_CASE("pipeline layout: chunks go to stages in turn") {
  const ParallelPlan plan = pipelined_plan(2, {.pipeline_layout = "Et|tt|ttt|L"});
  CHECK(chunks_per_stage(plan, 6) == 2);
  CHECK(is_interleaved(plan));
  CHECK(even_stage_layers(plan, 6) == 0);
  CHECK(chunk_layers(plan, 6, {.stage = 0, .chunk = 1}) == LayerSpan{.first = 3, .count = 3});
  CHECK(chunk_layers(plan, 6, {.stage = 1, .chunk = 1}) == LayerSpan{.first = 6, .count = 0});
  ModelSpec model = test::small_llama();
  model.layers.resize(6, model.layers.front());
  CHECK(layers_of_stages(model, plan).front() == StageLayers{.all = 4, .sparse = 0});
  CHECK_FALSE(is_interleaved(pipelined_plan(4, {.pipeline_layout = "Et|tt|ttt|L"})));
  MegatronPlan even = megatron_of(plan);
  deal_evenly(even);
  CHECK(even == MegatronPlan{});
}

TEST_CASE("pipeline layout: a plan has chunks for its stages and the layers of its model") {
  CHECK(refused_layout(6, 2, {.pipeline_layout = "Et|tt|ttt|L"}).empty());
  CHECK(refused_layout(5, 2, {.pipeline_layout = "Et|tt|ttt|L"}) ==
        "pipeline-layout=Et|tt|ttt|L: as many layers (t) as the model, 5; it has 6");
  CHECK(refused_layout(6, 3, {.pipeline_layout = "Et|tt|ttt|L"}) ==
        "pipeline-layout=Et|tt|ttt|L: a number of chunks that is a multiple of pp=3; it has 4");
  CHECK(refused_layout(6, 1, {.pipeline_layout = "Et|tt|ttt|L"}) ==
        "pipeline-layout=Et|tt|ttt|L: pp=2 or more as well");
  CHECK(refused_layout(6, 2, {.first_stage_layers = 2, .pipeline_layout = "Et|tt|ttt|L"})
            .find("without the other keys that distribute layers") != std::string::npos);
  CHECK(refused_layout(6, 2, {.pipeline_layout = "Et|tttttmL"}) ==
        "pipeline-layout=Et|tttttmL: one m for each layer of mtp-layers=0");
  CHECK(refused_layout(6, 2, {.pipeline_layout = "Et|tttttX"})
            .starts_with("pipeline-layout=Et|tttttX: E (embedding)"));
}

TEST_CASE("pipeline: receiving during a pass needs several chunks on a stage") {
  ModelSpec model = test::small_llama();
  model.layers.resize(8, model.layers.front());
  ParallelPlan plan = pipelined_plan(2, {.overlap_warmup_flush = true});
  const Status refused = check_plan(model, plan);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().fix == "leave out overlap-p2p-communication-warmup-flush");
  edit_megatron(plan).layers_per_chunk = 2;
  CHECK(check_plan(model, plan));
}

}  // namespace headroom::ir
