// FSDP of recorded models: the order in which parameters and buffers get memory, and layers that do
// not run.

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/recording/recording.h"
#include "runtimes/fsdp/named_parameters.h"
#include "runtimes/fsdp/recorded_walk.h"
#include "tests/support/refusal.h"

namespace headroom::ir::fsdp {
namespace {

RecordedParameter parameter(std::string name, std::uint32_t module,
                            std::vector<std::string> other_names = {}) {
  RecordedParameter made;
  made.name = std::move(name);
  made.module = module;
  made.other_names = std::move(other_names);
  return made;
}

/// A head that comes before the embedding, whose weight it shares, as in CamemBERT.
Recording head_first() {
  Recording recording;
  for (const char* const path : {"", "head", "head.dense", "head.decoder", "body", "body.embed",
                                 "body.layers", "body.layers.0"}) {
    RecordedModule module;
    module.path = path;
    recording.modules.push_back(module);
  }
  recording.parameters = {parameter("head.bias", 1, {"head.decoder.bias"}),
                          parameter("head.dense.weight", 2),
                          parameter("head.decoder.weight", 3, {"body.embed.weight"}),
                          parameter("body.layers.0.weight", 7)};
  recording.buffers = {{.name = "body.embed.ids", .dims = {4}, .dtype = DType::kInt64}};
  return recording;
}

std::string text_of(const std::vector<WalkStep>& steps, const Recording& recording) {
  std::string text;
  for (const WalkStep& step : steps) {
    const bool buffer = step.kind == WalkStep::Kind::kBuffer;
    text += (buffer ? recording.buffers[step.index].name : recording.parameters[step.index].name) +
            (step.kind == WalkStep::Kind::kAgain ? " again; " : "; ");
  }
  return text;
}

}  // namespace

TEST_CASE("fsdp of recordings: children come before their parents, shared weights each time") {
  const Recording recording = head_first();
  std::vector<NamedParameter> named;
  for (std::size_t i = 0; i < recording.parameters.size(); ++i) {
    NamedParameter one;
    one.name = recording.parameters[i].name;
    one.id = TensorId{static_cast<std::uint32_t>(i)};
    named.push_back(one);
  }
  // The decoder has the bias of the head under a second name, and is visited before the head.
  CHECK(text_of(walk_of(recording, named), recording) ==
        "head.dense.weight; head.decoder.weight; head.bias; head.bias again; "
        "head.decoder.weight again; body.embed.ids; body.layers.0.weight; ");
}

TEST_CASE("fsdp of recordings: layers that do not run are modules of their own") {
  // Without images, the 8 layers of cross-attention among 40 do not run.
  const ModelSpec model = parse_hf_config(R"({"model_type": "mllama"})", "mllama").value();
  REQUIRE(model.recording);
  CHECK(model.layers.size() == 32);
  CHECK(idle_layers(model) == 8);
  std::size_t idle = 0;
  for (const RecordedParameter& one : model.recording->parameters) {
    idle += one.idle_layer >= 0 ? 1 : 0;
    const bool crosses = one.name.find(".cross_attn") != std::string::npos;
    CHECK((!crosses || one.idle_layer >= 0));
    CHECK((one.idle_layer < 0 || one.layer < 0));
  }
  CHECK(idle > 8);
  CHECK(idle_layers(parse_hf_config(R"({"model_type": "smollm3"})", "smollm3").value()) == 0);
}

TEST_CASE("fsdp of recordings: layers that share weights are refused") {
  const ModelSpec shared = parse_hf_config(R"({"model_type": "zamba2"})", "zamba2").value();
  ParallelPlan plan;
  plan.precision = Precision::kBf16;
  plan.workload.micro_batch = 1;
  plan.workload.sequence = 64;
  CHECK(test::refused_by_lowering(shared, plan).empty());
  plan.runtime = "fsdp";
  plan.world = 8;
  CHECK(test::refused_by_lowering(shared, plan) == "fsdp");
}

}  // namespace headroom::ir::fsdp
