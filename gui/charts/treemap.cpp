#include "gui/charts/treemap.h"

#include <algorithm>
#include <numeric>

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

namespace headroom::gui {
namespace {

/// The longer side of the worst rectangle relative to its shorter one, if sizes with this sum,
/// least and most share a row along a side of `side`.
double worst_ratio(double sum, double least, double most, double side) {
  const double square = side * side;
  return std::max(square * most / (sum * sum), sum * sum / (square * least));
}

constexpr qreal kLeastSide = 3;  // The least side of a tile that is painted, in logical pixels.

}  // namespace

std::vector<QRectF> squarified(const std::vector<double>& sizes, const QRectF& area) {
  std::vector<QRectF> tiles;
  tiles.reserve(sizes.size());
  double left = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  QRectF room = area;
  for (std::size_t first = 0; first < sizes.size();) {
    const double scale = left > 0 ? room.width() * room.height() / left : 0;
    const double side = std::min(room.width(), room.height());
    double sum = sizes[first] * scale;
    std::size_t last = first + 1;
    while (last < sizes.size()) {
      const double most = sizes[first] * scale;
      const double next = sizes[last] * scale;
      if (worst_ratio(sum + next, next, most, side) >
          worst_ratio(sum, sizes[last - 1] * scale, most, side)) {
        break;
      }
      sum += next;
      ++last;
    }
    const bool upright = room.width() >= room.height();  // The row is a column at the left.
    const double thickness = side > 0 ? sum / side : 0;
    double along = upright ? room.top() : room.left();
    for (std::size_t i = first; i < last; ++i) {
      const double length = thickness > 0 ? sizes[i] * scale / thickness : 0;
      tiles.push_back(upright ? QRectF(room.left(), along, thickness, length)
                              : QRectF(along, room.top(), length, thickness));
      along += length;
      left -= sizes[i];
    }
    upright ? room.setLeft(std::min(room.left() + thickness, room.right()))
            : room.setTop(std::min(room.top() + thickness, room.bottom()));
    first = last;
  }
  return tiles;
}

TreemapChart::TreemapChart(const TensorModel* model, QWidget* parent)
    : Chart(parent), model_(model) {
  setAccessibleName(tr("Tensors alive at the chosen moment, as areas"));
  connect(model, &QAbstractItemModel::modelReset, this, [this] {
    layOut();
    update();
  });
}

QSize TreemapChart::minimumSizeHint() const {
  return {fontMetrics().height() * 16, fontMetrics().height() * 6};
}

void TreemapChart::layOut() {
  brushes_.clear();
  for (int role = 0; role < ir::kTensorRoleCount; ++role) {
    brushes_.push_back(
        series_brush(theme().of(static_cast<ir::TensorRole>(role)), pitch(), devicePixelRatioF()));
  }
  tiles_.clear();
  frames_.clear();
  std::vector<double> sizes;
  for (const TensorModel::Group& group : model_->groups()) {
    sizes.push_back(static_cast<double>(group.size.value()));
  }
  const std::vector<QRectF> areas = squarified(sizes, QRectF(rect()).adjusted(1, 1, -1, -1));
  for (std::size_t i = 0; i < areas.size(); ++i) {
    const TensorModel::Group& group = model_->groups()[i];
    Frame frame{.area = areas[i], .title = {}, .name = group.name};
    QRectF inside = areas[i].adjusted(1, 1, -1, -1);
    if (!group.name.isEmpty() && inside.height() > em() * 2.4 && inside.width() > em() * 3) {
      frame.title = QRectF(inside.left(), inside.top(), inside.width(), em() * 1.25);
      inside.setTop(frame.title.bottom());
    }
    frames_.push_back(frame);
    addTiles(group, inside);
  }
}

void TreemapChart::addTiles(const TensorModel::Group& group, const QRectF& area) {
  std::vector<double> sizes;
  sizes.reserve(group.members.size());
  for (const std::size_t member : group.members) {
    sizes.push_back(static_cast<double>(model_->tensors()[member].size.value()));
  }
  const std::vector<QRectF> areas = squarified(sizes, area);
  for (std::size_t i = 0; i < areas.size(); ++i) {
    tiles_.push_back({.area = areas[i], .tensor = group.members[i]});
  }
}

void TreemapChart::draw(QPainter& painter) {
  if (tiles_.empty()) {
    drawEmpty(painter, tr("No tensor is alive at this moment"));
    return;
  }
  const QFontMetricsF metrics(font());
  const QColor base = palette().color(QPalette::Base);
  std::optional<QRectF> marked;
  for (const Frame& frame : frames_) {
    painter.fillRect(frame.area.adjusted(1, 1, -1, -1), theme().grid);
  }
  for (const Tile& tile : tiles_) {
    const AliveTensor& tensor = model_->tensors()[tile.tensor];
    QRectF area = tile.area;
    if (std::min(area.width(), area.height()) > kLeastSide) {
      area.adjust(0.5, 0.5, -0.5, -0.5);
    }
    painter.fillRect(area, brushes_[static_cast<std::size_t>(tensor.role)]);
    if (chosen_ == tensor.block) {
      marked = area;
    }
    if (area.width() < em() * 4 || area.height() < em() * 2.6) {
      continue;
    }
    const QString name = operator_text(model_->estimate()->program, tensor.site);
    const qreal room = area.width() - em() * 0.8;
    const QString shown = metrics.elidedText(name, Qt::ElideRight, room);
    const QString size = bytes_text(tensor.size);
    const qreal wide =
        std::min(room, std::max(metrics.horizontalAdvance(shown), metrics.horizontalAdvance(size)));
    const QRectF label(area.left() + em() * 0.3, area.top() + em() * 0.3, wide + em() * 0.4,
                       em() * 2.1);
    QColor ground = base;
    ground.setAlphaF(0.82F);
    painter.fillRect(label, ground);
    painter.setPen(theme().text);
    painter.drawText(label.adjusted(em() * 0.2, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter,
                     shown + QLatin1Char('\n') + metrics.elidedText(size, Qt::ElideRight, room));
  }
  for (const Frame& frame : frames_) {
    if (!frame.title.isEmpty()) {
      painter.fillRect(frame.title, base);
      painter.setPen(theme().text);
      painter.drawText(
          frame.title.adjusted(em() * 0.3, 0, -em() * 0.2, 0), Qt::AlignLeft | Qt::AlignVCenter,
          metrics.elidedText(frame.name, Qt::ElideRight, frame.title.width() - em() * 0.5));
    }
  }
  if (marked) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(base, 4));
    painter.drawRect(*marked);
    painter.setPen(focusPen());
    painter.drawRect(*marked);
  }
}

const AliveTensor* TreemapChart::tensorAt(const QPointF& place) const {
  const auto found = std::ranges::find_if(
      tiles_, [&place](const Tile& tile) { return tile.area.contains(place); });
  return found == tiles_.end() ? nullptr : &model_->tensors()[found->tensor];
}

void TreemapChart::setChosen(std::optional<ir::BlockId> block) {
  if (chosen_ != block) {
    chosen_ = block;
    for (const AliveTensor& tensor : model_->tensors()) {
      if (chosen_ == tensor.block) {
        setAccessibleDescription(model_->sentence(tensor));
      }
    }
    update();
  }
}

void TreemapChart::choose(std::size_t tile) {
  const ir::BlockId block = model_->tensors()[tiles_[tile].tensor].block;
  setChosen(block);
  Q_EMIT chosen(block);
}

bool TreemapChart::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* const help = static_cast<QHelpEvent*>(event);
    const AliveTensor* const tensor = tensorAt(QPointF(help->pos()));
    QToolTip::showText(help->globalPos(), tensor != nullptr ? model_->sentence(*tensor) : QString(),
                       this);
    return true;
  }
  return Chart::event(event);
}

void TreemapChart::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) {
    return;
  }
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    if (tiles_[i].area.contains(event->position())) {
      choose(i);
      return;
    }
  }
}

void TreemapChart::keyPressEvent(QKeyEvent* event) {
  const bool forward = event->key() == Qt::Key_Right || event->key() == Qt::Key_Down;
  const bool back = event->key() == Qt::Key_Left || event->key() == Qt::Key_Up;
  if (tiles_.empty() || (!forward && !back)) {
    Chart::keyPressEvent(event);
    return;
  }
  const auto now = std::ranges::find_if(
      tiles_, [this](const Tile& tile) { return chosen_ == model_->tensors()[tile.tensor].block; });
  if (now == tiles_.end()) {
    choose(0);
    return;
  }
  const auto at = static_cast<std::size_t>(now - tiles_.begin());
  if (forward && at + 1 < tiles_.size()) {
    choose(at + 1);
  } else if (back && at > 0) {
    choose(at - 1);
  }
}

}  // namespace headroom::gui
