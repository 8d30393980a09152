#include "gui/charts/chart.h"

#include <algorithm>
#include <cmath>

#include <QApplication>
#include <QClipboard>
#include <QContextMenuEvent>
#include <QFileDialog>
#include <QImage>
#include <QMenu>
#include <QMessageBox>
#include <QPainter>
#include <QSaveFile>
#ifdef HEADROOM_SVG
#include <QSvgGenerator>
#endif

namespace headroom::gui {
namespace {

constexpr qreal kPictureRatio = 2;

}  // namespace

Chart::Chart(QWidget* parent) : QWidget(parent), theme_(theme_of(palette())) {
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
}

qreal Chart::em() const {
  return fontMetrics().height();
}

QPen Chart::focusPen() const {
  return {readable(palette().color(QPalette::Highlight),
                   {palette().color(QPalette::Base), kShapeContrast}),
          2};
}

void Chart::drawEmpty(QPainter& painter, const QString& text) const {
  painter.setPen(theme_.quiet_text);
  painter.drawText(rect().adjusted(8, 8, -8, -8), Qt::AlignCenter | Qt::TextWordWrap, text);
}

void Chart::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.fillRect(rect(), palette().color(QPalette::Base));
  draw(painter);
  if (hasFocus()) {
    painter.setClipping(false);
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(focusPen().color(), 1));
    painter.drawRect(rect().adjusted(0, 0, -1, -1));
  }
}

void Chart::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  layOut();
}

void Chart::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) {
    theme_ = theme_of(palette());
    layOut();
    update();
  } else if (event->type() == QEvent::FontChange) {
    layOut();
    updateGeometry();
  }
}

void Chart::contextMenuEvent(QContextMenuEvent* event) {
  QMenu menu(this);
  menu.addAction(tr("&Copy picture"), this, &Chart::copyPicture);
  menu.addAction(tr("&Save picture…"), this, &Chart::choosePicture);
  menu.exec(event->globalPos());
}

QImage Chart::picture() {
  QImage image(size() * kPictureRatio, QImage::Format_ARGB32_Premultiplied);
  image.setDevicePixelRatio(kPictureRatio);
  QPainter painter(&image);
  painter.setFont(font());
  painter.fillRect(rect(), palette().color(QPalette::Base));
  draw(painter);
  return image;
}

void Chart::copyPicture() {
  QApplication::clipboard()->setImage(picture());
}

void Chart::choosePicture() {
  const QString path = QFileDialog::getSaveFileName(this, tr("Save picture"),
                                                    QStringLiteral("chart.png"), pictureFilter());
  if (path.isEmpty()) {
    return;
  }
  if (const QString reason = savePicture(path); !reason.isEmpty()) {
    QMessageBox::warning(this, tr("Save picture"), reason);
  }
}

QString Chart::pictureFilter() {
#ifdef HEADROOM_SVG
  return tr("PNG images (*.png);;SVG images (*.svg)");
#else
  return tr("PNG images (*.png)");
#endif
}

QString Chart::savePicture(const QString& path) {
#ifndef HEADROOM_SVG
  if (path.endsWith(QLatin1String(".svg"))) {
    return tr("%1: this build saves PNG only, because Qt's SVG module was missing").arg(path);
  }
#endif
  QSaveFile file(path);  // Writes the whole file or nothing.
  bool written = file.open(QIODevice::WriteOnly);
#ifdef HEADROOM_SVG
  if (written && path.endsWith(QLatin1String(".svg"))) {
    QSvgGenerator generator;
    generator.setOutputDevice(&file);
    generator.setSize(size());
    generator.setViewBox(rect());
    constexpr int kPixelsPerInch = 96;  // A pixel of SVG (CSS 2.1, section 4.3.2).
    generator.setResolution(kPixelsPerInch);
    generator.setTitle(accessibleName());
    QPainter painter(&generator);
    painter.setFont(font());
    painter.fillRect(rect(), palette().color(QPalette::Base));
    draw(painter);
    painter.end();
    written = file.commit();
    return written ? QString() : tr("%1: %2").arg(path, file.errorString());
  }
#endif
  written = written && picture().save(&file, "PNG") && file.commit();
  return written ? QString() : tr("%1: %2").arg(path, file.errorString());
}

QImage series_tile(const SeriesStyle& style, qreal pitch, qreal ratio) {
  // Every pattern repeats itself after 84 pitches, because its lines are 0.8, 1, 1.4, 2 or 2.4
  // pitches apart. A tile of that length in whole pixels has no seams.
  constexpr int kPeriod = 84;
  const int side = style.pattern == Pattern::kPlain
                       ? 1
                       : std::max(kPeriod, static_cast<int>(std::lround(kPeriod * pitch * ratio)));
  const qreal whole = static_cast<qreal>(side) / kPeriod;
  QImage tile(side, side, QImage::Format_ARGB32_Premultiplied);
  QPainter painter(&tile);
  fill_series(painter, QRectF(0, 0, side, side), style, whole);
  return tile;
}

QBrush series_brush(const SeriesStyle& style, qreal pitch, qreal ratio) {
  if (style.pattern == Pattern::kPlain) {
    return style.fill;
  }
  QBrush brush(series_tile(style, pitch, ratio));
  brush.setTransform(QTransform::fromScale(1 / ratio, 1 / ratio));
  return brush;
}

}  // namespace headroom::gui
