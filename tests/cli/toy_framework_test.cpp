// A framework that the tests add is asked like those that ship: no other line knows it.

#include <string>

#include <doctest/doctest.h>

#include "model_ir/json/json_value.h"
#include "runtimes/plan_json.h"
#include "runtimes/search/registered_search.h"
#include "tests/support/cli.h"
#include "tests/support/toy_framework.h"

namespace headroom::test {

TEST_CASE("toy framework: fit reads its options, answers, and offers its own change") {
  const ToyFramework toy;
  const ir::RegisteredRuntime registered(toy);
  const Answer fits = headroom("fit gpt2 --gpu t4 --gpus 2 --toy wheels=2");
  CHECK(fits.code == cli::ExitCode::kYes);
  CHECK(fits.says("4.00 GiB"));
  const Answer own = headroom("fit gpt2 --gpu t4 --gpus 2 --number-of-wheels 2");
  CHECK(own.code == cli::ExitCode::kYes);
  CHECK(own.says("4.00 GiB"));
  const Answer large = headroom("fit gpt2 --gpu t4 --runtime toy --micro-batch 2");
  CHECK(large.code == cli::ExitCode::kNo);
  CHECK(large.says("headroom fit gpt2 --gpu t4 --micro-batch 2 --toy compact"));
  const Answer wrong = headroom("fit gpt2 --gpu t4 --gpus 2 --toy wheels=3");
  CHECK(wrong.complains("a divisor of --gpus 2"));
  CHECK(headroom("fit gpt2 --gpu t4 --toy wheels=65").complains("wheels"));
  CHECK(headroom("fit gpt2 --gpu t4 --toy wheels=1 --zero 2").code == cli::ExitCode::kUsage);
  CHECK(headroom("fit --help").says("--toy"));
}

TEST_CASE("toy framework: plan searches it and explains what it found") {
  const ToyFramework toy;
  const ir::RegisteredRuntime registered(toy);
  const Answer found =
      headroom("plan gpt2 --gpu t4 --gpus 2 --global-batch 8 --runtime toy --why micro-batch=2");
  CHECK(found.code == cli::ExitCode::kYes);
  CHECK(found.says("optimal"));
  CHECK(found.says("micro-batch 2: no such plan fits"));
  const Answer all = headroom("explain gpt2 --gpu t4 --gpus 2 --global-batch 8 --runtime toy");
  CHECK(all.says("runtime megatron: "));
  const Answer refused = headroom("plan gpt2 --gpu t4 --runtime toy --recompute full");
  CHECK(refused.complains("--recompute full"));
  CHECK(headroom("plan gpt2 --gpu t4 --runtime toy --tp 2").code == cli::ExitCode::kUsage);
}

TEST_CASE("toy framework: plan searches an axis that its own search brings, and explains it") {
  const ToyFramework toy;
  const ir::RegisteredRuntime registered(toy);
  const ToySearch search;
  const plan::RegisteredSearch searched(search);
  const std::string question = "plan gpt2 --gpu t4 --gpus 4 --global-batch 8 --runtime toy";
  CHECK(headroom(question + " --wheels 2 --json").says(R"("wheels": 2)"));
  const Answer found = headroom(question + " --why wheels=1");
  CHECK(found.code == cli::ExitCode::kYes);
  CHECK(found.says("optimal"));
  CHECK(found.says("wheels 1: "));
  CHECK(headroom(question + " --wheels 1-4 --objective memory --json").says(R"("wheels": 4)"));
  CHECK(headroom(question + " --wheels 3").complains("a divisor of the GPUs (4)"));
  CHECK(headroom(question + " --wheels x").complains("wheels"));
  const Answer all = headroom("explain" + question.substr(4));
  CHECK(all.says("wheels 2: "));
  CHECK(headroom("plan --help toy").says("ranks among which every tensor is cut (toy)"));
}

TEST_CASE("toy framework: without its search, its axis is unknown") {
  const ToyFramework toy;
  const ir::RegisteredRuntime registered(toy);
  CHECK(headroom("plan gpt2 --gpu t4 --runtime toy --wheels 1").code == cli::ExitCode::kUsage);
}

TEST_CASE("toy framework: a plan with its options reads back from its JSON") {
  const ToyFramework toy;
  const ir::RegisteredRuntime registered(toy);
  ir::ParallelPlan plan;
  plan.runtime = "toy";
  plan.world = 4;
  plan.own.edit<ToyOptions>() = {.wheels = 4, .compact = true};
  const std::string text = ir::to_json(ir::plan_to_json(plan));
  CHECK(text.find(R"("wheels": 4)") != std::string::npos);
  const Result<ir::ParallelPlan> read = ir::parse_plan(text, "plan.json");
  REQUIRE(read);
  CHECK(*read == plan);
}

TEST_CASE("toy framework: emit writes its configuration") {
  const ToyFramework toy;
  const ir::RegisteredRuntime registered(toy);
  const Answer emitted = headroom("emit toy gpt2 --gpus 2 --toy wheels=2");
  CAPTURE(emitted.err);
  CHECK(emitted.code == cli::ExitCode::kYes);
  CHECK(emitted.says("wheels: 2"));
}

}  // namespace headroom::test
