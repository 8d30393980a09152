#include "gui/pages/time_page.h"

#include <utility>

#include <QEvent>
#include <QHeaderView>
#include <QLabel>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>

#include "gui/charts/part_style.h"
#include "gui/charts/roofline_chart.h"
#include "gui/models/verdict_text.h"
#include "gui/models/words.h"
#include "gui/pages/page_parts.h"

namespace headroom::gui {
namespace {

/// The longest parts of a step in one line: "994 ms: 61 % matrix products, ...".
QString parts_text(const cost::StepTime& time) {
  std::vector<std::pair<double, QString>> parts;
  for (std::size_t i = 0; i < cost::kStepParts; ++i) {
    const auto part = static_cast<cost::StepPart>(i);
    parts.emplace_back(time.parts.of(part).value(), part_name(part));
  }
  std::ranges::stable_sort(parts, std::ranges::greater{}, &std::pair<double, QString>::first);
  constexpr double kLeastShare = 0.005;
  QStringList words;
  for (const auto& [seconds, name] : parts) {
    const double share = time.total > Seconds{} ? seconds / time.total.value() : 0;
    if (share >= kLeastShare) {
      words.append(TimePage::tr("%1 % %2").arg(QLocale().toString(100 * share, 'f', 0), name));
    }
  }
  return TimePage::tr("One step takes %1: %2.")
      .arg(time_text(time.total), words.join(QStringLiteral(", ")));
}

}  // namespace

TimePage::TimePage(std::string config_dir, QWidget* parent)
    : Page(QStringLiteral("time"), tr("Time"), parent), config_dir_(std::move(config_dir)) {
  summary_ = quiet_label();
  stages_ = new GanttChart;
  stages_->setAccessibleName(tr("Stages of the pipeline over time"));
  stages_part_ = with_title(section_title(tr("Pipeline stages, one step")), stages_);
  streams_ = new GanttChart;
  streams_->setAccessibleName(tr("Streams of the rank over time"));
  streams_title_ = section_title({});

  parts_ = new QSplitter(Qt::Vertical);
  parts_->setChildrenCollapsible(false);
  parts_->addWidget(stages_part_);
  parts_->addWidget(with_title(streams_title_, streams_));
  parts_->addWidget(makeOperators());
  parts_->setStretchFactor(2, 1);
  auto* const column = new QVBoxLayout(this);
  column->setContentsMargins(0, fontMetrics().height() / 2, 0, 0);
  column->addWidget(summary_);
  column->addWidget(parts_, 1);
  connect(&job_, &NewestJob::finished, this, &Page::settled);
  connect(&job_, &NewestJob::failed, this, [this](const QString& fault) {
    showData(nullptr, fault);
    Q_EMIT settled();
  });
}

QWidget* TimePage::makeOperators() {
  rows_.setSourceModel(&operators_);
  rows_.setSortRole(OperatorModel::kSortRole);
  table_ = new QTableView;
  table_->setModel(&rows_);
  dress(table_);
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setSortingEnabled(true);
  table_->sortByColumn(OperatorModel::kTimeColumn, Qt::DescendingOrder);
  table_->setAccessibleName(tr("Operators of the step"));
  roofline_ = new RooflineChart(&operators_);
  connect(roofline_, &RooflineChart::chosen, this, [this](int row) {
    table_->setCurrentIndex(rows_.mapFromSource(operators_.index(row, 0)));
  });
  connect(table_->selectionModel(), &QItemSelectionModel::currentChanged, this,
          [this](const QModelIndex& current) {
            roofline_->setChosen(current.isValid() ? std::optional(rows_.mapToSource(current).row())
                                                   : std::nullopt);
          });
  auto* const parts = new QSplitter(Qt::Horizontal);
  parts->setChildrenCollapsible(false);
  parts->addWidget(with_title(section_title(tr("Operators, slowest first")), table_));
  parts->addWidget(with_title(section_title(tr("Roofline")), roofline_));
  parts->setStretchFactor(0, 5);
  parts->setStretchFactor(1, 3);
  return parts;
}

void TimePage::setAnswer(const Answer& answer) {
  if (answer.estimate == nullptr || !answer.estimate->time) {
    job_.cancel();
    showData(nullptr, answer.estimate == nullptr ? QString()
                      : is_program(answer.scenario)
                          ? tr("A recorded program says nothing of times")
                          : tr("Headroom has no performance figures for this GPU"));
    return;
  }
  job_.run([this, config_dir = config_dir_, scenario = answer.scenario,
            estimate = answer.estimate](const std::stop_token& /*stop*/) -> NewestJob::Delivery {
    Result<TimeData> timed = time_data(config_dir, scenario, estimate);
    if (!timed) {
      const QString reason = problem_text(timed.error()).what;
      return [this, reason] { showData(nullptr, reason); };
    }
    auto shared = std::make_shared<const TimeData>(std::move(timed).value());
    return [this, shared = std::move(shared)] { showData(shared, {}); };
  });
}

void TimePage::changeEvent(QEvent* event) {
  Page::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && streams_ != nullptr) {
    showCharts();  // Bars carry their colours.
  }
}

void TimePage::showData(std::shared_ptr<const TimeData> timed, const QString& reason) {
  data_ = std::move(timed);
  reason_ = reason;
  operators_.setTimes(data_);
  summary_->setText(data_ != nullptr ? parts_text(*data_->estimate->time) : QString());
  streams_title_->setText(
      data_ != nullptr
          ? tr("Streams of rank %1, %2")
                .arg(static_cast<int>(data_->estimate->rank))
                .arg(data_->time.micro_batches == 1
                         ? tr("one micro-batch")
                         : tr("%1 replayed micro-batches").arg(data_->time.micro_batches))
          : tr("Streams"));
  showCharts();
}

void TimePage::showCharts() {
  const Theme theme = theme_of(palette());
  const auto stages =
      data_ != nullptr ? stage_rows(data_->estimate, theme) : std::shared_ptr<const GanttData>();
  stages_part_->setVisible(stages != nullptr);
  stages_->setData(stages, reason_);
  streams_->setData(data_ != nullptr ? stream_rows(data_, theme) : nullptr, reason_);
  shareRoom();
}

void TimePage::shareRoom() {
  const int title = streams_title_->sizeHint().height();
  const int stages = stages_->data() != nullptr ? stages_->minimumSizeHint().height() + title : 0;
  const int streams = streams_->minimumSizeHint().height() + title;
  parts_->setSizes({stages, streams, std::max(1, parts_->height() - stages - streams)});
}

}  // namespace headroom::gui
