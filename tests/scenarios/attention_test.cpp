// What attention keeps: scenarios S8 and S9.
#include <cmath>

#include <doctest/doctest.h>

#include "tests/scenarios/phases.h"
#include "tests/support/cli.h"
#include "tests/support/temporary_folder.h"

namespace headroom {
namespace {

/// One layer with 16 heads of 64.
constexpr const char* kSixteenHeads = R"({
  "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 1,
  "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 1000,
  "max_position_embeddings": 65536})";

test::Document fit(const std::string& config, const std::string& options) {
  return test::json_of("fit " + config + " --gpu h200 --optimizer sgd " + options);
}

bool has_block_of(const test::Document& answer, std::int64_t bytes) {
  for (const ir::JsonValue& group : answer.array("live_at_peak")) {
    if (group.find("each_bytes")->as_integer() == bytes) {
      return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("S8: scores at sequence 4096, batch 8 and 16 heads are 4.29 GB in fp16, 8.59 in fp32") {
  // 8 * 16 * 4096^2 = 2,147,483,648 elements; "2 GB" mistakes elements for bytes.
  constexpr std::int64_t kElements = std::int64_t{8} * 16 * 4'096 * 4'096;
  const test::TemporaryFolder folder;
  const std::string config = folder.write("config.json", kSixteenHeads);
  const std::string size = "--seq 4096 --micro-batch 8 --attention eager ";
  CHECK(has_block_of(fit(config, size + "--precision fp16"), 2 * kElements));
  CHECK(has_block_of(fit(config, size + "--precision fp32"), 4 * kElements));
  CHECK_FALSE(
      has_block_of(fit(config, "--seq 4096 --micro-batch 8 --precision fp16"), 2 * kElements));
}

TEST_CASE("S9: what attention keeps grows with the square of the sequence, flash with its length") {
  const test::TemporaryFolder folder;
  const std::string config = folder.write("config.json", kSixteenHeads);
  const auto kept = [&](const char* attention, int sequence) {
    return static_cast<double>(test::greatest(
        fit(config, "--attention " + std::string(attention) + " --seq " + std::to_string(sequence)),
        "activations", "forward"));
  };
  const auto slope = [](double small, double large) { return std::log2(large / small); };
  CHECK(slope(kept("flash", 8'192), kept("flash", 16'384)) == doctest::Approx(1).epsilon(0.01));
  // Scores alone: eager less what both keep.
  const double small = kept("eager", 8'192) - kept("flash", 8'192);
  const double large = kept("eager", 16'384) - kept("flash", 16'384);
  CHECK(slope(small, large) == doctest::Approx(2).epsilon(0.01));
  CHECK(kept("eager", 16'384) > 10 * kept("flash", 16'384));
}

}  // namespace headroom
