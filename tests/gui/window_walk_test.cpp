// Random walks over every control of the window, in its real widgets.
#include "tests/support/window_walk.h"

#include <QApplication>
#include <QTemporaryDir>

#include <doctest/doctest.h>

#include "gui/main_window.h"
#include "gui/views/scenario_editor.h"
#include "gui/whatif/estimator.h"
#include "gui/whatif/plan_document.h"
#include "runtimes/registry.h"
#include "tests/gui/fake_estimate.h"
#include "tests/support/cli.h"

namespace headroom::gui {
namespace {

constexpr std::uint64_t kPlans = 7;  // One for each framework.
constexpr int kSteps = headroom::test::kSanitized ? 20 : 80;

/// A small model of the catalogue, so that a replay takes a moment.
Scenario small_scenario() {
  Scenario scenario = default_scenario();
  scenario.model.text = "smollm2-135m";
  scenario.plan.workload.sequence = 128;
  return scenario;
}

/// Walks as `turn` does, and ends with few ranks and short sequences, so that any plan is small.
void walk(MainWindow& window, headroom::test::Random& random, int steps) {
  auto* const editor = window.findChild<ScenarioEditor*>();
  for (int step = 0; step < steps; ++step) {
    const std::vector<QWidget*> controls = headroom::test::turnable_controls(*editor);
    REQUIRE_FALSE(controls.empty());
    headroom::test::turn(random.pick(controls), random);
    if (step % 16 == 0) {
      QApplication::processEvents();
    }
  }
}

}  // namespace

TEST_CASE("window walk: any order of changes can be undone to the beginning and redone") {
  headroom::test::Random random = headroom::test::seeded_random();
  CAPTURE(random.seed());
  MainWindow window(test::fake_setup());
  window.show();
  const Scenario first = window.scenario();
  walk(window, random, kSteps);
  const Scenario last = window.scenario();
  QUndoStack* const steps = window.whatIf().undoStack();
  CHECK(steps->count() > 5);
  while (steps->canUndo()) {
    steps->undo();
  }
  CHECK(window.scenario() == first);
  while (steps->canRedo()) {
    steps->redo();
  }
  CHECK(window.scenario() == last);
}

TEST_CASE("window walk: the verdict is that of headroom fit for the plan that the window saves") {
  const Estimator estimator = make_estimator(HEADROOM_SOURCE_DIR "/configs");
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("plan.json"));
  int answered = 0;
  int refused = 0;
  for (std::uint64_t number = 0; number < kPlans; ++number) {
    headroom::test::Random random = headroom::test::seeded_random(number);
    CAPTURE(random.seed());
    WindowSetup setup = test::fake_setup();
    setup.scenario = small_scenario();
    const auto runtimes = ir::runtimes();
    setup.scenario =
        moved_to(setup.scenario, std::string(runtimes[number % runtimes.size()]->name()));
    MainWindow window(std::move(setup));
    window.show();
    walk(window, random, 8);
    Scenario scenario = window.scenario();
    scenario.plan.workload.micro_batch =
        std::min<std::int64_t>(scenario.plan.workload.micro_batch, 4);
    scenario.plan.workload.sequence = std::min<std::int64_t>(scenario.plan.workload.sequence, 256);
    scenario.plan.workload.steps = 2;
    REQUIRE(write_plan_file(path, scenario));
    const headroom::test::Answer fit =
        headroom::test::headroom("fit --json --plan " + path.toStdString());
    const Result<Appraisal> appraisal = estimator(scenario, {});
    CAPTURE(fit.err);
    if (!appraisal) {
      CHECK(fit.err.find(appraisal.error().got) != std::string::npos);
      CHECK(fit.code != cli::ExitCode::kYes);
      ++refused;
      continue;
    }
    REQUIRE_FALSE(fit.out.empty());
    const headroom::test::Document document(fit.out);
    CHECK(name_of(appraisal->estimate.verdict) == document.text("verdict"));
    CHECK(appraisal->estimate.margin == Bytes{document.integer("margin_bytes")});
    REQUIRE(appraisal->estimate.time);
    CHECK(appraisal->estimate.time->total.value() == document.number("time/step_seconds"));
    ++answered;
  }
  CHECK(answered > 1);
  CHECK(answered + refused == static_cast<int>(kPlans));
}

TEST_CASE("window walk: the command that the window copies has the verdict of the window") {
  const Estimator estimator = make_estimator(HEADROOM_SOURCE_DIR "/configs");
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    CAPTURE(runtime->name());
    Scenario scenario = small_scenario();
    scenario.plan.world = 8;
    scenario.budget = Bytes{20 * kGiB};
    scenario = moved_to(scenario, std::string(runtime->name()));
    const Result<Appraisal> appraisal = estimator(scenario, {});
    if (!appraisal) {
      continue;  // GPT-2 is no model of this framework.
    }
    const QString command = fit_command(scenario, appraisal->grounds->model);
    CAPTURE(command);
    REQUIRE(command.startsWith(QStringLiteral("headroom fit smollm2-135m ")));
    const headroom::test::Document document(
        headroom::test::headroom(command.mid(9).toStdString() + " --json").out);
    CHECK(name_of(appraisal->estimate.verdict) == document.text("verdict"));
    CHECK(appraisal->estimate.margin == Bytes{document.integer("margin_bytes")});
  }
}

}  // namespace headroom::gui
