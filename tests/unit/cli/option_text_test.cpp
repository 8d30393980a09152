#include "cli/option_text.h"

#include <doctest/doctest.h>

#include "cli/own_options.h"
#include "cli/plan_options.h"
#include "model_ir/json/json_writer.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/plan_json.h"
#include "runtimes/plan_parts.h"
#include "tests/support/random_options.h"

namespace headroom::cli {
namespace {

ir::ParallelPlan typed_plan(const std::vector<OptionValue>& options) {
  Arguments arguments;
  for (const OptionValue& option : options) {
    arguments.set(option.name, option.value);
  }
  const Result<Arguments> own = with_own_options(arguments);
  return read_plan_options(own.value(), ir::ModelSpec{}).value().plan;
}

Error typed_refusal(const std::string& option, const std::string& value) {
  Arguments arguments;
  arguments.set(option, value);
  const Result<Arguments> own = with_own_options(arguments);
  return own ? read_plan_options(*own, ir::ModelSpec{}).error() : own.error();
}

}  // namespace

TEST_CASE("property: a SPEC reads back as the part that it was printed from") {
  test::Random random = test::seeded_random(64);
  CAPTURE(random.seed());
  for (int round = 0; round < 100; ++round) {
    for (const ir::PlanPart* const part : ir::framework_parts()) {
      if (part->option == "zero") {
        continue;  // Two options, and fields without any.
      }
      CAPTURE(part->name);
      ir::ParallelPlan plan;
      part->add(plan);
      test::randomise(random, part->fields, plan);
      if (has_fsdp(plan) && fsdp_of(plan).reshard_ranks > 0) {
        edit_fsdp(plan).reshard_after_forward = true;  // "reshard=4" says both.
      }
      const std::string text = spec_text(*part, plan);
      CAPTURE(text);
      ir::ParallelPlan again;
      part->add(again);
      const SpecTarget target{part->fields, part->option, &again};
      const Status status = parse_spec(part->option, text, {&target, 1});
      if (!status) {
        FAIL_CHECK(to_text(status.error()));
      }
      CHECK(again == plan);
    }
  }
}

TEST_CASE("options: a framework's own names are keys of its option") {
  const ir::ParallelPlan plan =
      typed_plan({{"megatron",
                   "tensor-model-parallel-size=8,pipeline_model_parallel_size=2,no-rope-fusion,"
                   "use-distributed-optimizer,transformer-impl=local,recompute-num-layers=3"},
                  {"gpus", "16"}});
  CHECK(plan == typed_plan({{"megatron",
                             "tp=8,pp=2,rope-fusion=no,distributed-optimizer,transformer-engine=no,"
                             "recompute-layers=3"},
                            {"gpus", "16"}}));
  CHECK(
      typed_plan({{"titan", "tensor_parallel_degree=4,parallelism.pipeline_parallel_schedule=1F1B"},
                  {"gpus", "4"}}) == typed_plan({{"titan", "tp=4,schedule=1f1b"}, {"gpus", "4"}}));
  CHECK(typed_refusal("megatron", "tp=2,tensor-model-parallel-size=4").got ==
        "has 'tp' and 'tensor-model-parallel-size', which set the same option");
  CHECK(typed_refusal("megatron", "tensor-model-paralel-size=4").fix ==
        "use 'tensor-model-parallel-size'");
}

TEST_CASE("options: a framework's own arguments are options, and imply the framework") {
  CHECK(typed_plan({{"tensor-model-parallel-size", "8"},
                    {"sequence-parallel", ""},
                    {"no-rope-fusion", ""},
                    {"recompute-modules", "mlp,layernorm"},
                    {"moe-router-dtype", "fp32"},
                    {"gpus", "8"}}) ==
        typed_plan({{"megatron",
                     "tp=8,sequence-parallel,rope-fusion=no,recompute-modules=mlp+layernorm,"
                     "router-fp32"},
                    {"gpus", "8"}}));
  CHECK(typed_plan({{"zero_optimization.stage", "3"},
                    {"zero_optimization.zero_quantized_weights", "true"},
                    {"gpus", "8"}}) ==
        typed_plan({{"zero", "3"}, {"zeropp", "qwz"}, {"gpus", "8"}}));
  CHECK(typed_plan(
            {{"parallelism.tensor_parallel_degree", "4"}, {"titan", "compiled"}, {"gpus", "4"}}) ==
        typed_plan({{"titan", "compiled,tp=4"}, {"gpus", "4"}}));
  CHECK(typed_refusal("moe-router-dtype", "fp64").wanted == "fp32");
  CHECK(typed_refusal("tensor-model-parallel-size", "0").key == "tensor-model-parallel-size");
}

TEST_CASE("options: two options share --fsdp reshard") {
  CHECK(fsdp_of(typed_plan({{"fsdp", "reshard=4"}})).reshard_ranks == 4);
  CHECK_FALSE(fsdp_of(typed_plan({{"fsdp", "reshard=no"}})).reshard_after_forward);
  const Error error = typed_refusal("fsdp", "reshard=sometimes");
  CHECK(error.got == "reshard=sometimes");
  CHECK(error.wanted == "yes or no, or a whole number from 0 to 1048576");
}

}  // namespace headroom::cli
