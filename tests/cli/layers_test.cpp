// Which layers are checkpointed, one by one.
#include <string>

#include <doctest/doctest.h>

#include "model_ir/json/json_writer.h"
#include "model_ir/plan/parallel_plan.h"
#include "tests/support/cli.h"

namespace headroom::cli {
namespace {

using test::Document;

/// What `fit` says of llama-3.2-1b, which has 16 layers.
Document fitted(const std::string& options) {
  return test::json_of("fit llama-3.2-1b --gpu h100 --seq 512 --micro-batch 4 " + options);
}

}  // namespace

TEST_CASE("recomputes_layer: every k-th, the first, all or none") {
  ir::ParallelPlan plan;
  CHECK_FALSE(ir::recomputes_layer(plan, 0));
  plan.recompute = ir::Recompute::kFull;
  CHECK(ir::recomputes_layer(plan, 5));
  plan.recompute_every = 2;
  CHECK(ir::recomputes_layer(plan, 4));
  CHECK_FALSE(ir::recomputes_layer(plan, 5));
  plan.recompute_every = 1;
  plan.recompute_first = 5;
  CHECK(ir::recomputes_layer(plan, 4));
  CHECK_FALSE(ir::recomputes_layer(plan, 5));
}

TEST_CASE("property: the first N layers lie between none and all, and all of them are full") {
  for (const std::string runtime : {"", "--gpus 2 --zero 3 ", "--gpus 2 --fsdp reshard=yes "}) {
    CAPTURE(runtime);
    const Document none = fitted(runtime + "--checkpointing none");
    const Document full = fitted(runtime + "--checkpointing full");
    const Document all = fitted(runtime + "--checkpointing first-16");
    CHECK(ir::to_json(all.at("phases")) == ir::to_json(full.at("phases")));
    std::int64_t before = none.integer("peak/allocated_bytes");
    double flops = 0;
    for (int first = 4; first <= 12; first += 4) {
      const Document some = fitted(runtime + "--checkpointing first-" + std::to_string(first));
      const std::int64_t peak = some.integer("peak/allocated_bytes");
      CHECK(peak <= before);
      CHECK(peak >= full.integer("peak/allocated_bytes"));
      const double recomputed = some.number("time/parts_seconds/recompute");
      CHECK(recomputed > flops);
      before = peak;
      flops = recomputed;
    }
  }
}

TEST_CASE("checkpointing: the first layers are refused where the framework cannot be told so") {
  for (const char* options : {"--gpus 2 --titan tp=1", "--runtime torchtune"}) {
    CAPTURE(options);
    const test::Answer answer = test::headroom(
        "fit llama-3.1-8b --gpu h100 --checkpointing first-4 " + std::string(options));
    CHECK(answer.code == ExitCode::kUsage);
    CHECK(answer.complains("only the layers of transformers are told one by one"));
  }
}

TEST_CASE("fit: layers that are checkpointed one by one come with the code to paste") {
  const auto script = [](const std::string& which) {
    return test::headroom("fit llama-3.2-1b --gpu h100 --checkpointing " + which + " --script").out;
  };
  CHECK(script("first-4").find("    layer.gradient_checkpointing = index < 4\n") !=
        std::string::npos);
  CHECK(script("every-2").find("    layer.gradient_checkpointing = index % 2 == 0\n") !=
        std::string::npos);
  CHECK(script("full").find("layer.gradient_checkpointing") == std::string::npos);
}

TEST_CASE("fit: the code to paste leaves out the layers of a tower that does not run") {
  const test::Answer answer = test::headroom(
      "fit qwen3-vl-8b --gpu a100-40gb --lora r=16 --checkpointing first-18 --script");
  CHECK(answer.says("if \"model.language_model.layers.\" in name and "));
}

}  // namespace headroom::cli
