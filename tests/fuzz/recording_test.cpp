// Model recordings with damage: they are read or refused with a message, and what is read can be
// counted, and lowered or refused. A failure prints its seed.
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "model_ir/spec/param_count.h"
#include "model_ir/spec/recorded_family/family_expansion.h"
#include "model_ir/spec/recording/recorded_spec.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/registry.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/random.h"

namespace headroom::ir {
namespace {

void check_lowering(const ModelSpec& model, const ParallelPlan& plan) {
  const Result<RankProgram> program = lower(model, plan, Rank{0}, DeviceTraits{});
  CHECK((program ? !program->events.empty() : !to_text(program.error()).empty()));
}

void check_recording(const std::string& text) {
  const Result<JsonValue> document = parse_json(text, "r.json");
  const Result<ModelSpec> model =
      document ? read_recorded_model(*document, "r.json") : Result<ModelSpec>(document.error());
  if (!model) {
    CHECK_FALSE(to_text(model.error()).empty());
    return;
  }
  CHECK(count_parameters(*model).total() >= 0);
  ParallelPlan plan;
  plan.precision = Precision::kBf16;
  plan.recompute = Recompute::kFull;
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 64;
  plan.workload.steps = 1;
  check_lowering(*model, plan);
  plan.precision = Precision::kBf16Master;
  plan.runtime = "deepspeed";
  plan.world = 2;
  edit_zero(plan).stage = 3;
  check_lowering(*model, plan);
}

}  // namespace

TEST_CASE("broken input: model recordings") {
  const std::string example =
      read_file(HEADROOM_SOURCE_DIR "/tests/golden/recordings/llama.json").value();
  const std::uint64_t cases = test::kSanitized ? 8 : 60;
  for (std::uint64_t number = 0; number < cases; ++number) {
    test::Random random = test::seeded_random(number);
    CAPTURE(random.seed());
    check_recording(random.chance(1, 4) ? test::mutated_bytes(example, random)
                                        : test::mutated_json(example, random));
  }
}

TEST_CASE("broken input: recordings of families") {
  const std::string example =
      read_file(HEADROOM_SOURCE_DIR "/configs/families/smollm3.json").value();
  const JsonValue config = parse_json(R"({"model_type": "smollm3", "hidden_size": 256,
      "intermediate_size": 704, "num_hidden_layers": 5, "num_attention_heads": 8,
      "num_key_value_heads": 2, "vocab_size": 130000})",
                                      "config.json")
                               .value();
  const std::uint64_t cases = test::kSanitized ? 8 : 60;
  for (std::uint64_t number = 0; number < cases; ++number) {
    test::Random random = test::seeded_random(number);
    CAPTURE(random.seed());
    const std::string text = random.chance(1, 4) ? test::mutated_bytes(example, random)
                                                 : test::mutated_json(example, random);
    const Result<JsonValue> family = parse_json(text, "family.json");
    const Result<ExpandedFamily> made =
        family ? expand_family(*family, "family.json", config, "c.json")
               : Result<ExpandedFamily>(family.error());
    if (made) {
      check_recording(to_json(made->recording));
    } else {
      CHECK_FALSE(to_text(made.error()).empty());
    }
  }
}

}  // namespace headroom::ir
