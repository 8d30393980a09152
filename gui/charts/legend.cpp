#include "gui/charts/legend.h"

#include <QFontMetricsF>
#include <QPainter>

namespace headroom::gui {
namespace {

void draw_sign(QPainter& painter, const LegendEntry& entry, const QRectF& area) {
  const qreal middle = area.center().y();
  switch (entry.sign) {
    case LegendEntry::Sign::kFill:
      fill_series(painter, area, entry.style, area.height() * 0.5);
      return;
    case LegendEntry::Sign::kLine:
    case LegendEntry::Sign::kDashed:
      painter.setPen(QPen(entry.style.fill, 2,
                          entry.sign == LegendEntry::Sign::kLine ? Qt::SolidLine : Qt::DashLine));
      painter.drawLine(QPointF(area.left(), middle), QPointF(area.right(), middle));
      return;
    case LegendEntry::Sign::kWaiting: {
      QColor tint = entry.style.fill;
      tint.setAlphaF(0.25F);
      painter.fillRect(area, tint);
      painter.setBrush(Qt::NoBrush);
      painter.setPen(QPen(entry.style.fill, 1, Qt::DashLine));
      painter.drawRect(area.adjusted(0.5, 0.5, -0.5, -0.5));
      return;
    }
    case LegendEntry::Sign::kDot:
      painter.save();
      painter.setRenderHint(QPainter::Antialiasing);
      painter.setPen(Qt::NoPen);
      painter.setBrush(entry.style.fill);
      painter.drawEllipse(area.center(), area.height() / 2, area.height() / 2);
      painter.restore();
      return;
  }
}

}  // namespace

qreal draw_legend(QPainter* painter, const std::vector<LegendEntry>& entries, const Theme& theme,
                  const QRectF& area, const QFont& font) {
  const QFontMetricsF metrics(font);
  const qreal em = metrics.height();
  const qreal line = em * 1.3;
  qreal x = area.left();
  qreal y = area.top();
  for (const LegendEntry& entry : entries) {
    const qreal width = em * 1.4 + metrics.horizontalAdvance(entry.name);
    if (x > area.left() && x + width > area.right()) {
      x = area.left();
      y += line;
    }
    if (painter != nullptr) {
      draw_sign(*painter, entry, {x, y + line / 2 - em * 0.35, em, em * 0.7});
      painter->setPen(theme.text);
      painter->drawText(QRectF(x + em * 1.4, y, width, line), Qt::AlignVCenter | Qt::AlignLeft,
                        entry.name);
    }
    x += width + em;
  }
  return entries.empty() ? 0 : y + line - area.top();
}

}  // namespace headroom::gui
