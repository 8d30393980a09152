#include <string>

#include <doctest/doctest.h>

#include "tests/support/cli.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;

}  // namespace

TEST_CASE("fit: uneven routing of tokens raises the peak of the busiest rank") {
  const std::string question =
      "fit mixtral-8x7b --gpu h200 --gpus 64 --megatron "
      "tp=2,ep=8,etp=1,pp=4,sequence-parallel,distributed-optimizer --accumulation 8";
  const Document even = test::json_of(question + " --routing-imbalance 0");
  const Document usual = test::json_of(question);
  CHECK(usual.number("routing/imbalance") == doctest::Approx(0.33));
  CHECK(*usual.at("routing/assumed").as_bool());
  CHECK(usual.integer("peak/reserved_bytes") > even.integer("peak/reserved_bytes"));
  CHECK(usual.number("time/step_seconds") == even.number("time/step_seconds"));
  CHECK(usual.number("plan/megatron/expert_load") == 1);
  const Document uneven = test::json_of(question + " --routing-imbalance 0.5");
  CHECK(uneven.integer("routing/balanced_reserved_bytes") == even.integer("peak/reserved_bytes"));
  CHECK(uneven.integer("routing/expected_reserved_bytes") >
        uneven.integer("routing/balanced_reserved_bytes"));
  CHECK(uneven.integer("peak/reserved_bytes") > uneven.integer("routing/expected_reserved_bytes"));
  CHECK(uneven.integer("routing/p95_reserved_bytes") == uneven.integer("peak/reserved_bytes"));
  CHECK(even.number("routing/p95_load") == 1);
  CHECK(even.integer("routing/balanced_reserved_bytes") == even.integer("peak/reserved_bytes"));
}

TEST_CASE("fit: remedies have the step times that they have when they are typed") {
  const std::string question =
      "fit qwen3-30b-a3b --gpu h200 --gpus 16 --megatron tp=1,ep=8,distributed-optimizer "
      "--seq 4096 ";
  const Document found = test::json_of(question + "--micro-batch 4 --accumulation 4");
  REQUIRE(found.text("remedies/0/options") == "--micro-batch 2 --accumulation 8");
  const Document typed = test::json_of(question + found.text("remedies/0/options"));
  CHECK(found.number("remedies/0/time_ratio") ==
        doctest::Approx(typed.number("time/step_seconds") / found.number("time/step_seconds")));
}

TEST_CASE("fit: the routing that needs the most memory is a line, with its witness in JSON") {
  const std::string megatron =
      "fit mixtral-8x7b --gpu h200 --gpus 64 --accumulation 8 --megatron "
      "tp=2,pp=4,sequence-parallel,distributed-optimizer";
  const std::string question = megatron + ",ep=8,etp=1";
  CHECK(test::headroom(question).says("worst routing, 4.00 x"));
  CHECK(test::headroom(question).says("all tokens to one rank: "));
  const Document worst = test::json_of(question);
  // One expert on each of eight ranks, two experts for each token: 8 x 1/2.
  CHECK(worst.number("worst_routing/load") == 4);
  CHECK(worst.integer("worst_routing/bound_allocated_bytes") ==
        worst.integer("worst_routing/peak_allocated_bytes"));
  CHECK(worst.integer("worst_routing/peak_allocated_bytes") >
        worst.integer("peak/allocated_bytes"));
  const Document typed = test::json_of(question + ",expert-load=4");
  CHECK(typed.integer("peak/allocated_bytes") ==
        worst.integer("worst_routing/peak_allocated_bytes"));
  const Document padded = test::json_of(question + ",capacity-factor=1.5");
  CHECK(padded.number("worst_routing/bound_load") == 1);
  CHECK(padded.integer("worst_routing/bound_allocated_bytes") ==
        padded.integer("peak/allocated_bytes"));
  CHECK(test::headroom(question + ",capacity-factor=1.5").says("no routing changes the peak"));
  CHECK(test::json_of("fit mixtral-8x7b --gpu h200").at("worst_routing").is_null());
}

TEST_CASE("fit: an imbalance of routing without experts on several ranks is refused") {
  const Answer answer = test::headroom("fit mixtral-8x7b --gpu h200 --routing-imbalance 0.5");
  CHECK(answer.code == ExitCode::kUsage);
  CHECK(answer.err.find("--routing-imbalance") != std::string::npos);
}

}  // namespace headroom::cli
