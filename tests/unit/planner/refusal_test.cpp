#include "planner/space/refusal.h"

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/spec/hf_config.h"
#include "planner/space/all_axes.h"
#include "runtimes/deepspeed/search/search.h"
#include "runtimes/megatron/search/axes.h"

namespace headroom::plan {
namespace {

using Asked = std::vector<std::pair<Axis, const char*>>;

/// What refuses `asked` of a model of 16 layers and 8 heads on 8 GPUs.
Error refusal(const Asked& asked) {
  const ir::ModelSpec model = ir::parse_hf_config(R"({"model_type": "llama", "hidden_size": 256,
      "intermediate_size": 512, "num_hidden_layers": 16, "num_attention_heads": 8,
      "num_key_value_heads": 4, "vocab_size": 512, "max_position_embeddings": 4096})",
                                                  "small")
                                  .value();
  SpaceQuestion question{.model = model, .base = {}, .global_batch = 32, .constraints = {}};
  question.base.precision = ir::Precision::kBf16Master;
  question.base.workload.sequence = 512;
  question.constraints.of(Axis::kGpus) = {8};
  for (const auto& [axis, text] : asked) {
    question.constraints.of(axis) = parse_axis(axis, text).value();
  }
  return refusal_of(question);
}

}  // namespace

TEST_CASE("refusal: torchtitan's code is named where it is what refuses an axis") {
  const Error layers =
      refusal({{Axis::kRuntime, "torchtitan"}, {megatron_axes::kRecomputeLayers, "3"}});
  CHECK(layers.got == "torchtitan cannot have --recompute-layers 3");
  CHECK(layers.fix == "use --runtime megatron, or leave out --recompute-layers");
  const Error precision = refusal({{Axis::kRuntime, "torchtitan"}, {Axis::kPrecision, "fp32"}});
  CHECK(precision.got == "--runtime torchtitan with --precision fp32");
  CHECK(precision.fix.ends_with("or --precision bf16-master"));
  // No other framework has 17 pipeline stages of 8 GPUs either.
  const Error stages = refusal({{Axis::kRuntime, "torchtitan"}, {Axis::kPipeline, "17"}});
  CHECK(stages.got == "17");
}

TEST_CASE("refusal: torchtitan's code is offered where it has what was asked for") {
  const Error error = refusal({{Axis::kRuntime, "deepspeed"}, {Axis::kTensor, "2"}});
  CHECK(error.got == "deepspeed cannot have --tp 2");
  CHECK(error.fix == "use --runtime megatron,torchtitan, or leave out --tp");
}

TEST_CASE("refusal: torchtitan's code is offered where it alone has what was asked for") {
  const Error error = refusal({{Axis::kRuntime, "megatron"}, {Axis::kSchedule, "zb-h1"}});
  CHECK(error.fix.find("--runtime torchtitan") != std::string::npos);
}

TEST_CASE("refusal: no value is offered that would be refused") {
  const Error error = refusal({{Axis::kRuntime, "fsdp"}, {deepspeed_axes::kZero, "2"}});
  CHECK(error.fix == "use --runtime deepspeed, or leave out --zero");
}

TEST_CASE("refusal: values that are offered work beside all else that was asked for") {
  const Error error =
      refusal({{Axis::kRuntime, "megatron"}, {Axis::kPipeline, "4"}, {Axis::kChunk, "7"}});
  CHECK(error.got == "7");
  CHECK(error.fix == "use --layers-per-virtual-stage 0,1,2");
}

TEST_CASE("refusal: a dense model has no tensor degree of experts") {
  const Error error = refusal({{Axis::kRuntime, "megatron"}, {Axis::kExpertTensor, "0"}});
  CHECK(error.got == "0");
  CHECK(error.fix == "leave out --etp");
}

TEST_CASE("axes: options and places are unique, and what a framework lacks is a value") {
  std::set<std::string_view> options;
  std::set<int> places;
  for (const Axis axis : all_axes()) {
    CAPTURE(axis->option);
    CHECK(options.insert(axis->option).second);
    CHECK(places.insert(axis->order).second);
    const AxisWords words = words_of_axis(axis);
    CHECK((words.empty() || axis->absent < static_cast<std::int64_t>(words.size())));
  }
  CHECK(Axis::kSchedule->absent == schedule_with(ir::PipelineKind::kOneForwardOneBackward));
}

TEST_CASE("axes: help names the frameworks that have them, and what each has of them") {
  CHECK(help_of(Axis::kTensor) == "tensor-parallel degree (megatron, torchtitan)");
  CHECK(help_of(Axis::kMicroBatch) == "sequences per forward pass on each GPU");
  CHECK(help_of(Axis::kOffload) ==
        "what is kept in host memory: none, optimizer, all (deepspeed); none, all (fsdp, "
        "torchtune)");
  CHECK(help_of(Axis::kAccountLoss) ==
        "the loss counts as a layer of the last stage (megatron); yes unless you say no "
        "(torchtitan)");
  CHECK(help_of(Axis::kPrecision)
            .ends_with("; fp8-delayed, fp8-tensorwise, fp8-blockwise, "
                       "fp8-mxfp8: bf16 with matrix products in 8 bits "
                       "(megatron)"));
  CHECK(help_of(Axis::kRuntime) ==
        "frameworks to search: transformers, deepspeed, fsdp, megatron, torchtitan, torchtune, "
        "litgpt");
}

}  // namespace headroom::plan
