#include "gui/charts/address_map.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include "costmodel/memory/event_replay.h"
#include "gui/models/alive_tensors.h"
#include "gui/models/words.h"

namespace headroom::gui {

std::shared_ptr<const AddressMapData> address_map(std::shared_ptr<const TimelineData> timeline,
                                                  std::size_t event, const std::stop_token& stop) {
  const cost::StepEstimate& estimate = *timeline->estimate;
  const ir::RankProgram& program = estimate.program;
  AddressMapData data;
  data.event = event;
  data.born.resize(program.blocks);
  cost::EventReplay run(program, timeline->settings,
                        cost::DeviceMemory{.capacity = replayed_capacity(estimate)});
  const std::size_t end = std::min(event + 1, program.events.size());
  for (std::size_t i = 0; i < end; ++i) {
    if (stop.stop_requested() || !run.step(i)) {
      break;
    }
    if (program.events[i].kind == ir::EventKind::kAllocate) {
      data.born[program.events[i].block] = i;
    }
  }
  data.segments = run.allocator().segments();
  data.live = run.allocator().state().allocated;
  data.reserved = run.allocator().state().reserved;
  for (const cost::SegmentView& segment : data.segments) {
    for (const cost::BlockView& block : segment.blocks) {
      data.largest_free = std::max(data.largest_free, Bytes{block.live ? 0 : block.size});
    }
  }
  data.timeline = std::move(timeline);
  return std::make_shared<const AddressMapData>(std::move(data));
}

AddressMap::AddressMap(QWidget* parent) : Chart(parent) {
  setAccessibleName(tr("Segments and blocks of the allocator at the chosen moment"));
}

QSize AddressMap::minimumSizeHint() const {
  return {fontMetrics().height() * 16, fontMetrics().height() * 6};
}

void AddressMap::setData(std::shared_ptr<const AddressMapData> shown) {
  data_ = std::move(shown);
  layOut();
  update();
}

const cost::BlockView& AddressMap::viewOf(const Piece& piece) const {
  return data_->segments[piece.segment].blocks[piece.block];
}

void AddressMap::layOut() {
  pieces_.clear();
  legend_.clear();
  brushes_.clear();
  if (data_ == nullptr) {
    return;
  }
  std::array<bool, ir::kTensorRoleCount> occurs{};
  std::int64_t total = 0;
  for (std::size_t segment = 0; segment < data_->segments.size(); ++segment) {
    const std::vector<cost::BlockView>& blocks = data_->segments[segment].blocks;
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      pieces_.push_back(
          {.begin = total, .size = blocks[block].size, .segment = segment, .block = block});
      total += blocks[block].size;
      if (blocks[block].live) {
        const std::size_t born = data_->born[blocks[block].block];
        const ir::Event& event = data_->timeline->estimate->program.events[born];
        occurs.at(static_cast<std::size_t>(event.role)) = true;
      }
    }
  }
  for (int i = 0; i < ir::kTensorRoleCount; ++i) {
    const auto role = static_cast<ir::TensorRole>(i);
    brushes_.push_back(series_brush(theme().of(role), pitch(), devicePixelRatioF()));
    if (occurs.at(static_cast<std::size_t>(i))) {
      legend_.push_back({.name = role_name(role), .style = theme().of(role)});
    }
  }
  legend_.push_back({.name = tr("free"), .style = {.fill = theme().grid, .ink = theme().grid}});
  const qreal margin = em() * 0.5;
  legend_area_ = QRectF(margin, 0, width() - 2 * margin, 0);
  legend_area_.setHeight(draw_legend(nullptr, legend_, theme(), legend_area_, font()));
  plot_ = QRectF(margin, legend_area_.bottom() + margin, width() - 2 * margin,
                 std::max<qreal>(1, height() - legend_area_.bottom() - 2 * margin));
  const qreal lines = std::max<qreal>(1, std::floor(plot_.height() / (em() * 1.4)));
  line_height_ = plot_.height() / lines;
  line_bytes_ = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::ceil(static_cast<double>(total) / lines)));
}

template <typename Paint>
void AddressMap::onLines(const Piece& piece, Paint paint) const {
  const auto x = [this](std::int64_t bytes) {
    return plot_.left() +
           static_cast<double>(bytes) / static_cast<double>(line_bytes_) * plot_.width();
  };
  for (std::int64_t begin = piece.begin; begin < piece.begin + piece.size;) {
    const std::int64_t line = begin / line_bytes_;
    const std::int64_t end = std::min(piece.begin + piece.size, (line + 1) * line_bytes_);
    const qreal top = plot_.top() + static_cast<qreal>(line) * line_height_;
    const qreal left = x(begin - line * line_bytes_);
    paint(QRectF(left, top, x(end - line * line_bytes_) - left, line_height_ - 3));
    begin = end;
  }
}

void AddressMap::draw(QPainter& painter) {
  if (data_ == nullptr || pieces_.empty()) {
    drawEmpty(painter, tr("The allocator has no segment at this moment"));
    return;
  }
  draw_legend(&painter, legend_, theme(), legend_area_, font());
  const Piece* marked = nullptr;
  const std::vector<ir::Event>& events = data_->timeline->estimate->program.events;
  for (const Piece& piece : pieces_) {
    const cost::BlockView& view = viewOf(piece);
    if (view.live) {
      const ir::TensorRole role = events[data_->born[view.block]].role;
      const QBrush& brush = brushes_[static_cast<std::size_t>(role)];
      onLines(piece, [&](QRectF area) {
        if (area.width() > 3) {
          area.setRight(area.right() - 0.75);  // A gap between neighbours.
        }
        painter.fillRect(area, brush);
      });
    } else {
      onLines(piece, [&](const QRectF& area) { painter.fillRect(area, theme().grid); });
    }
    if (view.live && chosen_ == view.block) {
      marked = &piece;
    }
  }
  // Segments begin at a mark as high as the line.
  painter.setPen(QPen(theme().text, 1.5));
  for (const Piece& piece : pieces_) {
    if (piece.block == 0) {
      const std::int64_t line = piece.begin / line_bytes_;
      const qreal x = plot_.left() + static_cast<double>(piece.begin % line_bytes_) /
                                         static_cast<double>(line_bytes_) * plot_.width();
      const qreal top = plot_.top() + static_cast<qreal>(line) * line_height_;
      painter.drawLine(QPointF(x, top - 1), QPointF(x, top + line_height_ - 2));
    }
  }
  if (marked != nullptr) {
    painter.setPen(focusPen());
    painter.setBrush(Qt::NoBrush);
    onLines(*marked, [&](const QRectF& area) { painter.drawRect(area.adjusted(-1, -1, 1, 1)); });
  }
}

const AddressMap::Piece* AddressMap::pieceAt(const QPointF& place) const {
  if (data_ == nullptr || pieces_.empty() || !plot_.contains(place)) {
    return nullptr;
  }
  const auto line = static_cast<std::int64_t>((place.y() - plot_.top()) / line_height_);
  const auto along = static_cast<std::int64_t>((place.x() - plot_.left()) / plot_.width() *
                                               static_cast<double>(line_bytes_));
  const std::int64_t at = line * line_bytes_ + along;
  const auto after = std::ranges::upper_bound(pieces_, at, {}, &Piece::begin);
  if (after == pieces_.begin()) {
    return nullptr;
  }
  const Piece& piece = *(after - 1);
  return at < piece.begin + piece.size ? &piece : nullptr;
}

QString AddressMap::textOf(const Piece& piece) const {
  const cost::SegmentView& segment = data_->segments[piece.segment];
  const cost::BlockView& block = viewOf(piece);
  const QString where =
      tr("segment %1 of %2: %3, %4 pool, stream %5")
          .arg(piece.segment + 1)
          .arg(data_->segments.size())
          .arg(bytes_text(Bytes{segment.size}), segment.small ? tr("small") : tr("large"))
          .arg(segment.stream);
  if (!block.live) {
    return tr("free: %1\n%2").arg(bytes_text(Bytes{block.size}), where);
  }
  const ir::RankProgram& program = data_->timeline->estimate->program;
  const ir::Event& event = program.events[data_->born[block.block]];
  return tr("%1, %2: %3 of %4, %5 requested\n%6")
      .arg(operator_text(program, event.site), layer_text(program, event.site),
           bytes_text(Bytes{block.size}), role_name(event.role), bytes_text(Bytes{block.requested}),
           where);
}

QString AddressMap::textAt(const QPointF& place) const {
  const Piece* const piece = pieceAt(place);
  return piece == nullptr ? QString() : textOf(*piece);
}

void AddressMap::setChosen(std::optional<ir::BlockId> block) {
  if (chosen_ != block) {
    chosen_ = block;
    update();
  }
}

void AddressMap::choose(const Piece& piece) {
  setAccessibleDescription(textOf(piece));
  if (viewOf(piece).live) {
    setChosen(viewOf(piece).block);
    Q_EMIT chosen(viewOf(piece).block);
  }
}

bool AddressMap::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* const help = static_cast<QHelpEvent*>(event);
    QToolTip::showText(help->globalPos(), textAt(QPointF(help->pos())), this);
    return true;
  }
  return Chart::event(event);
}

void AddressMap::mousePressEvent(QMouseEvent* event) {
  const Piece* const piece = pieceAt(event->position());
  if (event->button() == Qt::LeftButton && piece != nullptr) {
    choose(*piece);
  }
}

void AddressMap::keyPressEvent(QKeyEvent* event) {
  const bool forward = event->key() == Qt::Key_Right;
  if (data_ == nullptr || (!forward && event->key() != Qt::Key_Left)) {
    Chart::keyPressEvent(event);
    return;
  }
  const auto count = static_cast<std::ptrdiff_t>(pieces_.size());
  std::ptrdiff_t at = forward ? -1 : count;
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const cost::BlockView& view = viewOf(pieces_[static_cast<std::size_t>(i)]);
    if (view.live && chosen_ == view.block) {
      at = i;
    }
  }
  const std::ptrdiff_t step = forward ? 1 : -1;
  for (at += step; at >= 0 && at < count; at += step) {
    if (viewOf(pieces_[static_cast<std::size_t>(at)]).live) {
      choose(pieces_[static_cast<std::size_t>(at)]);
      return;
    }
  }
}

}  // namespace headroom::gui
