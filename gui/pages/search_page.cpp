#include "gui/pages/search_page.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <QComboBox>
#include <QHeaderView>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>

#include "gui/charts/scatter_chart.h"
#include "gui/models/verdict_text.h"
#include "gui/models/words.h"
#include "gui/pages/page_parts.h"
#include "planner/search/timely_search.h"
#include "planner/space/all_axes.h"

namespace headroom::gui {
namespace {

/// The sentence of an explanation about one axis on which a plan differs from the best one.
QString why_text(const plan::WhyNot& why, const AxisDifference& difference) {
  const QString axis =
      QStringLiteral("--%1 %2").arg(QString::fromStdString(std::string(why.axis->option)),
                                    QString::fromStdString(difference.other));
  switch (why.kind) {
    case plan::WhyNot::Kind::kChosen:
      return SearchPage::tr("%1: the best plan has it").arg(axis);
    case plan::WhyNot::Kind::kNotInSpace:
      return SearchPage::tr("%1: %2").arg(axis, QString::fromStdString(why.refusal));
    case plan::WhyNot::Kind::kTooLarge:
      return why.plan ? SearchPage::tr("%1: no plan with it fits; the smallest takes %2 of %3")
                            .arg(axis, bytes_text(why.plan->peak), bytes_text(why.plan->capacity))
                      : SearchPage::tr("%1: no plan with it fits").arg(axis);
    case plan::WhyNot::Kind::kSlower:
      return SearchPage::tr("%1: the best plan with it takes %2 longer")
          .arg(axis, time_text(Seconds{std::max(0.0, why.seconds_lost)}));
    case plan::WhyNot::Kind::kUnknown:
      return SearchPage::tr("%1: the search ended before it could tell").arg(axis);
  }
  return {};
}

/// Searches one after the other for each difference between the best plan and `plan`.
QString explained(PlanFinder& finder, const plan::PlanResult& result, const ir::ParallelPlan& plan,
                  const std::stop_token& stop) {
  constexpr std::size_t kMost = 4;  // Each of them is a search.
  QStringList lines;
  const std::vector<AxisDifference> all = differences(result.best->plan, plan);
  for (std::size_t i = 0; i < std::min(kMost, all.size()) && !stop.stop_requested(); ++i) {
    const std::int64_t value = plan::value_of(plan, all[i].axis);
    const Result<plan::WhyNot> why =
        plan::why_not(finder.question(), result, all[i].axis, value, finder.records());
    lines.append(why ? why_text(*why, all[i]) : problem_text(why.error()).what);
  }
  return lines.isEmpty() ? SearchPage::tr(
                               "The plan is slower than the best one, and differs from it "
                               "in no option that changes the memory.")
                         : lines.join(QLatin1Char('\n'));
}

}  // namespace

SearchPage::SearchPage(std::string config_dir, QWidget* parent)
    : Page(QStringLiteral("search"), tr("Search"), parent), config_dir_(std::move(config_dir)) {
  status_ = quiet_label();
  detail_ = quiet_label();
  bar_ = new QProgressBar;
  bar_->setAccessibleName(tr("Progress of the search"));
  bar_->setTextVisible(false);
  bar_->setMaximumHeight(fontMetrics().height() / 2);
  auto* const column = new QVBoxLayout(this);
  column->setContentsMargins(0, fontMetrics().height() / 2, 0, 0);
  column->addWidget(makeToolBar());
  column->addWidget(bar_);
  column->addWidget(status_);
  column->addWidget(makeResults(), 1);
  column->addWidget(detail_);
  setSearching(false);
  connect(&search_, &NewestJob::failed, this, &SearchPage::showProblem);
  connect(&explanation_, &NewestJob::failed, detail_, &QLabel::setText);
}

SearchPage::~SearchPage() {
  endSearch();
}

QWidget* SearchPage::makeToolBar() {
  frameworks_ = new QComboBox;
  frameworks_->addItems({tr("this framework"), tr("all frameworks")});
  frameworks_->setAccessibleName(tr("Frameworks to search"));
  objective_ = new QComboBox;
  objective_->setAccessibleName(tr("Objective of the search"));
  for (const ir::Word<plan::Objective>& word : plan::objective_words()) {
    objective_->addItem(QString::fromUtf8(word.text.data(), static_cast<int>(word.text.size())),
                        static_cast<int>(word.value));
  }
  start_ = new QPushButton(tr("&Search"));
  stop_ = new QPushButton(tr("S&top"));
  connect(start_, &QPushButton::clicked, this, &SearchPage::startSearch);
  connect(stop_, &QPushButton::clicked, this, &SearchPage::endSearch);
  auto* const frameworks_label = new QLabel(tr("&Frameworks"));
  frameworks_label->setBuddy(frameworks_);
  auto* const objective_label = new QLabel(tr("O&bjective"));
  objective_label->setBuddy(objective_);
  load_ = new QPushButton(tr("&Load plan"));
  load_->setToolTip(tr("Makes the chosen plan the scenario; it can be undone"));
  why_ = new QPushButton(tr("&Why not?"));
  why_->setToolTip(tr("Says why the chosen plan is not the best"));
  connect(load_, &QPushButton::clicked, this, [this] { load(chosenRow()); });
  connect(why_, &QPushButton::clicked, this, &SearchPage::explain);

  auto* const bar = new QWidget;
  auto* const row = new QHBoxLayout(bar);
  row->setContentsMargins(0, 0, 0, 0);
  for (QWidget* const part :
       {static_cast<QWidget*>(frameworks_label), static_cast<QWidget*>(frameworks_),
        static_cast<QWidget*>(objective_label), static_cast<QWidget*>(objective_),
        static_cast<QWidget*>(start_), static_cast<QWidget*>(stop_)}) {
    row->addWidget(part);
  }
  row->addStretch(1);
  row->addWidget(why_);
  row->addWidget(load_);
  return bar;
}

QWidget* SearchPage::makeResults() {
  rows_.setSourceModel(&plans_);
  rows_.setSortRole(PlanTableModel::kSortRole);
  table_ = new QTableView;
  table_->setModel(&rows_);
  dress(table_);
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setSortingEnabled(true);
  table_->sortByColumn(PlanTableModel::kStepColumn, Qt::AscendingOrder);
  table_->setAccessibleName(tr("Plans found"));
  scatter_ = new ScatterChart(&plans_);
  connect(table_->selectionModel(), &QItemSelectionModel::currentChanged, this,
          [this] { choose(chosenRow()); });
  connect(table_, &QTableView::activated, this, [this] { load(chosenRow()); });
  connect(scatter_, &ScatterChart::chosen, this,
          [this](int row) { table_->setCurrentIndex(rows_.mapFromSource(plans_.index(row, 0))); });
  connect(scatter_, &ScatterChart::loadRequested, this, &SearchPage::load);
  connect(scatter_, &ScatterChart::hovered, this, [this](int row) { choose(row); });
  auto* const parts = new QSplitter(Qt::Vertical);
  parts->setChildrenCollapsible(false);
  parts->addWidget(scatter_);
  parts->addWidget(table_);
  parts->setStretchFactor(0, 3);
  parts->setStretchFactor(1, 2);
  return parts;
}

void SearchPage::setAnswer(const Answer& answer) {
  const bool same_question =
      answer.scenario.model == answer_.scenario.model &&
      answer.scenario.gpu == answer_.scenario.gpu &&
      answer.scenario.budget == answer_.scenario.budget &&
      answer.scenario.plan.world == answer_.scenario.plan.world &&
      answer.scenario.plan.workload.sequence == answer_.scenario.plan.workload.sequence;
  answer_ = answer;
  if (!same_question && found_ != nullptr) {
    status_->setText(tr("The scenario has changed since this search."));
  }
  showPresent();
}

void SearchPage::showPresent() {
  if (answer_.estimate == nullptr || !answer_.estimate->time) {
    scatter_->setPresent(std::nullopt);
    return;
  }
  const cost::StepTime& time = *answer_.estimate->time;
  const double seconds = time.total.value();
  scatter_->setPresent(
      ScatterChart::Present{.peak = answer_.estimate->peak_allocated,
                            .tokens_per_second = seconds > 0 ? time.tokens / seconds : 0});
}

void SearchPage::setSearching(bool searching) {
  start_->setEnabled(!searching);
  stop_->setEnabled(searching);
  bar_->setRange(0, searching ? 0 : 1);
  bar_->setValue(0);
  bar_->setVisible(searching);
  const bool some = !searching && plans_.rowCount() > 0;
  load_->setEnabled(some);
  why_->setEnabled(some);
}

void SearchPage::startSearch() {
  endSearch();
  plans_.clear();
  found_ = nullptr;
  detail_->clear();
  setSearching(true);
  status_->setText(tr("Searching…"));
  ended_ = std::make_shared<std::atomic<bool>>(false);
  search_.run([this, config_dir = config_dir_, scenario = answer_.scenario,
               frameworks = static_cast<SearchedFrameworks>(frameworks_->currentIndex()),
               objective = static_cast<plan::Objective>(objective_->currentData().toInt()),
               free = free_axes_,
               ended = ended_](const std::stop_token& stop) -> NewestJob::Delivery {
    const std::stop_callback on_stop(stop, [&ended] { *ended = true; });
    Result<std::shared_ptr<PlanFinder>> finder = PlanFinder::make(config_dir, scenario, frameworks);
    if (!finder) {
      const QString reason = problem_text(finder.error()).what;
      return [this, reason] { showProblem(reason); };
    }
    auto found = std::make_shared<Found>();
    found->finder = *finder;
    found->finder->holdAllBut(free, scenario.plan);
    plan::SearchQuestion question = found->finder->question();
    question.objective = objective;
    question.stop.flag = ended.get();
    auto shown = std::chrono::steady_clock::time_point();
    question.progress = [this, &shown](const plan::SearchProgress& now) {
      constexpr std::chrono::milliseconds kPause{100};
      if (const auto time = std::chrono::steady_clock::now(); time - shown >= kPause) {
        shown = time;
        QMetaObject::invokeMethod(
            this, [this, now] { showProgress(now); }, Qt::QueuedConnection);
      }
    };
    Result<plan::PlanResult> result =
        plan::search_without_emptying(question, found->finder->records());
    if (!result) {
      const QString reason = problem_text(result.error()).what;
      return [this, reason] { showProblem(reason); };
    }
    found->result = std::move(result).value();
    return [this, found] { showFound(found); };
  });
}

void SearchPage::endSearch() {
  if (ended_ != nullptr) {
    *ended_ = true;
  }
}

void SearchPage::showProgress(const plan::SearchProgress& now) {
  if (!search_.isBusy()) {
    return;
  }
  if (now.listing) {
    bar_->setRange(0, 0);
    status_->setText(tr("Listing the groups of plans: %L1 so far").arg(now.cells));
    return;
  }
  bar_->setRange(0, static_cast<int>(std::min<std::uint64_t>(now.cells, 1'000'000)));
  bar_->setValue(static_cast<int>(std::min<std::uint64_t>(now.cells_done, 1'000'000)));
  status_->setText(
      tr("%L1 of %L2 groups of plans, %L3 plans evaluated, best step %4")
          .arg(now.cells_done)
          .arg(now.cells)
          .arg(now.evaluated)
          .arg(now.best_seconds > 0 ? time_text(Seconds{now.best_seconds}) : tr("none yet")));
}

QString SearchPage::resultText(const plan::PlanResult& result) const {
  const QString counts = tr("%L1 of %L2 plans evaluated").arg(result.evaluated).arg(result.space);
  switch (result.status) {
    case plan::PlanStatus::kOptimal:
      return tr("The best plan of the space, proven: %1.").arg(counts);
    case plan::PlanStatus::kFeasible:
      if (result.cut) {
        return tr("The best plan so far; how far it is from the optimum is not known: %1.")
            .arg(counts);
      }
      return tr("The best plan so far, at most %1 % from the optimum: %2.")
          .arg(QLocale().toString(100 * result.gap, 'f', 1), counts);
    case plan::PlanStatus::kInfeasible:
      return result.leanest ? tr("No plan of the space fits: the smallest takes %1 of %2. %3.")
                                  .arg(bytes_text(result.leanest->peak),
                                       bytes_text(result.leanest->capacity), counts)
                            : tr("No plan of the space fits. %1.").arg(counts);
    case plan::PlanStatus::kUnknown:
      return tr("The search ended before it found a plan. %1.").arg(counts);
  }
  return {};
}

void SearchPage::showFound(std::shared_ptr<Found> found) {
  found_ = std::move(found);
  plans_.setResult(found_->finder, found_->result);
  status_->setText(resultText(found_->result));
  setSearching(false);
  showPresent();
  if (plans_.rowCount() > 0) {
    table_->setCurrentIndex(rows_.index(0, 0));
  }
  Q_EMIT settled();
}

void SearchPage::showProblem(const QString& reason) {
  status_->setText(reason);
  setSearching(false);
  Q_EMIT settled();
}

int SearchPage::chosenRow() const {
  const QModelIndex current = table_->currentIndex();
  return current.isValid() ? rows_.mapToSource(current).row() : -1;
}

void SearchPage::choose(int row) {
  if (row < 0 || row >= plans_.rowCount()) {
    return;
  }
  const PlanTableModel::Row& chosen = plans_.rows()[static_cast<std::size_t>(row)];
  scatter_->setChosen(row);
  QString text = plans_.sentence(chosen);
  if (found_ != nullptr && found_->result.best && !chosen.best) {
    QStringList words;
    for (const AxisDifference& one : differences(found_->result.best->plan, chosen.rated.plan)) {
      words.append(QStringLiteral("%1 %2 → %3")
                       .arg(QString::fromStdString(std::string(one.axis->option)),
                            QString::fromStdString(one.one), QString::fromStdString(one.other)));
    }
    if (!words.isEmpty()) {
      text += tr(". Against the best: %1").arg(words.join(QStringLiteral(", ")));
    }
  }
  detail_->setText(text);
}

void SearchPage::load(int row) {
  if (row < 0 || row >= plans_.rowCount()) {
    return;
  }
  Scenario after = answer_.scenario;
  after.plan = plans_.rows()[static_cast<std::size_t>(row)].rated.plan;
  Q_EMIT edited(after, {.field = Field::kPlan, .text = tr("plan of the search")});
}

void SearchPage::explain() {
  const int row = chosenRow();
  if (row < 0 || found_ == nullptr || !found_->result.best) {
    return;
  }
  const PlanTableModel::Row& chosen = plans_.rows()[static_cast<std::size_t>(row)];
  if (chosen.best) {
    detail_->setText(tr("This is the best plan."));
    return;
  }
  detail_->setText(tr("Looking for the reason…"));
  explanation_.run([this, found = found_,
                    plan = chosen.rated.plan](const std::stop_token& stop) -> NewestJob::Delivery {
    const QString text = explained(*found->finder, found->result, plan, stop);
    return [this, text] { detail_->setText(text); };
  });
}

}  // namespace headroom::gui
