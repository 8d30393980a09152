#pragma once

#include <QWidget>

#include "costmodel/estimate.h"
#include "gui/theme/palette.h"

namespace headroom::gui {

/// The device's memory as one bar: what lies outside the allocator, what the peak reserves and what
/// is left, with the capacity marked. What does not fit stands beyond the mark.
class CapacityGauge : public QWidget {
  Q_OBJECT

 public:
  explicit CapacityGauge(QWidget* parent = nullptr);

  /// Shows `estimate` in the colour of its verdict; the peak of a pinned answer is marked as well.
  void show(const cost::StepEstimate& estimate, const QColor& colour, Bytes pinned_peak);
  void clear();

  [[nodiscard]] QSize sizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  [[nodiscard]] qreal at(Bytes bytes) const;

  bool shown_ = false;
  Bytes outside_;
  Bytes reserved_;
  Bytes total_;
  Bytes pinned_;
  QColor colour_;
};

}  // namespace headroom::gui
