#include "gui/models/plan_choices.h"

#include <doctest/doctest.h>

#include "model_ir/plan/plan_words.h"
#include "tests/gui/fake_estimate.h"

namespace headroom::gui {
namespace {

template <typename T>
void check_distinct(const std::vector<Choice<T>>& choices) {
  QStringList labels;
  for (const Choice<T>& choice : choices) {
    CAPTURE(choice.label);
    CHECK_FALSE(choice.detail.isEmpty());
    labels.append(choice.label);
  }
  CHECK(labels.size() >= 2);
  CHECK(labels.removeDuplicates() == 0);
}

}  // namespace

TEST_CASE("plan choices: every choice has a label of its own and a word on what it does") {
  check_distinct(runtime_choices());
  check_distinct(zero_stage_choices());
  check_distinct(precision_choices("transformers"));
  check_distinct(precision_choices("deepspeed"));
  check_distinct(optimizer_choices());
  check_distinct(attention_choices());
  check_distinct(checkpointing_choices());
  check_distinct(quantization_choices());
}

TEST_CASE("plan choices: what is read in the window can be typed at the command line") {
  for (const auto& choice : precision_choices("deepspeed")) {
    const auto parsed =
        ir::parse_word(ir::precision_words(), "precision", choice.label.toStdString());
    REQUIRE(parsed);
    CHECK(*parsed == choice.value);
  }
  for (const auto& choice : checkpointing_choices()) {
    const auto parsed = ir::parse_checkpointing("checkpointing", choice.label.toStdString());
    REQUIRE(parsed);
    CHECK(parsed->recompute == choice.value);
  }
  CHECK(optimizer_choices().size() == ir::optimizer_words().size());
}

}  // namespace headroom::gui
