#include "gui/charts/layer_chart.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QHelpEvent>
#include <QKeyEvent>
#include <QLocale>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include "gui/models/words.h"

namespace headroom::gui {
namespace {

SeriesStyle treatment_style(const Theme& theme, LayerTreatment treatment) {
  switch (treatment) {
    case LayerTreatment::kKeep:
      return theme.of(ir::TensorRole::kParameter);
    case LayerTreatment::kSelective:
      return theme.of(ir::TensorRole::kTemporary);
    case LayerTreatment::kFull:
      return theme.of(ir::TensorRole::kActivation);
    case LayerTreatment::kOffload:
      return theme.of(ir::TensorRole::kOptimizerState);
  }
  return {};
}

}  // namespace

QString treatment_name(LayerTreatment treatment) {
  switch (treatment) {
    case LayerTreatment::kKeep:
      return LayerChart::tr("keep");
    case LayerTreatment::kSelective:
      return LayerChart::tr("recompute a part");
    case LayerTreatment::kFull:
      return LayerChart::tr("recompute");
    case LayerTreatment::kOffload:
      return LayerChart::tr("offload to the host");
  }
  return {};
}

LayerChart::LayerChart(QWidget* parent) : Chart(parent) {
  setAccessibleName(tr("Treatment of each layer's activations"));
}

QSize LayerChart::sizeHint() const {
  return {fontMetrics().height() * 50, fontMetrics().height() * 20};
}

QSize LayerChart::minimumSizeHint() const {
  return {fontMetrics().height() * 20, fontMetrics().height() * 8};
}

void LayerChart::setMap(LayerMap map) {
  map_ = std::move(map);
  current_ = std::clamp<std::int64_t>(
      current_, 0, std::max<std::int64_t>(0, static_cast<std::int64_t>(map_.cells.size()) - 1));
  layOut();
  update();
}

void LayerChart::layOut() {
  areas_.assign(map_.cells.size(), QRectF());
  rows_.assign(static_cast<std::size_t>(map_.stages), QRectF());
  legend_.clear();
  for (std::size_t i = 0; i < kLayerTreatments; ++i) {
    const auto treatment = static_cast<LayerTreatment>(i);
    legend_.push_back(
        {.name = treatment_name(treatment), .style = treatment_style(theme(), treatment)});
  }
  const qreal margin = em() * 0.6;
  legend_area_ = QRectF(margin, margin / 2, width() - 2 * margin, 0);
  legend_area_.setHeight(draw_legend(nullptr, legend_, theme(), legend_area_, font()));
  std::vector<std::vector<std::size_t>> stages(rows_.size());
  std::size_t most = 1;
  for (std::size_t i = 0; i < map_.cells.size(); ++i) {
    std::vector<std::size_t>& row = stages[static_cast<std::size_t>(map_.cells[i].stage)];
    row.push_back(i);
    most = std::max(most, row.size());
  }
  const bool named = map_.stages > 1;
  const qreal left = margin + (named ? em() * 5 : 0);
  const qreal top = legend_area_.bottom() + margin;
  const qreal across = std::max<qreal>(1, width() - left - margin);
  const qreal down = std::max<qreal>(1, height() - top - margin);
  // Lines are as long as they can be while cells stay about as wide as high.
  const int fitting = std::max(1, static_cast<int>(across / (em() * 3.2)));
  const auto lines = static_cast<int>((most + static_cast<std::size_t>(fitting) - 1) /
                                      static_cast<std::size_t>(fitting));
  per_line_ = static_cast<int>((most + static_cast<std::size_t>(lines) - 1) /
                               static_cast<std::size_t>(lines));
  const qreal cell_width = std::min(across / per_line_, em() * 6);
  const qreal gap = named ? em() * 0.5 : 0;
  const auto all_lines = static_cast<qreal>(lines) * static_cast<qreal>(map_.stages);
  const qreal cell_height =
      std::clamp((down - gap * static_cast<qreal>(map_.stages)) / all_lines, em() * 1.1, em() * 4);
  qreal y = top;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    rows_[stage] = QRectF(margin, y, em() * 5, cell_height);
    for (std::size_t i = 0; i < stages[stage].size(); ++i) {
      const auto place = static_cast<int>(i);
      areas_[stages[stage][i]] =
          QRectF(left + (place % per_line_) * cell_width, y + (place / per_line_) * cell_height,
                 cell_width, cell_height)
              .adjusted(1.5, 1.5, -1.5, -1.5);
    }
    y += lines * cell_height + gap;
  }
}

QRectF LayerChart::cellArea(std::int64_t layer) const {
  return areas_.at(static_cast<std::size_t>(layer));
}

std::optional<std::int64_t> LayerChart::layerAt(const QPointF& place) const {
  for (std::size_t i = 0; i < areas_.size(); ++i) {
    if (areas_[i].contains(place)) {
      return map_.cells[i].layer;
    }
  }
  return std::nullopt;
}

QString LayerChart::textOf(std::int64_t layer) const {
  const LayerCell& cell = map_.cells[static_cast<std::size_t>(layer)];
  QString text = tr("layer %1: %2").arg(layer).arg(treatment_name(cell.treatment));
  if (map_.stages > 1) {
    text += tr(", stage %1").arg(cell.stage);
  }
  if (cell.kept) {
    text += tr("; %1 of activations alive at the peak").arg(bytes_text(*cell.kept));
  }
  if (cell.again > Seconds{}) {
    text += tr("; recomputed for %1 in the last step").arg(time_text(cell.again));
  }
  return text;
}

void LayerChart::draw(QPainter& painter) {
  if (map_.cells.empty()) {
    drawEmpty(painter, tr("Nothing to show yet"));
    return;
  }
  draw_legend(&painter, legend_, theme(), legend_area_, font());
  if (map_.stages > 1) {
    painter.setPen(theme().text);
    for (std::size_t stage = 0; stage < rows_.size(); ++stage) {
      painter.drawText(rows_[stage], Qt::AlignVCenter | Qt::AlignLeft, tr("stage %1").arg(stage));
    }
  }
  Bytes most;
  for (const LayerCell& cell : map_.cells) {
    most = std::max(most, cell.kept.value_or(Bytes{0}));
  }
  for (const LayerCell& cell : map_.cells) {
    drawCell(painter, cell, most);
  }
  if (hasFocus()) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(focusPen());
    painter.drawRect(cellArea(current_).adjusted(-1, -1, 1, 1));
  }
}

void LayerChart::drawCell(QPainter& painter, const LayerCell& cell, Bytes most) const {
  const QRectF area = cellArea(cell.layer);
  fill_series(painter, area, treatment_style(theme(), cell.treatment), pitch());
  const QFontMetricsF metrics(font());
  const QString number = QLocale().toString(static_cast<qlonglong>(cell.layer));
  const qreal wide = metrics.horizontalAdvance(number) + em() * 0.5;
  const QColor base = palette().color(QPalette::Base);
  const QRectF label(area.center().x() - wide / 2, area.top() + area.height() * 0.12, wide,
                     std::min(em() * 1.1, area.height() * 0.76));
  painter.fillRect(label, base);
  painter.setPen(theme().text);
  painter.drawText(label, Qt::AlignCenter, number);
  if (cell.kept && most > Bytes{0} && area.height() > em() * 2.4) {
    // A gauge at the bottom: what the layer keeps, relative to the layer that keeps most.
    const double share =
        static_cast<double>(cell.kept->value()) / static_cast<double>(most.value());
    const QRectF gauge(area.left() + 3, area.bottom() - em() * 0.5 - 3, area.width() - 6,
                       em() * 0.5);
    painter.fillRect(gauge, base);
    painter.fillRect(QRectF(gauge.topLeft(), QSizeF(gauge.width() * share, gauge.height())),
                     theme().text);
  }
}

void LayerChart::moveTo(std::int64_t layer) {
  const auto last = static_cast<std::int64_t>(map_.cells.size()) - 1;
  current_ = std::clamp<std::int64_t>(layer, 0, std::max<std::int64_t>(0, last));
  setAccessibleDescription(textOf(current_));
  update();
}

bool LayerChart::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* const help = static_cast<QHelpEvent*>(event);
    const auto layer = layerAt(QPointF(help->pos()));
    QToolTip::showText(help->globalPos(), layer ? textOf(*layer) : QString(), this);
    return true;
  }
  return Chart::event(event);
}

void LayerChart::mousePressEvent(QMouseEvent* event) {
  if (const auto layer = layerAt(event->position()); layer && event->button() == Qt::LeftButton) {
    moveTo(*layer);
    Q_EMIT picked(*layer);
  }
}

void LayerChart::keyPressEvent(QKeyEvent* event) {
  if (map_.cells.empty()) {
    Chart::keyPressEvent(event);
    return;
  }
  switch (event->key()) {
    case Qt::Key_Left:
      moveTo(current_ - 1);
      break;
    case Qt::Key_Right:
      moveTo(current_ + 1);
      break;
    case Qt::Key_Up:
      moveTo(current_ - per_line_);
      break;
    case Qt::Key_Down:
      moveTo(current_ + per_line_);
      break;
    case Qt::Key_Home:
      moveTo(0);
      break;
    case Qt::Key_End:
      moveTo(static_cast<std::int64_t>(map_.cells.size()) - 1);
      break;
    case Qt::Key_Space:
    case Qt::Key_Return:
    case Qt::Key_Enter:
      Q_EMIT picked(current_);
      break;
    default:
      Chart::keyPressEvent(event);
      return;
  }
  event->accept();
}

}  // namespace headroom::gui
