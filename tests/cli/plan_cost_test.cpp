#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/cli.h"
#include "tests/support/random.h"
#include "tests/support/schema.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;

/// A question whose plans are searched in milliseconds.
const std::string kSmall =
    "plan llama-3.2-1b --seq 1024 --runtime megatron --tp 1 --micro-batch 2 --recompute none ";

/// A small model with eight experts, of which each token goes to two.
std::string small_mixture(const test::TemporaryFolder& folder) {
  return folder.write("experts/config.json", R"({"hidden_size": 512, "intermediate_size": 1024,
      "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8,
      "vocab_size": 32000, "max_position_embeddings": 4096, "num_local_experts": 8,
      "num_experts_per_tok": 2, "model_type": "mixtral"})");
}

}  // namespace

TEST_CASE("plan: GPU types and numbers of GPUs are one question, with a table of the best") {
  const std::string line = kSmall +
                           "--gpu a100,h100,h200 --gpus 1-2 --tokens 100B --objective cost "
                           "--price a100-80gb=1.8,h100=2.5";
  const Answer text = test::headroom(line);
  REQUIRE(text.code == ExitCode::kYes);
  CHECK(text.says("the best plan on each number of GPUs, for 100B tokens"));
  CHECK(text.says("  GPU        GPUs      step tok/s/GPU     MFU      days   dollars       MWh\n"));
  CHECK(text.says("--price has no number for h200, which cannot be the cheapest\n"));
  CHECK(text.says("MWh: GPUs at the power of their datasheets, which is the most that they draw"));
  CHECK(text.says("MWh at most"));
  CHECK(text.says("MFU "));

  const Document document(test::headroom(line + " --json").out);
  const ir::JsonValue schema = test::read_schema("plan_answer.schema.json");
  for (const std::string& fault : test::SchemaCheck::faults(schema, document.at(""))) {
    FAIL_CHECK(fault);
  }
  const auto& choices = document.array("choices");
  REQUIRE(choices.size() == 6);
  double cheapest = 1e30;
  std::string name;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    CAPTURE(i);
    const Document row(choices[i]);
    const double step = row.number("step_seconds");
    const double gpus = static_cast<double>(row.integer("gpus"));
    // 16 sequences of 1,024 tokens in a step.
    const double rate = 16 * 1024 / step;
    CHECK(row.number("tokens_per_second_per_gpu") == doctest::Approx(rate / gpus));
    CHECK(row.number("days") == doctest::Approx(100e9 / rate / 86400));
    const bool priced = row.text("gpu") != "h200";
    CHECK(row.at("dollars").as_number().has_value() == priced);
    const double watts = row.text("gpu") == "a100-80gb" ? 400 : 700;
    CHECK(row.number("megawatt_hours") == doctest::Approx(100e9 / rate * gpus * watts / 3.6e9));
    if (priced) {
      const double price = row.text("gpu") == "a100-80gb" ? 1.8 : 2.5;
      CHECK(row.number("dollars") == doctest::Approx(100e9 / rate / 3600 * gpus * price));
      if (row.number("dollars") < cheapest) {
        cheapest = row.number("dollars");
        name = row.text("gpu");
      }
    }
  }
  CHECK(document.text("gpu") == name);
  CHECK(document.number("estimate/dollars") == doctest::Approx(cheapest));
}

TEST_CASE("plan: the types are compared by the objective") {
  const std::string line = kSmall + "--gpu a100,h100 --gpus 1-2 --json ";
  CHECK(Document(test::headroom(line).out).text("gpu") == "h100-80gb");
  const Document fewest(test::headroom(line + "--objective gpus").out);
  CHECK(fewest.text("gpu") == "h100-80gb");
  CHECK(fewest.integer("plan/gpus") == 1);
  // At these prices, two hours of an A100 cost less than one of an H100.
  const Document cheap(
      test::headroom(line + "--objective cost --price a100-80gb=0.1,h100-80gb=10").out);
  CHECK(cheap.text("gpu") == "a100-80gb");
}

TEST_CASE("plan: --within rules out plans that take longer, and says what the fastest takes") {
  const std::string line = kSmall + "--gpu h100 --gpus 1-4 --tokens 100B --objective gpus --json ";
  const Document free(test::headroom(line).out);
  CHECK(free.integer("plan/gpus") == 1);
  const double days = free.number("estimate/days");
  const Document in_time(test::headroom(line + "--within " + std::to_string(0.8 * days) + "d").out);
  CHECK(in_time.integer("plan/gpus") == 2);
  CHECK(in_time.number("estimate/days") < 0.8 * days);
  const auto& rows = in_time.array("choices");
  REQUIRE(rows.size() >= 3);
  CHECK_FALSE(*Document(rows.front()).at("in_time").as_bool());
  CHECK(*Document(rows.back()).at("in_time").as_bool());

  const Answer answer = test::headroom(line + "--within 1h");
  CHECK(answer.code == ExitCode::kNo);
  const Document late(answer.out);
  CHECK(late.text("status") == "infeasible");
  CHECK(*late.at("late").as_bool());
  CHECK(late.integer("fastest/gpus") == 4);
  CHECK(late.array("would_fit").empty());
  const ir::JsonValue schema = test::read_schema("plan_answer.schema.json");
  for (const std::string& fault : test::SchemaCheck::faults(schema, late.at(""))) {
    FAIL_CHECK(fault);
  }
  const Answer text = test::headroom(kSmall + "--gpu h100 --tokens 100B --within 1h");
  CHECK(text.says("no plan trains 100B tokens within 1h; the fastest takes "));
  CHECK(text.says(" are enough\n"));
}

TEST_CASE("plan: what is wrong with prices, ranges and deadlines is said in one error") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--gpu h100 --gpus 512-8", "write 8-512"},
      {"--gpu a100,h100 --price 1.8", "NAME=NUMBER for each GPU type"},
      {"--gpu a100,h100 --price xyz=1.8", "a GPU of --gpu: a100-80gb, h100-80gb"},
      {"--gpu a100,h100 --price v100=1.8", "add it to --gpu, or leave it out here"},
      {"--gpu a100,h100 --price =1.8", "the name of a GPU before ="},
      {"--gpu a100,h100 --price h100=", "a number after the name"},
      {"--gpu a100,h100 --price h100=-1", "a number from"},
      {"--gpu a100,h100 --price h100=1,h100-80gb=2", "one number for h100-80gb"},
      {"--gpu a100,h100 --objective cost", "--price beside it"},
      {"--gpu h100 --within 30d", "--tokens beside it"},
      {"--gpu h100 --tokens 1T --within 30", "a time with its unit"},
      {"--gpu h100 --tokens 1T --within 0d", "a time with its unit"},
      {"--gpu h100 --tokens many", "--tokens"},
      {"--gpu a100,h100 --front", "one GPU type"},
      {"--gpu a100,h100 --node dgx-h100", "one GPU type"},
      {"--gpu a100,nope", "a GPU of the catalogue"}};
  for (const auto& [options, words] : cases) {
    CAPTURE(options);
    const Answer answer = test::headroom(kSmall + options);
    CHECK(answer.code == ExitCode::kUsage);
    CHECK(answer.out.empty());
    CHECK(answer.complains(words));
    CHECK(answer.err.find("error: ") == answer.err.rfind("error: "));
  }
  CHECK(test::headroom("explain gpt2 --gpu a100,h100").complains("one GPU type for explain"));
}

TEST_CASE("plan: times on GPUs that nobody measured are marked as estimates") {
  const Answer answer = test::headroom(kSmall + "--gpu mi300x,gaudi-3,h100 --gpus 1");
  CHECK(answer.says("mi300x: times are estimates from its datasheet"));
  CHECK(answer.says("gaudi-3: times are estimates from its datasheet"));
  CHECK_FALSE(answer.says("h100-80gb: times are estimates"));
  const Answer one = test::headroom(kSmall + "--gpu mi300x");
  CHECK(one.says("(full replay, rates estimated from the datasheet)"));
  CHECK(one.complains("times on mi300x are estimates from its datasheet"));
  CHECK(test::headroom("fit gpt2 --gpu mi300x").says(" (estimated from the datasheet)\n"));
}

TEST_CASE("plan: the chance of a winner is what was asked for, and what fit says of it") {
  test::Random random = test::seeded_random(2610);
  CAPTURE(random.seed());
  const test::TemporaryFolder folder;
  const std::string experts = small_mixture(folder);
  constexpr int kQuestions = test::kSanitized ? 3 : 8;
  int found = 0;
  for (int i = 0; i < kQuestions; ++i) {
    const bool routed = random.chance(1, 2);
    const std::int64_t percent = random.pick<std::int64_t>({0, 50, 80, 90, 95, 99});
    const std::string line =
        "plan " + (routed ? experts : std::string("gpt2")) + " --gpu " +
        random.pick<std::string>({"a100-80gb", "h100-80gb", "rtx-4090"}) +
        " --gpus 4 --micro-batch 1,2,4 --confidence " + std::to_string(percent) + " --budget " +
        std::to_string(random.between(4, 8)) + "GiB --json --runtime " +
        (routed ? std::string("megatron --ep 2,4")
                : random.pick<std::string>({"megatron", "fsdp", "transformers"}));
    CAPTURE(line);
    const Answer answer = test::headroom(line);
    if (answer.code != ExitCode::kYes) {
      continue;
    }
    const Document document(answer.out);
    ++found;
    const double chance = document.number("estimate/fits_probability");
    CHECK(chance >= static_cast<double>(percent) / 100);
    for (const ir::JsonValue& row : document.array("frameworks")) {
      const Document framework(row);
      CHECK(framework.at("fits_probability").as_number().value_or(1) >=
            static_cast<double>(percent) / 100);
    }
    const std::string command = document.text("commands/fit");
    REQUIRE(command.starts_with("headroom fit "));
    const Answer fit = test::headroom(command.substr(std::string("headroom ").size()) + " --json");
    const Document checked(fit.out);
    CHECK(checked.number("confidence/fits_probability") == doctest::Approx(chance));
    CHECK(checked.integer("peak/reserved_bytes") ==
          document.integer("estimate/peak_reserved_bytes"));
    CHECK(checked.number("time/step_seconds") ==
          doctest::Approx(document.number("estimate/replayed_step_seconds")));
    if (routed) {
      CHECK(document.number("expert_load") > 1);
      CHECK(checked.number("routing/p95_load") == doctest::Approx(document.number("expert_load")));
    }
  }
  CHECK(found > kQuestions / 3);
}

TEST_CASE("plan: an imbalance of routing is a constraint, and belongs to models with experts") {
  const test::TemporaryFolder folder;
  const std::string line = "plan " + small_mixture(folder) +
                           " --gpu h200 --gpus 8 --runtime megatron --tp 1 --ep 8 --pp 1 "
                           "--micro-batch 4 --recompute none --json";
  const Document usual(test::headroom(line).out);
  CHECK(usual.number("routing_imbalance") == doctest::Approx(0.33));
  CHECK(usual.number("expert_load") > 1.2);
  const Document even(test::headroom(line + " --routing-imbalance 0").out);
  CHECK(even.number("expert_load") == 1);
  CHECK(even.integer("estimate/peak_allocated_bytes") <
        usual.integer("estimate/peak_allocated_bytes"));
  CHECK(test::headroom("plan gpt2 --gpu h100 --routing-imbalance 0.5")
            .complains("needs a model with experts"));
  CHECK(test::headroom("plan mixtral-8x7b --gpu h100 --routing-imbalance 9")
            .complains("where one expert takes every token"));
}

TEST_CASE("plan: reasons that several frameworks share are said of all of them") {
  const Answer answer = test::headroom("plan gpt2 --gpu h100 --tp 1 --micro-batch 4");
  CHECK(answer.says("left out: torchtune, litgpt: they keep no fp32 master weights"));
  CHECK(answer.says("name them, or use"));
}

TEST_CASE("plan: a stopped search of one GPU type leaves a gap in the table of several") {
  const auto asked = [](const std::string& more) {
    return test::headroom("plan llama-3.2-1b --seq 1024 --runtime megatron --gpus 4 " + more);
  };
  const auto number = [](const Answer& answer, const char* key) {
    return ir::parse_json(answer.out, "answer").value().find(key)->as_number().value();
  };
  const std::string cost = "--objective cost --work-limit 1 --json ";
  const Answer h100 = asked(cost + "--gpu h100-80gb");
  const Answer a100 = asked(cost + "--gpu a100-80gb");
  REQUIRE(h100.code == ExitCode::kYes);
  REQUIRE(a100.code == ExitCode::kYes);
  REQUIRE(number(h100, "gap") > number(a100, "gap"));
  // At this price of the H100, the A100 has the cheapest plan, but the H100 may have a cheaper one
  // than what is still open on the A100.
  const auto found = [&](const Answer& answer) {
    return number(answer, "bound") / (1 - number(answer, "gap"));
  };
  const double price =
      std::sqrt(found(a100) / found(h100) * number(a100, "bound") / number(h100, "bound"));
  const Answer both = asked(
      cost + "--gpu h100-80gb,a100-80gb --price a100-80gb=1,h100-80gb=" + std::to_string(price));
  REQUIRE(both.code == ExitCode::kYes);
  CHECK(Document(both.out).text("status") == "feasible");
  CHECK(Document(both.out).text("gpu") == "a100-80gb");
  CHECK(number(both, "bound") == doctest::Approx(price * number(h100, "bound")));
  CHECK(number(both, "gap") > number(a100, "gap"));
  // Nothing is listed in a microsecond, of neither type.
  const Answer none = asked("--gpu h100-80gb,a100-80gb --time-limit 0.000001s --json");
  CHECK(none.code == ExitCode::kNo);
  CHECK(Document(none.out).text("status") == "unknown");
}

}  // namespace headroom::cli
