#include "gui/models/plan_choices.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "runtimes/registry.h"
#include "tests/gui/fake_estimate.h"
#include "tests/support/toy_framework.h"

namespace headroom::gui {

TEST_CASE("plan choices: every framework is offered, with its title") {
  const auto choices = runtime_choices();
  CHECK(choices.size() == ir::runtimes().size());
  for (const Choice<std::string>& choice : choices) {
    CHECK_FALSE(choice.detail.isEmpty());
    CHECK(ir::find_runtime(choice.value) != nullptr);
  }
}

TEST_CASE("plan choices: a framework that is added is offered") {
  const headroom::test::ToyFramework toy;
  const ir::RegisteredRuntime registered(toy);
  const auto choices = runtime_choices();
  CHECK(std::ranges::any_of(choices, [](const auto& one) { return one.value == "toy"; }));
}

}  // namespace headroom::gui
