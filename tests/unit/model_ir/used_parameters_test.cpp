#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/spec/model_catalogue.h"
#include "model_ir/spec/param_count.h"
#include "model_ir/spec/recording/recording.h"
#include "model_ir/spec/recording/used_parameters.h"
#include "tests/support/configs.h"

namespace headroom::ir {
namespace {

ModelSpec catalogued(std::string_view name) {
  return load_model(test::kConfigs + "/models", name).value();
}

}  // namespace

TEST_CASE("recorded models: the experts that the router leaves out do not count per token") {
  struct Published {
    std::string_view name;
    double billions;  ///< Parameters per token, as the model's card says.
  };
  constexpr std::array<Published, 10> kPublished = {{{"qwen3-vl-30b-a3b", 3},
                                                     {"qwen3-vl-235b-a22b", 22},
                                                     {"llama-4-scout-17b-16e", 17},
                                                     {"deepseek-v3.2", 37},
                                                     {"kimi-k2.5", 32},
                                                     {"mimo-v2-flash", 15},
                                                     {"minimax-m2.5", 10},
                                                     {"dbrx", 36},
                                                     {"jetmoe-8b", 2.2},
                                                     {"nemotron-3-nano-30b-a3b", 3.5}}};
  for (const Published& model : kPublished) {
    CAPTURE(model.name);
    const ModelSpec spec = catalogued(model.name);
    REQUIRE(spec.recording);
    const double active = static_cast<double>(count_parameters(spec).active()) / 1e9;
    CHECK(active > 0.95 * model.billions);  // Cards round, and some leave out the embedding.
    CHECK(active < 1.15 * model.billions);
  }
}

TEST_CASE(
    "recorded models: the same language model with a tower has the same parameters per token") {
  const ParameterCount written = count_parameters(catalogued("qwen3-8b"));
  const ParameterCount recorded = count_parameters(catalogued("qwen3-vl-8b"));
  CHECK(recorded.total() > written.total() + 500'000'000);
  // What is left of the tower is its embedding of positions, a table of 2,304 rows of 1,152.
  CHECK(recorded.active() - written.active() == 2304 * 1152);
}

TEST_CASE("recorded models: layers without attention have no keys") {
  const ModelSpec hybrid = catalogued("qwen3.5-35b-a3b");
  REQUIRE(hybrid.recording);
  CHECK(hybrid.layers.size() == 40);
  CHECK(use_of(*hybrid.recording).attending_layers ==
        10);  // Every fourth (full_attention_interval).
  const ModelSpec dense = catalogued("qwen3-vl-8b");
  CHECK(use_of(*dense.recording).attending_layers == 36);
}

TEST_CASE("recorded models: experts of any form are read without a fault") {
  Recording recording;
  recording.modules.resize(1);
  recording.modules[0].path = "mlp.experts";
  recording.parameters.resize(3);
  recording.parameters[1].dims = {8};
  recording.parameters[2].dims = {8, 4, 2};
  Instruction topk;
  topk.name = "topk";
  topk.outputs.resize(1);
  topk.outputs.front().shape = {SizeExpression(6), SizeExpression(2)};
  RecordedVariant& variant = recording.variants.emplace_back();
  variant.forward.instructions = {topk};
  variant.forward_scope.parameters = {0, 1, 2, 2};
  const RecordedUse use = use_of(recording);
  CHECK(use.elements == std::vector<std::int64_t>{1, 8, 16});
  CHECK(use.fused_experts == 64);
}

}  // namespace headroom::ir
