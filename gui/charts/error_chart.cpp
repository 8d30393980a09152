#include "gui/charts/error_chart.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QFont>
#include <QHelpEvent>
#include <QLocale>
#include <QPainter>
#include <QStringList>
#include <QToolTip>

#include "gui/charts/axis.h"
#include "gui/charts/part_style.h"
#include "gui/models/evidence.h"

namespace headroom::gui {
namespace {

constexpr double kMostShown = 0.3;

std::size_t series_of(cost::Measurand measurand) {
  return static_cast<std::size_t>(measurand);
}

QString measurand_name(cost::Measurand measurand) {
  switch (measurand) {
    case cost::Measurand::kPeakAllocated:
      return ErrorChart::tr("peak allocated");
    case cost::Measurand::kPeakReserved:
      return ErrorChart::tr("peak reserved");
    case cost::Measurand::kStepTime:
      return ErrorChart::tr("step time");
  }
  return {};
}

}  // namespace

ErrorChart::ErrorChart(QWidget* parent) : Chart(parent) {
  setAccessibleName(tr("Errors of predictions for measured runs, by source"));
}

QSize ErrorChart::sizeHint() const {
  return {fontMetrics().height() * 50,
          fontMetrics().height() * (4 + static_cast<int>(rows_.size()))};
}

QSize ErrorChart::minimumSizeHint() const {
  constexpr int kMostRows = 14;
  return {fontMetrics().height() * 20,
          fontMetrics().height() * (4 + std::min(kMostRows, static_cast<int>(rows_.size())))};
}

void ErrorChart::setErrors(std::vector<cost::ResidualSet> sets) {
  sets_ = std::move(sets);
  std::ranges::stable_sort(sets_, {}, &cost::ResidualSet::source);
  rows_.clear();
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    if (rows_.empty() || sets_[i].source != sets_[i - 1].source) {
      rows_.push_back({.first = i, .last = i, .runs = 0});
    }
    rows_.back().last = i + 1;
    rows_.back().runs = std::max(rows_.back().runs, sets_[i].errors.size());
  }
  setAccessibleDescription({});
  for (const cost::ResidualSet& set : sets_) {
    setAccessibleDescription(accessibleDescription() + textOf(set) + QLatin1Char('\n'));
  }
  layOut();
  updateGeometry();
  update();
}

void ErrorChart::layOut() {
  legend_.clear();
  range_ = 0.01;
  std::vector<bool> occurs(3);
  for (const cost::ResidualSet& set : sets_) {
    occurs.at(series_of(set.measurand)) = true;
    for (const double error : set.errors) {
      range_ = std::min(kMostShown, std::max(range_, std::abs(error) * 1.05));
    }
  }
  for (std::size_t i = 0; i < occurs.size(); ++i) {
    if (occurs[i]) {
      legend_.push_back({.name = measurand_name(static_cast<cost::Measurand>(i)),
                         .style = numbered_style(theme(), i),
                         .sign = LegendEntry::Sign::kDot});
    }
  }
  const qreal margin = em() * 0.6;
  legend_area_ = QRectF(margin, margin / 2, width() - 2 * margin, 0);
  legend_area_.setHeight(draw_legend(nullptr, legend_, theme(), legend_area_, font()));
  qreal names = em() * 4;
  for (const cost::ResidualSet& set : sets_) {
    names = std::max(
        names, QFontMetricsF(font()).horizontalAdvance(QString::fromStdString(set.source)) + em());
  }
  const qreal counts = em() * 5;
  const qreal top = legend_area_.bottom() + margin;
  plot_ = QRectF(names + margin, top, std::max<qreal>(1, width() - names - counts - 2 * margin),
                 std::max<qreal>(1, height() - top - em() * 1.6));
  const auto rows = static_cast<qreal>(std::max<std::size_t>(1, rows_.size()));
  row_height_ = std::min(em() * 1.8, plot_.height() / rows);
  plot_.setHeight(row_height_ * rows);
}

QRectF ErrorChart::rowArea(std::size_t row) const {
  return {plot_.left(), plot_.top() + static_cast<qreal>(row) * row_height_, plot_.width(),
          row_height_};
}

QString ErrorChart::textOf(const cost::ResidualSet& set) const {
  const double middle = set.errors[set.errors.size() / 2];
  const double worst = std::abs(set.errors.front()) > std::abs(set.errors.back())
                           ? set.errors.front()
                           : set.errors.back();
  return tr("%1, %2, %3: %L4 runs, median error %5, largest %6")
      .arg(QString::fromStdString(set.source), measurand_name(set.measurand),
           set.on_gpu ? tr("on GPUs") : tr("on the accounting device"))
      .arg(set.errors.size())
      .arg(error_text(middle), error_text(worst));
}

void ErrorChart::draw(QPainter& painter) {
  if (sets_.empty()) {
    drawEmpty(painter, tr("No measured runs of this framework are known"));
    return;
  }
  draw_legend(&painter, legend_, theme(), legend_area_, font());
  for (const double tick : round_ticks(-range_, range_, plot_.width() / (em() * 5))) {
    const qreal x = xOf(tick);
    painter.setPen(QPen(std::abs(tick) < 1e-12 ? theme().outline : theme().grid, 1));
    painter.drawLine(QPointF(x, plot_.top()), QPointF(x, plot_.bottom()));
    painter.setPen(theme().quiet_text);
    painter.drawText(
        QRectF(x - em() * 3, plot_.bottom() + em() * 0.2, em() * 6, em()), Qt::AlignCenter,
        QLocale().toString(100 * tick, 'g', 3) + QChar(QChar::Nbsp) + QLatin1Char('%'));
  }
  painter.setRenderHint(QPainter::Antialiasing);
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    const QRectF area = rowArea(row);
    if (row_height_ > em() * 0.45) {
      QFont fitting = font();
      fitting.setPixelSize(std::max(1, static_cast<int>(std::min(row_height_ * 0.95, em() * 0.8))));
      painter.setFont(fitting);
      painter.setPen(theme().text);
      painter.drawText(QRectF(0, area.top(), plot_.left() - em() * 0.5, area.height()),
                       Qt::AlignVCenter | Qt::AlignRight,
                       QString::fromStdString(sets_[rows_[row].first].source));
      painter.setPen(theme().quiet_text);
      painter.drawText(QRectF(plot_.right() + em() * 0.4, area.top(), em() * 5, area.height()),
                       Qt::AlignVCenter | Qt::AlignLeft, tr("%L1 runs").arg(rows_[row].runs));
    }
    const auto count = static_cast<qreal>(rows_[row].last - rows_[row].first);
    for (std::size_t i = rows_[row].first; i < rows_[row].last; ++i) {
      const qreal place = (static_cast<qreal>(i - rows_[row].first) + 0.5) / count;
      drawMarks(painter, sets_[i], area.top() + area.height() * (0.1 + 0.8 * place));
    }
  }
}

qreal ErrorChart::xOf(double error) const {
  const double shown = std::clamp(error, -range_, range_);
  return plot_.center().x() + shown / range_ * plot_.width() / 2;
}

void ErrorChart::drawMarks(QPainter& painter, const cost::ResidualSet& set, qreal y) const {
  QColor fill = numbered_style(theme(), series_of(set.measurand)).fill;
  fill.setAlphaF(0.7F);
  painter.setPen(Qt::NoPen);
  painter.setBrush(fill);
  const qreal radius = std::min(em() * 0.24, row_height_ * 0.22);
  for (const double error : set.errors) {
    const QPointF place(xOf(error), y);
    if (set.on_gpu) {
      painter.drawRect(QRectF(place.x() - radius, place.y() - radius, 2 * radius, 2 * radius));
    } else {
      painter.drawEllipse(place, radius, radius);
    }
  }
}

bool ErrorChart::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* const help = static_cast<QHelpEvent*>(event);
    const auto row =
        static_cast<std::size_t>(std::max<qreal>(0, (help->pos().y() - plot_.top()) / row_height_));
    QStringList lines;
    for (std::size_t i = row < rows_.size() ? rows_[row].first : 0;
         row < rows_.size() && i < rows_[row].last; ++i) {
      lines.append(textOf(sets_[i]));
    }
    QToolTip::showText(help->globalPos(), lines.join(QLatin1Char('\n')), this);
    return true;
  }
  return Chart::event(event);
}

}  // namespace headroom::gui
