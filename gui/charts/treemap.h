#pragma once

#include <optional>
#include <vector>

#include <QBrush>
#include <QPointF>
#include <QRectF>

#include "gui/charts/chart.h"
#include "gui/models/tensor_model.h"

namespace headroom::gui {

/// Divides `area` into rectangles with areas in proportion to `sizes`, in their order, each as
/// close to a square as the order allows. Requires sizes above 0 in descending order.
///
/// Source:  Bruls, Huizing & van Wijk 2000, "Squarified Treemaps", section 3.
[[nodiscard]] std::vector<QRectF> squarified(const std::vector<double>& sizes, const QRectF& area);

/// The tensors of a `TensorModel` as rectangles, within their groups. A click or the arrow keys
/// choose one.
class TreemapChart : public Chart {
  Q_OBJECT

 public:
  /// The model must outlive the chart.
  explicit TreemapChart(const TensorModel* model, QWidget* parent = nullptr);

  /// Frames the tensor in `block`.
  void setChosen(std::optional<ir::BlockId> block);
  [[nodiscard]] QSize minimumSizeHint() const override;
  /// The tensor at a place; nothing outside tensors that are large enough to be seen.
  [[nodiscard]] const AliveTensor* tensorAt(const QPointF& place) const;

 Q_SIGNALS:
  void chosen(quint32 block);

 protected:
  void draw(QPainter& painter) override;
  void layOut() override;
  bool event(QEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  struct Tile {
    QRectF area;
    std::size_t tensor = 0;  ///< Index into the model's tensors.
  };
  struct Frame {
    QRectF area;
    QRectF title;  ///< Empty if there is no room.
    QString name;
  };
  void addTiles(const TensorModel::Group& group, const QRectF& area);
  void choose(std::size_t tile);

  const TensorModel* model_;
  std::vector<Tile> tiles_;
  std::vector<Frame> frames_;
  std::vector<QBrush> brushes_;  ///< By role.
  std::optional<ir::BlockId> chosen_;
};

}  // namespace headroom::gui
