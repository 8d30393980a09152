#include "gui/views/breakdown_view.h"

#include <algorithm>
#include <cmath>

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>

namespace headroom::gui {
namespace {

int whole(qreal length) {
  return static_cast<int>(std::ceil(length));
}

}  // namespace

BreakdownView::BreakdownView(BreakdownModel* model, QItemSelectionModel* selection, QWidget* parent)
    : QAbstractScrollArea(parent),
      model_(model),
      selection_(selection),
      theme_(theme_of(palette())),
      geometry_(*model, QFontMetricsF(font()), QSizeF()) {
  setFocusPolicy(Qt::StrongFocus);
  setFrameShape(QFrame::NoFrame);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setAccessibleName(tr("Memory at the peak of each phase, by category"));
  viewport()->setMouseTracking(true);
  connect(model_, &QAbstractItemModel::modelReset, this, &BreakdownView::refresh);
  connect(model_, &QAbstractItemModel::dataChanged, this, &BreakdownView::refresh);
  connect(selection_, &QItemSelectionModel::currentChanged, this, &BreakdownView::followCurrent);
  refresh();
}

QSize BreakdownView::sizeHint() const {
  const qreal width = fontMetrics().averageCharWidth() * 100.0;
  return {whole(width),
          whole(BreakdownGeometry::idealHeight(*model_, QFontMetricsF(font()), width))};
}

QSize BreakdownView::minimumSizeHint() const {
  const int em = fontMetrics().height();
  return {em * 24, em * 10};
}

void BreakdownView::refresh() {
  geometry_ = BreakdownGeometry(*model_, QFontMetricsF(font()), QSizeF(viewport()->size()));
  const int visible = static_cast<int>(geometry_.rows().height());
  verticalScrollBar()->setRange(0, std::max(0, whole(geometry_.contentHeight()) - visible));
  verticalScrollBar()->setPageStep(visible);
  geometry_.setScrolled(verticalScrollBar()->value());
  verticalScrollBar()->setSingleStep(static_cast<int>(geometry_.rowHeight()));
  followCurrent(selection_->currentIndex());
  updateGeometry();
}

void BreakdownView::followCurrent(const QModelIndex& current) {
  // A screen reader reads the description of the cell when it changes.
  setAccessibleDescription(current.data(Qt::AccessibleTextRole).toString());
  if (current.isValid()) {
    const QRectF row = geometry_.row(current.row());
    QScrollBar* const bar = verticalScrollBar();
    if (row.top() < geometry_.rows().top()) {
      bar->setValue(bar->value() - whole(geometry_.rows().top() - row.top()));
    } else if (row.bottom() > geometry_.rows().bottom()) {
      bar->setValue(bar->value() + whole(row.bottom() - geometry_.rows().bottom()));
    }
  }
  viewport()->update();
}

void BreakdownView::resizeEvent(QResizeEvent* event) {
  QAbstractScrollArea::resizeEvent(event);
  refresh();
}

void BreakdownView::changeEvent(QEvent* event) {
  QAbstractScrollArea::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) {
    theme_ = theme_of(palette());
    viewport()->update();
  } else if (event->type() == QEvent::FontChange) {
    refresh();
  }
}

void BreakdownView::scrollContentsBy(int /*dx*/, int /*dy*/) {
  geometry_.setScrolled(verticalScrollBar()->value());
  viewport()->update();
}

bool BreakdownView::viewportEvent(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* const help = static_cast<QHelpEvent*>(event);
    const QModelIndex index = geometry_.indexAt(QPointF(help->pos()));
    QToolTip::showText(help->globalPos(), index.data(Qt::ToolTipRole).toString(), viewport());
    return true;
  }
  if (event->type() == QEvent::MouseMove) {
    setHovered(geometry_.indexAt(static_cast<QMouseEvent*>(event)->position()));
  } else if (event->type() == QEvent::Leave) {
    setHovered({});
  }
  return QAbstractScrollArea::viewportEvent(event);
}

void BreakdownView::setHovered(const QModelIndex& index) {
  if (hovered_ != index) {
    hovered_ = index;
    viewport()->update();
  }
}

void BreakdownView::keyPressEvent(QKeyEvent* event) {
  const QModelIndex current = selection_->currentIndex();
  const Cell at = current.isValid() ? Cell{current.row(), current.column()}
                                    : Cell{-1, BreakdownModel::kPhaseColumn};
  switch (event->key()) {
    case Qt::Key_Down:
      moveTo({at.row + 1, at.column});
      break;
    case Qt::Key_Up:
      moveTo({at.row - 1, at.column});
      break;
    case Qt::Key_Home:
      moveTo({0, at.column});
      break;
    case Qt::Key_End:
      moveTo({model_->rowCount() - 1, at.column});
      break;
    case Qt::Key_Right:
      moveTo(nextCategory({std::max(at.row, 0), at.column}, Step::kForward));
      break;
    case Qt::Key_Left:
      moveTo(nextCategory({std::max(at.row, 0), at.column}, Step::kBack));
      break;
    default:
      QAbstractScrollArea::keyPressEvent(event);
      return;
  }
  event->accept();
}

void BreakdownView::moveTo(const Cell& cell) {
  if (model_->rowCount() == 0) {
    return;
  }
  const int row = std::clamp(cell.row, 0, model_->rowCount() - 1);
  selection_->setCurrentIndex(model_->index(row, cell.column), QItemSelectionModel::ClearAndSelect);
}

BreakdownView::Cell BreakdownView::nextCategory(const Cell& from, Step step) const {
  const int direction = step == Step::kForward ? 1 : -1;
  // The columns for phase, peak and reserved memory have no segment in the bar.
  int column = std::max(from.column, BreakdownModel::kFirstCategoryColumn - 1);
  for (column += direction;
       column >= BreakdownModel::kFirstCategoryColumn && column < model_->columnCount();
       column += direction) {
    if (model_->index(from.row, column).data(BreakdownModel::kBytesRole).toLongLong() != 0) {
      return {from.row, column};
    }
  }
  return step == Step::kForward ? from : Cell{from.row, BreakdownModel::kPhaseColumn};
}

void BreakdownView::mousePressEvent(QMouseEvent* event) {
  const QModelIndex index = geometry_.indexAt(event->position());
  if (index.isValid()) {
    selection_->setCurrentIndex(index, QItemSelectionModel::ClearAndSelect);
  }
}

void BreakdownView::focusInEvent(QFocusEvent* event) {
  QAbstractScrollArea::focusInEvent(event);
  if (!selection_->currentIndex().isValid()) {
    moveTo({model_->peakRow().value_or(0), BreakdownModel::kPhaseColumn});
  }
  viewport()->update();
}

void BreakdownView::focusOutEvent(QFocusEvent* event) {
  QAbstractScrollArea::focusOutEvent(event);
  viewport()->update();
}

void BreakdownView::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(viewport());
  painter.fillRect(viewport()->rect(), palette().color(QPalette::Base));
  if (model_->rowCount() == 0) {
    drawEmpty(painter);
    return;
  }
  drawLegend(painter);
  drawAxis(painter);
  painter.save();
  painter.setClipRect(geometry_.rows());
  for (int row = geometry_.firstVisible(); row < geometry_.lastVisible(); ++row) {
    drawRow(painter, row);
  }
  drawFocus(painter);
  painter.restore();
  drawCapacity(painter);
}

void BreakdownView::drawEmpty(QPainter& painter) const {
  painter.setPen(theme_.quiet_text);
  painter.drawText(viewport()->rect(), Qt::AlignCenter, tr("Nothing to show yet"));
}

void BreakdownView::drawLegend(QPainter& painter) const {
  for (const BreakdownGeometry::LegendEntry& entry : geometry_.legend()) {
    const QVariant category =
        model_->headerData(entry.column, Qt::Horizontal, BreakdownModel::kCategoryRole);
    QString name = tr("reserved, not allocated");
    if (category.isValid()) {
      fill_series(painter, entry.swatch, theme_.of(static_cast<ir::TensorRole>(category.toInt())),
                  pitch());
      name = model_->headerData(entry.column, Qt::Horizontal, Qt::DisplayRole).toString();
    } else {
      painter.setPen(QPen(theme_.outline, 1, Qt::DashLine));
      painter.setBrush(Qt::NoBrush);
      painter.drawRect(entry.swatch.adjusted(0.5, 0.5, -0.5, -0.5));
    }
    painter.setPen(theme_.text);
    painter.drawText(entry.baseline, name);
  }
}

void BreakdownView::drawAxis(QPainter& painter) const {
  const QRectF plot = geometry_.plot();
  const qreal capacity = geometry_.x(model_->capacity());
  painter.fillRect(QRectF(QPointF(capacity, plot.top()), plot.bottomRight()), theme_.beyond);
  const QRectF axis = geometry_.axis();
  const qreal em = fontMetrics().height();
  for (const BreakdownGeometry::Tick& tick : geometry_.ticks()) {
    painter.setPen(QPen(theme_.grid, 1));
    painter.drawLine(QPointF(tick.x, plot.top()), QPointF(tick.x, plot.bottom()));
    painter.setPen(theme_.quiet_text);
    const QString text = QLocale().toString(static_cast<double>(tick.bytes.value()) /
                                            static_cast<double>(model_->scale().factor));
    painter.drawText(QRectF(tick.x - 4 * em, axis.top(), 8 * em, axis.height()), Qt::AlignCenter,
                     text);
  }
  painter.drawText(QRectF(axis.right(), axis.top(),
                          viewport()->width() - geometry_.margin() - axis.right(), axis.height()),
                   Qt::AlignVCenter | Qt::AlignRight, model_->scale().unit);
  painter.drawText(
      geometry_.totalsTitle(), Qt::AlignVCenter | Qt::AlignRight,
      model_->headerData(BreakdownModel::kPeakColumn, Qt::Horizontal, Qt::DisplayRole).toString());
}

void BreakdownView::drawRow(QPainter& painter, int row) const {
  const bool peak = model_->peakRow() == row;
  if (hovered_.isValid() && hovered_.row() == row) {
    QColor wash = theme_.grid;
    wash.setAlphaF(0.35F);
    painter.fillRect(geometry_.row(row), wash);
  }
  QFont face = font();
  face.setBold(peak);
  painter.setFont(face);
  painter.setPen(theme_.text);
  const QRectF label = geometry_.label(row);
  const QString name = model_->index(row, BreakdownModel::kPhaseColumn).data().toString();
  painter.drawText(label, Qt::AlignVCenter | Qt::AlignLeft,
                   QFontMetricsF(face).elidedText(name, Qt::ElideMiddle, label.width()));
  painter.drawText(geometry_.total(row), Qt::AlignVCenter | Qt::AlignRight,
                   model_->index(row, BreakdownModel::kPeakColumn).data().toString());
  painter.setFont(font());
  drawBar(painter, row);
}

void BreakdownView::drawBar(QPainter& painter, int row) const {
  const QRectF unused = geometry_.segment(row, BreakdownModel::kReservedColumn);
  if (unused.width() >= 1) {
    painter.setPen(QPen(theme_.outline, 1, Qt::DashLine));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(unused.adjusted(0.5, 0.5, -0.5, -0.5));
  }
  for (int column = BreakdownModel::kFirstCategoryColumn; column < model_->columnCount();
       ++column) {
    QRectF area = geometry_.segment(row, column);
    if (area.width() < 0.25) {
      continue;
    }
    if (area.width() > 3) {
      area.setRight(area.right() - 1);  // A gap in the page's colour.
    }
    const QVariant category =
        model_->headerData(column, Qt::Horizontal, BreakdownModel::kCategoryRole);
    SeriesStyle style = theme_.of(static_cast<ir::TensorRole>(category.toInt()));
    if (hovered_ == model_->index(row, column)) {
      style.fill = theme_.dark ? style.fill.lighter(120) : style.fill.darker(115);
    }
    fill_series(painter, area, style, pitch());
  }
}

void BreakdownView::drawCapacity(QPainter& painter) const {
  const QRectF rows = geometry_.rows();
  const qreal x = std::round(geometry_.x(model_->capacity())) + 0.5;
  painter.setPen(QPen(theme_.capacity, 2));
  painter.drawLine(QPointF(x, rows.top()), QPointF(x, rows.bottom()));
  const QString name = tr("capacity %1").arg(bytes_text(model_->capacity()));
  const QRectF strip = geometry_.caption();
  const qreal width = QFontMetricsF(font()).horizontalAdvance(name) + 1;
  const qreal gap = geometry_.margin() / 2;
  // The name is to the left of the line, on the side that the plan may use, if there is room.
  const bool before = x - gap - width >= geometry_.plot().left();
  const qreal left = before ? x - gap - width : x + gap;
  painter.drawText(QRectF(left, strip.top(), width, strip.height()), Qt::AlignCenter, name);
}

void BreakdownView::drawFocus(QPainter& painter) const {
  const QModelIndex current = selection_->currentIndex();
  if (!current.isValid()) {
    return;
  }
  const QColor frame = readable(palette().color(QPalette::Highlight),
                                {palette().color(QPalette::Base), kShapeContrast});
  QRectF area = geometry_.segment(current.row(), current.column());
  if (current.column() < BreakdownModel::kReservedColumn) {
    area = area.adjusted(0, 1, 0, -1);
  } else {
    area = area.adjusted(-2, -2, 2, 2);
  }
  painter.setBrush(Qt::NoBrush);
  painter.setPen(hasFocus() ? QPen(frame, 2) : QPen(frame, 1, Qt::DotLine));
  painter.drawRoundedRect(area.adjusted(1, 0, -1, 0), 2, 2);
}

qreal BreakdownView::pitch() const {
  return fontMetrics().height() * 0.36;
}

}  // namespace headroom::gui
