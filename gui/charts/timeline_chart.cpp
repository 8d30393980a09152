#include "gui/charts/timeline_chart.h"

#include <algorithm>
#include <utility>

#include <QKeyEvent>
#include <QMouseEvent>

namespace headroom::gui {
namespace {

bool has_same_phases(const ir::RankProgram& a, const ir::RankProgram& b) {
  return !a.phases.empty() &&
         std::ranges::equal(a.phases, b.phases, [](const ir::Phase& x, const ir::Phase& y) {
           return x.name == y.name;
         });
}

}  // namespace

TimelineChart::TimelineChart(QWidget* parent) : SpanChart(parent) {
  setAccessibleName(tr("Memory of the run over its events"));
  setCursor(Qt::CrossCursor);
  connect(this, &SpanChart::pointed, this, [this](const QPointF& place) {
    pointer_ = eventAt(place) ? std::optional(place.x()) : std::nullopt;
    update();
  });
}

QSize TimelineChart::sizeHint() const {
  return {fontMetrics().height() * 50, fontMetrics().height() * 20};
}

QSize TimelineChart::minimumSizeHint() const {
  return {fontMetrics().height() * 24, fontMetrics().height() * 12};
}

void TimelineChart::setData(std::shared_ptr<const TimelineData> shown) {
  const std::shared_ptr<const TimelineData> before = std::exchange(data_, std::move(shown));
  if (data_ == nullptr || data_->history.empty()) {
    data_ = nullptr;
    moment_.reset();
    overview_picture_ = {};
    update();
    Q_EMIT momentChanged();
    return;
  }
  const auto count = static_cast<double>(data_->history.size());
  findRoles();
  chooseScale();
  layOut();
  const ir::RankProgram& program = data_->estimate->program;
  if (before != nullptr && moment_ && has_same_phases(before->estimate->program, program)) {
    const ir::RankProgram& old = before->estimate->program;
    const bool at_peak = *moment_ == before->history.whole().peak;
    const auto place_of = [&](double event) { return same_place(old, program, event).value_or(0); };
    const ZoomSpan kept{.begin = place_of(span().begin), .end = place_of(span().end)};
    const double place = place_of(static_cast<double>(*moment_));
    moment_ = at_peak ? data_->history.whole().peak
                      : static_cast<std::size_t>(std::clamp(place, 0.0, count - 1));
    setLimits({.whole = {.begin = 0, .end = count}, .shortest = std::min(8.0, count)});
    setSpan(kept);
  } else {
    moment_ = data_->history.whole().peak;
    setLimits({.whole = {.begin = 0, .end = count}, .shortest = std::min(8.0, count)});
    showPeakStep();
  }
  update();
  Q_EMIT momentChanged();
}

void TimelineChart::showPeakStep() {
  if (data_ != nullptr) {
    const EventRange step = peak_step(*data_->estimate, data_->history.whole().peak);
    setSpan({.begin = static_cast<double>(step.begin), .end = static_cast<double>(step.end)});
  }
}

void TimelineChart::setMoment(std::size_t event) {
  if (data_ == nullptr) {
    return;
  }
  const std::size_t chosen = std::min(event, data_->history.size() - 1);
  setSpan(showing(span(), static_cast<double>(chosen), limits()));
  if (moment_ != chosen) {
    moment_ = chosen;
    update();
    Q_EMIT momentChanged();
  }
}

void TimelineChart::choosePeak() {
  if (data_ != nullptr) {
    setMoment(data_->history.whole().peak);
  }
}

void TimelineChart::chooseScale() {
  if (scale_is_chosen_) {
    return;
  }
  constexpr int kLeastShare = 3;  // A third of the capacity is still readable.
  const Bytes used = std::max(data_->history.whole().reserved, data_->history.whole().most);
  const bool fits = kLeastShare * used < data_->estimate->capacity;
  if (fits != fits_contents_) {
    fits_contents_ = fits;
    Q_EMIT fitsContentsChanged(fits);
  }
}

void TimelineChart::setFitsContents(bool fits) {
  scale_is_chosen_ = scale_is_chosen_ || fits != fits_contents_;
  if (fits != fits_contents_) {
    fits_contents_ = fits;
    layOut();
    update();
    Q_EMIT fitsContentsChanged(fits);
  }
}

void TimelineChart::setMeasured(std::vector<MeasuredPeak> measured) {
  measured_ = std::move(measured);
  layOut();
  update();
}

void TimelineChart::setPinned(std::shared_ptr<const TimelineData> pinned) {
  pinned_ = pinned != nullptr && !pinned->history.empty() ? std::move(pinned) : nullptr;
  layOut();
  update();
}

std::optional<Bytes> TimelineChart::pinnedAt(std::size_t event) const {
  if (pinned_ == nullptr || data_ == nullptr) {
    return std::nullopt;
  }
  const auto place =
      same_place(data_->estimate->program, pinned_->estimate->program, static_cast<double>(event));
  if (!place) {
    return std::nullopt;
  }
  const auto last = static_cast<double>(pinned_->history.size() - 1);
  return pinned_->history.allocated(static_cast<std::size_t>(std::clamp(*place, 0.0, last)));
}

double TimelineChart::focusPoint() const {
  const double at = moment_ ? static_cast<double>(*moment_) : 0;
  return moment_ && at >= span().begin && at <= span().end ? at : SpanChart::focusPoint();
}

std::optional<std::size_t> TimelineChart::eventAt(const QPointF& place) const {
  if (data_ == nullptr ||
      !plot_.adjusted(0, 0, 0, phases_.bottom() - plot_.bottom()).contains(place)) {
    return std::nullopt;
  }
  const double event = std::clamp(valueAt(place.x()), span().begin, span().end - 1e-6);
  const auto index = static_cast<std::size_t>(std::max(0.0, event));
  return std::min(index, data_->history.size() - 1);
}

QPointF TimelineChart::placeOf(std::size_t event) const {
  return {xOf(static_cast<double>(event) + 0.5), yOf(data_->history.allocated(event))};
}

qreal TimelineChart::yOf(Bytes bytes) const {
  return plot_.bottom() - static_cast<double>(bytes.value()) / top_ * plot_.height();
}

void TimelineChart::findRoles() {
  roles_.clear();
  for (int i = 0; i < ir::kTensorRoleCount; ++i) {
    const auto role = static_cast<ir::TensorRole>(i);
    const bool occurs =
        std::ranges::any_of(data_->estimate->program.events, [role](const ir::Event& event) {
          return event.kind == ir::EventKind::kAllocate && event.role == role && event.bytes > 0;
        });
    if (occurs) {
      roles_.push_back(role);
    }
  }
}

void TimelineChart::findScale() {
  const MemoryHistory::Extremes& whole = data_->history.whole();
  Bytes largest = std::max(whole.most, whole.reserved);
  if (pinned_ != nullptr) {
    largest = std::max(largest, pinned_->history.whole().most);
  }
  if (!fits_contents_) {
    largest = std::max(largest, data_->estimate->capacity);
  }
  largest = std::max(largest, Bytes{1});
  top_ = static_cast<double>(largest.value()) * 1.06;
  scale_ = scale_for(largest);
}

void TimelineChart::layOut() {
  if (data_ == nullptr) {
    return;
  }
  findScale();
  legend_.clear();
  tile_ratio_ = 0;  // Tiles are made when they are needed.
  for (const ir::TensorRole role : roles_) {
    legend_.push_back({.name = role_name(role), .style = theme().of(role)});
  }
  legend_.push_back({.name = tr("reserved"),
                     .style = {.fill = theme().text, .ink = theme().text},
                     .sign = LegendEntry::Sign::kLine});
  if (!measured_.empty()) {
    legend_.push_back({.name = tr("measured peak of a phase"),
                       .style = theme().of(ir::TensorRole::kInput),
                       .sign = LegendEntry::Sign::kDashed});
  }
  if (pinned_ != nullptr) {
    legend_.push_back({.name = tr("allocated in the pinned scenario"),
                       .style = {.fill = focusPen().color(), .ink = focusPen().color()},
                       .sign = LegendEntry::Sign::kDashed});
  }
  const qreal margin = em() * 0.7;
  const qreal labels = QFontMetricsF(font()).horizontalAdvance(QStringLiteral("000.0")) + em();
  legend_area_ = QRectF(margin, margin / 2, width() - 2 * margin, 0);
  legend_area_.setHeight(draw_legend(nullptr, legend_, theme(), legend_area_, font()));
  overview_ =
      QRectF(labels, legend_area_.bottom() + margin / 2, width() - labels - margin, em() * 1.6);
  const qreal rows = em() * 1.35;
  const qreal top = overview_.bottom() + em() * 1.3;
  plot_ = QRectF(labels, top, overview_.width(),
                 std::max<qreal>(1, height() - top - 2 * rows - margin / 2));
  phases_ = QRectF(plot_.left(), plot_.bottom(), plot_.width(), rows);
  steps_ = phases_.translated(0, rows);
  overview_picture_ = {};
}

void TimelineChart::clicked(const QPointF& place) {
  if (const auto event = eventAt(place)) {
    setMoment(*event);
  }
}

void TimelineChart::mousePressEvent(QMouseEvent* event) {
  if (data_ != nullptr && event->button() == Qt::LeftButton &&
      overview_.contains(event->position())) {
    mouseMoveEvent(event);
    return;
  }
  SpanChart::mousePressEvent(event);
}

void TimelineChart::mouseMoveEvent(QMouseEvent* event) {
  const QPointF place = event->position();
  const bool held = event->buttons().testFlag(Qt::LeftButton);
  if (data_ != nullptr && held && overview_.contains(place)) {
    const double at = (place.x() - overview_.left()) / overview_.width() * limits().whole.length();
    setSpan(moved(span(), at - (span().begin + span().end) / 2, limits()));
    return;
  }
  SpanChart::mouseMoveEvent(event);
}

void TimelineChart::moveBy(double events) {
  const double now = moment_ ? static_cast<double>(*moment_) : 0;
  setMoment(static_cast<std::size_t>(std::max(0.0, now + events)));
}

void TimelineChart::keyPressEvent(QKeyEvent* event) {
  if (data_ == nullptr) {
    SpanChart::keyPressEvent(event);
    return;
  }
  const double step =
      event->modifiers().testFlag(Qt::ShiftModifier) ? std::max(1.0, span().length() / 20) : 1;
  switch (event->key()) {
    case Qt::Key_Left:
      moveBy(-step);
      break;
    case Qt::Key_Right:
      moveBy(step);
      break;
    case Qt::Key_Home:
      setMoment(0);
      break;
    case Qt::Key_End:
      setMoment(data_->history.size() - 1);
      break;
    case Qt::Key_P:
      choosePeak();
      break;
    case Qt::Key_F:
      setFitsContents(!fits_contents_);
      break;
    default:
      SpanChart::keyPressEvent(event);
      return;
  }
  event->accept();
}

}  // namespace headroom::gui
