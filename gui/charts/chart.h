#pragma once

#include <QBrush>
#include <QContextMenuEvent>
#include <QImage>
#include <QPen>
#include <QWidget>

#include "gui/theme/palette.h"

namespace headroom::gui {

/// A widget that paints a chart. It follows the palette, takes the keyboard's focus, can be saved
/// as a picture and offers that in its context menu.
class Chart : public QWidget {
  Q_OBJECT

 public:
  explicit Chart(QWidget* parent = nullptr);

  /// Saves the chart as PNG at twice its size or, if the path ends in ".svg", as SVG. Returns the
  /// reason if that failed, else an empty string.
  [[nodiscard]] QString savePicture(const QString& path);
  /// The endings of files that can be saved, for a file dialog.
  [[nodiscard]] static QString pictureFilter();

 protected:
  /// Paints the chart over the base colour, in logical pixels.
  virtual void draw(QPainter& painter) = 0;
  /// Follows a change of font or size; the chart is painted again afterwards.
  virtual void layOut() {}

  [[nodiscard]] const Theme& theme() const { return theme_; }
  /// The height of a line of text, from which all distances are derived.
  [[nodiscard]] qreal em() const;
  /// The distance of a pattern's lines.
  [[nodiscard]] qreal pitch() const { return em() * 0.36; }
  /// The pen of a frame around what has the keyboard's focus.
  [[nodiscard]] QPen focusPen() const;
  /// Writes `text` in the middle, for a chart without contents.
  void drawEmpty(QPainter& painter, const QString& text) const;

  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;

 private:
  void choosePicture();
  void copyPicture();
  [[nodiscard]] QImage picture();

  Theme theme_;
};

/// A picture of `style` that can be repeated without seams, in device pixels, for a device with
/// `ratio` pixels per logical pixel.
[[nodiscard]] QImage series_tile(const SeriesStyle& style, qreal pitch, qreal ratio);

/// A brush of `style` for areas that are no rectangles, for a device with `ratio` pixels per
/// logical pixel.
[[nodiscard]] QBrush series_brush(const SeriesStyle& style, qreal pitch, qreal ratio);

}  // namespace headroom::gui
