#include "gui/pages/timeline_page.h"

#include <utility>

#include <QFileDialog>
#include <QLabel>
#include <QMessageBox>
#include <QSplitter>
#include <QTabWidget>
#include <QToolButton>
#include <QVBoxLayout>

#include "gui/charts/address_map.h"
#include "gui/charts/timeline_chart.h"
#include "gui/charts/treemap.h"
#include "gui/models/verdict_text.h"
#include "gui/pages/page_parts.h"
#include "gui/pages/tensor_table.h"

namespace headroom::gui {
namespace {

QToolButton* tool_button(const QString& text, const QString& tip) {
  auto* const button = new QToolButton;
  button->setText(text);
  button->setToolTip(tip);
  button->setAutoRaise(true);
  return button;
}

}  // namespace

TimelinePage::TimelinePage(QWidget* parent)
    : Page(QStringLiteral("timeline"), tr("Timeline"), parent) {
  chart_ = new TimelineChart;
  connect(chart_, &TimelineChart::momentChanged, this, &TimelinePage::showMoment);
  connect(chart_, &SpanChart::pointed, this, &TimelinePage::point);
  connect(&replay_, &NewestJob::finished, this, &TimelinePage::settleIfDone);
  connect(&map_job_, &NewestJob::finished, this, &TimelinePage::settleIfDone);
  connect(&pinned_job_, &NewestJob::finished, this, &TimelinePage::settleIfDone);

  auto* const upper = new QWidget;
  auto* const upper_column = new QVBoxLayout(upper);
  upper_column->setContentsMargins(0, 0, 0, 0);
  upper_column->addWidget(makeToolBar());
  upper_column->addWidget(chart_, 1);

  auto* const parts = new QSplitter(Qt::Vertical);
  parts->setChildrenCollapsible(false);
  parts->addWidget(upper);
  parts->addWidget(makeMoment());
  parts->setStretchFactor(0, 3);
  parts->setStretchFactor(1, 2);
  auto* const column = new QVBoxLayout(this);
  column->setContentsMargins(0, fontMetrics().height() / 2, 0, 0);
  column->addWidget(parts);
}

QWidget* TimelinePage::makeToolBar() {
  readout_ = quiet_label();
  readout_->setWordWrap(false);
  readout_->setMinimumWidth(1);  // Long texts are cut instead of widening the window.
  auto* const whole = tool_button(tr("Whole run"), tr("Show the whole run (0)"));
  connect(whole, &QToolButton::clicked, chart_, &SpanChart::showWhole);
  auto* const step = tool_button(tr("Step"), tr("Show the step that holds the peak"));
  connect(step, &QToolButton::clicked, chart_, &TimelineChart::showPeakStep);
  auto* const peak = tool_button(tr("Peak"), tr("Go to the peak (P)"));
  connect(peak, &QToolButton::clicked, chart_, &TimelineChart::choosePeak);
  auto* const closer = tool_button(QStringLiteral("+"), tr("Zoom in (+, or the wheel)"));
  closer->setAccessibleName(tr("Zoom in"));
  connect(closer, &QToolButton::clicked, chart_, &SpanChart::zoomIn);
  auto* const wider = tool_button(QStringLiteral("−"), tr("Zoom out (-, or the wheel)"));
  wider->setAccessibleName(tr("Zoom out"));
  connect(wider, &QToolButton::clicked, chart_, &SpanChart::zoomOut);
  auto* const fit = tool_button(tr("Fit height"), tr("Scale to what is used instead of to the "
                                                     "capacity (F)"));
  fit->setCheckable(true);
  connect(fit, &QToolButton::toggled, chart_, &TimelineChart::setFitsContents);
  connect(chart_, &TimelineChart::fitsContentsChanged, fit, &QToolButton::setChecked);

  auto* const measured = tool_button(
      tr("Measured…"), tr("Lay the phases of a report over the timeline: the JSON document of "
                          "headroom validate or headroom dryrun"));
  connect(measured, &QToolButton::clicked, this, &TimelinePage::chooseMeasured);
  auto* const bar = new QWidget;
  auto* const row = new QHBoxLayout(bar);
  row->setContentsMargins(0, 0, 0, 0);
  row->addWidget(readout_, 1);
  for (QWidget* const button : {whole, step, peak, closer, wider, fit, measured}) {
    row->addWidget(button);
  }
  return bar;
}

QWidget* TimelinePage::makeMoment() {
  table_ = new TensorTable(&tensors_);
  treemap_ = new TreemapChart(&tensors_);
  map_ = new AddressMap;
  connect(table_, &TensorTable::chosen, this, &TimelinePage::choose);
  connect(treemap_, &TreemapChart::chosen, this, &TimelinePage::choose);
  connect(map_, &AddressMap::chosen, this, &TimelinePage::choose);

  map_text_ = quiet_label();
  map_part_ = new QWidget;
  auto* const map_column = new QVBoxLayout(map_part_);
  map_column->setContentsMargins(0, 0, 0, 0);
  map_column->addWidget(map_text_);
  map_column->addWidget(map_, 1);

  views_ = new QTabWidget;
  views_->setDocumentMode(true);
  views_->setAccessibleName(tr("Views of the chosen moment"));
  views_->addTab(table_, tr("Tensors"));
  views_->addTab(treemap_, tr("Areas"));
  views_->addTab(map_part_, tr("Segments"));
  connect(views_, &QTabWidget::currentChanged, this, [this] { showAddressMap(); });

  moment_title_ = section_title({});
  moment_title_->setTextFormat(Qt::PlainText);
  moment_title_->setMinimumWidth(1);
  auto* const lower = new QWidget;
  auto* const column = new QVBoxLayout(lower);
  column->setContentsMargins(0, 0, 0, 0);
  column->addWidget(moment_title_);
  column->addWidget(views_, 1);
  return lower;
}

void TimelinePage::setAnswer(const Answer& answer) {
  if (answer.estimate == nullptr) {
    replay_.cancel();
    showTimeline(nullptr);
    return;
  }
  replay_.run([this, estimate = answer.estimate,
               settings = replayed_settings(answer.scenario)](const std::stop_token& stop) {
    auto timeline = timeline_data(estimate, settings, stop);
    return [this, timeline = std::move(timeline)] { showTimeline(timeline); };
  });
}

void TimelinePage::setPinned(const std::optional<Pinned>& pinned) {
  if (!pinned) {
    pinned_job_.cancel();
    chart_->setPinned(nullptr);
    return;
  }
  pinned_job_.run([this, pinned = *pinned](const std::stop_token& stop) {
    auto timeline = timeline_of(pinned, stop);
    return [this, timeline = std::move(timeline)] { chart_->setPinned(timeline); };
  });
}

void TimelinePage::showTimeline(std::shared_ptr<const TimelineData> timeline) {
  chart_->setData(std::move(timeline));
}

QString TimelinePage::momentText(std::size_t event) const {
  const TimelineData& timeline = *chart_->data();
  const QString text =
      tr("%1 · allocated %2, reserved %3")
          .arg(event_text(*timeline.estimate, event), bytes_text(timeline.history.allocated(event)),
               bytes_text(timeline.history.reserved(event)));
  const std::optional<Bytes> pinned = chart_->pinnedAt(event);
  return pinned ? tr("%1, pinned %2 allocated").arg(text, bytes_text(*pinned)) : text;
}

void TimelinePage::point(const QPointF& place) {
  const auto event = chart_->eventAt(place);
  readout_->setText(event ? momentText(*event) : QString());
}

void TimelinePage::showMoment() {
  const auto event = chart_->moment();
  if (!event) {
    tensors_.setMoment(nullptr, 0);
    moment_title_->clear();
  } else {
    const TimelineData& timeline = *chart_->data();
    tensors_.setMoment(timeline.estimate, *event);
    const QString text = tr("Alive after event %L1: %2").arg(*event).arg(momentText(*event));
    moment_title_->setText(text);
    moment_title_->setToolTip(text);
    chart_->setAccessibleDescription(text);
  }
  treemap_->setChosen(std::nullopt);
  map_->setChosen(std::nullopt);
  showAddressMap();
}

void TimelinePage::showAddressMap() {
  const auto event = chart_->moment();
  if (!event || views_->currentWidget() != map_part_) {
    map_job_.cancel();
    map_->setData(nullptr);
    map_text_->clear();
    return;
  }
  map_job_.run([this, timeline = chart_->data(), at = *event](const std::stop_token& stop) {
    auto map = address_map(timeline, at, stop);
    return [this, map = std::move(map)] {
      map_text_->setText(tr("%L1 segments, %2 reserved: %3 in tensors, %4 free, the largest free "
                            "block %5")
                             .arg(map->segments.size())
                             .arg(bytes_text(map->reserved), bytes_text(map->live),
                                  bytes_text(map->reserved - map->live),
                                  bytes_text(map->largest_free)));
      map_->setData(map);
    };
  });
}

void TimelinePage::choose(quint32 block) {
  table_->choose(block);
  treemap_->setChosen(block);
  map_->setChosen(block);
}

QString TimelinePage::openMeasured(const QString& path) {
  Result<std::vector<MeasuredPeak>> peaks = read_measured_peaks(path.toStdString());
  if (!peaks) {
    return problem_text(peaks.error()).what;
  }
  chart_->setMeasured(std::move(peaks).value());
  return {};
}

void TimelinePage::chooseMeasured() {
  const QString path =
      QFileDialog::getOpenFileName(this, tr("Open a measured report"), {}, tr("Reports (*.json)"));
  if (path.isEmpty()) {
    return;
  }
  if (const QString reason = openMeasured(path); !reason.isEmpty()) {
    QMessageBox::warning(this, tr("Open a measured report"), reason);
  }
}

void TimelinePage::settleIfDone() {
  if (!isBusy()) {
    Q_EMIT settled();
  }
}

}  // namespace headroom::gui
