// What fit advises: the decision tree and the phases' own remedies.
#include <doctest/doctest.h>

#include "tests/scenarios/phases.h"
#include "tests/support/cli.h"

namespace headroom {

using test::Document;
using test::json_of;

TEST_CASE("rule: fit walks from mixed precision to the first branch that fits") {
  const Document answer = json_of("fit llama-2-7b --gpu a100-80gb --precision fp32 --seq 1024");
  const auto& tree = answer.array("decision_tree");
  REQUIRE(tree.size() > 1);
  CHECK(answer.text("decision_tree/0/changes/0/what") == "mixed precision");
  CHECK(answer.text("decision_tree/1/changes/1/what") == "recompute every layer in backward");
  for (std::size_t step = 0; step < tree.size(); ++step) {
    const std::string verdict = answer.text("decision_tree/" + std::to_string(step) + "/verdict");
    CHECK((verdict == "does not fit") == (step + 1 < tree.size()));
  }
}

TEST_CASE("rule: with several GPUs the tree goes over ZeRO") {
  const Document answer =
      json_of("fit llama-2-7b --gpu a100-40gb --gpus 8 --precision fp32 --seq 1024");
  bool shards = false;
  for (std::size_t step = 0; step < answer.array("decision_tree").size(); ++step) {
    const std::string options = answer.text("decision_tree/" + std::to_string(step) + "/options");
    shards = shards || options.find("--zero") != std::string::npos;
  }
  CHECK(shards);
}

TEST_CASE("rule: every change says what it costs, with a source") {
  const Document answer = json_of("fit llama-3.1-8b --gpu a100-40gb");
  REQUIRE_FALSE(answer.array("remedies").empty());
  for (std::size_t index = 0; index < answer.array("remedies").size(); ++index) {
    const std::string path = "remedies/" + std::to_string(index) + "/changes";
    for (std::size_t change = 0; change < answer.array(path).size(); ++change) {
      const std::string each = path + "/" + std::to_string(change) + "/";
      CHECK_FALSE(answer.text(each + "cost").empty());
      CHECK_FALSE(answer.text(each + "source").empty());
    }
  }
}

TEST_CASE("rule: out of memory names its phase: load, forward, backward or optimizer") {
  const auto phase = [](const std::string& run) {
    return json_of("fit " + run).text("out_of_memory/phase");
  };
  CHECK(phase("llama-3.1-70b --gpu a100-80gb") == "load");
  CHECK(phase("llama-3.1-8b --gpu a100-80gb --seq 65536") == "step1.forward");
  CHECK(phase("llama-3.1-8b --gpu a100-80gb --budget 77GiB") == "step1.optimizer");
  // Between what forward and backward reserve.
  const std::string run = "llama-3.2-1b --gpu h100 --seq 4096 --optimizer sgd";
  const Document whole = json_of("fit " + run);
  CHECK(whole.text("phases/1/name") == "step1.forward");
  CHECK(whole.text("phases/2/name") == "step1.backward");
  const std::int64_t budget =
      whole.integer("outside_bytes") + (whole.integer("phases/1/peak_reserved_bytes") +
                                        whole.integer("phases/2/peak_reserved_bytes")) /
                                           2;
  const std::string failed = phase(run + " --budget " + std::to_string(budget) + "B");
  CHECK(failed.substr(failed.find('.')) == ".backward");
}

TEST_CASE("rule: the fused optimizer gives back the temporaries of the step") {
  const Document foreach = json_of("fit llama-3.1-8b --gpu h200 --seq 128");
  const Document fused = json_of("fit llama-3.1-8b --gpu h200 --seq 128 --optimizer adamw-fused");
  const std::int64_t parameters = test::greatest(foreach, "parameters");
  CHECK(foreach.integer("peak/allocated_bytes") - fused.integer("peak/allocated_bytes") >=
        parameters - parameters / 100);
}

TEST_CASE("rule: fragmentation above a fifth is flagged, and growing segments lower it") {
  const std::string run = "fit llama-3.2-1b --gpu h100 --gpus 8 --zero 2 --seq 512";
  const Document plain = json_of(run);
  CHECK(plain.number("peak/fragmentation_ratio") > 0.2);
  CHECK(test::headroom(run).says("fragmentation is high"));
  const Document growing = json_of(run + " --alloc-conf expandable_segments:True");
  CHECK(growing.number("peak/fragmentation_ratio") < plain.number("peak/fragmentation_ratio"));
  CHECK(growing.integer("peak/reserved_bytes") < plain.integer("peak/reserved_bytes"));
}

TEST_CASE("rule: the production checklist fits 8B on eight 80 GB GPUs") {
  const Document answer = json_of(
      "fit llama-3.1-8b --gpu h100 --gpus 8 --zero 2 --checkpointing full --seq 8192 "
      "--optimizer adamw-fused");
  CHECK(answer.text("verdict") == "fits");
}

TEST_CASE("rule: a smaller micro-batch with accumulation keeps the batch and saves activations") {
  const Document large = json_of("fit llama-3.2-1b --gpu h200 --micro-batch 8 --seq 2048");
  const Document small =
      json_of("fit llama-3.2-1b --gpu h200 --micro-batch 2 --accumulation 4 --seq 2048");
  CHECK(test::greatest(small, "activations") * 3 < test::greatest(large, "activations"));
}

}  // namespace headroom
