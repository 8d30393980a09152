#include "gui/views/flat_toggle.h"

#include <QStyleOptionToolButton>
#include <QStylePainter>

namespace headroom::gui {

FlatToggle::FlatToggle(const QString& text, QWidget* parent) : QToolButton(parent) {
  setText(text);
  setAutoRaise(true);
  setCheckable(true);
  setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  setFocusPolicy(Qt::TabFocus);
  setArrowType(Qt::RightArrow);
  connect(this, &QToolButton::toggled, this,
          [this](bool open) { setArrowType(open ? Qt::DownArrow : Qt::RightArrow); });
}

void FlatToggle::paintEvent(QPaintEvent* /*event*/) {
  QStylePainter painter(this);
  QStyleOptionToolButton option;
  initStyleOption(&option);
  option.state &= ~QStyle::State_On;  // An open section is not a pressed button.
  painter.drawComplexControl(QStyle::CC_ToolButton, option);
}

}  // namespace headroom::gui
