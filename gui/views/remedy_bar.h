#pragma once

#include <vector>

#include <QPushButton>
#include <QWidget>

#include "gui/models/remedy_text.h"

class QHBoxLayout;
class QLabel;

namespace headroom::gui {

/// A button with a title of up to two lines and an outcome below it.
class RemedyButton : public QPushButton {
  Q_OBJECT

 public:
  explicit RemedyButton(QWidget* parent = nullptr);
  void showRemedy(const RemedyText& text);

  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QString title_;
  QString outcome_;
};

/// The cheapest changes that help, as buttons that make them.
class RemedyBar : public QWidget {
  Q_OBJECT

 public:
  explicit RemedyBar(QWidget* parent = nullptr);

  void showRemedies(const RemedyTexts& texts);
  /// Says that changes are being looked for.
  void showSearching();
  void clear();

 Q_SIGNALS:
  void chosen(const headroom::gui::RemedyText& remedy);

 private:
  QLabel* headline_;
  QHBoxLayout* row_;
  std::vector<RemedyButton*> buttons_;
  std::vector<RemedyText> remedies_;
};

}  // namespace headroom::gui
