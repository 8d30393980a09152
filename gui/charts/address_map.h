#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <QBrush>
#include <QPointF>

#include "costmodel/memory/allocator_state.h"
#include "gui/charts/chart.h"
#include "gui/charts/legend.h"
#include "gui/charts/timeline_data.h"

namespace headroom::gui {

/// The allocator's segments and blocks after an event.
struct AddressMapData {
  std::shared_ptr<const TimelineData> timeline;  ///< Never null.
  std::size_t event = 0;
  std::vector<cost::SegmentView> segments;  ///< By address.
  std::vector<std::size_t> born;            ///< Event that allocated a block, by `ir::BlockId`.
  Bytes live;
  Bytes reserved;
  Bytes largest_free;  ///< The largest free block.
};
/// Replays the program up to and including `event`.
[[nodiscard]] std::shared_ptr<const AddressMapData> address_map(
    std::shared_ptr<const TimelineData> timeline, std::size_t event, const std::stop_token& stop);

/// The segments as lines of equal length in the order of their addresses, like a text; blocks in
/// the colour of their category, free memory as an outline. A click or the arrow keys choose a
/// block.
///
///   |segment 1: ######  ####|segment 2: ###
///   ####     |segment 3: #####             |
class AddressMap : public Chart {
  Q_OBJECT

 public:
  explicit AddressMap(QWidget* parent = nullptr);

  void setData(std::shared_ptr<const AddressMapData> shown);
  void setChosen(std::optional<ir::BlockId> block);
  [[nodiscard]] QSize minimumSizeHint() const override;
  /// The contents of a place, in words; empty outside segments.
  [[nodiscard]] QString textAt(const QPointF& place) const;

 Q_SIGNALS:
  void chosen(quint32 block);

 protected:
  void draw(QPainter& painter) override;
  void layOut() override;
  bool event(QEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  /// A segment or a block on the line of all segments.
  struct Piece {
    std::int64_t begin = 0;  ///< Bytes of all segments before it.
    std::int64_t size = 0;
    std::size_t segment = 0;
    std::size_t block = 0;  ///< Index into the segment's blocks.
  };
  [[nodiscard]] const cost::BlockView& viewOf(const Piece& piece) const;
  [[nodiscard]] const Piece* pieceAt(const QPointF& place) const;
  [[nodiscard]] QString textOf(const Piece& piece) const;
  /// Calls `paint` with the rectangle of each line that a piece touches.
  template <typename Paint>
  void onLines(const Piece& piece, Paint paint) const;
  void choose(const Piece& piece);

  std::shared_ptr<const AddressMapData> data_;
  std::vector<Piece> pieces_;
  std::vector<QBrush> brushes_;  ///< By role.
  std::vector<LegendEntry> legend_;
  QRectF legend_area_;
  QRectF plot_;
  std::int64_t line_bytes_ = 1;
  qreal line_height_ = 1;
  std::optional<ir::BlockId> chosen_;
};

}  // namespace headroom::gui
