#include "runtimes/megatron/search/stage_forms.h"
#include "runtimes/megatron/plan.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "runtimes/megatron/search/axes.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::plan {
namespace {

std::int64_t layers_dealt_out(std::int64_t layers, std::int64_t pipeline, const StageForm& form) {
  ir::ParallelPlan plan;
  plan.mesh.pipeline = pipeline;
  form.apply_to(edit_megatron(plan));
  std::int64_t sum = 0;
  for (std::int64_t stage = 0; stage < pipeline; ++stage) {
    sum += ir::chunk_layer_count(plan, layers, {.stage = stage, .chunk = 0});
  }
  return sum;
}

}  // namespace

TEST_CASE("stage forms: every form deals out all layers, at least one to a stage") {
  for (const std::int64_t layers : {7, 32, 61, 96, 126}) {
    for (const std::int64_t pipeline : {1, 2, 3, 4, 8, 16}) {
      for (const StageForm& form : stage_forms(layers, pipeline, {})) {
        CAPTURE(layers);
        CAPTURE(pipeline);
        CHECK(layers_dealt_out(layers, pipeline, form) == layers);
      }
    }
  }
}

TEST_CASE("stage forms: 126 layers on 16 stages give one to the embedding and one to the loss") {
  const std::vector<StageForm> forms = stage_forms(126, 16, {});
  REQUIRE(!forms.empty());
  CHECK(forms.front().embedding);
  CHECK(forms.front().loss);
  // 14 stages of 8 between: 14 layers for the ends, neither with more than 8.
  CHECK(forms.size() == 4);  // (6, 0), (0, 6) and (7, 7) beside: an end of 8 is written as 0.
}

TEST_CASE("stage forms: stages that divide the layers are even unless something is asked for") {
  const std::vector<StageForm> even = stage_forms(96, 8, {});
  REQUIRE(even.size() == 1);
  CHECK(even.front().first == 0);
  Constraints asked;
  asked.of(megatron_axes::kFirstStage) = {6};
  const std::vector<StageForm> forms = stage_forms(96, 8, asked);
  REQUIRE(!forms.empty());
  CHECK(std::ranges::all_of(forms, [](const StageForm& form) { return form.first == 6; }));
}

TEST_CASE("axes: any precision and any optimizer are recipes that are priced") {
  CHECK(parse_axis(Axis::kPrecision, "any").value() ==
        parse_axis(Axis::kPrecision,
                   "bf16-master,bf16,bf16-autocast,fp16-master,fp32,fp8-delayed,fp8-tensorwise,"
                   "fp8-blockwise,fp8-mxfp8")
            .value());
  CHECK(parse_axis(Axis::kOptimizer, "any").value().size() == 10);
  CHECK(parse_axis(Axis::kPrecision, "bf16,fp16").value().size() == 2);
  CHECK(parse_axis(Axis::kTensor, "any").value().empty());
  CHECK(!parse_axis(Axis::kPrecision, "bf17"));
}

}  // namespace headroom::plan
