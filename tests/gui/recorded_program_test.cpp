// The window with a program that `headroom dryrun --record` has kept.
#include <QApplication>
#include <QComboBox>
#include <QDropEvent>
#include <QLabel>
#include <QMimeData>
#include <QPlainTextEdit>
#include <QTableView>
#include <QUrl>

#include <doctest/doctest.h>

#include "gui/charts/timeline_chart.h"
#include "gui/launch.h"
#include "gui/pages/page_book.h"
#include "gui/pages/timeline_page.h"
#include "gui/views/option_section.h"
#include "gui/whatif/estimator.h"
#include "gui/whatif/open_file.h"
#include "gui/whatif/plan_document.h"
#include "tests/gui/fake_estimate.h"
#include "tests/gui/real_answer.h"
#include "tests/support/cli.h"
#include "tests/support/recorded_program.h"
#include "tests/support/temporary_folder.h"
#include "validators/dryrun/recorded_program.h"

namespace headroom::gui {
namespace {

using headroom::test::Document;
using headroom::test::kProgram;
using headroom::test::TemporaryFolder;
using test::eventually;

/// A text with one piece replaced.
std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string with(std::string_view from, std::string_view to) {
  return replaced(std::string(kProgram), from, to);
}

/// A block of 30 MiB is freed before one of 31 MiB is allocated, which needs a segment of its own.
std::string fragmenting() {
  std::string text = with(R"("kinds":"aalfea","bytes":[1048576,100,512])",
                          R"("kinds":"aalfaa","bytes":[31457280,100,32505856,512])");
  text = replaced(std::move(text), R"("stream":[0,0,0],"line":[0,1,1],"category":[0,3,4])",
                  R"("stream":[0,0,0,0],"line":[0,1,1,1],"category":[0,3,3,4])");
  return text;
}

/// The answer of the command that the window offers to copy.
Document answer_of_command(const Scenario& scenario) {
  std::vector<std::string> words = headroom::test::words(fit_command(scenario, {}).toStdString());
  words.erase(words.begin());  // The program's name.
  for (std::string& word : words) {
    word = word == "''" ? std::string() : word;
  }
  words.emplace_back("--json");
  const headroom::test::Answer answer = headroom::test::headroom_with(words);
  INFO(answer.err);
  REQUIRE_FALSE(answer.out.empty());
  return Document(answer.out);
}

void check_same_answer(const Scenario& scenario) {
  const Result<Appraisal> found = make_estimator(test::catalogue())(scenario, {});
  REQUIRE(found);
  const cost::StepEstimate& estimate = found->estimate;
  const Document answer = answer_of_command(scenario);
  CHECK(answer.text("verdict") == name_of(estimate.verdict));
  CHECK(Bytes{answer.integer("margin_bytes")} == estimate.margin);
  CHECK(Bytes{answer.integer("peak_reserved_bytes")} == estimate.peak_reserved);
}

}  // namespace

TEST_CASE("open_file: a recorded program brings its GPU, its memory and its settings") {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "train.program", with(R"("alloc_conf":"")", R"("alloc_conf":"expandable_segments:True")"));
  const Result<Opened> opened = open_file(test::catalogue(), path, default_scenario());
  REQUIRE(opened);
  CHECK(is_program(opened->scenario));
  CHECK(opened->scenario.model.text == path);
  CHECK(opened->scenario.gpu == "h100-80gb");
  CHECK(opened->scenario.plan.allocator.expandable_segments);
  CHECK(opened->scenario.budget == Bytes{0});  // The catalogue's H100 has the same memory.

  const std::string smaller = folder.write(
      "small.program", with(R"("total_bytes":85017493504)", R"("total_bytes":4000000000)"));
  CHECK(open_file(test::catalogue(), smaller, default_scenario())->scenario.budget ==
        Bytes{4'000'000'000});
}

TEST_CASE("open_file: a compressed program is the same program") {
  const TemporaryFolder folder;
  const std::string path = folder.path("train.program.gz");
  REQUIRE(
      check::write_recorded_program(path, check::parse_recorded_program(kProgram, "p").value()));
  const Result<Opened> opened = open_file(test::catalogue(), path, default_scenario());
  REQUIRE(opened);
  CHECK(opened->scenario.model == model_source(path));
  CHECK(is_program(opened->scenario));
}

TEST_CASE("open_file: a damaged program and one of an unknown GPU are refused by name") {
  const TemporaryFolder folder;
  const std::string damaged = folder.write("damaged.gz", "\x1f\x8bnothing");
  const Result<Opened> unread = open_file(test::catalogue(), damaged, default_scenario());
  REQUIRE_FALSE(unread);
  CHECK(to_text(unread.error()).find("damaged.gz") != std::string::npos);
  const std::string unknown = folder.write("unknown.program", with("h100-80gb", "h1000"));
  const Result<Opened> strange = open_file(test::catalogue(), unknown, default_scenario());
  REQUIRE_FALSE(strange);
  CHECK(strange.error().got == "h1000");
}

TEST_CASE("make_estimator: a recorded program has the answer of fit --program") {
  const TemporaryFolder folder;
  const std::string path = folder.write("train.program", kProgram);
  Scenario scenario = open_file(test::catalogue(), path, default_scenario())->scenario;
  check_same_answer(scenario);
  scenario.gpu = "a100-40gb";
  check_same_answer(scenario);
  scenario.budget = Bytes{512 * kMiB};  // A process takes about as much before its first tensor.
  check_same_answer(scenario);
  scenario.budget = Bytes{2 * kGiB};
  scenario.plan.allocator.expandable_segments = true;
  check_same_answer(scenario);
}

TEST_CASE("make_estimator: a recorded program is refused on a GPU that is not NVIDIA's") {
  const TemporaryFolder folder;
  Scenario scenario = default_scenario();
  scenario.model = model_source(folder.write("train.program", kProgram));
  scenario.gpu = "mi300x";
  const Result<Appraisal> found = make_estimator(test::catalogue())(scenario, {});
  REQUIRE_FALSE(found);
  CHECK(found.error().wanted.starts_with("a GPU of NVIDIA"));
}

TEST_CASE("make_engine: settings that reserve less are the remedies of a recorded program") {
  const TemporaryFolder folder;
  Scenario scenario = default_scenario();
  scenario.model = model_source(folder.write("train.program", fragmenting()));
  const Result<Appraisal> found = make_engine(test::catalogue()).remedies(scenario, {});
  REQUIRE(found);
  REQUIRE(found->remedies);
  REQUIRE_FALSE(found->remedies->cheapest.empty());
  const cost::Remedy& best = found->remedies->cheapest.front();
  CHECK(best.plan.allocator.expandable_segments);
  CHECK(best.saved > Bytes{0});
  Scenario changed = scenario;
  changed.plan = best.plan;
  CHECK(make_estimator(test::catalogue())(changed, {})->estimate.peak_reserved ==
        best.peak_reserved);
  const RemedyTexts texts = remedy_texts(*found->remedies, scenario,
                                         make_estimator(test::catalogue())(scenario, {})->estimate);
  CHECK(texts.remedies.front().title == QStringLiteral("Expandable segments: yes"));
}

TEST_CASE("MainWindow: a dropped program is judged, and its timeline opens") {
  const TemporaryFolder folder;
  const std::string path = folder.write("train.program", kProgram);
  LaunchOptions options;
  options.config_dir = test::catalogue();
  options.model = "gpt2";
  WindowSetup setup = window_setup(options).value();
  setup.remedies = {};
  setup.scenario.plan.workload.sequence = 128;
  MainWindow window(std::move(setup));
  std::vector<Answer> answers;
  QObject::connect(&window, &MainWindow::answered, &window,
                   [&answers](const Answer& answer) { answers.push_back(answer); });
  window.show();
  REQUIRE(eventually([&] { return !answers.empty(); }));
  const Scenario before = window.scenario();

  QMimeData data;
  data.setUrls({QUrl::fromLocalFile(QString::fromStdString(path))});
  QDragEnterEvent enter(QPoint(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(&window, &enter);
  CHECK(enter.isAccepted());
  QDropEvent drop(QPointF(10, 10), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QApplication::sendEvent(&window, &drop);
  REQUIRE(eventually([&] { return is_program(answers.back().scenario); }));
  REQUIRE(answers.back().estimate != nullptr);
  CHECK(window.findChild<QLabel*>(QStringLiteral("verdict"))->text() == QStringLiteral("Fits"));
  CHECK(window.findChild<QLabel*>(QStringLiteral("notes"))
            ->text()
            .startsWith(QStringLiteral("Recorded: python train.py")));
  const auto* const memory = window.findChild<QWidget*>(QStringLiteral("memory"));
  CHECK(memory->findChild<QTableView*>(QStringLiteral("phase table"))->model()->rowCount() ==
        2);  // Phases: load, forward.

  REQUIRE(window.pages()->openPage(QStringLiteral("timeline")));
  REQUIRE(eventually([&] { return !window.pages()->isBusy(); }));
  const TimelineChart* const chart =
      window.findChild<TimelinePage*>(QStringLiteral("timeline"))->chart();
  REQUIRE(chart->data() != nullptr);
  CHECK(chart->data()->history.size() == 6);
  CHECK(chart->data()->history.reserved(5) == answers.back().estimate->peak_reserved);

  // Only what counts can be changed: GPU, budget and the settings of the allocator.
  CHECK_FALSE(window.findChild<QComboBox*>(QStringLiteral("runtime"))->isVisible());
  for (const OptionSection* section : window.findChildren<OptionSection*>()) {
    CHECK(section->isVisible() == (section->group().id == "allocator"));
  }
  REQUIRE(window.pages()->openPage(QStringLiteral("emit")));
  QStringList texts;
  for (const QPlainTextEdit* text : window.findChildren<QPlainTextEdit*>()) {
    texts.append(text->toPlainText());
  }
  CHECK(texts.join(QLatin1Char('\n')).contains(QStringLiteral("headroom fit --program ")));
  for (const char* const page : {"layers", "time", "evidence", "compare", "search"}) {
    REQUIRE(window.pages()->openPage(QLatin1String(page)));
    CHECK(eventually([&] { return !window.pages()->isBusy(); }));
  }
  CHECK(window.savePlan(QString::fromStdString(folder.path("plan.json")))
            .contains(QStringLiteral("a recorded program")));

  window.whatIf().undoStack()->undo();
  CHECK(window.scenario() == before);
  REQUIRE(eventually([&] { return answers.back().scenario == before; }));
  CHECK(window.findChild<QComboBox*>(QStringLiteral("runtime"))->isVisible());
  CHECK(window.findChild<QLabel*>(QStringLiteral("notes"))->text().isEmpty());
}

}  // namespace headroom::gui
