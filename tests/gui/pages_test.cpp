// The pages of the window, through their widgets, on the program's own answer for a small model.
#include <QAbstractItemModelTester>
#include <QComboBox>
#include <QFile>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSignalSpy>
#include <QTabWidget>
#include <QTableView>
#include <QTemporaryDir>
#include <QTreeView>

#include <doctest/doctest.h>

#include "gui/charts/address_map.h"

#include <cmath>
#include "gui/charts/error_chart.h"
#include "gui/charts/layer_chart.h"
#include "gui/charts/roofline_chart.h"
#include "gui/charts/scatter_chart.h"
#include "gui/charts/timeline_chart.h"
#include "gui/pages/compare_page.h"
#include "gui/pages/evidence_page.h"
#include "gui/pages/layers_page.h"
#include "gui/pages/memory_page.h"
#include "gui/pages/page_book.h"
#include "gui/pages/search_page.h"
#include "gui/pages/time_page.h"
#include "gui/pages/timeline_page.h"
#include "gui/views/breakdown_view.h"
#include "gui/whatif/estimator.h"
#include "runtimes/megatron/plan.h"
#include "tests/gui/fake_estimate.h"
#include "tests/gui/real_answer.h"

namespace headroom::gui {
namespace {

using test::eventually;

/// A page that shows the small answer.
template <typename PageType>
struct PageScene {
  template <typename... Arguments>
  explicit PageScene(Arguments&&... arguments) : page(std::forward<Arguments>(arguments)...) {
    page.setPalette(palette_of(Look::kLight, {}));
    page.resize(1000, 700);
    page.show();
    page.setAnswer(test::small_answer());
    REQUIRE(eventually([&] { return !page.isBusy(); }));
  }
  template <typename T>
  [[nodiscard]] T* child() {
    T* const found = page.template findChild<T*>();
    REQUIRE(found != nullptr);
    return found;
  }
  [[nodiscard]] QPushButton* button(const char* text) {
    for (QPushButton* const button : page.template findChildren<QPushButton*>()) {
      if (button->text().remove(QLatin1Char('&')) == QLatin1String(text)) {
        return button;
      }
    }
    FAIL("no button is called " << text);
    return nullptr;
  }

  PageType page;
};

Answer no_answer() {
  Answer answer = test::small_answer();
  answer.estimate = nullptr;
  answer.fault = QStringLiteral("none");
  return answer;
}

/// A page that counts its answers.
class CountingPage : public Page {
 public:
  explicit CountingPage(const QString& name) : Page(name, name) {}
  void setAnswer(const Answer& answer) override { answers.push_back(answer.request); }
  std::vector<quint64> answers;
};

}  // namespace

TEST_CASE("PageBook: only the visible page is told, another one when it is opened") {
  PageBook book;
  auto* const first = new CountingPage(QStringLiteral("one"));
  auto* const second = new CountingPage(QStringLiteral("two"));
  book.addPage(first);
  book.addPage(second);
  Answer answer = test::small_answer();
  book.setAnswer(answer);
  answer.request = 2;
  book.setAnswer(answer);
  CHECK(first->answers == std::vector<quint64>{1, 2});
  CHECK(second->answers.empty());
  CHECK(book.openPage(QStringLiteral("two")));
  CHECK(second->answers == std::vector<quint64>{2});
  CHECK(book.openPage(QStringLiteral("one")));
  CHECK(first->answers == std::vector<quint64>{1, 2});  // It has the newest already.
  CHECK_FALSE(book.openPage(QStringLiteral("three")));
  CHECK(book.pageNames() == QStringList{QStringLiteral("one"), QStringLiteral("two")});
}

TEST_CASE("TimelinePage: the chosen moment's tensors are listed, grouped and searched") {
  PageScene<TimelinePage> scene;
  REQUIRE(scene.page.chart()->moment());
  CHECK(scene.page.tensors()->total() == test::small_answer().estimate->peak_allocated);
  auto* const tree = scene.child<QTreeView>();
  const int groups = tree->model()->rowCount();
  scene.child<QComboBox>()->setCurrentIndex(static_cast<int>(Grouping::kNone));
  CHECK(tree->model()->rowCount() == static_cast<int>(scene.page.tensors()->tensors().size()));
  CHECK(tree->model()->rowCount() > groups);
  scene.child<QLineEdit>()->setText(QStringLiteral("gradients"));
  for (int row = 0; row < tree->model()->rowCount(); ++row) {
    CHECK(tree->model()->index(row, TensorModel::kCategoryColumn).data().toString() ==
          QStringLiteral("gradients"));
  }
  scene.page.chart()->setMoment(0);
  CHECK(scene.page.tensors()->total() == test::small_timeline()->history.allocated(0));
}

TEST_CASE("TimelinePage: the segments hold what is reserved at the moment") {
  PageScene<TimelinePage> scene;
  auto* const views = scene.child<QTabWidget>();
  views->setCurrentIndex(2);
  REQUIRE(eventually([&] { return !scene.page.isBusy(); }));
  auto* const map = scene.child<AddressMap>();
  CHECK(test::has_colours(*map, 15));
  CHECK_FALSE(map->textAt(QPointF(map->width() / 2.0, map->height() / 2.0)).isEmpty());
  const auto data = address_map(test::small_timeline(), *scene.page.chart()->moment(), {});
  CHECK(data->reserved == test::small_timeline()->history.reserved(data->event));
  CHECK(data->live == test::small_timeline()->history.allocated(data->event));
  Bytes segments;
  for (const cost::SegmentView& segment : data->segments) {
    segments += Bytes{segment.size};
  }
  CHECK(segments == data->reserved);
}

TEST_CASE("TimelinePage: a measured report lies over the phases that it names") {
  PageScene<TimelinePage> scene;
  const QTemporaryDir folder;
  const QString path = folder.filePath(QStringLiteral("report.json"));
  const auto write = [&path](const char* text) {
    QFile file(path);
    REQUIRE(file.open(QIODevice::WriteOnly));
    file.write(text);
  };
  write(R"({"phases": [{"phase": "step2.backward",
                        "measured": {"peak_allocated_bytes": 700000000}},
                       {"phase": "step9.backward", "measured": {}}]})");
  const QImage before = scene.page.chart()->grab().toImage();
  CHECK(scene.page.openMeasured(path) == QString());
  CHECK(scene.page.chart()->grab().toImage() != before);
  write(R"({"processes": [{"phases": [{"name": "forward", "step": 2, "micro_batch": 0,
                                       "peak_allocated_bytes": 5, "peak_reserved_bytes": 7}]}]})");
  const auto peaks = read_measured_peaks(path.toStdString());
  REQUIRE(peaks);
  REQUIRE(peaks->size() == 1);
  CHECK(ir::to_text(peaks->front().phase) == "step2.forward");
  CHECK(peaks->front().reserved == Bytes{7});
  write(R"({"phases": []})");
  CHECK(scene.page.openMeasured(path).contains(QStringLiteral("no measured phases")));
}

TEST_CASE("TimelinePage: without an estimate it is empty") {
  PageScene<TimelinePage> scene;
  scene.page.setAnswer(no_answer());
  CHECK_FALSE(scene.page.chart()->moment());
  CHECK(scene.page.tensors()->tensors().empty());
}

TEST_CASE("TimePage: streams add up to the step, and the roofline has the products") {
  PageScene<TimePage> scene(test::catalogue());
  const auto& data = scene.page.streams()->data();
  REQUIRE(data != nullptr);
  REQUIRE_FALSE(data->rows.empty());
  double busy = 0;
  double last = 0;
  for (const GanttBar& bar : data->rows.front().bars) {
    CHECK(bar.begin >= last - 1e-9);
    last = bar.end;
    busy += bar.end - bar.begin;
  }
  // The compute stream works or waits all the time.
  CHECK(busy == doctest::Approx(data->length).epsilon(1e-3));
  CHECK(test::has_colours(*scene.page.streams(), 15));
  CHECK(test::has_colours(*scene.child<RooflineChart>(), 10));
  CHECK_FALSE(scene.page.stages()->isVisibleTo(&scene.page));  // One GPU has no pipeline.
  scene.page.streams()->choose({.row = 0, .bar = 1});
  CHECK_FALSE(scene.page.streams()->accessibleDescription().isEmpty());
  QTest::keyClick(scene.page.streams(), Qt::Key_Right);
  CHECK(scene.page.streams()->chosen() == GanttChart::Place{.row = 0, .bar = 2});
  scene.page.setAnswer(no_answer());
  CHECK(scene.page.streams()->data() == nullptr);
}

TEST_CASE("operator_times: add up to the items of the last step") {
  const auto data =
      time_data(test::catalogue(), test::small_scenario(), test::small_answer().estimate);
  REQUIRE(data);
  double sum = 0;
  for (const cost::OperatorTime& one : data->operators) {
    sum += one.time.value();
    CHECK(roof_share(one, data->roofs) <= 1.0 + 1e-9);
  }
  double items = 0;
  for (std::size_t i = data->time.last_step.first; i < data->time.last_step.last; ++i) {
    if (data->estimate->program.work.items[i].kind == ir::WorkItem::Kind::kRun) {
      items += (data->time.timeline.end[i] - data->time.timeline.begin[i]).value();
    }
  }
  CHECK(sum == doctest::Approx(items));
}

TEST_CASE("LayersPage: a click recomputes the layer, as far as the framework can") {
  PageScene<LayersPage> scene(test::catalogue());
  LayerChart* const chart = scene.page.chart();
  REQUIRE(chart->map().cells.size() == 12);
  CHECK(test::has_colours(*chart, 5));
  for (const LayerCell& cell : chart->map().cells) {
    CHECK(cell.treatment == LayerTreatment::kKeep);
    CHECK(cell.kept.has_value());
  }
  std::vector<Scenario> edits;
  QObject::connect(&scene.page, &Page::edited, &scene.page,
                   [&](const Scenario& after, const Edit&) { edits.push_back(after); });
  scene.page.setBrush(LayerTreatment::kFull);
  QTest::mouseClick(chart, Qt::LeftButton, {}, chart->cellArea(0).center().toPoint());
  REQUIRE(edits.size() == 1);
  CHECK(edits[0].plan.recompute == ir::Recompute::kFull);
  CHECK(edits[0].plan.recompute_first == 1);
  QTest::keyClick(chart, Qt::Key_End);
  QTest::keyClick(chart, Qt::Key_Return);
  REQUIRE(edits.size() == 2);  // Transformers can do this to the last layer with all others only.
  CHECK(ir::recomputes_layer(edits[1].plan, 11));
  scene.page.setBrush(LayerTreatment::kKeep);
  QTest::keyClick(chart, Qt::Key_Return);
  CHECK(edits.size() == 2);
}

TEST_CASE("LayersPage: a click offloads a layer where the framework has layers to offload") {
  const Answer answer = test::megatron_answer(1);
  LayersPage page(test::catalogue());
  page.resize(1000, 700);
  page.show();
  page.setAnswer(answer);
  REQUIRE(eventually([&] { return !page.isBusy(); }));
  std::vector<Scenario> edits;
  QObject::connect(&page, &Page::edited, &page,
                   [&](const Scenario& after, const Edit&) { edits.push_back(after); });
  page.setBrush(LayerTreatment::kOffload);
  LayerChart* const chart = page.chart();
  QTest::mouseClick(chart, Qt::LeftButton, {}, chart->cellArea(1).center().toPoint());
  REQUIRE(edits.size() == 1);
  CHECK(ir::megatron_of(edits[0].plan).offloaded_layers == 2);  // The first N layers.
  const auto grounds = answer.appraisal->grounds;
  const LayerMap map = layer_map(grounds->model, edits[0].plan);
  for (const LayerCell& cell : map.cells) {
    CHECK((cell.treatment == LayerTreatment::kOffload) == (cell.layer < 2));
  }
}

TEST_CASE("layer_map: selective recomputation without named modules is not keeping everything") {
  Scenario scenario = moved_to(test::small_scenario(), "megatron");
  ir::edit_megatron(scenario.plan).recompute = ir::MegatronRecompute::kSelective;
  const Answer answer = test::megatron_answer(1);
  for (const LayerCell& cell : layer_map(answer.appraisal->grounds->model, scenario.plan).cells) {
    CHECK(cell.treatment == LayerTreatment::kSelective);
  }
}

TEST_CASE("MemoryPage: the stages of a pipeline stand beside the phases") {
  const Answer answer = test::megatron_answer(4);
  MemoryPage page;
  page.resize(1000, 700);
  page.show();
  page.setAnswer(test::small_answer());
  CHECK_FALSE(page.isBusy());
  CHECK(page.stages().rowCount() == 0);
  page.setAnswer(answer);
  REQUIRE(eventually([&] { return !page.isBusy(); }));
  const BreakdownModel& stages = page.stages();
  REQUIRE(stages.rowCount() == 4);
  CHECK(stages.index(0, BreakdownModel::kPhaseColumn).data(Qt::DisplayRole).toString() ==
        QStringLiteral("stage 0, rank 0"));
  CHECK(stages.index(3, BreakdownModel::kPhaseColumn).data(Qt::DisplayRole).toString() ==
        QStringLiteral("stage 3, rank 3"));
  // The verdict is about the stage with the highest peak.
  REQUIRE(stages.peakRow());
  const auto reserved = stages.index(*stages.peakRow(), BreakdownModel::kReservedColumn)
                            .data(BreakdownModel::kBytesRole)
                            .toLongLong();
  CHECK(reserved == answer.estimate->peak_reserved.value());
  for (int row = 0; row < stages.rowCount(); ++row) {  // Each has the peak of `fit --rank`.
    Scenario one = answer.scenario;
    one.plan.rank = row;
    CHECK(stages.index(row, BreakdownModel::kReservedColumn)
              .data(BreakdownModel::kBytesRole)
              .toLongLong() ==
          make_estimator(test::catalogue())(one, {})->estimate.peak_reserved.value());
  }
  CHECK(page.findChildren<BreakdownView*>().size() == 2);
  for (BreakdownView* const bars : page.findChildren<BreakdownView*>()) {
    CHECK(bars->isVisible());
    CHECK(eventually([&] { return test::has_colours(*bars, 5); }));
  }
}

TEST_CASE("ComparePage: the pinned timeline lies over the present one") {
  Scenario scenario = test::small_scenario();
  scenario.plan.workload.sequence = 64;
  Answer now = test::small_answer();
  now.scenario = scenario;
  now.appraisal =
      std::make_shared<const Appraisal>(make_estimator(test::catalogue())(scenario, {}).value());
  now.estimate = {now.appraisal, &now.appraisal->estimate};
  ComparePage page;
  page.resize(1000, 700);
  page.show();
  page.setAnswer(now);
  CHECK(page.chart()->data() == nullptr);
  page.setPinned(Pinned{.scenario = test::small_answer().scenario,
                        .appraisal = test::small_answer().appraisal});
  REQUIRE(eventually([&] { return !page.isBusy(); }));
  REQUIRE(page.chart()->data() != nullptr);
  const QImage with = page.chart()->grab().toImage();
  // At the peak, the pinned run has more, because its sequence is longer.
  const std::size_t peak = page.chart()->data()->history.whole().peak;
  REQUIRE(page.chart()->pinnedAt(peak));
  CHECK(*page.chart()->pinnedAt(peak) > page.chart()->data()->history.allocated(peak));
  page.chart()->setPinned(nullptr);
  CHECK(page.chart()->grab().toImage() != with);
  CHECK_FALSE(page.chart()->pinnedAt(peak));
  page.setPinned(std::nullopt);
  CHECK(page.chart()->data() == nullptr);
}

TEST_CASE("LayersPage: the optimum within the memory keeps everything if everything fits") {
  PageScene<LayersPage> scene(test::catalogue());
  const QSignalSpy edited(&scene.page, &Page::edited);
  scene.button("Optimal within the memory")->click();
  REQUIRE(eventually([&] { return !scene.page.isBusy(); }));
  CHECK(edited.isEmpty());  // The plan recomputes nothing already.
}

TEST_CASE("SearchPage: finds plans, shows them twice, and loads the one that is activated") {
  PageScene<SearchPage> scene(test::catalogue());
  scene.button("Search")->click();
  CHECK(scene.page.isBusy());
  REQUIRE(eventually([&] { return !scene.page.isBusy(); }));
  REQUIRE(scene.page.plans().rowCount() > 0);
  CHECK(scene.page.plans().rows().front().best);
  CHECK(test::has_colours(*scene.child<ScatterChart>(), 5));
  std::vector<Scenario> edits;
  QObject::connect(&scene.page, &Page::edited, &scene.page,
                   [&](const Scenario& after, const Edit&) { edits.push_back(after); });
  scene.button("Load plan")->click();
  REQUIRE(edits.size() == 1);
  CHECK(edits[0].plan.world == 1);
  CHECK(edits[0].plan.workload.sequence == 128);
}

TEST_CASE("EvidencePage: shows the errors of the framework in use") {
  PageScene<EvidencePage> scene(std::string{});
  CHECK(scene.page.evidence().rowCount() == 0);  // Nothing is installed beside no catalogue.
  CHECK_FALSE(measured_folder({}).has_value());
  CHECK(measured_folder(test::catalogue()).has_value());
}

TEST_CASE("nearest_evidence: predicts the rows nearest to the scenario") {
  const auto rows = read_measured(HEADROOM_SOURCE_DIR "/tests/measured/device.jsonl.gz");
  REQUIRE(rows);
  const auto nearest = nearest_evidence(test::catalogue(), test::small_scenario(), *rows, 5, {});
  REQUIRE(nearest);
  REQUIRE_FALSE(nearest->empty());
  EvidenceModel model;
  const QAbstractItemModelTester tester(&model,
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  model.setRows(*nearest);
  double last = 0;
  for (const EvidenceRow& row : *nearest) {
    CHECK(row.distance >= last);
    last = row.distance;
    CHECK(std::abs(row.error()) < 0.05);
  }
  CHECK(model.rowCount() == static_cast<int>(nearest->size()));
}

TEST_CASE("OperatorModel and PlanTableModel: are sound models") {
  OperatorModel operators;
  const QAbstractItemModelTester first(&operators,
                                       QAbstractItemModelTester::FailureReportingMode::Fatal);
  auto data = time_data(test::catalogue(), test::small_scenario(), test::small_answer().estimate);
  REQUIRE(data);
  operators.setTimes(std::make_shared<const TimeData>(std::move(data).value()));
  CHECK(operators.rowCount() > 5);
  operators.setTimes(nullptr);
  CHECK(operators.rowCount() == 0);
  PlanTableModel plans;
  const QAbstractItemModelTester second(&plans,
                                        QAbstractItemModelTester::FailureReportingMode::Fatal);
  const auto finder =
      PlanFinder::make(test::catalogue(), test::small_scenario(), SearchedFrameworks::kOwn);
  REQUIRE(finder);
  plan::PlanResult result;
  plan::RatedPlan rated;
  rated.plan = test::small_scenario().plan;
  rated.time.forward_backward = Seconds{2};
  rated.peak = Bytes{kGiB};
  rated.capacity = Bytes{2 * kGiB};
  result.best = rated;
  rated.plan.workload.micro_batch = 2;
  result.front = {*result.best, rated};
  plans.setResult(*finder, result);
  REQUIRE(plans.rowCount() == 2);
  CHECK(plans.rows()[0].on_front);
  // One sequence of 128 tokens in 2 s.
  CHECK(plans.rows()[0].tokens_per_second == doctest::Approx(64));
  plans.clear();
  CHECK(plans.rowCount() == 0);
}

TEST_CASE("PlanFinder: with free axes, all others keep the values of the plan") {
  const auto finder =
      PlanFinder::make(test::catalogue(), test::small_scenario(), SearchedFrameworks::kOwn);
  REQUIRE(finder);
  const plan::Constraints before = (*finder)->question().space.constraints;
  (*finder)->holdAllBut({}, test::small_scenario().plan);
  plan::Constraints& held = (*finder)->question().space.constraints;
  CHECK(held.of(plan::Axis::kMicroBatch) == before.of(plan::Axis::kMicroBatch));
  (*finder)->holdAllBut({"micro-batch"}, test::small_scenario().plan);
  CHECK(held.of(plan::Axis::kMicroBatch) == before.of(plan::Axis::kMicroBatch));
  CHECK(held.of(plan::Axis::kSequence) == plan::AxisValues{128});
  CHECK(held.of(plan::Axis::kGpus) == plan::AxisValues{1});
}

}  // namespace headroom::gui
