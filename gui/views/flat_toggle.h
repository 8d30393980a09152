#pragma once

#include <QPaintEvent>
#include <QString>
#include <QToolButton>
#include <QWidget>

namespace headroom::gui {

/// A line of text that opens and closes what is below it, with an arrow. It looks the same in both
/// states but for the arrow.
class FlatToggle : public QToolButton {
  Q_OBJECT

 public:
  explicit FlatToggle(const QString& text, QWidget* parent = nullptr);

 protected:
  void paintEvent(QPaintEvent* event) override;
};

}  // namespace headroom::gui
