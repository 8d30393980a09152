#include "gui/models/plan_choices.h"

#include <algorithm>
#include <optional>
#include <set>

#include <doctest/doctest.h>

#include "model_ir/plan/plan_words.h"
#include "runtimes/registry.h"
#include "tests/gui/fake_estimate.h"
#include "tests/support/toy_framework.h"

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
  check_distinct(precision_choices("transformers"));
  check_distinct(precision_choices("deepspeed"));
  check_distinct(optimizer_choices());
  check_distinct(attention_choices());
  check_distinct(checkpointing_choices());
  check_distinct(quantization_choices());
}

TEST_CASE("plan choices: every framework is offered, with controls of its own") {
  CHECK(runtime_choices().size() == ir::runtimes().size());
  std::set<std::string_view> labels;
  for (const ir::PlanControl& control : all_controls()) {
    CAPTURE(control.label);
    CHECK(labels.insert(control.label).second);
    if (!control.choices.empty()) {
      check_distinct(control_choices(control));
    }
  }
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    ir::ParallelPlan plan;
    plan.runtime = runtime->name();
    for (const ir::PlanControl& control : runtime->controls()) {
      CHECK(labels.contains(control.label));
      CHECK(control_of(plan, control.label).has_value());
    }
  }
  CHECK_FALSE(control_of(ir::ParallelPlan{}, ir::kTensorParallelLabel));
}

TEST_CASE("plan choices: a framework that is added is offered with its own controls") {
  const headroom::test::ToyFramework toy;
  const ir::RegisteredRuntime registered(toy);
  const auto choices = runtime_choices();
  CHECK(std::ranges::any_of(choices, [](const auto& one) { return one.value == "toy"; }));
  CHECK(std::ranges::any_of(
      all_controls(), [](const ir::PlanControl& control) { return control.label == "Wheels"; }));
  ir::ParallelPlan plan;
  plan.runtime = "toy";
  toy.settle(plan);
  const std::optional<ir::PlanControl> wheels = control_of(plan, "Wheels");
  REQUIRE(wheels);
  wheels->set(plan, 4);
  CHECK(headroom::test::toy_of(plan).wheels == 4);
  CHECK_FALSE(control_of(ir::ParallelPlan{}, "Wheels"));
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
