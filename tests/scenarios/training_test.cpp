// Activations and what-ifs of a whole run: scenarios S7, S11 and S12.
#include <doctest/doctest.h>

#include "tests/scenarios/phases.h"
#include "tests/support/cli.h"
#include "tests/support/temporary_folder.h"

namespace headroom {

using test::Document;
using test::greatest;
using test::json_of;

TEST_CASE("S7: checkpointing every layer keeps layer inputs and costs one more forward") {
  const std::string run = "fit llama-2-7b --gpu h200 --seq 2048 ";
  const Document plain = json_of(run);
  const Document full = json_of(run + "--checkpointing full-reentrant");
  // 33 inputs of [1, 2048, 4096] in bf16 (32 layers and the final norm), and little else.
  constexpr std::int64_t kInput = std::int64_t{2} * 2'048 * 4'096;
  const std::int64_t kept = greatest(full, "activations", "forward");
  CHECK(kept >= 32 * kInput);
  CHECK(kept < 40 * kInput);
  CHECK(kept < greatest(plain, "activations", "forward") / 20);
  const double forward = test::last_work(plain, "forward", "gemm_flops");
  const double extra = test::last_work(full, "backward", "gemm_flops") -
                       test::last_work(plain, "backward", "gemm_flops");
  // The head, 2 % of the forward, is in no layer and is not computed again.
  CHECK(extra / forward == doctest::Approx(1).epsilon(0.03));
  CHECK(extra / (3 * forward) == doctest::Approx(0.33).epsilon(0.04));
}

TEST_CASE("S7: the non-reentrant form stops at the last tensor that backward wants") {
  const std::string run = "fit llama-2-7b --gpu h200 --seq 2048 --checkpointing ";
  CHECK(test::last_work(json_of(run + "full"), "backward", "gemm_flops") <
        test::last_work(json_of(run + "full-reentrant"), "backward", "gemm_flops"));
}

TEST_CASE("S11: what-ifs on a 4.15B decoder: each saves, together they save less than their sum") {
  const test::TemporaryFolder folder;
  const std::string config = folder.write("config.json", R"({
    "model_type": "llama", "hidden_size": 3072, "intermediate_size": 8192,
    "num_hidden_layers": 32, "num_attention_heads": 24, "num_key_value_heads": 24,
    "vocab_size": 86016, "max_position_embeddings": 8192})");
  const auto fit = [&](const std::string& options) {
    return json_of("fit " + config + " --gpu a100-80gb --gpus 8 --micro-batch 2 --seq 2048 " +
                   options);
  };
  const auto peak = [](const Document& answer) { return answer.integer("peak/allocated_bytes"); };
  const Document baseline = fit("--precision fp32 --attention eager");
  CHECK(baseline.integer("model/parameters") == 4'152'560'640);
  CHECK(baseline.text("verdict") == "does not fit");
  CHECK(static_cast<double>(peak(baseline)) == doctest::Approx(136e9).epsilon(0.1));
  std::int64_t sum = 0;
  for (const char* change :
       {"--precision fp32 --attention eager --checkpointing full", "--precision fp32",
        "--precision bf16 --attention eager", "--zero 2 --attention eager"}) {
    CAPTURE(change);
    const std::int64_t saved = peak(baseline) - peak(fit(change));
    CHECK(saved > 0);
    sum += saved;
  }
  const Document together = fit("--zero 2 --checkpointing full");
  CHECK(together.text("verdict") == "fits");
  CHECK(peak(baseline) - peak(together) < sum);
  CHECK(peak(together) < 66'000'000'000);
}

TEST_CASE("S12: 20 to 40 GB of activations for 7B at 2048 tokens hold in fp32, not in bf16") {
  const auto activations = [](const std::string& options) {
    return static_cast<double>(greatest(json_of("fit llama-2-7b --gpu h200 --seq 2048 " + options),
                                        "activations", "forward")) /
           1e9;
  };
  for (const char* attention : {"eager", "sdpa"}) {
    CAPTURE(attention);
    const std::string run = "--precision fp32 --attention " + std::string(attention);
    CHECK(activations(run) > 20);
    CHECK(activations(run) < 40);
    CHECK(activations(run + " --micro-batch 8") > 160);
    CHECK(activations(run + " --micro-batch 8") < 320);
  }
  CHECK(activations("--precision bf16") < 20);
  CHECK(activations("--precision bf16 --micro-batch 8") < 160);
}

}  // namespace headroom
